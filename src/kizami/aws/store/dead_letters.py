"""Dead letters on AWS: hidden from others while they are looked at, then sent back, deleted, or let go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from kizami.aws.client.json_client import Fields
from kizami.aws.store.sqs_queue import MAX_BATCH, SqsQueue
from kizami.core.epoch import from_ms
from kizami.core.errors import InvalidInput, QueueError
from kizami.core.messages import read_message
from kizami.core.sender import PlannedMessage
from kizami.home.values import DeadLetter

MOST = 10_000  # looked at in one go
HIDDEN_SECONDS = 300

# SQS keeps the message and not the error that it died of.
REASON = "tried as often as the queue allows; the Collector's log says why"


class SqsDeadLetters:
    """The messages of a dead-letter queue; each one that is looked at is hidden until `release`, or five minutes.

    `unreadable` counts those that are no schedule messages: they are let alone.
    """

    def __init__(self, url: str) -> None:
        self._queue = SqsQueue(url)
        self._held: list[tuple[DeadLetter, str]] = []
        self._others: list[str] = []

    @property
    def unreadable(self) -> int:
        return len(self._others)

    def all(self) -> list[DeadLetter]:
        """Every dead letter, newest slot first."""
        if not self._held:
            for message in islice(self._receive(), MOST):
                self._hold(message)
        return sorted((letter for letter, _ in self._held), key=lambda letter: letter.slot, reverse=True)

    def redrive(self, letters: Iterable[DeadLetter], queue: SqsQueue) -> int:
        """Send them to `queue` and delete them here; one that is not taken stays. How many went back."""
        chosen = list(letters)
        failed = queue.send([PlannedMessage(letter.message, 0) for letter in chosen])
        kept = {failure.entry.message for failure in failed}
        redriven = self.purge(letter for letter in chosen if letter.message not in kept)
        if failed:
            raise QueueError(f"{len(failed)} of {len(chosen)} dead letters stay: {failed[0].reason}; try again")
        return redriven

    def purge(self, letters: Iterable[DeadLetter]) -> int:
        """Delete them; how many there were."""
        chosen = {(letter.metric, letter.slot) for letter in letters}
        settled = [entry for entry in self._held if (entry[0].metric, entry[0].slot) in chosen]
        self._batches("DeleteMessageBatch", [receipt for _, receipt in settled])
        self._held = [entry for entry in self._held if entry not in settled]
        return len(settled)

    def release(self) -> None:
        """Let others see again what is left."""
        receipts = [receipt for _, receipt in self._held] + self._others
        self._batches("ChangeMessageVisibilityBatch", receipts, VisibilityTimeout=0)
        self._held, self._others = [], []

    def _receive(self) -> Iterator[Fields]:
        # A second of waiting makes SQS ask all of its servers: an empty answer means that there are no more.
        request = {
            "MaxNumberOfMessages": MAX_BATCH,
            "AttributeNames": ["All"],
            "VisibilityTimeout": HIDDEN_SECONDS,
            "WaitTimeSeconds": 1,
        }
        while messages := self._queue.call("ReceiveMessage", request).get("Messages"):
            yield from messages

    def _hold(self, message: Fields) -> None:
        try:
            self._held.append((_dead_letter(message), message["ReceiptHandle"]))
        except InvalidInput:
            self._others.append(message["ReceiptHandle"])

    def _batches(self, operation: str, receipts: Sequence[str], **fields: Any) -> None:
        for start in range(0, len(receipts), MAX_BATCH):
            entries = [
                {"Id": str(number), "ReceiptHandle": receipt, **fields}
                for number, receipt in enumerate(receipts[start : start + MAX_BATCH])
            ]
            self._queue.call(operation, {"Entries": entries})


def _dead_letter(message: Fields) -> DeadLetter:
    asked, attributes = read_message(message["Body"]), message["Attributes"]
    return DeadLetter(
        slot=asked.window.start,
        metric=asked.metric,
        interval_seconds=int(asked.window.seconds),
        receives=int(attributes["ApproximateReceiveCount"]),
        sent_at=from_ms(int(attributes["SentTimestamp"])),
        died_at=None,
        reason=REASON,
        backfill="Backfill" in attributes.get("DeadLetterQueueSourceArn", ""),
    )
