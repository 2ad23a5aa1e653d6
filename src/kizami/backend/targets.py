"""A target as its backend knows it: how it is polled, and which of its slots are due, settled or on their way."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from kizami.core.coverage import Span, due_span
from kizami.core.errors import InvalidInput
from kizami.core.slots import floor_to_slot, format_second, shift, shorten


@dataclass(frozen=True, slots=True)
class Pace:
    """How quick a healthy backend is: from a slot's tick to its record, and until when a poll is in time."""

    settling_seconds: int
    late_after_ms: int


# A poll goes out within milliseconds of its moment, at any moment of the interval that follows its tick;
# then it has an answer to wait for. One that is a second late was held up by something.
ONE_MACHINE = Pace(settling_seconds=5, late_after_ms=1000)


LONGEST_SPREAD_SECONDS = 60  # polls are spread over the interval, but those of a long one over a minute


class Timing(NamedTuple):
    """How long slots are, and how long after its start one is due, whosever they are."""

    interval_seconds: int
    lag_seconds: int
    name: str = ""


class Polling(Enum):
    """Whether a target's slots go on: those of the others are not expected to."""

    ON = "on"
    PAUSED = "paused"  # from the dashboard, where it can be resumed
    DISABLED = "disabled"  # by the configuration
    REMOVED = "removed"  # from the configuration


@dataclass(frozen=True, slots=True)
class KnownTarget:
    """A target as its backend remembers it; its slots are expected from `first_slot` until `expected_until`."""

    name: str
    interval_seconds: int
    lag_seconds: int
    first_slot: datetime
    polling: Polling = Polling.ON
    paused_since: datetime | None = None
    expected_until: datetime | None = None
    pace: Pace = ONE_MACHINE
    backfill: bool = True  # False: what was missed stays so, for its API can only say "now"
    decimals: int = 0  # of its counts
    kept_from: datetime | None = None  # what was stored before is kept no more; None: all is

    @property
    def is_on(self) -> bool:
        return self.polling is Polling.ON

    @property
    def timing(self) -> tuple[object, ...]:
        """What its spans follow from."""
        return self.interval_seconds, self.lag_seconds, self.first_slot, self.expected_until, self.pace

    @property
    def grace_seconds(self) -> float:
        """How long after its tick a slot may still be on its way through a healthy backend."""
        return min(self.interval_seconds, LONGEST_SPREAD_SECONDS) + self.pace.settling_seconds

    def slots_in(self, back: timedelta) -> int:
        """How many slots it has in so long a time."""
        return int(back.total_seconds()) // self.interval_seconds

    def due(self, now: datetime, grace_seconds: float = 0) -> Span:
        """Its slots that are expected and have been due for `grace_seconds`."""
        timing = Timing(self.interval_seconds, self.lag_seconds)
        return _due(timing, self.first_slot, self.expected_until, now, grace_seconds)

    def settled(self, now: datetime) -> Span:
        """Its slots that were due in time to be stored by now."""
        return self.due(now, self.grace_seconds)

    def settling(self, now: datetime) -> Span:
        """Its slots that are due but may still be on their way."""
        settled = self.settled(now)
        return _span(settled.end, max(settled.end, self.due(now).end), self.interval_seconds)

    def recent(self, back: timedelta, now: datetime) -> Span:
        """The last `back` of its settled slots; none from before it was known."""
        settled = self.settled(now)
        start = settled.end - timedelta(seconds=self.slots_in(back) * self.interval_seconds)
        return _span(max(start, settled.start), settled.end, self.interval_seconds)

    def current(self, now: datetime, seconds: int = 60) -> Span:
        """Return the settled slots that tell how it does: of the last minute, or the newest if that is longer."""
        return self.recent(timedelta(seconds=max(seconds, self.interval_seconds)), now)

    def within(self, start: datetime, end: datetime, now: datetime) -> Span:
        """Its settled slots that begin in [start, end)."""
        return _part(self.settled(now), start, end)

    def due_within(self, start: datetime, end: datetime, now: datetime) -> Span:
        """Its slots that begin in [start, end) and are due, also those that may still be on their way."""
        return _part(self.due(now), start, end)

    def require_kept(self, start: datetime, place: str) -> None:
        """InvalidInput if slots from `start` on would be gone as soon as they were stored."""
        if self.kept_from is not None and start < self.kept_from:
            kept = format_second(shift(self.kept_from, self.interval_seconds))
            raise InvalidInput(
                place, f"{shorten(self.name)} keeps nothing from so long ago; begin at {kept} or later"
            )

    def whole(self, start: datetime, end: datetime, now: datetime) -> Span:
        """All slots of [start, end) that are due, also those from before it was known or after it was paused."""
        due = due_span(self, start, now)
        return _part(due, due.start, end)


# Thousands of targets share a few timings: what is the same for all of them is worked out once a look.
_span = lru_cache(maxsize=1024)(Span)


@lru_cache(maxsize=1024)
def _due(timing: Timing, first_slot: datetime, until: datetime | None, now: datetime, grace: float) -> Span:
    span = due_span(timing, first_slot, now, grace)
    if until is None or until >= span.end:
        return span
    end = floor_to_slot(until, timing.interval_seconds)
    return Span(span.start, max(span.start, end), timing.interval_seconds)


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
