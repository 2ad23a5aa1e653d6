"""Looks: what a question about slots is about, and what it wants to read of that (pure).

A look has the shares of metrics, which are slots that one bundle holds, and the parts of those bundles with their
marks. A mark says what need not be read: before `sealed_until` there are ticks of late days only, and from there
to `seen_until` every tick is perfect, unless it lies in a run. So the requests are counted before they are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from itertools import pairwise
from math import ceil
from typing import NamedTuple

from kizami.aws.dynamodb import MAX_KEYS
from kizami.aws.marks import KnownMarks
from kizami.aws.ownership import Owners
from kizami.backend.slots import EARLIEST, LATEST, Asked
from kizami.core.bundles import Bundle
from kizami.core.epoch import EPOCH, to_seconds
from kizami.core.errors import InvalidInput
from kizami.core.recovery import LiveRange, Mark
from kizami.core.sealed_spans import span_seconds, span_start
from kizami.core.sealing import DAY, SEALED_AFTER_SECONDS

MOST_REQUESTS = 2000

_LONGEST_SPAN = 7 * 86_400
FIRST_SECOND = to_seconds(EARLIEST) + _LONGEST_SPAN  # the span of any later slot has a start
LAST_SECOND = to_seconds(LATEST) - _LONGEST_SPAN

_CLOCKS_DIFFER_SECONDS = 900  # another clock may be ahead by so much
_JOINED_SLOTS = 300  # perfect ticks between two ranges that are read along, in place of another request
_PAGE_BYTES = 1_000_000
_TICK_BYTES, _VALUE_BYTES, _ROW_BYTES = 140, 6, 120
_SPAN_BYTES, _SLOT_BYTES, _SUMMARY_BYTES, _DAY_BYTES = 200, 3, 1200, 1200
_ALWAYS = (LiveRange(EPOCH),)

TimeRange = tuple[int, int]  # seconds since 1970


@dataclass(frozen=True, slots=True)
class SlotQuestion:
    """What is asked, in seconds since 1970."""

    asked: Asked
    now: int
    edges: Mapping[str, Sequence[int]]  # by metric; shared where those of the question are
    kept: Mapping[str, int]  # metrics that are not kept for ever, and since when they are
    totals_from: Mapping[str, int]  # since when there are figures of them, where these go, too
    intervals: Mapping[str, int]  # of the metrics in the configuration at hand
    lags: Mapping[str, int]

    def ranges(self, *, with_totals: bool = False) -> dict[str, TimeRange]:
        """Return the range of each metric; without totals from its first slot that is kept."""
        found = {}
        for name, edges in self.edges.items():
            start, end = max(edges[0], FIRST_SECOND), min(edges[-1], LAST_SECOND)
            if not with_totals and name in self.kept:
                start = max(start, self.kept[name])
            if start < end:
                found[name] = start, end
        return found

    def kept_from(self, metric: str) -> int:
        """Return since when slots of a metric are kept."""
        return self.kept.get(metric, FIRST_SECOND)

    def ranges_of_polls(self) -> dict[str, TimeRange]:
        """Return the range of each metric in which polls count: with a long lag, also slots due in a stretch."""
        found = {}
        for name, (start, end) in self.ranges().items():
            lag, edges = self.lags.get(name, 0), self.edges[name]
            has_lagging = any(lag >= later - earlier for earlier, later in pairwise(edges))
            found[name] = max(start - lag, self.kept_from(name)) if has_lagging else start, end
        return found


def require_few(requests: int) -> None:
    """Refuse a question that takes too many requests."""
    if requests > MOST_REQUESTS:
        problem = f"takes some {requests:,} requests to DynamoDB, more than {MOST_REQUESTS:,}"
        raise InvalidInput("edges", f"{problem}; ask about fewer metrics or a shorter range")


class Share(NamedTuple):
    """The slots [start, end) of a metric that a question is about and one bundle holds; seconds since 1970."""

    metric: str
    bundle: Bundle
    place: int
    number: int
    start: int
    end: int


class TickRange(NamedTuple):
    """The ticks of [start, end) of a bundle."""

    bundle: Bundle
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class BundlePart:
    """The slots [start, end) of a bundle that a question is about, and the mark of the bundle."""

    bundle: Bundle
    start: int
    end: int
    mark: Mark
    live: Sequence[LiveRange]  # its slots that are polled live, one range or more

    @property
    def live_from(self) -> int:
        """The first slot that is polled live."""
        return to_seconds(self.live[0].start)

    @property
    def sealed_until(self) -> int:
        """Up to here slots of the bundle are sealed or late. A mark begins with the first live slot."""
        return self.live_from if self._is_unmarked else to_seconds(self.mark.sealed_until)

    @property
    def _is_unmarked(self) -> bool:
        return self.mark.sealed_until == EPOCH

    def late(self) -> list[tuple[int, int]]:
        """Return the ranges before `sealed_until` in which there may be ticks."""
        days = [
            (start := to_seconds(datetime.combine(day, time.min, UTC)), start + DAY) for day in self.mark.late_days
        ]
        runs = [(to_seconds(run.start), to_seconds(run.end)) for run in self.mark.runs]
        return self._within([*days, *runs], self.start, min(self.end, self.sealed_until))

    def imperfect(self) -> list[tuple[int, int]]:
        """Return the ranges from `sealed_until` on that are not known to be perfect."""
        seen = self.live_from if self._is_unmarked else to_seconds(self.mark.seen_until)
        runs = [(to_seconds(run.start), to_seconds(run.end)) for run in self.mark.runs]
        ranges = [*runs, *self._between_plans(), (seen, max(seen, self.end))]
        return self._within(ranges, max(self.start, self.sealed_until), self.end)

    def _between_plans(self) -> Iterator[tuple[int, int]]:
        """Return what its plan has left out: a deployment may go back to a former plan."""
        for before, after in pairwise(self.live):
            if before.end is not None:
                yield to_seconds(before.end), to_seconds(after.start)

    def perfect(self) -> Iterator[tuple[int, int]]:
        """Return the other ranges from `sealed_until` on: every member has every slot."""
        at = max(self.start, self.sealed_until)
        for start, end in self.imperfect():
            if at < start:
                yield at, start
            at = end
        if at < self.end:
            yield at, self.end

    def _within(self, ranges: Iterable[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
        """Cut ranges to bounds and join those that touch."""
        found: list[tuple[int, int]] = []
        for first, last in sorted((max(first, start), min(last, end)) for first, last in ranges):
            if first >= last:
                continue
            if found and found[-1][1] >= first:
                found[-1] = found[-1][0], max(last, found[-1][1])
            else:
                found.append((first, last))
        return found

    def tick_ranges(self, *, values: bool) -> list[TickRange]:
        """Return the ticks to read: for values all open ones, for states those not known to be perfect."""
        sealed = self.sealed_until
        ranges = [*self.late(), *([(max(self.start, sealed), self.end)] if values else self.imperfect())]
        found: list[TickRange] = []
        for first, last in ranges:
            if first >= last:
                continue
            # What lies before `sealed` between late ranges has no ticks that would be read along.
            if found and first - max(found[-1].end, sealed) <= _JOINED_SLOTS * self.bundle.interval_seconds:
                found[-1] = found[-1]._replace(end=last)
            else:
                found.append(TickRange(self.bundle, first, last))
        return found

    def summaries_until(self, now: int) -> int:
        """Return up to where summaries are wanted: also of open spans whose ticks may be sealed meanwhile."""
        sealable = self.sealable_until(now)
        is_read = any(start < sealable for start, _ in self.imperfect())
        return sealable if is_read else self.sealed_until

    def sealable_until(self, now: int) -> int:
        """Return the end of the spans that may have been sealed since the mark was read."""
        length = span_seconds(self.bundle.interval_seconds)
        over = now + _CLOCKS_DIFFER_SECONDS - SEALED_AFTER_SECONDS - self.bundle.lag_seconds
        return max(self.sealed_until, span_start(over, length))

    def span_starts(self, end: int) -> range:
        """Return the starts of the spans that have a part of these slots before `end`."""
        length = span_seconds(self.bundle.interval_seconds)
        return range(span_start(self.start, length), min(self.end, end), length)


@dataclass(frozen=True, slots=True)
class SlotLook:
    """What a question is about, as marks and plans say at one moment."""

    now: int
    shares: Mapping[str, Sequence[Share]]  # by metric, oldest first; metrics without any are left out
    parts: Mapping[str, BundlePart]  # by bundle
    oldest: int  # before it there are ticks of backfills only

    def sealed_until(self, share: Share) -> int:
        """Return up to where the slots of a share are sealed; those that are kept no more are."""
        part = self.parts.get(share.bundle.name)
        return part.sealed_until if part else share.end


class Wanted(NamedTuple):
    """Sealed items of a metric or bundle: those of some spans or days, by their starts."""

    name: str
    interval_seconds: int
    starts: Sequence[int]  # ascending
    length: int
    item_bytes: int

    @property
    def end(self) -> int:
        """The end of the last one."""
        return self.starts[-1] + self.length

    def pages(self, oldest: int) -> int:
        """Return how many requests it takes to read them and all that lies between by their range."""
        items = (self.end - max(self.starts[0], oldest)) // self.length
        return max(1, ceil(items * self.item_bytes / _PAGE_BYTES))

    def is_range(self, oldest: int) -> bool:
        """Return True if that is fewer requests than to ask for them by their keys."""
        return self.pages(oldest) < len(self.starts) / MAX_KEYS


@dataclass(frozen=True, slots=True)
class Wants:
    """All that a question reads after its look."""

    ticks: Sequence[TickRange] = ()
    summaries: Sequence[Wanted] = ()  # by bundle
    spans: Sequence[Wanted] = ()  # by metric
    days: Sequence[Wanted] = ()  # by metric

    def requests(self, look: SlotLook) -> int:
        """Return how many requests that is, as far as sizes can be foreseen."""
        ticks = sum(_tick_pages(each, look) for each in self.ticks)
        return ticks + sum(_requests(kind, look.oldest) for kind in (self.summaries, self.spans, self.days))


def want_summaries(part: BundlePart, until: int) -> Wanted | None:
    """Want the summaries of a part's spans that begin before `until`."""
    starts = part.span_starts(until)
    length = span_seconds(part.bundle.interval_seconds)
    return (
        Wanted(part.bundle.name, part.bundle.interval_seconds, starts, length, _SUMMARY_BYTES) if starts else None
    )


