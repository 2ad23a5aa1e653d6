"""What the dashboard asks of a home, one machine or AWS: the questions, and the values that answer them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Protocol

from kizami.aggregation.lock import EXPIRY
from kizami.core.coverage import Completeness, Gap, Span, due_span
from kizami.core.errors import InvalidInput
from kizami.core.messages import MetricRecord, ScheduleMessage
from kizami.core.slots import floor_to_slot, shorten
from kizami.home.values import Bucket, DeadLetter, DeadLetterKey, Lateness, PendingSlot, QueueDepth, StoredSlot


@dataclass(frozen=True, slots=True)
class Pace:
    """How quick a healthy home is: from a slot's tick to its record, and until when a poll is in time."""

    settling_seconds: int
    late_after_ms: int


# A poll goes out within milliseconds of its moment, at any moment of the interval that follows its tick;
# then it has an answer to wait for. One that is a second late was held up by something.
ONE_MACHINE = Pace(settling_seconds=5, late_after_ms=1000)


class Polling(Enum):
    """Whether a target's slots go on: those of the others are not expected to."""

    ON = "on"
    PAUSED = "paused"  # from the dashboard, where it can be resumed
    DISABLED = "disabled"  # by the configuration
    REMOVED = "removed"  # from the configuration


@dataclass(frozen=True, slots=True)
class KnownTarget:
    """A target as its home remembers it; its slots are expected from `first_slot` until `expected_until`."""

    name: str
    interval_seconds: int
    lag_seconds: int
    first_slot: datetime
    polling: Polling = Polling.ON
    paused_since: datetime | None = None
    expected_until: datetime | None = None
    pace: Pace = ONE_MACHINE

    @property
    def is_on(self) -> bool:
        return self.polling is Polling.ON

    def due(self, now: datetime, grace_seconds: float = 0) -> Span:
        """Its slots that are expected and have been due for `grace_seconds`."""
        span = due_span(self, self.first_slot, now, grace_seconds)
        if self.expected_until is None or self.expected_until >= span.end:
            return span
        end = floor_to_slot(self.expected_until, self.interval_seconds)
        return Span(span.start, max(span.start, end), self.interval_seconds)


class UnknownTarget(InvalidInput):
    """No target of that name was ever polled here."""

    def __init__(self, name: str) -> None:
        super().__init__("metric", f"{shorten(name)} was never polled here; see /api/v1/targets")


@dataclass(frozen=True, slots=True)
class SlotCounts:
    """How many slots of a range are stored, on the queue and dead."""

    stored: int = 0
    pending: int = 0
    dead: int = 0


@dataclass(frozen=True, slots=True)
class SlotDetails:
    """All that is known about the slots of one metric in a range."""

    stored: Sequence[StoredSlot] = ()
    pending: Sequence[PendingSlot] = ()
    dead: Sequence[DeadLetter] = ()


@dataclass(frozen=True, slots=True)
class CompanyState:
    """A company of the aggregation batch: since when it is locked, and its points of the month (2025-12)."""

    company_id: str
    locked_since: datetime | None
    month: str
    users: int
    points: int

    def is_lock_expired(self, now: datetime) -> bool:
        """Whether the next run would take its lock over."""
        return self.locked_since is not None and self.locked_since + EXPIRY < now


class Home(Protocol):
    """Read and repair one home's data.

    Ranges are [start, end), answers ascend, an unknown metric has no slots. One thread asks at a time.
    Errors: StoreError and QueueError when the home cannot answer; then nothing has been half-done.
    """

    command_options: Mapping[str, str]  # what `kizami` must be told to look at the same home
    can_pause: bool

    def targets(self) -> list[KnownTarget]:
        """Every target there is or was, by name."""

    def newest_slots(self) -> dict[str, datetime]:
        """The newest stored slot of each metric that has one."""

    def slot_counts(self, spans: Mapping[str, Span]) -> dict[str, SlotCounts]:
        """Where the slots of each metric's span are."""

    def completeness(self, spans: Mapping[str, Span]) -> dict[str, Completeness]:
        """How much of each metric's span is stored."""

    def missing(self, spans: Mapping[str, Span]) -> dict[str, list[Gap]]:
        """The runs of slots that are neither stored nor pending nor dead, for each metric that has any."""

    def slot_details(self, metric: str, start: datetime, end: datetime) -> SlotDetails:
        """What is known about each slot of a range of hours."""

    def records(self, metric: str, start: datetime, end: datetime) -> Iterator[MetricRecord]:
        """The metric's records."""

    def buckets(self, metric: str, start: datetime, end: datetime, seconds: int) -> list[Bucket]:
        """The records in stretches of `seconds` since 1970; stretches without a record are left out."""

    def counts_at(self, metric: str, slots: Sequence[datetime]) -> list[int | None]:
        """The count of each of the slots, in their order; None where it is not stored."""

    def queue_depth(self, now: datetime) -> QueueDepth:
        """How full the queue is."""

    def lateness(self, start: datetime, end: datetime) -> Lateness:
        """How late the live polls of the range were."""

    def dead_letters(
        self, metric: str | None, limit: int, before: DeadLetterKey | None = None
    ) -> list[DeadLetter]:
        """Those of one metric or of all, newest first, from after `before` on; all if the limit is negative."""

    def backfill(self, messages: Iterable[ScheduleMessage]) -> int:
        """Ask for past slots again, after the live ones; how many of them were missing until now."""

    def redrive(self, letters: Iterable[DeadLetter]) -> int:
        """Put dead letters back on the queue; how many went back."""

    def pause(self, metric: str) -> None:
        """Poll it no more until it is resumed, also after a restart. A second time changes nothing."""

    def resume(self, metric: str) -> None:
        """Poll it again, and catch up with what was due meanwhile. Without a pause it changes nothing."""

    def companies(self, now: datetime) -> list[CompanyState]:
        """The companies of the aggregation batch, by id; none where it does not run."""

    def close(self) -> None:
        """Give back what it holds."""


class QueueWorker(Protocol):
    """Whoever works off the queue."""

    @property
    def words(self) -> str:
        """What the reader is told about it."""

    def check(self) -> None:
        """Raise what keeps it from its work, if that is known."""
