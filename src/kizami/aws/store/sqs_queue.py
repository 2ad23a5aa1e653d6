"""The queue on AWS: planned messages out to SQS in the fewest calls; Lambda itself hands them to the functions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import inf

from kizami.aws.client.json_client import CALL_SECONDS, UNREACHABLE, AwsError, Fields, JsonClient
from kizami.aws.invocation import TimeLeft
from kizami.core.errors import QueueError, QueueUnreachable
from kizami.core.messages import write_message
from kizami.core.ports import FailedSend
from kizami.core.sender import PlannedMessage

MAX_BATCH = 10  # SQS's limit; ten of our messages stay far below its limit of bytes
# A batch may take so much of the time that is left. The next one, and the repetition of what failed, get as much
# of the rest: a slow queue has seconds, and a dead one never uses up the invocation.
SHARE_OF_TIME_LEFT = 0.4
SENDS_AT_ONCE = 16

Batch = Sequence[PlannedMessage]


class QueueNotFound(QueueError):
    """There is no queue at the URL: the setting is wrong, trying again is of no use."""


@lru_cache(maxsize=1)
def sqs_client() -> JsonClient:
    """The one client, with its connections kept from one invocation to the next."""
    return JsonClient("sqs", "AmazonSQS")


class SqsQueue:
    """The MessageSender port on one SQS queue; visibility, redrive limit and dead letters are the queue's own."""

    def __init__(self, url: str, time_left: TimeLeft = lambda: inf) -> None:
        self._url = url
        self._time_left = time_left

    def send(self, entries: Sequence[PlannedMessage]) -> list[FailedSend]:
        """Send all, ten a call; the answer lists those not taken. QueueError when no call got through at all."""
        batches = [entries[start : start + MAX_BATCH] for start in range(0, len(entries), MAX_BATCH)]
        results = self._send_all(batches)
        errors = [result for result in results if isinstance(result, QueueError)]
        if errors and len(errors) == len(batches):
            raise errors[0]
        return [
            failed
            for batch, result in zip(batches, results, strict=True)
            for failed in (_all_failed(batch, result) if isinstance(result, QueueError) else result)
        ]

    def _send_all(self, batches: list[Batch]) -> list[list[FailedSend] | QueueError]:
        if len(batches) <= 2:  # a minute of the seeds' one target
            return list(map(self._send_batch, batches))
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(SENDS_AT_ONCE, len(batches))) as pool:
            return list(pool.map(self._send_batch, batches))

    def _send_batch(self, batch: Batch) -> list[FailedSend] | QueueError:
        entries = [
            {"Id": str(number), "MessageBody": write_message(entry.message), "DelaySeconds": entry.delay_seconds}
            for number, entry in enumerate(batch)
        ]
        try:
            seconds = min(CALL_SECONDS, self._time_left() * SHARE_OF_TIME_LEFT)
            answer = self.call("SendMessageBatch", {"Entries": entries}, seconds)
        except QueueError as error:
            return error
        return _not_taken(batch, answer)

    def hide(self, receipt: str, seconds: int) -> None:
        """Let a received message come back after so long, instead of the queue's visibility timeout."""
        self.call("ChangeMessageVisibility", {"ReceiptHandle": receipt, "VisibilityTimeout": seconds})

    def waiting(self) -> int:
        """About how many messages are on the queue: due, delayed or handed out."""
        return sum(self.depth())

    def depth(self) -> tuple[int, int, int]:
        """About how many messages are due, delayed, and handed out."""
        names = [f"ApproximateNumberOfMessages{state}" for state in ("", "Delayed", "NotVisible")]
        attributes = self.call("GetQueueAttributes", {"AttributeNames": names}).get("Attributes", {})
        due, delayed, in_flight = (int(attributes.get(name, 0)) for name in names)
        return due, delayed, in_flight

    def call(self, operation: str, parameters: Fields, seconds: float = CALL_SECONDS) -> Fields:
        """One operation of SQS on this queue; QueueError for whatever goes wrong."""
        try:
            within = min(seconds, self._time_left() * 0.9)
            return sqs_client().call(operation, {"QueueUrl": self._url, **parameters}, within)
        except AwsError as error:
            if error.code in ("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", "InvalidAddress"):
                raise QueueNotFound(str(error)) from None
            kind = QueueUnreachable if error.code == UNREACHABLE else QueueError
            raise kind(str(error)) from None


def _all_failed(batch: Batch, error: QueueError) -> list[FailedSend]:
    return [FailedSend(entry, str(error)) for entry in batch]


def _not_taken(batch: Batch, answer: Fields) -> list[FailedSend]:
    """Those that the answer does not say were taken: an entry it forgets is a failed one, not a lost one."""
    taken = {entry["Id"] for entry in answer.get("Successful", ())}
    reasons = {entry["Id"]: f"{entry['Code']}: {entry.get('Message', '')}" for entry in answer.get("Failed", ())}
    return [
        FailedSend(entry, reasons.get(str(number), "the answer does not mention it"))
        for number, entry in enumerate(batch)
        if str(number) not in taken
    ]
