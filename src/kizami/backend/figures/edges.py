"""The moments between stretches of time: every minute, hour, day or week as the clocks of a zone show them (pure).

    up to an hour   a stretch begins wherever the clock shows a multiple of it: a day has 24 hours, or 23, or 25
    longer          a stretch begins when the clock first shows a multiple of it: a day reaches from midnight to
                    midnight, a week begins on Monday, and either is an hour shorter or longer at times

Where a clock is set by something else than whole stretches (Lord Howe's by half an hour), a stretch ends as it is
set. So the stretches tile every range, whatever the zone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import accumulate

from kizami.backend.targets import KnownTarget
from kizami.backend.times.durations import read_duration
from kizami.backend.times.zones import clock_change, first_showing, offset_at, shown
from kizami.core.errors import InvalidInput
from kizami.core.slots import INTERVALS, shorten, to_utc

MAX_STRETCHES = 100_000
_HOUR, _DAY, _WEEK = timedelta(hours=1), timedelta(days=1), timedelta(weeks=1)
_SHORTEST_MONTH = timedelta(days=28)
_MONTHS = frozenset({"1mo", "1month", "month"})


@dataclass(frozen=True, slots=True)
class Every:
    """How long a stretch is; of a month, its length is that of the shortest one."""

    text: str
    length: timedelta

    @property
    def is_month(self) -> bool:
        return self.length == _SHORTEST_MONTH


def parse_every(text: str, field: str = "every") -> Every:
    """The stretch that `5m`, `1h`, `1d`, `1w` or `1mo` names, else InvalidInput with what there is."""
    if text in _MONTHS:
        return Every("1mo", _SHORTEST_MONTH)
    length = timedelta(seconds=read_duration(text, field))
    if length != _WEEK and length // timedelta(seconds=1) not in INTERVALS:
        remedy = "use one that divides a minute, an hour or a day, such as 30s, 5m or 1h, or 1w or 1mo"
        raise InvalidInput(field, f"{shorten(text)} does not divide a day; {remedy}")
    return Every(text, length)


def require_whole_slots(every: Every, target: KnownTarget, field: str = "every") -> None:
    """InvalidInput for stretches that do not hold whole slots of the target."""
    if every.length % timedelta(seconds=target.interval_seconds):
        problem = f"{every.text} is no multiple of the interval of {target.name}, {target.interval_seconds} s"
        raise InvalidInput(field, problem)


def edges_between(
    every: Every, zone: tzinfo, start: datetime, end: datetime, field: str = "every"
) -> list[datetime]:
    """`start`, each moment after it at which a stretch begins, and `end`; InvalidInput for too many of them."""
    edges, end = [to_utc(start)], to_utc(end)
    for edge in _following(every, zone, edges[0]):
        if edge >= end:
            break
        if len(edges) >= MAX_STRETCHES:
            remedy = "ask for longer stretches or a shorter range"
            raise InvalidInput(field, f"{every.text} divides the range into more than {MAX_STRETCHES:,}; {remedy}")
        edges.append(edge)
    return [*edges, end]


def start_of(every: Every, zone: tzinfo, instant: datetime) -> datetime:
    """Where the stretch begins that `instant` falls in."""
    instant = to_utc(instant)
    if every.length > _HOUR:
        return _first_shown_until(every, zone, instant)
    wall = shown(instant, zone)
    start = instant - (wall - _floor(every, wall))
    return clock_change(start, instant, zone) if _is_set_between(start, instant, every, zone) else start


def moved_back(edges: Sequence[datetime], seconds: int, zone: tzinfo) -> list[datetime]:
    """The edges so long before: whole days as the clock shows them, what is left by the second.

    They still tile: an hour that the clock showed twice, or not at all, has nothing at the other end.
    """
    days, rest = divmod(timedelta(seconds=seconds), _DAY)
    if not days:
        return [edge - rest for edge in edges]
    return list(accumulate((first_showing(shown(edge, zone) - days * _DAY, zone) - rest for edge in edges), max))


def _following(every: Every, zone: tzinfo, start: datetime) -> Iterator[datetime]:
    """The edges after `start`."""
    if every.length > _HOUR:
        yield from _first_shown_after(every, zone, start)
    while True:
        start = _next_multiple(every, zone, start)
        yield start


def _next_multiple(every: Every, zone: tzinfo, instant: datetime) -> datetime:
    wall = shown(instant, zone)
    edge = instant + (_floor(every, wall) + every.length - wall)
    return clock_change(instant, edge, zone) if _is_set_between(instant, edge, every, zone) else edge


def _first_shown_after(every: Every, zone: tzinfo, start: datetime) -> Iterator[datetime]:
    wall = _floor(every, shown(start, zone))
    while True:
        wall = _step(every, wall)
        edge = first_showing(wall, zone)
        if edge > start:  # a day that a zone leaves out, as Samoa did, has no edge of its own
            yield edge
            start = edge


def _first_shown_until(every: Every, zone: tzinfo, instant: datetime) -> datetime:
    wall = _floor(every, shown(instant, zone))
    following = first_showing(_step(every, wall), zone)
    # Set back just after midnight, the clock shows the day before once more: the new day has begun all the same.
    return following if following <= instant else first_showing(wall, zone)


def _floor(every: Every, wall: datetime) -> datetime:
    day = wall.replace(hour=0, minute=0, second=0, microsecond=0)
    if every.is_month:
        return day.replace(day=1)
    if every.length == _WEEK:
        return day - day.weekday() * _DAY
    return day + (wall - day) // every.length * every.length


def _step(every: Every, wall: datetime) -> datetime:
    return (wall + 31 * _DAY).replace(day=1) if every.is_month else wall + every.length


def _is_set_between(start: datetime, end: datetime, every: Every, zone: tzinfo) -> bool:
    """Whether the clock is set meanwhile, by something else than whole stretches."""
    return bool((offset_at(end, zone) - offset_at(start, zone)) % every.length)
