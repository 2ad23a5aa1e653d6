"""Memory twins of the ports for tests: the contract suite holds them to the same semantics as the real ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from threading import Lock

from kizami.core.messages import MetricRecord, write_message
from kizami.core.ports import FailedSend, PutOutcome, Queue, Received
from kizami.core.sender import PlannedMessage
from kizami.core.slots import to_utc


class ManualClock:
    """Time that moves only when a test says so."""

    def __init__(self, now: datetime = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


class MemoryMetricStore:
    """The MetricStore port in a dictionary."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, datetime], MetricRecord] = {}
        self._lock = Lock()

    def put_if_absent(self, record: MetricRecord) -> PutOutcome:
        whole = record.collected_at.replace(microsecond=0)  # as the wire form keeps it
        kept = MetricRecord(record.metric, to_utc(record.slot), record.count, to_utc(whole))
        with self._lock:
            first = self._records.setdefault((kept.metric, kept.slot), kept)
        return PutOutcome.STORED if first is kept else PutOutcome.DUPLICATE

    def query(self, metric: str, start: datetime, end: datetime) -> Iterator[MetricRecord]:
        with self._lock:
            records = sorted(self._records.items())
        for (name, slot), record in records:
            if name == metric and start <= slot < end:
                yield record


@dataclass
class _Message:
    body: str
    visible_from: datetime
    receive_count: int = 0
    receipt: str = ""


class MemoryQueue:
    """The Queue port in a list, on a clock of the test's choosing."""

    def __init__(
        self,
        clock: ManualClock,
        visibility_seconds: float = 30,
        max_receives: int = 5,
        refuses: Callable[[PlannedMessage], bool] = lambda entry: False,
    ) -> None:
        self.dead_letters: list[str] = []
        self._clock = clock
        self._visibility_seconds = visibility_seconds
        self._max_receives = max_receives
        self._refuses = refuses
        self._messages: list[_Message] = []
        self._receipts = count(1)

    def send(self, entries: Sequence[PlannedMessage]) -> list[FailedSend]:
        failed = []
        for entry in entries:
            if self._refuses(entry):
                failed.append(FailedSend(entry, "refused by the test"))
            else:
                due = self._clock.now() + timedelta(seconds=entry.delay_seconds)
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

    queue: Queue
    advance: Callable[[float], None]
    dead_letters: Callable[[], list[str]]
