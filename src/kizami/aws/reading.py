"""Reading: where the slots of a question stand, and all the requests that read them.

    1. `look`     who owns the slots, and the marks of those bundles: one request, as a rule
    2. `ticks`    the ticks that are not known to be perfect, or all open ones where values are asked for
    3. sealed     summaries, spans and figures of days, read consistently

In this order a value that leaves its tick meanwhile is seen sealed. Sealed items are asked for by key, a hundred a
call, or by range where that is fewer calls. Requests go side by side, and can be counted before they are made.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache, partial
from math import inf
from types import MappingProxyType
from typing import TypeVar

from kizami.aws.client import machine
from kizami.aws.client.json_client import Fields
from kizami.aws.dynamodb import MAX_KEYS, get_items
from kizami.aws.invocation import TimeLeft
from kizami.aws.looks import Share, SlotLook, TickRange, TimeRange, Wanted, Wants, make_look
from kizami.aws.marks import KnownMarks, Marks, mark_keys, read_marks
from kizami.aws.ownership import AT_ONCE, Ownership
from kizami.aws.rows import RowTicks
from kizami.aws.sealed import SealedItems, SpanItem, SpanKey, SummaryKey
from kizami.aws.ticks import Ticks
from kizami.core.bundles import Bundle, BundlePlan, OwnedRange
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.errors import StoreError
from kizami.core.merging import HourFigures
from kizami.core.recovery import GRACE_SECONDS, Mark
from kizami.core.sealed_spans import HOUR, span_start
from kizami.core.sealing import DAY
from kizami.core.slots import parse_instant
from kizami.core.summaries import BundleSummary
from kizami.core.tick_columns import PackedTick, TickColumns
from kizami.core.ticks import Tick, write_late

Found = TypeVar("Found")

_ASSUMED_OPEN_SECONDS = 3 * HOUR  # before the marks are known: an hour is sealed two hours after its end
_YEAR = 366 * DAY
_NONE_LATER: Mapping[int, bytes] = MappingProxyType({})


@dataclass(slots=True)
class Sealed:
    """Sealed items that were read."""

    summaries: dict[str, list[BundleSummary]] = field(default_factory=dict)  # by bundle
    spans: dict[SpanKey, SpanItem] = field(default_factory=dict)
    figures: dict[tuple[str, int], list[HourFigures]] = field(default_factory=dict)  # by metric and interval

    def add(self, other: Sealed) -> None:
        """Take in what another call read."""
        for bundle, summaries in other.summaries.items():
            self.summaries.setdefault(bundle, []).extend(summaries)
        self.spans |= other.spans
        for key, hours in other.figures.items():
            self.figures.setdefault(key, []).extend(hours)


class SlotReader:
    """Reads what a question wants from a table. StoreError."""

    def __init__(self, table: str, ownership: Ownership, time_left: TimeLeft = lambda: inf) -> None:
        self._table = table
        self._time_left = time_left
        self._ownership = ownership
        self._marks = Marks(table, time_left)
        self._ticks = Ticks(table, time_left)
        self._rows = RowTicks(table, time_left)
        self._sealed = SealedItems(table, time_left)

    def foresee(self, ranges: Mapping[str, TimeRange], kept: Mapping[str, int], now: int) -> SlotLook:
        """Return what a look would show, by the configuration at hand and without a request."""
        plan = self._ownership.likely_plan
        open_since = span_start(now - _ASSUMED_OPEN_SECONDS, HOUR)
        owners = {name: [_for_ever(plan, name)] for name in ranges if name in plan.of_metric}
        bundles = {each.bundle.name for owned in owners.values() for each in owned}
        seen, sealed = from_seconds(now - GRACE_SECONDS), from_seconds(open_since)
        marks = KnownMarks({name: Mark(name, seen, sealed, version=1) for name in bundles})
        return make_look(owners, ranges, kept, marks, now, now - _YEAR, {})

    def look(self, ranges: Mapping[str, TimeRange], kept: Mapping[str, int], now: int) -> SlotLook:
        """Find the owners of the slots in the metrics' ranges, and read the marks of those that are kept."""
        bounds = _bounds(ranges.values())
        marks = KnownMarks()
        read: set[str] | None = None
        while True:
            owners = self._ownership.owners(ranges.keys(), *bounds)
            held = {each.bundle.name: each.bundle for several in owners.values() for each in several}
            if read is None:
                likely = self._ownership.likely_plan.of_metric
                left = {likely[name][0].name for name in ranges if name in likely} | held.keys()
            else:
                left = held.keys() - read
            if not ranges or (read is not None and not left):
                oldest = to_seconds(self._ownership.oldest) if self._ownership.oldest else now - _YEAR
                live = {name: self._ownership.live(bundle) for name, bundle in held.items()}
                return make_look(owners, ranges, kept, marks, now, oldest, live)
            found, present = self._read_marks(sorted(left))
            marks = KnownMarks({**marks.marks, **found.marks}, {**marks.finished, **found.finished})
            read = (read or set()) | left
            self._ownership.note_present(present)

    def _read_marks(self, bundles: Sequence[str]) -> tuple[KnownMarks, Fields | None]:
        """Read the marks of bundles and, in the same call, which plan sends now."""
        present = self._ownership.present_key
        keys = [*mark_keys(bundles), *([present] if present else [])]
        if len(keys) > MAX_KEYS and present:
            calls: list[Callable[[], object]] = [self._marks.all, lambda: self._get([present])]
            known, items = side_by_side(calls)
            assert isinstance(known, KnownMarks)
            assert isinstance(items, list)
            return known, next(iter(items), None)
        items = self._get(keys)
        of_plans = [item for item in items if present and item["metricName"] == present["metricName"]]
        return read_marks(item for item in items if item not in of_plans), next(iter(of_plans), None)

    def _get(self, keys: Sequence[Fields]) -> list[Fields]:
        return get_items(self._time_left, self._table, keys)

    def ticks(self, ranges: Iterable[TickRange], *, consistent: bool = False) -> dict[str, TickColumns]:
        """Return the ticks of ranges by bundle; the ranges of a bundle ascend."""
        wanted = list(ranges)
        found: dict[str, list[PackedTick]] = {each.bundle.name: [] for each in wanted}
        pages = side_by_side([partial(self._ticks_of, each, consistent) for each in wanted])
        for each, page in zip(wanted, pages, strict=True):
            found[each.bundle.name] += page
        bundles = {each.bundle.name: each.bundle for each in wanted}
        return {name: read_columns(bundles[name], ticks) for name, ticks in found.items()}

    def ticks_at(self, slots: Iterable[tuple[Bundle, int]]) -> dict[tuple[str, datetime], Tick]:
        """Return single ticks by bundle and slot: those that exist."""
        wanted = [(bundle, from_seconds(slot)) for bundle, slot in slots]
        if any(bundle.is_rows for bundle, _ in wanted):
            return self._rows.at(wanted)
        chunks = [wanted[start : start + MAX_KEYS] for start in range(0, len(wanted), MAX_KEYS)]
        found: dict[tuple[str, datetime], Tick] = {}
        for ticks in side_by_side([partial(self._ticks.at, chunk) for chunk in chunks]):
            found |= ticks
        return found

    def newest_row(self, bundle: Bundle, end: int) -> Tick | None:
        """Return the newest row before `end`."""
        return next(iter(self._rows.newest(bundle, from_seconds(end - 1), 1)), None)

    def newest_spans(self, ends: Mapping[str, int]) -> list[SpanItem]:
        """Return the newest sealed span of each metric that begins before its end; one request each."""
        calls = [partial(self._sealed.newest_span, metric, end) for metric, end in ends.items()]
        return [span for span in side_by_side(calls) if span is not None]

    def spans(self, share: Share) -> Iterator[SpanItem]:
        """Return the sealed spans of a share, oldest first, page by page as they are asked for."""
        return self._sealed.spans(share.metric, share.bundle.interval_seconds, share.start, share.end)

    def rows(self, share: Share) -> Iterator[PackedTick]:
        """Return the rows of a share, oldest first, page by page as they are asked for."""
        for tick in self._rows.read(share.bundle, from_seconds(share.start), from_seconds(share.end)):
            yield _packed_row(tick)

    def sealed(self, wants: Wants, look: SlotLook) -> Sealed:
        """Read sealed items, consistently."""
        calls = [
            *self._calls(wants.summaries, look, self._summaries_in, self._summaries_at),
            *self._calls(wants.spans, look, self._spans_in, self._spans_at),
            *self._calls(wants.days, look, self._days_in, self._days_at),
        ]
        found = Sealed()
        for part in side_by_side(calls):
            found.add(part)
        return found

    def _calls(
        self,
        wanted: Iterable[Wanted],
        look: SlotLook,
        in_range: Callable[[Wanted], Sealed],
        at_keys: Callable[[Sequence[tuple[Wanted, int]]], Sealed],
    ) -> Iterator[Callable[[], Sealed]]:
        keys: dict[tuple[str, int, int], tuple[Wanted, int]] = {}  # a span may be wanted by two shares
        for each in wanted:
            if each.is_range(look.oldest):
                yield partial(in_range, each)
            else:
                keys |= {(each.name, each.interval_seconds, start): (each, start) for start in each.starts}
        every = list(keys.values())
        for start in range(0, len(every), MAX_KEYS):
            yield partial(at_keys, every[start : start + MAX_KEYS])

    def _summaries_in(self, wanted: Wanted) -> Sealed:
        bounds = wanted.name, wanted.interval_seconds, wanted.starts[0], wanted.end
        return Sealed({wanted.name: list(self._sealed.summaries(*bounds))})

    def _summaries_at(self, keys: Sequence[tuple[Wanted, int]]) -> Sealed:
        found = self._sealed.summaries_at(SummaryKey(wanted.name, start) for wanted, start in keys)
        part = Sealed()
        for key in sorted(found):
            part.summaries.setdefault(key.bundle, []).append(found[key].summary)
        return part

    def _spans_in(self, wanted: Wanted) -> Sealed:
        found = self._sealed.spans(wanted.name, wanted.interval_seconds, wanted.starts[0], wanted.end)
        return Sealed(spans={span.key: span for span in found})

    def _spans_at(self, keys: Sequence[tuple[Wanted, int]]) -> Sealed:
        return Sealed(spans=self._sealed.spans_at(_span_key(*key) for key in keys))

    def _days_in(self, wanted: Wanted) -> Sealed:
        key = wanted.name, wanted.interval_seconds
        return Sealed(figures={key: list(self._sealed.days(*key, wanted.starts[0], wanted.end, consistent=True))})

    def _days_at(self, keys: Sequence[tuple[Wanted, int]]) -> Sealed:
        found = self._sealed.days_at((_span_key(*key) for key in keys), consistent=True)
        part = Sealed()
        for key, hours in found.items():
            part.figures.setdefault((key.metric, key.interval_seconds), []).extend(hours)
        return part

    def _ticks_of(self, wanted: TickRange, consistent: bool) -> list[PackedTick]:
        start, end = from_seconds(wanted.start), from_seconds(wanted.end)
        if wanted.bundle.is_rows:
            return [_packed_row(tick) for tick in self._rows.read(wanted.bundle, start, end)]
        return [read_packed(item) for item in self._ticks.items(wanted.bundle, start, end, consistent=consistent)]


