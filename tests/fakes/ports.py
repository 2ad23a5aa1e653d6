"""What tests ask of queues and stores beyond the ports, and a queue in memory, held to SQS's own semantics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Protocol

from kizami.core.messages import MetricRecord, write_message
from kizami.core.ports import FailedSend, MessageSender, RecordStore
from kizami.core.sender import Planned, PlannedMessage


class ManualClock:
    """Time that moves only when a test says so."""

    def __init__(self, now: datetime = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


class ReadableStore(RecordStore, Protocol):
    """A record store whose records can be read, in ascending order of their slots."""

    def query(self, metric: str, start: datetime, end: datetime) -> Iterator[MetricRecord]:
        """The records of slots in [start, end)."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message handed out: its raw body, how often it has been handed out, and the receipt to settle it by."""

    body: str
    receive_count: int
    receipt: str


class ReadableQueue(MessageSender, Protocol):
    """A queue from which messages can be taken, with SQS semantics.

    At least once: a received message is hidden for the visibility timeout and comes back unless acknowledged; each
    receive is counted; one that has been received as often as the limit allows becomes a dead letter instead of
    being handed out again. Order: none is promised.
    """

    def receive(self, limit: int) -> list[Received]:
        """Up to `limit` due messages, hidden from others until the visibility timeout."""

    def acknowledge(self, received: Received) -> None:
        """Done: the message goes away for good. A second acknowledgement does nothing."""


@dataclass
class _Message:
    body: str
    visible_from: datetime
    receive_count: int = 0
    receipt: str = ""


class MemoryQueue:
    """A `ReadableQueue` in a list, on a clock of the test's choosing."""

    def __init__(
        self,
        clock: ManualClock,
        visibility_seconds: float = 30,
        max_receives: int = 5,
        refuses: Callable[[Planned], bool] = lambda entry: False,
    ) -> None:
        self.dead_letters: list[str] = []
        self._clock = clock
        self._visibility_seconds = visibility_seconds
        self._max_receives = max_receives
        self._refuses = refuses
        self._messages: list[_Message] = []
        self._receipts = count(1)

    def send(self, entries: Sequence[Planned]) -> list[FailedSend]:
        failed = []
        for entry in entries:
            if self._refuses(entry):
                failed.append(FailedSend(entry, "refused by the test"))
            else:
                due = self._clock.now() + timedelta(seconds=entry.delay_seconds)
                assert isinstance(entry, PlannedMessage)
                self._messages.append(_Message(write_message(entry.message), due))
        return failed

    def receive(self, limit: int) -> list[Received]:
        now = self._clock.now()
        due = [message for message in self._messages if message.visible_from <= now]
        for message in due:
            if message.receive_count >= self._max_receives:
                self._messages.remove(message)
                self.dead_letters.append(message.body)
        alive = [message for message in due if message.receive_count < self._max_receives]
        return [self._hand_out(message, now) for message in alive[:limit]]

    def _hand_out(self, message: _Message, now: datetime) -> Received:
        message.visible_from = now + timedelta(seconds=self._visibility_seconds)
        message.receive_count += 1
        message.receipt = str(next(self._receipts))
        return Received(message.body, message.receive_count, message.receipt)

    def acknowledge(self, received: Received) -> None:
        self._messages = [message for message in self._messages if message.receipt != received.receipt]


@dataclass(frozen=True)
class QueueKit:
    """A queue, and what a test of its contract needs to look around it."""

    queue: ReadableQueue
    advance: Callable[[float], None]
    dead_letters: Callable[[], list[str]]
