"""Sealing: which span of a bundle is sealed next, and in which late days ticks are merged (pure).

mark, live ranges, now ─▶ the oldest span that is over and not sealed
mark, now ─▶ late days: days before `sealed_until` in which ticks were written again
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import NamedTuple

from kizami.core.bundles import Bundle
from kizami.core.epoch import to_seconds
from kizami.core.merging import MetricSlots, leave_out
from kizami.core.recovery import LiveRange, Mark
from kizami.core.sealed_spans import HOUR, span_seconds, span_start
from kizami.core.ticks import Tick

DAY = 24 * HOUR
SEALED_AFTER_SECONDS = 2 * HOUR  # a complete span, after its last tick
SEALED_ANYWAY_SECONDS = DAY  # one that is not complete
QUIET_SECONDS = 900  # after the newest write to a late day: every delivery that noted it before has ended


class TimeSpan(NamedTuple):
    """The seconds [start, end) since 1970."""

    start: int
    end: int


def span_of(bundle: Bundle, slot: int) -> TimeSpan:
    """Return the span that a slot of the bundle lies in."""
    seconds = span_seconds(bundle.interval_seconds)
    start = span_start(slot, seconds)
    return TimeSpan(start, start + seconds)


def live_part(span: TimeSpan, live: Iterable[LiveRange]) -> TimeSpan:
    """Return the part of a span from its first live slot to its last one; an empty one if it has none."""
    parts = [part for each in live if (part := _overlap(span, each)).start < part.end]
    if not parts:
        return TimeSpan(span.start, span.start)
    return TimeSpan(min(part.start for part in parts), max(part.end for part in parts))


def _overlap(span: TimeSpan, live: LiveRange) -> TimeSpan:
    end = span.end if live.end is None else min(span.end, to_seconds(live.end))
    return TimeSpan(max(span.start, to_seconds(live.start)), end)


def next_span(bundle: Bundle, mark: Mark, live: Sequence[LiveRange], now: datetime) -> TimeSpan | None:
    """Return the oldest span that is to be sealed: complete and over for two hours, or over for a day.

    A span whose ticks were not looked at yet waits, however old it is: none of them could be deleted.
    """
    sealed = to_seconds(mark.sealed_until)
    ahead = [each for each in live if each.end is None or to_seconds(each.end) > sealed]
    if not ahead:
        return None
    span = span_of(bundle, max(sealed, to_seconds(ahead[0].start)))
    over, end = to_seconds(now) - span.end - bundle.lag_seconds, live_part(span, live).end
    seen_until = mark.seen_until if over >= SEALED_ANYWAY_SECONDS else mark.complete_until
    return span if over >= SEALED_AFTER_SECONDS and to_seconds(seen_until) >= end else None


def owned_columns(columns: Mapping[str, MetricSlots], live: Sequence[LiveRange]) -> dict[str, MetricSlots]:
    """Leave out the slots that former plans sent first: theirs are the answers that count."""
    found = {}
    for metric, slots in columns.items():
        for part in live:
            if metric in part.former:
                slots = leave_out(slots, to_seconds(part.start), to_seconds(part.former[metric]))
        if slots.columns.slot:
            found[metric] = slots
    return found


class LateDay(NamedTuple):
    """A day whose ticks are merged with what is sealed; `is_whole` if `part` has all of it that is sealed."""

    day: date
    noted: datetime
    part: TimeSpan
    is_whole: bool


def late_days_of(bundle: Bundle, mark: Mark, now: datetime) -> list[LateDay]:
    """Return the late days in which no tick was written for a while, oldest first."""
    sealed = to_seconds(mark.sealed_until)
    until = span_of(bundle, sealed).start  # the span that is partly sealed is sealed as a whole first
    found = []
    for day, noted in sorted(mark.late_days.items()):
        start = to_seconds(datetime.combine(day, time.min, UTC))
        if start < until and (now - noted).total_seconds() >= QUIET_SECONDS:
            end = start + DAY
            found.append(LateDay(day, noted, TimeSpan(start, min(end, until)), min(end, sealed) <= until))
    return found


def is_settled(tick: Tick, mark: Mark) -> bool:
    """Return True if nothing more is expected of the tick, so that it may be deleted once it is sealed."""
    return tick.outstanding <= tick.answers.keys() and mark.may_delete(tick.slot)
