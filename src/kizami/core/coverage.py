"""Coverage: what was expected less what is stored; the state of every due slot, gaps and completeness (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kizami.core.errors import InvalidInput
from kizami.core.slots import floor_to_slot, shift, slots_between, to_utc
from kizami.core.targets.target import Timed


@dataclass(frozen=True, slots=True)
class Span:
    """The slots of [start, end) that are due: the range that coverage speaks about, in whole slots."""

    start: datetime
    end: datetime
    interval_seconds: int
    expected: int = field(init=False, repr=False, compare=False)  # how many slots it has

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            edge = to_utc(getattr(self, name))
            if floor_to_slot(edge, self.interval_seconds) != edge:
                raise InvalidInput(name, f"{edge.isoformat()} is not on a {self.interval_seconds}-second boundary")
            object.__setattr__(self, name, edge)
        seconds = int((self.end - self.start).total_seconds())
        object.__setattr__(self, "expected", max(0, seconds // self.interval_seconds))

    def slots(self) -> Iterator[datetime]:
        """Its slots, oldest first."""
        return slots_between(self.start, self.end, self.interval_seconds)


@dataclass(frozen=True, slots=True)
class Gap:
    """A run of slots without a record: the first one, and the end of the last one."""

    start: datetime
    end: datetime
    slots: int


@dataclass(frozen=True, slots=True)
class Completeness:
    """How many of the expected slots are stored."""

    stored: int
    expected: int

    @property
    def ratio(self) -> float:
        """1.0 when nothing was expected: nothing is missing."""
        return self.stored / self.expected if self.expected else 1.0

    @property
    def missing(self) -> int:
        """How many are not stored."""
        return self.expected - self.stored

    def __str__(self) -> str:
        return f"{self.stored}/{self.expected}"


def add_up(parts: Iterable[Completeness]) -> Completeness:
    """The completeness of several spans as one."""
    every = list(parts)
    return Completeness(sum(part.stored for part in every), sum(part.expected for part in every))


def count_slots(gaps: Iterable[Gap]) -> int:
    """How many slots all the gaps have."""
    return sum(gap.slots for gap in gaps)


def with_arrivals(counted: Completeness, arrived: int, full: int) -> Completeness:
    """With what has arrived before its grace is over, as long as the range is not as full as it can be.

    A slot that may still be on its way is not counted; one that is there counts at once, or a new target would
    have records and no coverage in its first seconds.
    """
    more = max(0, min(arrived, full - counted.expected))
    return Completeness(counted.stored + more, counted.expected + more)


def next_slot(instant: datetime, interval_seconds: int) -> datetime:
    """The first slot that begins at `instant` or after it."""
    slot = floor_to_slot(instant, interval_seconds)
    return slot if slot >= instant else shift(slot, interval_seconds)


def due_span(target: Timed, since: datetime, now: datetime, grace_seconds: float = 0) -> Span:
    """The slots from `since` that were due by `now`, less a grace for those still on their way.

    A slot is due at its tick, `lag` after it starts.
    """
    interval = target.interval_seconds
    start = next_slot(since, interval)
    last_due = floor_to_slot(shift(now, -target.lag_seconds - grace_seconds), interval)
    return Span(start, max(start, shift(last_due, interval)), interval)


def find_gaps(span: Span, stored: Iterable[datetime]) -> Iterator[Gap]:
    """The runs of slots of `span` that are not in `stored`, which is ascending.

    What is stored outside the span is passed over, and so are the slots that a target had when its
    interval was another.
    """
    step = timedelta(seconds=span.interval_seconds)
    expected = span.start
    for slot in stored:
        if slot < expected or slot >= span.end or (slot - expected) % step:
            continue
        if slot > expected:
            yield Gap(expected, slot, (slot - expected) // step)
        expected = slot + step
    if expected < span.end:
        yield Gap(expected, span.end, (span.end - expected) // step)
