"""Coverage: what was expected less what is stored; the state of every due slot, gaps and completeness (pure)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from kizami.slots import floor_to_slot, shift, slots_between
from kizami.targets import Target


class SlotState(Enum):
    """Where a due slot is; at every moment it is exactly one of these."""

    STORED = "stored"
    PENDING = "pending"
    DEAD = "dead"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Span:
    """The slots of [start, end) that are due: the range that coverage speaks about."""

    start: datetime
    end: datetime
    interval_seconds: int

    @property
    def expected(self) -> int:
        """How many slots the span has."""
        return max(0, int((self.end - self.start).total_seconds()) // self.interval_seconds)

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

    def __str__(self) -> str:
        return f"{self.stored}/{self.expected}"


def due_span(target: Target, since: datetime, now: datetime, grace_seconds: float = 0) -> Span:
    """The slots from `since` that were due by `now`, less a grace for those still on their way.

    A slot is due at its tick, `lag` after it starts.
    """
    interval = target.interval_seconds
    start = floor_to_slot(since, interval)
    if start < since:
        start = shift(start, interval)
    last_due = floor_to_slot(shift(now, -target.lag_seconds - grace_seconds), interval)
    return Span(start, max(start, shift(last_due, interval)), interval)


def find_gaps(span: Span, stored: Iterable[datetime]) -> Iterator[Gap]:
    """The runs of slots of `span` that are not in `stored` (ascending, any slots outside are passed over)."""
    expected = span.start
    for slot in stored:
        if slot < expected or slot >= span.end:
            continue
        if slot > expected:
            yield _gap(expected, slot, span.interval_seconds)
        expected = slot + timedelta(seconds=span.interval_seconds)
    if expected < span.end:
        yield _gap(expected, span.end, span.interval_seconds)


def _gap(start: datetime, end: datetime, interval_seconds: int) -> Gap:
    return Gap(start, end, int((end - start).total_seconds()) // interval_seconds)


def slot_state(
    slot: datetime, stored: Container[datetime], pending: Container[datetime], dead: Container[datetime]
) -> SlotState:
    """The one state of a due slot; a record outranks whatever a redelivery may still hold."""
    if slot in stored:
        return SlotState.STORED
    if slot in pending:
        return SlotState.PENDING
    return SlotState.DEAD if slot in dead else SlotState.MISSING
