"""Counts over time: of the records that are there and, up to the first of them, of the totals of hours."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from datetime import datetime
from typing import Protocol

from kizami.aws.history.hour_totals import HourTotals
from kizami.aws.history.keeping import HOUR, hour_of
from kizami.aws.known_targets import RECENT
from kizami.aws.store.slot_cache import SlotCache
from kizami.aws.store.table_slots import TableSlots
from kizami.backend.figures.gathering import gather, grain_of
from kizami.backend.values import Bucket, bucket_of
from kizami.core.coverage import Span, next_slot
from kizami.core.epoch import from_seconds
from kizami.core.ports import Clock
from kizami.core.slots import shift

Parts = tuple[list[Bucket], Span]


class FirstKept(Protocol):
    """The first records of metrics that are kept; `recent`: one that is older than RECENT will do."""

    def __call__(self, names: Collection[str], *, recent: bool = False) -> Mapping[str, datetime]: ...


class KeptFigures:
    """The figures of a table; `first_kept` knows the first records of metrics."""

    def __init__(
        self,
        slots: SlotCache | TableSlots,
        totals: HourTotals,
        first_kept: FirstKept,
        threads: Executor,
        clock: Clock,
    ) -> None:
        self._slots = slots
        self._totals = totals
        self._first_kept = first_kept
        self._threads = threads
        self._clock = clock

    def buckets(self, spans: Mapping[str, Span], edges: range) -> dict[str, list[Bucket]]:
        """The stretches of each span, whose edges are seconds since 1970; those without a record are left out."""
        parts = self._parts(spans)
        return {name: self._stretches(name, *parts[name], edges) for name in spans}

    def _stretches(self, metric: str, old: Sequence[Bucket], rest: Span, edges: range) -> list[Bucket]:
        recent = self._slots.buckets(metric, rest, edges.step)
        if not old:
            return recent
        moments = list(map(from_seconds, edges))
        return [each for each in gather(moments, [*uncut(old, moments), *recent]) if each.stored]

    def between(self, metric: str, span: Span, edges: Sequence[datetime]) -> list[Bucket]:
        """What is stored of a span between each two edges."""
        old, rest = self._parts({metric: span})[metric]
        return gather(edges, [*uncut(old, edges), *self._slots.buckets(metric, rest, grain_of(edges, HOUR))])

    def totals(self, spans: Mapping[str, Span]) -> dict[str, Bucket]:
        """What is stored of each metric's span, drawn together; those with nothing there are left out."""
        parts = self._parts(spans)
        found = {name: self._total(name, spans[name], *parts[name]) for name in spans}
        return {name: total for name, total in found.items() if total.stored}

    def _total(self, metric: str, span: Span, old: Sequence[Bucket], rest: Span) -> Bucket:
        edges, counts = (span.start, span.end), [each.count for each in self._slots.known(metric, rest)]
        recent = [bucket_of(span.start, counts)] if counts else []
        return gather(edges, [*uncut(old, edges), *recent])[0]

    def _parts(self, spans: Mapping[str, Span]) -> dict[str, Parts]:
        """The hours of each span of which there are totals alone, and the part whose records are to be read."""
        since = self._clock.now() - RECENT
        first = self._first_kept(spans.keys(), recent=all(span.start >= since for span in spans.values()))
        split = self._threads.map(lambda name: self._split(name, spans[name], first.get(name)), spans)
        parts = dict(zip(spans, split, strict=True))
        self._slots.look({name: rest for name, (_, rest) in parts.items()}, self._clock.now())
        return parts

    def _split(self, metric: str, span: Span, first: datetime | None) -> Parts:
        end = span.end if first is None else min(hour_of(first), span.end)
        hours = self._totals.between(metric, span.start, end, self._clock.now())
        start = min(next_slot(end, span.interval_seconds), span.end) if hours else span.start
        return hours, Span(start, span.end, span.interval_seconds)


def uncut(hours: Iterable[Bucket], edges: Sequence[datetime]) -> Iterator[Bucket]:
    """Those hours that lie wholly between two neighbouring edges."""
    for hour in hours:
        place = bisect_right(edges, hour.start)
        if 0 < place < len(edges) and shift(hour.start, HOUR) <= edges[place]:
            yield hour
