"""Dead letters on AWS: hidden from others while they are looked at, then sent back, deleted, or let go."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from kizami.aws.client.json_client import Fields
from kizami.aws.deliveries import ATTEMPTS, REASON
from kizami.aws.store.sqs_queue import MAX_BATCH, QueueEntry, SqsQueue
from kizami.backend.values import DeadLetter
from kizami.core.epoch import from_ms
from kizami.core.errors import InvalidInput, QueueError
from kizami.core.messages import BundleMessage, ScheduleMessage, read_bundle, write_bundle
from kizami.core.sender import PlannedMessage

MOST = 10_000  # looked at in one go
HIDDEN_SECONDS = 300

# Where SQS itself gave a message up, it keeps the message and not the error that it died of.
UNTOLD = "tried as often as the queue allows; the Collector's log says why"


@dataclass(frozen=True, slots=True)
class _Held:
    """A message that is looked at: the dead letters it stands for, one a metric, and how it can be settled."""

    letters: tuple[DeadLetter, ...]
    receipt: str
    attributes: Mapping[str, str]

    def without(self, chosen: Collection[tuple[str, datetime]]) -> QueueEntry | None:
        """What is left of it in the queue when those are settled."""
        left = [letter for letter in self.letters if (letter.metric, letter.slot) not in chosen]
        if not left:
            return None
        message = BundleMessage(left[0].message.window, tuple(letter.metric for letter in left))
        return QueueEntry(write_bundle(message), 0, self.attributes)


class SqsDeadLetters:
    """The messages of a dead-letter queue; each one that is looked at is hidden until `release`, or five minutes.

    One of a bundle is as many dead letters as it has metrics. `unreadable` counts those that are no schedule
    messages: they are let alone.
    """

    def __init__(self, url: str) -> None:
        self._queue = SqsQueue(url)
        self._held: list[_Held] = []
        self._others: list[str] = []

    @property
    def unreadable(self) -> int:
        return len(self._others)

    def all(self) -> list[DeadLetter]:
        """Every dead letter, newest slot first."""
        if not self._held:
            for message in islice(self._receive(), MOST):
                self._hold(message)
        letters = (letter for held in self._held for letter in held.letters)
        return sorted(letters, key=lambda letter: letter.slot, reverse=True)

    def redrive(self, letters: Iterable[DeadLetter], queue: SqsQueue) -> int:
        """Send them to `queue` and delete them here; one that is not taken stays. How many went back.

        A message that was delivered twice may have died twice: its slot is sent once.
        """
        chosen = list(letters)
        failed = queue.send([PlannedMessage(each, 0) for each in {letter.message: None for letter in chosen}])
        kept = {failure.entry.message for failure in failed}
        redriven = self.purge(letter for letter in chosen if letter.message not in kept)
        if failed:
            raise QueueError(f"{len(failed)} of {len(chosen)} dead letters stay: {failed[0].reason}; try again")
        return redriven

    def purge(self, letters: Iterable[DeadLetter]) -> int:
        """Delete them; how many there were. What else a message stands for is sent here anew before that."""
        chosen = {(letter.metric, letter.slot) for letter in letters}
        settled = [held for held in self._held if any((each.metric, each.slot) in chosen for each in held.letters)]
        rest = [entry for held in settled if (entry := held.without(chosen)) is not None]
        if rest and (failed := self._queue.send_entries(rest)):
            raise QueueError(f"{len(failed)} dead letters could not be taken apart: {failed[0].reason}; try again")
        self._batches("DeleteMessageBatch", [held.receipt for held in settled])
        self._held = [held for held in self._held if held not in settled]
        return sum((each.metric, each.slot) in chosen for held in settled for each in held.letters)

    def release(self) -> None:
        """Let others see again what is left."""
        receipts = [held.receipt for held in self._held] + self._others
        self._batches("ChangeMessageVisibilityBatch", receipts, VisibilityTimeout=0)
        self._held, self._others = [], []

    def _receive(self) -> Iterator[Fields]:
        # A second of waiting makes SQS ask all of its servers: an empty answer means that there are no more.
        request = {
            "MaxNumberOfMessages": MAX_BATCH,
            "AttributeNames": ["All"],
            "MessageAttributeNames": [ATTEMPTS, REASON],
            "VisibilityTimeout": HIDDEN_SECONDS,
            "WaitTimeSeconds": 1,
        }
        while messages := self._queue.call("ReceiveMessage", request).get("Messages"):
            yield from messages

    def _hold(self, message: Fields) -> None:
        try:
            self._held.append(_read(message))
        except InvalidInput:
            self._others.append(message["ReceiptHandle"])

    def _batches(self, operation: str, receipts: Sequence[str], **fields: Any) -> None:
        for start in range(0, len(receipts), MAX_BATCH):
            entries = [
                {"Id": str(number), "ReceiptHandle": receipt, **fields}
                for number, receipt in enumerate(receipts[start : start + MAX_BATCH])
            ]
            self._queue.call(operation, {"Entries": entries})


def _read(message: Fields) -> _Held:
    asked = read_bundle(message["Body"])
    stated = message.get("MessageAttributes", {})
    attributes = {name: stated[name]["StringValue"] for name in (ATTEMPTS, REASON) if name in stated}
    letters = tuple(_dead_letter(slot, message["Attributes"], attributes) for slot in asked.slots)
    return _Held(letters, message["ReceiptHandle"], attributes)


def _dead_letter(asked: ScheduleMessage, told: Fields, attributes: Mapping[str, str]) -> DeadLetter:
    return DeadLetter(
        slot=asked.window.start,
        metric=asked.metric,
        interval_seconds=int(asked.window.seconds),
        receives=int(attributes.get(ATTEMPTS, told["ApproximateReceiveCount"])),
        sent_at=from_ms(int(told["SentTimestamp"])),
        died_at=None,
        reason=attributes.get(REASON, UNTOLD),
        backfill="Backfill" in told.get("DeadLetterQueueSourceArn", ""),
    )