def want_spans(metric: str, interval_seconds: int, starts: Sequence[int]) -> Wanted:
    """Want spans of a metric."""
    length = span_seconds(interval_seconds)
    size = _SPAN_BYTES + _SLOT_BYTES * length // interval_seconds
    return Wanted(metric, interval_seconds, starts, length, size)


def want_days(metric: str, interval_seconds: int, starts: Sequence[int]) -> Wanted:
    """Want the figures of days of a metric."""
    return Wanted(metric, interval_seconds, starts, DAY, _DAY_BYTES)


def _requests(wanted: Iterable[Wanted], oldest: int) -> int:
    kinds = [(each.is_range(oldest), each) for each in wanted]
    keys = sum(len(each.starts) for is_range, each in kinds if not is_range)
    return ceil(keys / MAX_KEYS) + sum(each.pages(oldest) for is_range, each in kinds if is_range)


def _tick_pages(ticks: TickRange, look: SlotLook) -> int:
    bundle, first = ticks.bundle, max(ticks.start, look.oldest - ticks.bundle.lag_seconds)
    if not bundle.is_rows and bundle.name in look.parts:
        first = max(first, look.parts[bundle.name].sealed_until)  # before it there are a few late ones
    size = _ROW_BYTES if bundle.is_rows else _TICK_BYTES + _VALUE_BYTES * sum(bundle.widths)
    return max(1, ceil((ticks.end - first) / bundle.interval_seconds * size / _PAGE_BYTES))


