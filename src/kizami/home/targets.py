"""A target as its home knows it: how it is polled, and which of its slots are due, settled or on their way."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from kizami.core.coverage import Span, due_span
from kizami.core.errors import InvalidInput
from kizami.core.slots import floor_to_slot, shorten


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

    @property
    def grace_seconds(self) -> float:
        """How long after its tick a slot may still be on its way through a healthy home: until then nobody counts
        it, misses it or asks for it again."""
        return self.interval_seconds + self.pace.settling_seconds

    def slots_in(self, back: timedelta) -> int:
        """How many slots it has in so long a time."""
        return int(back.total_seconds()) // self.interval_seconds

    def due(self, now: datetime, grace_seconds: float = 0) -> Span:
        """Its slots that are expected and have been due for `grace_seconds`."""
        span = due_span(self, self.first_slot, now, grace_seconds)
        if self.expected_until is None or self.expected_until >= span.end:
            return span
        end = floor_to_slot(self.expected_until, self.interval_seconds)
        return Span(span.start, max(span.start, end), self.interval_seconds)

    def settled(self, now: datetime) -> Span:
        """Its slots that were due in time to be stored by now."""
        return self.due(now, self.grace_seconds)

    def settling(self, now: datetime) -> Span:
        """Its slots that are due but may still be on their way."""
        settled = self.settled(now)
        return Span(settled.end, max(settled.end, self.due(now).end), self.interval_seconds)

    def recent(self, back: timedelta, now: datetime) -> Span:
        """The last `back` of its settled slots; none from before it was known."""
        settled = self.settled(now)
        start = settled.end - timedelta(seconds=self.slots_in(back) * self.interval_seconds)
        return Span(max(start, settled.start), settled.end, self.interval_seconds)

    def within(self, start: datetime, end: datetime, now: datetime) -> Span:
        """Its settled slots that begin in [start, end)."""
        return _part(self.settled(now), start, end)

    def whole(self, start: datetime, end: datetime, now: datetime) -> Span:
        """All slots of [start, end) that are due, also those from before it was known or after it was paused."""
        due = due_span(self, start, now)
        return _part(due, due.start, end)


def _part(span: Span, start: datetime, end: datetime) -> Span:
    """The slots of a span that begin in [start, end)."""
    interval = span.interval_seconds
    first, last = (_ceiling(min(max(edge, span.start), span.end), interval) for edge in (start, end))
    return Span(first, max(first, last), interval)


def _ceiling(instant: datetime, interval_seconds: int) -> datetime:
    return floor_to_slot(instant + timedelta(seconds=interval_seconds, microseconds=-1), interval_seconds)


class UnknownTarget(InvalidInput):
    """No target of that name was ever polled here."""

    def __init__(self, name: str) -> None:
        super().__init__("metric", f"{shorten(name)} was never polled here; see /api/v1/targets")
