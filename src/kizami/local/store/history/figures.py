"""Figures over time: how many slots between any two moments are stored, their extremes and their total (SQL only).

What lies wholly between two edges is taken from the figures of spans and tallies; only what an edge cuts is read
slot by slot.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import apsw

from kizami.core.sealed_spans import HOUR, Column
from kizami.local.store.database import snapshot
from kizami.local.store.history.expiry import hours_of
from kizami.local.store.history.sealed import SealedSpan, packed_slots, spans_of
from kizami.local.store.history.unsealed import rows_of, tallies_of
from kizami.local.store.metrics import KnownMetric
from kizami.local.store.schema import TALLY_SECONDS

_COUNTS = ("slot", "count")


class Figures(NamedTuple):
    """Of at least one stored count."""

    stored: int
    lowest: int
    highest: int
    total: int

    def __add__(self, other: object) -> Figures:
        assert isinstance(other, Figures)
        return Figures(
            self.stored + other.stored,
            min(self.lowest, other.lowest),
            max(self.highest, other.highest),
            self.total + other.total,
        )


def figures_between(
    connection: apsw.Connection, metric: KnownMetric, edges: Sequence[int]
) -> Mapping[int, Figures]:
    """The figures of what is stored from each edge to the next, by the edge's place; none of those without a slot.

    The edges ascend, and so do the places.
    """
    found = _Parts(edges)
    if len(edges) > 1:
        with snapshot(connection):
            _add_sealed(connection, metric, found)
            _add_unsealed(connection, metric, found)
    return dict(sorted(found.figures.items()))


def _add_sealed(connection: apsw.Connection, metric: KnownMetric, found: _Parts) -> None:
    for span in spans_of(connection, metric.id, *found.bounds):
        if (place := found.place_of(span.start, span.end)) is not None:
            found.add(place, Figures(span.stored, span.lowest, span.highest, span.total))
        elif packed := packed_slots(connection, span):
            found.add_counts(*packed.columns(_COUNTS))
        else:
            _add_hours(connection, span, found)


def _add_hours(connection: apsw.Connection, span: SealedSpan, found: _Parts) -> None:
    """What is left of a span whose slots are kept no more: its hours, as far as no edge cuts one."""
    for start, *figures in hours_of(connection, span):
        if (place := found.place_of(start, start + HOUR)) is not None:
            found.add(place, Figures(*figures))


def _add_unsealed(connection: apsw.Connection, metric: KnownMetric, found: _Parts) -> None:
    for bucket, *tally in tallies_of(connection, metric, *found.bounds):
        if (place := found.place_of(bucket, bucket + TALLY_SECONDS)) is not None:
            found.add(place, Figures(*tally))
        elif rows := rows_of(connection, metric, bucket, bucket + TALLY_SECONDS, _COUNTS):
            found.add_counts(*zip(*rows, strict=True))


class _Parts:
    """The parts of time between the edges, with the figures that were found of each."""

    def __init__(self, edges: Sequence[int]) -> None:
        self._edges = edges
        self.bounds = (edges[0], edges[-1]) if edges else (0, 0)
        self.figures: dict[int, Figures] = {}

    def place_of(self, start: int, end: int) -> int | None:
        """Which part has the whole of [start, end); None if an edge lies within it."""
        place = bisect_right(self._edges, start) - 1
        is_within = 0 <= place < len(self._edges) - 1 and end <= self._edges[place + 1]
        return place if is_within else None

    def add(self, place: int, figures: Figures) -> None:
        before = self.figures.get(place)
        self.figures[place] = before + figures if before else figures

    def add_counts(self, slots: Column, counts: Column) -> None:
        """Add counts to the parts in which their slots lie."""
        at = bisect_left(slots, self.bounds[0])
        while at < len(slots) and slots[at] < self.bounds[1]:
            place = bisect_right(self._edges, slots[at]) - 1
            end = bisect_left(slots, self._edges[place + 1], at)
            part = counts[at:end]
            self.add(place, Figures(end - at, min(part), max(part), sum(part)))
            at = end
