"""States and values of slots, each united from its sources (pure).

States of a bundle come from the summaries of sealed spans, from marks, which say where every tick is perfect, and
from the ticks in between.

The values of a whole hour that is sealed are the figures of its day. Slots are read one by one where an edge cuts
an hour, where ticks were written late, and in open hours. A sealed value wins over that of a tick.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from operator import and_, itemgetter
from typing import NamedTuple

from kizami.aws.looks import (
    BundlePart,
    Share,
    SlotLook,
    TickRange,
    TimeRange,
    Wanted,
    want_days,
    want_spans,
    want_summaries,
)
from kizami.aws.reading import Sealed
from kizami.aws.sealed import SpanItem
from kizami.backend.slots import SlotBucket
from kizami.core.answers.numbers import ten_to, to_number, to_total
from kizami.core.errors import StoreError
from kizami.core.merging import HourFigures, MetricSlots, merge
from kizami.core.sealed_spans import HOUR, SlotColumns, span_seconds, span_start
from kizami.core.sealing import DAY
from kizami.core.slot_states import Grid, StateRun, join, states_of_summary, states_of_ticks
from kizami.core.tick_columns import TickColumns

_MOST_STARTS = 100_000  # of spans that are told apart


def pieces_of(bounds: TimeRange, ticks: MetricSlots | None, spans: Iterable[SpanItem]) -> Iterator[MetricSlots]:
    """Return the slots of a range, oldest first: those of spans, which ascend, with those of ticks beside them."""
    at, end = bounds
    for span in spans:
        first = max(at, span.key.start)
        last = min(end, span.key.start + span_seconds(span.key.interval_seconds))
        if first >= last:
            continue
        if before := cut(ticks, at, first):
            yield before
        sealed, beside = cut(span.unpack(), first, last), cut(ticks, first, last)
        if sealed and beside:
            yield merge(sealed, beside)
        elif sealed or beside:
            yield sealed or beside  # type: ignore[misc]
        at = last
    if rest := cut(ticks, at, end):
        yield rest


def cut(slots: MetricSlots | None, start: int, end: int) -> MetricSlots | None:
    """Return the slots of [start, end), None if there are none."""
    if slots is None:
        return None
    column = slots.columns.slot
    first, last = bisect_left(column, start), bisect_left(column, end)
    if first >= last:
        return None
    if last - first == len(column):
        return slots
    return MetricSlots(SlotColumns(*(each[first:last] for each in slots.columns)), slots.decimals)


@dataclass(slots=True)
class _Figures:
    """What is stored in a stretch; values in units of `decimals`."""

    stored: int = 0
    lowest: int = 0
    highest: int = 0
    total: int = 0
    decimals: int = 0

    def add(self, stored: int, lowest: int, highest: int, total: int, decimals: int) -> None:
        if not self.stored:
            self.stored, self.lowest, self.highest, self.total, self.decimals = (
                stored,
                lowest,
                highest,
                total,
                decimals,
            )
            return
        if decimals != self.decimals:
            common = max(decimals, self.decimals)
            mine, its = ten_to(common - self.decimals), ten_to(common - decimals)
            self.lowest, self.highest, self.total = self.lowest * mine, self.highest * mine, self.total * mine
            lowest, highest, total, self.decimals = lowest * its, highest * its, total * its, common
        self.stored += stored
        self.lowest, self.highest = min(self.lowest, lowest), max(self.highest, highest)
        self.total += total


class Tallies:
    """The slots of a metric added up between edges."""

    def __init__(self, edges: Sequence[int]) -> None:
        self._edges = edges
        self._found: dict[int, _Figures] = {}

    def add(self, slots: MetricSlots) -> None:
        """Add slots, which ascend."""
        column, counts = slots.columns.slot, slots.columns[1]
        place = max(0, bisect_right(self._edges, column[0]) - 1)
        at = bisect_left(column, self._edges[0])
        while at < len(column) and place + 1 < len(self._edges):
            end = bisect_left(column, self._edges[place + 1], at)
            if at < end:
                some = counts[at:end]
                self._figures(place).add(len(some), min(some), max(some), sum(some), slots.decimals)
                at = end
            if at < len(column):
                place = bisect_right(self._edges, column[at], place) - 1

    def add_hour(self, hour: HourFigures) -> None:
        """Add a whole hour, which lies between two edges."""
        place = bisect_right(self._edges, hour.start) - 1
        if 0 <= place < len(self._edges) - 1 and hour.start + HOUR <= self._edges[place + 1]:
            self._figures(place).add(*hour[1:])

    def put_into(self, buckets: list[SlotBucket], *, values: bool) -> None:
        """Write into the buckets of the stretches how many slots are stored and, if asked for, their values."""
        for place, figures in self._found.items():
            buckets[place] = buckets[place]._replace(stored=buckets[place].stored + figures.stored)
            if values:
                buckets[place] = buckets[place]._replace(
                    lowest=to_number(figures.lowest, figures.decimals),
                    highest=to_number(figures.highest, figures.decimals),
                    total=to_total(figures.total, figures.decimals),
                )

    def _figures(self, place: int) -> _Figures:
        found = self._found.get(place)
        if found is None:
            found = self._found[place] = _Figures()
        return found


class Scope(Enum):
    """What is wanted of a metric's values."""

    FIGURES = "figures"  # added up: of whole hours where that will do
    TOTALS = "totals"  # only those of hours of whose slots nothing else is kept
    SLOTS = "slots"  # every slot