def make_look(
    owners: Owners,
    ranges: Mapping[str, TimeRange],
    kept: Mapping[str, int],
    marks: KnownMarks,
    now: int,
    oldest: int,
    live: Mapping[str, Sequence[LiveRange]],
) -> SlotLook:
    """Cut the slots that are owned to what is asked; `kept` is from when on metrics are kept, if not for ever."""
    shares: dict[str, list[Share]] = {}
    bounds: dict[str, tuple[Bundle, int, int]] = {}
    for name, owned in owners.items():
        for each in owned:
            start, end = ranges[name]
            start = start if each.start is None else max(start, to_seconds(each.start))
            end = min(end, now + _CLOCKS_DIFFER_SECONDS if each.end is None else to_seconds(each.end))
            if start >= end:
                continue
            share = Share(name, each.bundle, each.place, each.number, start, end)
            shares.setdefault(name, []).append(share)
            start = max(start, kept.get(name, start))
            if start >= end:
                continue
            _, first, last = bounds.get(each.bundle.name, (each.bundle, start, end))
            bounds[each.bundle.name] = each.bundle, min(first, start), max(last, end)
    parts = {
        name: BundlePart(bundle, start, end, marks.of(name), live.get(name, _ALWAYS))
        for name, (bundle, start, end) in bounds.items()
    }
    return SlotLook(now, shares, parts, oldest)