def side_by_side(calls: Sequence[Callable[[], Found]]) -> list[Found]:
    if len(calls) == 1:
        return [calls[0]()]
    return list(machine.map_in_threads(_call, calls, AT_ONCE)) if calls else []


def _call(call: Callable[[], Found]) -> Found:
    return call()


def _span_key(wanted: Wanted, start: int) -> SpanKey:
    return SpanKey(wanted.name, start, wanted.interval_seconds)


def _for_ever(plan: BundlePlan, metric: str) -> OwnedRange:
    return OwnedRange(None, None, *plan.of_metric[metric])


def _bounds(ranges: Iterable[TimeRange]) -> tuple[datetime, datetime]:
    wanted = list(ranges)
    first, last = (min(start for start, _ in wanted), max(end for _, end in wanted)) if wanted else (0, 0)
    return from_seconds(first), from_seconds(last)


def read_columns(bundle: Bundle, ticks: Sequence[PackedTick]) -> TickColumns:
    """Return ticks as columns. StoreError if they are not of the bundle."""
    try:
        return TickColumns(bundle, ticks)
    except (IndexError, ValueError) as error:
        raise StoreError(f"the ticks of bundle {bundle.name} cannot be read: {error}") from None


def read_packed(item: Fields) -> PackedTick:
    """Read an item of a tick no further than into its attributes."""
    late = item["v"]["M"]
    dead, outstanding, held = (_bits(item[name]["NS"]) if name in item else 0 for name in "doh")
    return PackedTick(
        _second_of(item["slotTime"]["S"]),
        base64.b64decode(item["a"]["B"]),
        {int(place): base64.b64decode(each["B"]) for place, each in late.items()} if late else _NONE_LATER,
        dead,
        outstanding,
        held,
        int(item["q"]["N"]) if "q" in item else None,
        "p" in item,
    )


def _packed_row(tick: Tick) -> PackedTick:
    return PackedTick(to_seconds(tick.slot), later={0: write_late(tick.answers[0])})


def _bits(numbers: Iterable[str]) -> int:
    return sum(1 << int(number) for number in numbers)


def _second_of(slot: str) -> int:
    return _hour_of(slot[:13]) + 60 * int(slot[14:16]) + int(slot[17:19])


@lru_cache(maxsize=256)
def _hour_of(text: str) -> int:
    return to_seconds(parse_instant(f"{text}:00:00Z", "slotTime"))
