"""Sealing: the values of closed hours move from ticks into sealed spans, and then the ticks are deleted.

    1. read the summary of the bundle's span, then its ticks
    2. write the values of each metric, merged with what is sealed; read them back and compare
    3. write the figures of the hours, from what was read back
    4. write the summary, if it is still the one of step 1
    5. delete the ticks that are settled, unless they have changed since they were read
    6. note the days of ticks that stay as late days; then move `sealed_until` of the bundle's mark

A crash after any step leaves values in both places, and the next run does the same again: what is sealed already
changes nothing. Of two runs at once the second one to reach step 4 stops there. A day in which ticks were written
again is sealed span by span in the same way; it is a late day until none of its ticks is left.

The original target has summaries and figures only: its rows stay.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import NamedTuple

from kizami.aws.history.keeping import SPARE_SECONDS, KeptMetric
from kizami.aws.invocation import TimeLeft
from kizami.aws.marks import Marks
from kizami.aws.rows import RowTicks
from kizami.aws.sealed import FiguresOfSpan, SealedItems, SpanItem, SpanKey, SummaryKey, days_of
from kizami.aws.ticks import Ticks, read_tick
from kizami.core.bundles import Bundle
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.errors import StoreError
from kizami.core.merging import MetricSlots, columns_of, figures_by_hour, merge
from kizami.core.recovery import LiveRange, Mark, seal_mark
from kizami.core.sealed_spans import HOUR, pack_slots, unpack_slots
from kizami.core.sealing import (
    DAY,
    LateDay,
    TimeSpan,
    is_settled,
    late_days_of,
    live_part,
    next_span,
    owned_columns,
    span_of,
)
from kizami.core.slots import format_instant, shift
from kizami.core.summaries import BundleSummary, summarize
from kizami.core.ticks import Tick

LEAST_SECONDS = 15.0  # with less time left no other span is begun
_TRIES = 4  # to write what another run writes at the same time

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BundleToSeal:
    """A bundle with its mark, as it is kept, and the slots that its plan sends live."""

    bundle: Bundle
    mark: Mark
    live: Sequence[LiveRange]


class SpanOutcome(NamedTuple):
    """The slots of a sealed span whose ticks were deleted, and of those that stay."""

    deleted: Sequence[datetime] = ()
    stayed: Sequence[datetime] = ()


@dataclass(slots=True)
class SealingReport:
    """What a run did: spans and late days sealed, ticks deleted and left."""

    spans: int = 0
    days: int = 0
    deleted: int = 0
    stayed: int = 0


class _Job(NamedTuple):
    """The next span of a bundle, or a late day; ordered by time."""

    start: int
    number: int
    work: BundleToSeal
    part: TimeSpan | LateDay


class _Sealed(NamedTuple):
    """What is sealed of a metric in one span, and in which version."""

    version: int
    slots: MetricSlots


class SpanSealer:
    """Seals single spans. StoreError: then the span is to be sealed again."""

    def __init__(
        self, table: str, now: datetime, kept: Mapping[str, KeptMetric], time_left: TimeLeft = lambda: inf
    ) -> None:
        self._ticks, self._rows = Ticks(table, time_left), RowTicks(table, time_left)
        self._items = SealedItems(table, time_left)
        self._now = to_seconds(now)
        self._kept = kept

    def seal(self, work: BundleToSeal, span: TimeSpan, *, is_late: bool = False) -> SpanOutcome:
        """Seal the ticks of a span; in a late day only those that are settled."""
        if work.bundle.is_rows:
            self._add_up_rows(work, span, is_late)
            return SpanOutcome()
        bundle, key = work.bundle, SummaryKey(work.bundle.name, span.start)
        before = self._items.summaries_at([key]).get(key)
        items = list(self._ticks.items(bundle, from_seconds(span.start), from_seconds(span.end)))
        ticks = [read_tick(item, bundle) for item in items]
        settled = [number for number, tick in enumerate(ticks) if is_settled(tick, work.mark)]
        chosen = [ticks[number] for number in settled] if is_late else ticks
        if chosen or not is_late:
            sealed = self._seal_values(work, span, chosen, before is not None)
            self._write_figures(sealed, span)
            summary = summarize(bundle, *live_part(span, work.live), chosen, before and before.summary)
            self._write_summary(key, summary, bundle, before and before.version)
        is_deleted = self._ticks.delete([items[number] for number in settled])
        gone = {number for number, deleted in zip(settled, is_deleted, strict=True) if deleted}
        stayed = [tick.slot for number, tick in enumerate(ticks) if number not in gone]
        return SpanOutcome([ticks[number].slot for number in sorted(gone)], stayed)

    def look(self, work: BundleToSeal, part: TimeSpan) -> tuple[list[TimeSpan], set[datetime]]:
        """Return the spans of a late day in which there is something to seal, and the slots of all its ticks."""
        bundle, start, end = work.bundle, from_seconds(part.start), from_seconds(part.end)
        if bundle.is_rows:
            return self._spans_of_rows(bundle, part), set()
        ticks = list(self._ticks.read(bundle, start, end))
        settled = (to_seconds(tick.slot) for tick in ticks if is_settled(tick, work.mark))
        return sorted({span_of(bundle, slot) for slot in settled}), {tick.slot for tick in ticks}

    def _seal_values(
        self, work: BundleToSeal, span: TimeSpan, ticks: Sequence[Tick], is_known: bool
    ) -> dict[SpanKey, _Sealed]:
        """Write the values in ticks; return what is sealed of their metrics by then, as it was read back."""
        bundle = work.bundle
        try:
            columns = owned_columns(columns_of(bundle, ticks), work.live)
        except ValueError as error:
            raise StoreError(f"the ticks of bundle {bundle.name} cannot be sealed: {error}") from None
        left = {SpanKey(metric, span.start, bundle.interval_seconds): found for metric, found in columns.items()}
        expires_at = {key.metric: at for key in left if (at := self._expires_at(key.metric, span.end)) is not None}
        known = {key: _unpacked(item) for key, item in self._items.spans_at(left if is_known else ()).items()}
        sealed: dict[SpanKey, _Sealed] = {}
        for _ in range(_TRIES):
            written = {}
            for key, found in list(left.items()):
                before = known.get(key)
                merged = merge(before.slots if before else None, found)
                if before is not None and merged is before.slots:
                    sealed[key] = before
                    del left[key]
                else:
                    written[key] = _Sealed((before.version if before else 0) + 1, merged)
            if not left:
                return sealed
            packed = {key: _packed(key, each) for key, each in written.items()}
            self._items.write_spans(list(packed.values()), expires_at)
            for key, item in self._items.spans_at(left).items():
                is_mine = (item.data, item.decimals) == (packed[key].data, packed[key].decimals)
                known[key] = _Sealed(item.version, written[key].slots) if is_mine else _unpacked(item)
                if is_mine:
                    sealed[key] = known[key]
                    del left[key]
        raise StoreError(f"{len(left)} metrics of bundle {bundle.name} are sealed by other runs again and again")

    def _write_figures(self, sealed: Mapping[SpanKey, _Sealed], span: TimeSpan) -> None:
        figures = []
        for key, each in sealed.items():
            version = 0 if self._is_closed(key.metric, span) else each.version
            figures.append(FiguresOfSpan(key, version, figures_by_hour(each.slots)))
        expiries = {day: self._totals_expire_at(day) for each in figures for day in days_of(each)}
        self._items.write_figures(figures, {day: at for day, at in expiries.items() if at is not None})

    def _write_summary(self, key: SummaryKey, summary: BundleSummary, bundle: Bundle, seen: int | None) -> None:
        """Write the summary; it expires if all that it speaks of does."""
        end = span_of(bundle, key.start).end
        expiries = [self._expires_at(metric, end) for member in bundle.members for metric in member.metrics]
        latest = max((at for at in expiries if at is not None), default=None)
        if not self._items.write_summary(key, summary, seen, None if None in expiries else latest):
            start = format_instant(from_seconds(key.start))
            raise StoreError(f"another run seals bundle {key.bundle} from {start} on, too")

    def _spans_of_rows(self, bundle: Bundle, part: TimeSpan) -> list[TimeSpan]:
        """Return the spans of rows in a late day, unless their summaries count as many as there are."""
        summaries = self._items.summaries(bundle.name, bundle.interval_seconds, *part)
        counted = sum(each.count(0, *part).stored for each in summaries)
        if counted == self._rows.count_perfect(bundle, from_seconds(part.start), from_seconds(part.end)):
            return []
        return sorted({span_of(bundle, hour) for hour in range(part.start, part.end, HOUR)})

    def _add_up_rows(self, work: BundleToSeal, span: TimeSpan, is_late: bool) -> None:
        """Write the figures and the summary of rows, which stay; those of a late day if there are more by now."""
        bundle, key = work.bundle, SummaryKey(work.bundle.name, span.start)
        before = self._items.summaries_at([key]).get(key)
        ticks = list(self._rows.read(bundle, from_seconds(span.start), from_seconds(span.end)))
        summary = summarize(bundle, *live_part(span, work.live), ticks, before and before.summary)
        if is_late and before and summary == before.summary:
            return
        # Rows have no version, and only ever get more.
        sealed = {
            SpanKey(metric, span.start, bundle.interval_seconds): _Sealed(self._now, slots)
            for metric, slots in columns_of(bundle, ticks).items()
        }
        self._write_figures(sealed, span)
        self._write_summary(key, summary, bundle, before and before.version)

    def _is_closed(self, metric: str, span: TimeSpan) -> bool:
        """Return True if the span is kept no more: its figures are final, and its slots may be gone."""
        kept = self._kept.get(metric)
        return kept is not None and span.end + kept.keep_seconds <= self._now

    def _expires_at(self, metric: str, end: int) -> int | None:
        kept = self._kept.get(metric)
        return None if kept is None else max(end + kept.keep_seconds, self._now) + SPARE_SECONDS

    def _totals_expire_at(self, day: SpanKey) -> int | None:
        kept = self._kept.get(day.metric)
        expires_at = kept.totals_expire_at(from_seconds(day.start + DAY - HOUR)) if kept else None
        return None if expires_at is None else max(expires_at, self._now + SPARE_SECONDS)


def _unpacked(item: SpanItem) -> _Sealed:
    return _Sealed(item.version, item.unpack())


def _packed(key: SpanKey, sealed: _Sealed) -> SpanItem:
    data = pack_slots(sealed.slots.columns)
    if [*map(list, unpack_slots(data))] != [*map(list, sealed.slots.columns)]:
        raise StoreError(f"the slots of {key.metric} are not the same when they are unpacked")
    return SpanItem(key, sealed.version, sealed.slots.decimals, data)


class Sealing:
    """One run over bundles. What fails is logged and left to the next run."""

    def __init__(
        self, table: str, marks: Marks, kept: Mapping[str, KeptMetric], time_left: TimeLeft = lambda: inf
    ) -> None:
        self._table = table
        self._marks = marks
        self._kept = kept
        self._time_left = time_left

    def run(self, bundles: Iterable[BundleToSeal], now: datetime) -> SealingReport:
        """Seal spans and late days, oldest first, as long as there is time."""
        sealer, report = SpanSealer(self._table, now, self._kept, self._time_left), SealingReport()
        jobs: list[_Job] = []
        numbers = count()
        for work in bundles:
            for late in late_days_of(work.bundle, work.mark, now):
                jobs.append(_Job(late.part.start, next(numbers), work, late))
            if span := next_span(work.bundle, work.mark, work.live, now):
                jobs.append(_Job(span.start, next(numbers), work, span))
        heapify(jobs)
        while jobs and self._time_left() >= LEAST_SECONDS:
            _, _, work, part = heappop(jobs)
            try:
                if isinstance(part, LateDay):
                    self._merge_day(sealer, work, part, now, report)
                    continue
                work = self._seal_next(sealer, work, part, now, report)
            except StoreError as error:
                about = {"bundle": work.bundle.name, "detail": str(error)}
                log.warning("not sealed", extra={"event": "sealing.failed", **about})
                continue
            if span := next_span(work.bundle, work.mark, work.live, now):
                heappush(jobs, _Job(span.start, next(numbers), work, span))
        if report.spans or report.days:
            done = {name: getattr(report, name) for name in ("spans", "days", "deleted", "stayed")}
            log.info("sealed", extra={"event": "sealing.done", **done})
        return report

    def _seal_next(
        self, sealer: SpanSealer, work: BundleToSeal, span: TimeSpan, now: datetime, report: SealingReport
    ) -> BundleToSeal:
        """Seal the next span of a bundle; return the bundle with its mark as it is kept then."""
        outcome = sealer.seal(work, span)
        for slot in {slot.date(): slot for slot in outcome.stayed}.values():
            self._marks.note_late(work.bundle.name, slot, now)
        mark = self._marks.save(seal_mark(work.mark, from_seconds(span.end)))
        if mark is None:
            raise StoreError("another run has changed the mark")
        report.spans += 1
        report.deleted += len(outcome.deleted)
        report.stayed += len(outcome.stayed)
        return replace(work, mark=mark)

    def _merge_day(
        self, sealer: SpanSealer, work: BundleToSeal, late: LateDay, now: datetime, report: SealingReport
    ) -> None:
        """Seal what was written again in a late day, and end it if none of its ticks is left."""
        spans, left = sealer.look(work, late.part)
        for span in spans:
            if self._time_left() < LEAST_SECONDS:
                return
            outcome = sealer.seal(work, span, is_late=True)
            left -= set(outcome.deleted)
            report.deleted += len(outcome.deleted)
        report.days += 1
        report.stayed += len(left)
        # Only asking for a row is noted, not its arrival, so a late day of rows is looked at for a day.
        is_over = not work.bundle.is_rows or now >= shift(late.noted, DAY)
        if late.is_whole and not left and is_over:
            self._marks.end_late(work.mark, late.day, now)
