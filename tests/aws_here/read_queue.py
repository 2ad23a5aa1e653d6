"""The SQS queue as whoever works it off sees it: on AWS that is Lambda itself, in tests it is this."""

from __future__ import annotations

from fakes.ports import Received
from kizami.aws.client.json_client import Fields
from kizami.aws.store.sqs_queue import MAX_BATCH, SqsQueue


class ReadSqsQueue(SqsQueue):
    """A `ReadableQueue`: messages out of SQS, and their acknowledgement."""

    def receive(self, limit: int) -> list[Received]:
        """Up to `limit` due messages; SQS hands out ten a call at most, so until one is empty."""
        received: list[Received] = []
        while len(received) < limit:
            parameters = {
                "MaxNumberOfMessages": min(MAX_BATCH, limit - len(received)),
                "AttributeNames": ["ApproximateReceiveCount"],
                "WaitTimeSeconds": 0,
            }
            messages = self.call("ReceiveMessage", parameters).get("Messages", ())
            if not messages:
                break
            received += map(_received, messages)
        return received

    def acknowledge(self, received: Received) -> None:
        """Delete the message; SQS takes a second deletion without complaint."""
        self.call("DeleteMessage", {"ReceiptHandle": received.receipt})


def _received(message: Fields) -> Received:
    return Received(
        body=message["Body"],
        receive_count=int(message["Attributes"]["ApproximateReceiveCount"]),
        receipt=message["ReceiptHandle"],
    )
