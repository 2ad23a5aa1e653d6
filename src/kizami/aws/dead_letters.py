"""Dead letters on AWS: messages about slots that were given up, each with its reason.

A message is about up to a minute of slots and a hundred members of a bundle, so it stands for many dead letters,
one for each slot and target. Where some of them are settled, the others are sent to the queue anew first.

SQS hides what is looked at. So it is looked at rarely, and let go at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby, islice
from math import inf

from kizami.aws.client import machine
from kizami.aws.client.json_client import Fields
from kizami.aws.deliveries import ATTEMPTS, REASON
from kizami.aws.invocation import TimeLeft
from kizami.aws.store.sqs_queue import MAX_BATCH, QueueEntry, SqsQueue
from kizami.backend.values import DeadLetter, DeadLetterKey
from kizami.core.bundles import Bundle
from kizami.core.epoch import from_ms, to_ms, to_seconds
from kizami.core.errors import InvalidInput, QueueError
from kizami.core.messages import BACKFILL, BundleMessage, read_bundle, write_bundle
from kizami.core.past_slots import PastSlots
from kizami.core.slots import Window, floor_to_slot, shift, slots_between

MOST = 10_000  # messages that are looked at in one go
MOST_LISTED = 500_000  # dead letters that they stand for
MOST_SLOTS = 1000  # of a message; ours have twelve
HIDDEN_SECONDS = 300
LOOK_SECONDS = 60.0
REST_FOR_WORK = 9  # thousands take a while: a tenth of the time at most, however quickly they become more
DIED_AT = "diedAt"  # of a message that was taken apart, in milliseconds since 1970

# Where SQS itself gave a message up, it keeps the message and not the error that it died of.
UNTOLD = "tried as often as the queue allows; the Collector's log says why"

SlotName = tuple[str, datetime]  # a metric or the target that asks for it, and a slot
FindBundle = Callable[[str], Bundle | None]


@dataclass(frozen=True, slots=True)
class LetterMessage:
    """A message on the dead-letter queue; without a bundle it is about the original target."""

    id: str
    message: BundleMessage
    bundle: Bundle | None
    receives: int
    sent_at: datetime
    died_at: datetime | None  # SQS does not tell of the messages that it moves here
    reason: str
    backfill: bool
    attributes: Mapping[str, str]

    @property
    def when(self) -> datetime:
        """When it died or, if that is not known, when it was sent."""
        return self.died_at or self.sent_at

    @property
    def interval_seconds(self) -> int:
        """The interval of its slots."""
        return self.bundle.interval_seconds if self.bundle else int(self.message.window.seconds)

    @property
    def names(self) -> Iterator[SlotName]:
        """The targets and slots that it is about."""
        window = self.message.window
        for slot in slots_between(window.start, window.end, self.interval_seconds):
            for metric in self.message.metrics:
                yield metric, slot

    def letters(self) -> Iterator[DeadLetter]:
        """Return the dead letters that it stands for."""
        about = self.interval_seconds, self.receives, self.sent_at, self.died_at, self.reason, self.backfill
        return (DeadLetter(slot, metric, *about) for metric, slot in self.names)

    def without(self, settled: Collection[SlotName]) -> Iterator[BundleMessage]:
        """Return what is left of it: neighbouring slots of the same targets together."""
        left: dict[datetime, tuple[str, ...]] = {}
        for metric, slot in self.names:
            if (metric, slot) not in settled:
                left[slot] = (*left.get(slot, ()), metric)
        for _, group in groupby(enumerate(left), lambda each: (left[each[1]], self._shifted(each))):
            slots = [slot for _, slot in group]
            window = Window(slots[0], shift(slots[-1], self.interval_seconds))
            yield replace(self.message, window=window, metrics=left[slots[0]], attempts=(), not_before=0)

    def _shifted(self, numbered: tuple[int, datetime]) -> int:
        """The same for neighbours."""
        number, slot = numbered
        return to_seconds(slot) - number * self.interval_seconds


class HeldLetters:
    """All messages of a dead-letter queue, hidden from others until `release`, for five minutes at most."""

    def __init__(self, queue: SqsQueue | None, find_bundle: FindBundle) -> None:
        self._queue = queue
        self._find_bundle = find_bundle
        self._receipts: dict[str, str] = {}
        self.messages: list[LetterMessage] = []
        self.unreadable = 0  # they are let alone
        for received in islice(self._receive(), MOST):
            is_known = received["MessageId"] in self._receipts
            self._receipts[received["MessageId"]] = received["ReceiptHandle"]
            if is_known:
                continue
            try:
                self.messages.append(_read(received, find_bundle))
            except InvalidInput:
                self.unreadable += 1

    def known(self, names: Collection[SlotName]) -> set[SlotName]:
        """Return which of these targets and slots they are about."""
        return {name for message in self.messages for name in message.names if name in names}

    def slots(self, names: Collection[SlotName]) -> PastSlots:
        """Return those of the slots that bundles own, by the messages."""
        found = PastSlots()
        for message in self.messages:
            for metric, slot in message.names if message.bundle else ():
                if (metric, slot) in names:
                    assert message.bundle is not None
                    found.add(message.bundle, to_seconds(slot), message.bundle.places[metric])
        return found

    def settle(self, names: Collection[SlotName]) -> None:
        """Delete what they say of these slots. QueueError: then a message may be there twice, and do no harm."""
        done = [message for message in self.messages if any(name in names for name in message.names)]
        rest = [
            QueueEntry(write_bundle(left), 0, _attributes(message))
            for message in done
            for left in message.without(names)
        ]
        if rest and self._queue and (failed := self._queue.send_entries(rest)):
            raise QueueError(f"{len(failed)} dead letters could not be taken apart: {failed[0].reason}; try again")
        self._change("DeleteMessageBatch", [message.id for message in done])
        self.messages = [message for message in self.messages if message.id in self._receipts]

    def release(self) -> None:
        """Let others see what is left."""
        self._change("ChangeMessageVisibilityBatch", list(self._receipts), VisibilityTimeout=0)

    def _receive(self) -> Iterator[Fields]:
        # A second of waiting makes SQS ask all of its servers: an empty answer means that there are no more.
        request = {
            "MaxNumberOfMessages": MAX_BATCH,
            "AttributeNames": ["All"],
            "MessageAttributeNames": [ATTEMPTS, REASON, DIED_AT],
            "VisibilityTimeout": HIDDEN_SECONDS,
            "WaitTimeSeconds": 1,
        }
        while self._queue and (messages := self._queue.call("ReceiveMessage", request).get("Messages")):
            yield from messages

    def _change(self, operation: str, ids: Sequence[str], **fields: int) -> None:
        for start in range(0, len(ids), MAX_BATCH):
            chunk = ids[start : start + MAX_BATCH]
            entries = [
                {"Id": str(number), "ReceiptHandle": self._receipts[each], **fields}
                for number, each in enumerate(chunk)
            ]
            assert self._queue is not None
            self._queue.call(operation, {"Entries": entries})
            for each in chunk:
                del self._receipts[each]


class DeadLetterQueue:
    """The dead-letter queue of a stack as it was last seen. A stack without one has an empty one. QueueError.

    It is looked at again when its number changes, or after a minute. For several threads.
    """

    def __init__(self, url: str | None, find_bundle: FindBundle, time_left: TimeLeft = lambda: inf) -> None:
        self.unreadable = 0
        self._queue = None if url is None else SqsQueue(url, time_left)
        self._find_bundle = find_bundle
        self._guard = machine.lock()
        self._messages: list[LetterMessage] = []
        self._seen: tuple[int, float] | None = None
        self._rest_until = -inf
        self._holders = 0  # at present

    def messages(self, count: int) -> Sequence[LetterMessage]:
        """Return all messages, where the queue says that there are `count`; the newest first."""
        with self._guard:
            if self._is_stale(count, began := machine.monotonic()):
                self._look(count)
                ended = machine.monotonic()
                self._seen, self._rest_until = (count, ended), ended + REST_FOR_WORK * (ended - began)
            return self._messages

    def letters(
        self, count: int, target: str | None = None, limit: int = -1, before: DeadLetterKey | None = None
    ) -> list[DeadLetter]:
        """Return dead letters of one target or all, newest first, from after `before` on; each slot once."""
        found = _newest_first(self.messages(count))
        wanted = (
            each for each in found if target in (None, each.metric) and (before is None or each.key < before)
        )
        return list(islice(wanted, MOST_LISTED if limit < 0 else min(limit, MOST_LISTED)))

    @contextmanager
    def held(self) -> Iterator[HeldLetters]:
        """Hold all messages for the length of a `with`, to settle some. Meanwhile others see them as they were."""
        with self._guard:
            self._holders += 1
        try:
            letters = HeldLetters(self._queue, self._find_bundle)
            try:
                yield letters
            finally:
                letters.release()
        finally:
            with self._guard:
                self._holders -= 1
                self._seen = None

    def _is_stale(self, count: int, now: float) -> bool:
        if self._holders:
            return False
        if self._seen is None or not count:
            return True
        is_as_before = self._seen[0] == count and now - self._seen[1] < LOOK_SECONDS
        return not is_as_before and now >= self._rest_until

    def _look(self, count: int) -> None:
        if not count:
            self._messages, self.unreadable = [], 0
            return
        held = HeldLetters(self._queue, self._find_bundle)
        held.release()
        # Each look counts as a receive: how often a message was tried is what the first one said.
        before = {message.id: message for message in self._messages}
        found = [before.get(message.id, message) for message in held.messages]
        self._messages = sorted(found, key=_when, reverse=True)
        self.unreadable = held.unreadable


def _newest_first(messages: Iterable[LetterMessage]) -> Iterator[DeadLetter]:
    """Return the dead letters of messages, which are ordered, as they are asked for; of a slot the newest."""
    seen: set[SlotName] = set()
    for _, group in groupby(messages, _when):
        letters = sorted((each for message in group for each in message.letters()), key=_key, reverse=True)
        for letter in letters:
            if (letter.metric, letter.slot) not in seen:
                seen.add((letter.metric, letter.slot))
                yield letter


def _when(message: LetterMessage) -> datetime:
    return message.when


def _key(letter: DeadLetter) -> DeadLetterKey:
    return letter.key


def _attributes(message: LetterMessage) -> dict[str, str]:
    """Return what a part of a message is sent with: why and when it died."""
    died_at = {DIED_AT: str(to_ms(message.died_at))} if message.died_at else {}
    return {ATTEMPTS: str(message.receives), **message.attributes, **died_at}


def _read(received: Fields, find_bundle: FindBundle) -> LetterMessage:
    """Read a message, else InvalidInput."""
    message = read_bundle(received["Body"])
    bundle = find_bundle(message.bundle) if message.bundle else None
    _require_slots(message, bundle)
    stated = received.get("MessageAttributes", {})
    attributes = {name: stated[name]["StringValue"] for name in (ATTEMPTS, REASON) if name in stated}
    known = received["Attributes"]
    sent_at = died_at = from_ms(int(known["SentTimestamp"]))
    if DIED_AT in stated:
        died_at = from_ms(int(stated[DIED_AT]["StringValue"]))
    return LetterMessage(
        id=received["MessageId"],
        message=message,
        bundle=bundle,
        receives=int(attributes.get(ATTEMPTS, known["ApproximateReceiveCount"])),
        sent_at=sent_at,
        died_at=died_at if REASON in attributes else None,
        reason=attributes.get(REASON, UNTOLD),
        backfill=message.lane == BACKFILL or "Backfill" in known.get("DeadLetterQueueSourceArn", ""),
        attributes=attributes,
    )


def _require_slots(message: BundleMessage, bundle: Bundle | None) -> None:
    """Refuse a message that is not about slots of a bundle that is known, or of the original target."""
    if bundle is None:
        if message.bundle or len(message.metrics) > 1:
            raise InvalidInput("bundle", f"{message.bundle or 'none'} is not known here")
        return
    for name, edge in (("from", message.window.start), ("to", message.window.end)):
        if floor_to_slot(edge, bundle.interval_seconds) != edge:
            raise InvalidInput(name, "is not the edge of a slot")
    if not bundle.places.keys() >= set(message.metrics):
        raise InvalidInput("metrics", f"are not all in bundle {bundle.name}")
    if message.window.seconds > MOST_SLOTS * bundle.interval_seconds:
        raise InvalidInput("to", "is too far from the beginning")