class Detail(NamedTuple):
    """The slots [start, end) of a share, which are read one by one; up to `sealed_until` they are sealed."""

    share: Share
    start: int
    end: int
    sealed_until: int


@dataclass(frozen=True, slots=True)
class ValuePlan:
    """Where the values of a metric's slots of one interval are read: hours as a whole, and single slots."""

    scope: Scope
    shares: Sequence[tuple[Share, int]]  # each with the end of what is sealed
    bounds: TimeRange
    kept_from: int  # of earlier hours there are figures only
    cut_hours: frozenset[int] = frozenset()
    open_ranges: Sequence[TimeRange] = ()

    @classmethod
    def of(
        cls, scope: Scope, shares: Sequence[tuple[Share, int]], edges: Sequence[int], kept_from: int
    ) -> ValuePlan:
        """ViewPlan the slots between edges."""
        bounds = edges[0], edges[-1]
        if scope is Scope.SLOTS:
            return cls(scope, shares, bounds, kept_from)
        opened = [(max(share.start, sealed), share.end) for share, sealed in shares if share.end > sealed]
        # An hour that one bundle has sealed and the next one has not.
        begun = {start - start % HOUR for start, _ in opened if start % HOUR}
        cut_hours = {edge - edge % HOUR for edge in edges if edge % HOUR}
        return cls(scope, shares, bounds, kept_from, frozenset(cut_hours | begun), opened)

    @property
    def metric(self) -> str:
        """The metric."""
        return self.shares[0][0].metric

    @property
    def interval_seconds(self) -> int:
        """The interval of its slots."""
        return self.shares[0][0].bundle.interval_seconds

    def is_whole(self, hour: int, late_hours: Collection[int] = ()) -> bool:
        """Return True if an hour is taken from the figures of its day."""
        start, end = self.bounds
        if hour < start or hour + HOUR > end or hour in self.cut_hours:
            return False
        if hour < self.kept_from or self.scope is Scope.TOTALS:
            return hour < self.kept_from
        is_open = any(first < hour + HOUR and last > hour for first, last in self.open_ranges)
        return not is_open and hour not in late_hours

    def days(self) -> Sequence[int]:
        """Return the days of which figures are wanted."""
        if self.scope is Scope.SLOTS:
            return ()
        start, end = self.bounds
        start = max(start, min(share.start for share, _ in self.shares))
        sealed = start if self.scope is Scope.TOTALS else max(min(share.end, end) for share, end in self.shares)
        last = min(end, max(sealed, self.kept_from))
        days = range(start - start % DAY, last, DAY) if start < last else range(0)
        cut = Counter(hour - hour % DAY for hour in self.cut_hours)
        if len(cut) <= len(days) // 2:  # as in open ranges, whose days are without number
            return days
        return [day for day in days if cut[day] < DAY // HOUR]

    def details(self, late_hours: Collection[int] = ()) -> Iterator[Detail]:
        """Return what is read slot by slot, oldest first."""
        hours = [(hour, hour + HOUR) for hour in self.cut_hours.union(late_hours)]
        ranges = sorted([*hours, *self.open_ranges])
        for share, sealed in self.shares if self.scope is not Scope.TOTALS else ():
            start = max(share.start, self.kept_from)
            found: list[TimeRange] = []
            for first, last in ranges if self.scope is Scope.FIGURES else [(start, share.end)]:
                first, last = max(first, start), min(last, share.end)
                if first < last and found and first <= found[-1][1]:
                    found[-1] = found[-1][0], max(found[-1][1], last)
                elif first < last:
                    found.append((first, last))
            yield from (Detail(share, first, last, sealed) for first, last in found)


Ticks = Mapping[str, TickColumns]  # by bundle
BitsBySlot = Mapping[str, Sequence[tuple[int, int]]]  # by bundle: slots or spans, and members by bits


class ValueReading:
    """The values of metrics: what is to be read for their plans, and what they are."""

    def __init__(self, look: SlotLook, plans: Iterable[ValuePlan]) -> None:
        self.plans = list(plans)
        self._look = look
        self._late: BitsBySlot = {}  # sealed slots with ticks
        self._lacking: BitsBySlot = {}  # spans that lack ticks and may have been sealed since the look
        self._spans: dict[tuple[str, int], list[SpanItem]] = {}
        self._ticks: Ticks = {}

    def ticks(self, others: Iterable[TickRange] = ()) -> list[TickRange]:
        """Return the ticks to read, together with others of the same bundles."""
        found: dict[str, list[TickRange]] = {}
        for each in others:
            found.setdefault(each.bundle.name, []).append(each)
        names = {
            share.bundle.name for plan in self.plans if plan.scope is not Scope.TOTALS for share, _ in plan.shares
        }
        for name in sorted(names & self._look.parts.keys()):
            part = self._look.parts[name]
            if not part.bundle.is_rows:
                found[name] = part.tick_ranges(values=True)
        for plan in self.plans:
            for detail in self._details(plan):
                bundle = detail.share.bundle
                if bundle.is_rows:
                    found.setdefault(bundle.name, []).append(TickRange(bundle, detail.start, detail.end))
        return [each for ranges in found.values() for each in _united(ranges)]

    def note(self, ticks: Ticks) -> None:
        """Take in the ticks."""
        self._ticks = ticks
        late, lacking = {}, {}
        for name, columns in ticks.items():
            part = self._look.parts[name]
            if part.bundle.is_rows:
                continue
            states = [(tick.slot, tick.stored) for tick in columns.states]
            if found := [each for each in states if each[0] < part.sealed_until]:
                late[name] = found
            sealable = min(part.sealable_until(self._look.now), part.end)
            if part.sealed_until < sealable:
                first = max(part.start, part.sealed_until, self._look.oldest - part.bundle.lag_seconds - DAY)
                lacking[name] = _lacking(states, part, first, sealable)
        self._late, self._lacking = late, lacking

    def spans(self) -> list[Wanted]:
        """Return the spans of metrics to read; before `note`, those that are sealed for sure."""
        return [
            want_spans(plan.metric, plan.interval_seconds, starts)
            for plan in self.plans
            if (starts := self._starts(plan))
        ]

    def days(self) -> list[Wanted]:
        """Return the days of which figures are wanted."""
        return [
            want_days(plan.metric, plan.interval_seconds, days) for plan in self.plans if (days := plan.days())
        ]

    def note_sealed(self, sealed: Sealed) -> None:
        """Take in the spans."""
        for key in sorted(sealed.spans):
            self._spans.setdefault((key.metric, key.interval_seconds), []).append(sealed.spans[key])

    def pieces(self, plan: ValuePlan) -> Iterator[tuple[Detail, MetricSlots]]:
        """Return the slots that are read one by one, oldest first."""
        spans = self._spans.get((plan.metric, plan.interval_seconds), [])
        length = span_seconds(plan.interval_seconds)
        share, slots = None, None
        for detail in self._details(plan):
            if detail.share is not share:
                share, slots = detail.share, self._column(detail.share)
            first = bisect_right(spans, detail.start - length, key=_start)
            last = bisect_left(spans, detail.end, key=_start)
            for piece in pieces_of((detail.start, detail.end), slots, spans[first:last]):
                yield detail, piece

    def add_up(self, plan: ValuePlan, tallies: Tallies, figures: Iterable[HourFigures]) -> None:
        """Add up what is stored, where these are the figures of hours."""
        late = self._late_hours(plan)
        for hour in figures:
            if plan.is_whole(hour.start, late):
                tallies.add_hour(hour)
        for _, piece in self.pieces(plan):
            tallies.add(piece)

    def _details(self, plan: ValuePlan) -> Iterator[Detail]:
        return plan.details(self._late_hours(plan))

    def _late_hours(self, plan: ValuePlan) -> set[int]:
        """Return the sealed hours whose figures may not be all: with ticks, or with a row that may be new."""
        found: set[int] = set()
        for share, sealed in plan.shares:
            name = share.bundle.name
            if share.bundle.is_rows and name in self._look.parts:
                for start, end in self._look.parts[name].late():
                    found.update(range(start - start % HOUR, end, HOUR))
            for slot, bits in self._late.get(name, ()):
                if share.start <= slot < min(share.end, sealed) and bits >> share.place & 1:
                    found.add(slot - slot % HOUR)
        return found

    def _starts(self, plan: ValuePlan) -> Sequence[int]:
        length = span_seconds(plan.interval_seconds)
        found = [
            range(span_start(detail.start, length), min(detail.end, detail.sealed_until), length)
            for detail in self._details(plan)
            if not detail.share.bundle.is_rows
        ]
        for share, _ in plan.shares if plan.scope is not Scope.TOTALS else ():
            found += [
                range(start, start + length, length)
                for start, bits in self._lacking.get(share.bundle.name, ())
                if bits >> share.place & 1 and start < share.end and start + length > share.start
            ]
        found = [each for each in found if each]
        if sum(map(len, found)) > _MOST_STARTS:
            return range(min(each[0] for each in found), max(each[-1] for each in found) + 1, length)
        return found[0] if len(found) == 1 else sorted({start for each in found for start in each})

    def _column(self, share: Share) -> MetricSlots | None:
        name = share.bundle.name
        try:
            return self._ticks[name].of(share.place, share.number) if name in self._ticks else None
        except (IndexError, ValueError) as error:
            raise StoreError(f"the ticks of bundle {name} cannot be read: {error}") from None


def _start(span: SpanItem) -> int:
    return span.key.start


def _united(ranges: Iterable[TickRange]) -> list[TickRange]:
    """Join ranges of one bundle that overlap or touch."""
    found: list[TickRange] = []
    for each in sorted(ranges, key=lambda each: each[1:]):
        if found and each.start <= found[-1].end:
            found[-1] = found[-1]._replace(end=max(found[-1].end, each.end))
        else:
            found.append(each)
    return found


def _lacking(states: Sequence[tuple[int, int]], part: BundlePart, start: int, until: int) -> list[tuple[int, int]]:
    """Return the open spans in [start, until), each with the members that lack a tick or a value in one."""
    grid, length = Grid.of(part.bundle), span_seconds(part.bundle.interval_seconds)
    found = []
    for span in range(span_start(start, length), until, length):
        begin, end = max(start, span), min(part.end, span + length)
        inside = [bits for slot, bits in states if begin <= slot < end]
        is_whole = len(inside) == grid.slots(begin, end)
        found.append((span, grid.every & ~reduce(and_, inside, grid.every) if is_whole else grid.every))
    return found


class BundleStates:
    """The states of the slots of all bundles of a look, from ticks, marks and summaries."""

    def __init__(self, look: SlotLook) -> None:
        self._look = look
        self._runs: dict[str, list[StateRun]] = {}

    def ticks(self) -> list[TickRange]:
        """Return the ticks that are not known to be perfect."""
        return [each for part in self._look.parts.values() for each in part.tick_ranges(values=False)]

    def summaries(self) -> list[Wanted]:
        """Return the summaries of sealed slots."""
        parts = self._look.parts.values()
        wanted = (want_summaries(part, part.summaries_until(self._look.now)) for part in parts)
        return [each for each in wanted if each is not None]

    def summaries_beside(self, ticks: Ticks) -> list[Wanted]:
        """Return the summaries of spans in which a tick says that a member is asked for again."""
        found = []
        for name, columns in ticks.items():
            part = self._look.parts[name]
            length, until = span_seconds(part.bundle.interval_seconds), part.sealable_until(self._look.now)
            asked = (each.slot for each in columns.states if each.outstanding and each.slot < until)
            starts = sorted({span_start(slot, length) for slot in asked})
            if starts and (wanted := want_summaries(part, until)) is not None:
                found.append(wanted._replace(starts=starts))
        return found

    def read(
        self, ranges: Iterable[TickRange], ticks: Ticks, sealed: Sealed, *, sealed_only: bool = False
    ) -> None:
        """Take in what was read: all ticks of these ranges. With `sealed_only` marks say nothing of open slots."""
        by_bundle: dict[str, list[TickRange]] = {}
        for each in ranges:
            by_bundle.setdefault(each.bundle.name, []).append(each)
        for name, part in self._look.parts.items():
            grid, found = Grid.of(part.bundle), sealed.summaries.get(name, ())
            summaries = [run for each in found for run in states_of_summary(each, grid)]
            perfect = [] if sealed_only else [StateRun(start, end, grid.every) for start, end in part.perfect()]
            states = ticks[name].states if name in ticks else []
            read: list[StateRun] = []
            for each in by_bundle.get(name, ()):
                first, last = (bisect_left(states, edge, key=itemgetter(0)) for edge in (each.start, each.end))
                bounds = each.start, each.end
                read += states_of_ticks(states[first:last], *bounds, grid, self._look.now, part.live_from)
            self._runs[name] = join((summaries, perfect, read), part.start, part.end)

    def runs(self, bundle: str) -> list[StateRun]:
        """Return the runs that tile what is asked of a bundle."""
        return self._runs.get(bundle, [])
