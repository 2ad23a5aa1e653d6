"""The calendar of completeness: for each day or hour how much is stored of one target or of all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from enum import Enum
from itertools import pairwise

from kizami.backend.port import Backend
from kizami.backend.snapshot import spans_of
from kizami.backend.targets import KnownTarget
from kizami.core.coverage import Completeness, add_up
from kizami.core.slots import Window, to_utc


class CellLength(Enum):
    """What a cell of the calendar is."""

    DAY = "day"
    HOUR = "hour"


@dataclass(frozen=True, slots=True)
class CalendarCell:
    """A day or an hour: how much of what was due in it is stored, and how many targets lack something."""

    start: datetime
    end: datetime
    part: Completeness
    lacking: int


def calendar_edges(window: Window, length: CellLength, zone: tzinfo) -> list[datetime]:
    """Where the cells of a window begin, and the end of the last; a day is one of the zone."""
    edges = [window.start]
    for edge in _edges_after(window.start, length, zone):
        edges.append(min(edge, window.end))
        if edge >= window.end:
            return edges
    raise AssertionError("time goes on")


def _edges_after(start: datetime, length: CellLength, zone: tzinfo) -> Iterator[datetime]:
    if length is CellLength.HOUR:
        edge = start.replace(minute=0, second=0, microsecond=0)
        while True:
            edge += timedelta(hours=1)
            yield edge
    day = start.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    while True:
        day += timedelta(days=1)
        edge = to_utc(day.replace(tzinfo=zone))
        if edge > start:
            yield edge


def read_cells(
    backend: Backend, targets: Sequence[KnownTarget], edges: Sequence[datetime], now: datetime
) -> list[CalendarCell]:
    """The cells between the edges."""
    if len(targets) == 1:
        return list(_cells_of_one(backend, targets[0], edges, now))
    with backend.look() as one:
        return [read_cell(one, targets, start, end, now) for start, end in pairwise(edges)]


def read_cell(
    backend: Backend, targets: Sequence[KnownTarget], start: datetime, end: datetime, now: datetime
) -> CalendarCell:
    """One cell, counted target by target: what one has too much hides nothing that another lacks."""
    spans = spans_of(targets, lambda target: target.within(start, end, now))
    due = {name: span for name, span in spans.items() if span.expected}
    found = backend.completeness(due) if due else {}
    return CalendarCell(start, end, add_up(found.values()), sum(part.missing > 0 for part in found.values()))


def _cells_of_one(
    backend: Backend, target: KnownTarget, edges: Sequence[datetime], now: datetime
) -> Iterator[CalendarCell]:
    """As the store counts. Where the target begins or ends in a cell, its own slots are counted: records from
    outside that must not stand for what it lacks."""
    settled = target.settled(now)
    for (start, end), stored in zip(pairwise(edges), backend.stored_between(target.name, edges), strict=True):
        part = Completeness(stored, target.within(start, end, now).expected)
        if part.expected and not settled.start <= start < end <= settled.end:
            yield read_cell(backend, [target], start, end, now)
        else:
            part = Completeness(min(part.stored, part.expected), part.expected)
            yield CalendarCell(start, end, part, int(part.missing > 0))
