"""What can be asked of the database: records, coverage, lateness, the queue's depth (for verbs and the dashboard).

Reading never waits for the daemon and never holds it up: an answer is one short statement, and long ranges
are read piece by piece. Ranges are [start, end), their order is ascending, an unknown metric has no rows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import apsw

from kizami.backend.columns import RecordColumns
from kizami.backend.values import Lateness, PendingSlot, QueueDepth, StoredSlot, lateness_of
from kizami.core.answers.numbers import to_number
from kizami.core.blocking import Trouble
from kizami.core.coverage import Completeness, Span
from kizami.core.epoch import from_ms, from_seconds, to_ms, to_seconds
from kizami.core.errors import StoreError
from kizami.core.messages import MetricRecord
from kizami.core.sealed_spans import COLUMNS, Column, Names
from kizami.local.store.blocks import KeptSlots, blocked_metrics, kept_slots
from kizami.local.store.database import open_database, snapshot, sqlite_errors
from kizami.local.store.history.figures import figures_between
from kizami.local.store.history.sealed import (
    SealedSpan,
    readable_columns,
    sealed_keys,
    sealed_until,
    spans_of_named,
)
from kizami.local.store.history.stored_slots import stored_slots
from kizami.local.store.history.sums import sealed_lateness, sealed_totals, sealed_within
from kizami.local.store.metrics import KnownMetric, MetricCatalogue, known_metric
from kizami.local.store.pauses import paused_metrics
from kizami.local.store.rows import SlotKey
from kizami.local.store.schema import TALLY_SECONDS
from kizami.local.store.statements import BACKFILL, LIVE, RETRY

Found = TypeVar("Found")
_Range = tuple[KnownMetric, int, int]  # whose slots, from where on and up to where

# The queue is small enough to be looked through.
_OF_MESSAGE = "slot, due_ms, visible_ms, receives, held, priority, last_error"
_MESSAGES = f"SELECT ?, {_OF_MESSAGE} FROM messages WHERE slot >= ? AND slot < ? AND metric_id = ?"
_ALL_MESSAGES = (
    f"SELECT name, {_OF_MESSAGE} FROM messages JOIN metrics ON id = metric_id ORDER BY visible_ms, slot"
)

# Whole buckets are tallied already; only the rows before the first and after the last one are counted.
_COUNT_ALL = """
SELECT name, sum(stored) FROM (
    SELECT metric_id, sum(stored) AS stored FROM tallies WHERE bucket >= :head AND bucket < :tail GROUP BY 1
    UNION ALL SELECT metric_id, count(*) FROM slots WHERE slot >= :start AND slot < :head GROUP BY 1
    UNION ALL SELECT metric_id, count(*) FROM slots WHERE slot >= :tail AND slot < :end GROUP BY 1
) JOIN metrics ON id = metric_id GROUP BY metric_id
"""

# The slots of short spans, each looked up by its key; ?1 is a JSON array of [metric_id, name, first, end, step].
_COUNT_EACH = """
WITH RECURSIVE grid (metric_id, name, slot, end, step) AS (
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(?1)
    UNION ALL SELECT metric_id, name, slot + step, end, step FROM grid WHERE slot + step < end
)
SELECT name, count(*) FROM grid CROSS JOIN slots AS s ON s.slot = grid.slot AND s.metric_id = grid.metric_id
GROUP BY name
"""
_FEW_SLOTS = 120
_FEW_METRICS = 50

# A few hundred distinct values stand for the hundreds of thousands of polls of an hour.
_LATENESS = """
SELECT late_ms, count(*) FROM slots WHERE slot >= ? AND slot < ? AND NOT backfilled GROUP BY 1 ORDER BY 1
"""
_LATENESS_OF_LAG = """
SELECT late_ms, count(*) FROM slots JOIN metrics ON id = metric_id
WHERE slot >= ? AND slot < ? AND lag_seconds = ? AND NOT backfilled GROUP BY 1
"""

_NEWEST = """
SELECT name, max(newest) FROM tallies JOIN metrics ON id = metric_id
WHERE bucket >= :first AND bucket <= :last
  AND (:ids IS NULL OR metric_id IN (SELECT value FROM json_each(:ids))) GROUP BY metric_id
"""
_NEWEST_SEALED = """
SELECT name, newest FROM metrics CROSS JOIN sealed_spans ON metric_id = id AND start = (
    SELECT max(start) FROM sealed_spans WHERE metric_id = id
) WHERE :ids IS NULL OR id IN (SELECT value FROM json_each(:ids))
"""
_RECENT_SECONDS = 3600

_DEPTH = """
SELECT ifnull(sum(NOT held AND visible_ms <= :now), 0),
       ifnull(sum(NOT held AND visible_ms > :now), 0),
       ifnull(sum(held), 0),
       (SELECT count(*) FROM dead_letters),
       ifnull(:now - min(max(visible_ms, min(sent_ms, :now))) FILTER (WHERE NOT held AND visible_ms <= :now), 0)
FROM messages
"""


class Reader:
    """Reads one database; make one for each thread."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._catalogue = MetricCatalogue()

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[Reader]:
        """A reader for the length of a `with`; StoreError if there is no database at `path`."""
        connection = open_database(path)
        try:
            yield cls(connection, path)
        finally:
            connection.close()

    def metrics(self) -> Mapping[str, KnownMetric]:
        """Every metric that was ever polled, by name."""
        with sqlite_errors(StoreError, self._path):
            return self._catalogue.read(self._connection)

    def recorded_metrics(self) -> Mapping[str, KnownMetric]:
        """Those of them that have records of their own, and not only ask for several values."""
        with sqlite_errors(StoreError, self._path):
            return self._catalogue.read_recorded(self._connection)

    def paused(self) -> dict[str, datetime]:
        """The metrics that are paused from the dashboard, and since when."""
        with sqlite_errors(StoreError, self._path):
            return paused_metrics(self._connection)

    def blocked(self) -> dict[str, Trouble]:
        """The metrics whose targets are blocked, and why."""
        with sqlite_errors(StoreError, self._path):
            troubles = blocked_metrics(self._connection)
        return self._by_name(troubles)

    def kept_slots(self) -> dict[str, KeptSlots]:
        """What was kept of the metrics that have answered again and is to be put on the queue."""
        with sqlite_errors(StoreError, self._path):
            kept = kept_slots(self._connection)
        return self._by_name(kept)

    def _by_name(self, found: Mapping[int, Found]) -> dict[str, Found]:
        if not found:
            return {}
        return {metric.name: found[metric.id] for metric in self.metrics().values() if metric.id in found}

    def newest_slots(self, names: Collection[str] | None = None) -> dict[str, datetime]:
        """The newest stored slot of each metric, or of these, that has one."""
        with sqlite_errors(StoreError, self._path), snapshot(self._connection):
            recorded = self.recorded_metrics()
            wanted = [recorded[name] for name in (recorded if names is None else names) if name in recorded]
            is_most = 4 * len(wanted) > len(recorded)
            ids = None if is_most else json.dumps([metric.id for metric in wanted])
            newest, sealed = self._newest_unsealed(wanted, ids), sealed_until(self._connection)
            if any(newest.get(metric.name, 0) < sealed for metric in wanted):
                for name, slot in self.rows(_NEWEST_SEALED, {"ids": ids}):
                    newest[name] = max(slot, newest.get(name, slot))
        return {each.name: from_seconds(newest[each.name]) for each in wanted if each.name in newest}

    def _newest_unsealed(self, metrics: Collection[KnownMetric], ids: str | None) -> dict[str, int]:
        ((last,),) = self.rows("SELECT ifnull(max(bucket), 0) FROM tallies")

        def between(first: int, end: int) -> dict[str, int]:
            return dict(self.rows(_NEWEST, {"first": first, "last": end, "ids": ids}))

        newest = between(last - _RECENT_SECONDS, last)
        absent = [metric for metric in metrics if metric.name not in newest]
        # With a long interval or lag the newest slot lies that far back.
        for interval, lag in {(metric.interval_seconds, metric.lag_seconds) for metric in absent}:
            for name, slot in between(last - lag - interval - _RECENT_SECONDS, last - lag).items():
                newest[name] = max(slot, newest.get(name, slot))
        # All tallies are read through only for a metric that has been silent for a while.
        if any(metric.name not in newest and not _is_new(metric, last) for metric in absent):
            newest = between(0, last)
        return newest

    def records(self, metric: str, start: datetime, end: datetime) -> Iterator[MetricRecord]:
        """The metric's records."""
        for found in self.columns(metric, start, end):
            for slot, units, collected in zip(found.slots, found.units, found.collected_ms, strict=True):
                count = to_number(units, found.decimals)
                yield MetricRecord(metric, from_seconds(slot), count, from_ms(collected))

    def stored(self, metric: str, start: datetime, end: datetime) -> Iterator[StoredSlot]:
        """The metric's records with how they came about."""
        decimals = self._decimals(metric)
        for columns in self._slots(metric, start, end, COLUMNS):
            for slot, units, collected, late, receives, old in zip(*columns, strict=True):
                count = to_number(units, decimals)
                yield StoredSlot(from_seconds(slot), count, from_ms(collected), late, receives, bool(old))

    def columns(
        self, metric: str, start: datetime, end: datetime, *, details: bool = False
    ) -> Iterator[RecordColumns]:
        """The metric's records in columns; with `details` also how they came about."""
        decimals = self._decimals(metric)
        for found in self._slots(metric, start, end, COLUMNS if details else COLUMNS[:3]):
            yield RecordColumns(metric, decimals, *found)

    def pending(self, metric: str, start: datetime, end: datetime) -> Iterator[PendingSlot]:
        """The metric's messages on the queue."""
        known = self._metric(metric)
        bounds = to_seconds(start), to_seconds(end), known.asked_id if known else None
        return map(_pending, self.rows(_MESSAGES, (metric, *bounds)))

    def all_pending(self) -> list[PendingSlot]:
        """Every message on the queue, the one that is visible first at the head."""
        return [_pending(row) for row in self.rows(_ALL_MESSAGES)]

    def stored_counts(self, start: datetime, end: datetime) -> dict[str, int]:
        """How many slots of each metric are stored; metrics with none are left out."""
        first, last = to_seconds(start), to_seconds(end)
        head, tail = -(-first // TALLY_SECONDS) * TALLY_SECONDS, last - last % TALLY_SECONDS
        if head > tail:
            head = tail = first
        bounds = {"start": first, "head": head, "tail": tail, "end": last}
        with sqlite_errors(StoreError, self._path), snapshot(self._connection):
            counts = Counter(dict(self.rows(_COUNT_ALL, bounds)))
            counts.update(sealed_totals(self._connection, first, last))
        return dict(counts)

    def stored_count(self, metric: str, start: datetime, end: datetime) -> int:
        """How many slots of one metric are stored."""
        known = self._metric(metric)
        if known is None:
            return 0
        with sqlite_errors(StoreError, self._path):
            edges = to_seconds(start), to_seconds(end)
            found = figures_between(self._connection, known, edges) if edges[0] < edges[1] else {}
        return sum(figures.stored for figures in found.values())

    def completeness(self, spans: Mapping[str, Span]) -> dict[str, Completeness]:
        """How much of each metric's span is stored; those that are short or have the same bounds in one go."""
        names_by_bounds: dict[tuple[datetime, datetime], list[str]] = {}
        for name, span in spans.items():
            names_by_bounds.setdefault((span.start, span.end), []).append(name)
        known, stored, short = self.metrics(), dict[str, int](), list[_Range]()
        for (start, end), names in names_by_bounds.items():
            ranges = _short_ranges(known, names, to_seconds(start), to_seconds(end))
            if ranges is None:
                stored |= self._counts_of(names, start, end)
            else:
                short += ranges
        stored |= self._counts_of_short(short)
        return {name: Completeness(stored.get(name, 0), span.expected) for name, span in spans.items()}

    def queue_depth(self, now: datetime) -> QueueDepth:
        """The queue at `now`."""
        ((waiting, delayed, held, dead, oldest_ms),) = self.rows(_DEPTH, {"now": to_ms(now)})
        return QueueDepth(waiting, delayed, held, dead, oldest_ms / 1000)

    def backfill_waiting(self, metric: KnownMetric, most: int) -> int:
        """How many backfill messages of the metric are on the queue; `most` if there are more."""
        sql = f"""SELECT count(*) FROM (SELECT 1 FROM messages
        WHERE priority > {LIVE} AND priority = {BACKFILL} AND metric_id = ? LIMIT ?)"""
        ((count,),) = self.rows(sql, (metric.id, most))
        return int(count)

    def last_errors(self, now: datetime) -> dict[str, str]:
        """The error of the newest slot that is to be tried again, of each metric that has one.

        One that is not due yet was asked for while the clock was ahead, and tells nothing of its target now.
        """
        sql = f"""SELECT name, last_error, max(slot) FROM messages JOIN metrics ON id = metric_id
        WHERE priority > {LIVE} AND priority = {RETRY} AND last_error IS NOT NULL AND due_ms <= ?
        GROUP BY metric_id"""
        return {name: error for name, error, _ in self.rows(sql, (to_ms(now),))}

    def lateness(self, start: datetime, end: datetime) -> Lateness:
        """The lateness of the live polls: of the range's slots and, with a longer lag, of those due in it."""
        first, last = to_seconds(start), to_seconds(end)
        lags = {metric.lag_seconds for metric in self.metrics().values() if metric.lag_seconds >= last - first}
        with sqlite_errors(StoreError, self._path), snapshot(self._connection):
            late = Counter(dict(self.rows(_LATENESS, (first, last))))
            late.update(sealed_lateness(self._connection, first, last))
            for lag in lags:
                late.update(dict(self.rows(_LATENESS_OF_LAG, (first - lag, last - lag, lag))))
                late.update(sealed_lateness(self._connection, first - lag, last - lag, lag))
        return lateness_of(sorted(late.items()))

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Whatever is read inside is of one moment; to be kept short."""
        with sqlite_errors(StoreError, self._path), snapshot(self._connection):
            yield

    def sealed_spans(self, names: Iterable[str], first: int, end: int) -> Iterator[tuple[KnownMetric, SealedSpan]]:
        """The sealed spans of these metrics that have a part in [first, end), metric by metric, ascending."""
        with sqlite_errors(StoreError, self._path):
            spans = spans_of_named(self._connection, names, first, end)
            metrics = {metric.id: metric for metric in self.metrics().values()} if spans else {}
        return ((metrics[span.metric_id], span) for span in spans)

    def sealed_slots(self, span: SealedSpan) -> Sequence[int]:
        """The slots of a sealed span that are stored; none if it is damaged."""
        with sqlite_errors(StoreError, self._path):
            return readable_columns(self._connection, span, ("slot",))[0]

    def without_sealed(self, rows: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
        """Those of the rows (a name, a slot, a metric's id) whose slot is not sealed."""
        with sqlite_errors(StoreError, self._path):
            sealed = sealed_keys(self._connection, (SlotKey(slot, number) for _, slot, number in rows))
        return [row for row in rows if row[1:] not in sealed] if sealed else list(rows)

    def rows(self, sql: str, bindings: apsw.Bindings | None = None) -> list[tuple[Any, ...]]:
        """What one statement gives, whole."""
        with sqlite_errors(StoreError, self._path):
            return self._connection.execute(sql, bindings).fetchall()

    def _counts_of(self, names: list[str], start: datetime, end: datetime) -> dict[str, int]:
        if len(names) == 1:
            return {names[0]: self.stored_count(names[0], start, end)}
        counts = self.stored_counts(start, end)
        return {name: counts.get(name, 0) for name in names}

    def _counts_of_short(self, ranges: Sequence[_Range]) -> dict[str, int]:
        grids = [
            (
                metric.id,
                metric.name,
                -(-first // metric.step_seconds) * metric.step_seconds,
                end,
                metric.step_seconds,
            )
            for metric, first, end in ranges
        ]
        wanted = json.dumps([grid for grid in grids if grid[2] < grid[3]])
        with sqlite_errors(StoreError, self._path), snapshot(self._connection):
            counts = Counter(dict(self.rows(_COUNT_EACH, (wanted,))))
            for name, slots in sealed_within(self._connection, ranges):
                counts[name] += slots
        return dict(counts)

    def _metric(self, name: str) -> KnownMetric | None:
        with sqlite_errors(StoreError, self._path):
            return known_metric(self._connection, name)

    def _decimals(self, name: str) -> int:
        metric = self._metric(name)
        return metric.decimals if metric else 0

    def _slots(self, name: str, start: datetime, end: datetime, names: Names) -> Iterator[Sequence[Column]]:
        metric = self._metric(name)
        if metric is None:
            return
        found = stored_slots(self._connection, metric, to_seconds(start), to_seconds(end), names)
        while True:
            with sqlite_errors(StoreError, self._path):
                columns = next(found, None)
            if columns is None:
                return
            yield columns


def _short_ranges(
    known: Mapping[str, KnownMetric], names: Sequence[str], first: int, end: int
) -> list[_Range] | None:
    """The range of each of the metrics, if they are few of all with few slots there, which are then looked up."""
    metrics = [known[name] for name in names if name in known]
    is_most = len(metrics) > _FEW_METRICS and 4 * len(metrics) > len(known)
    if is_most or any(end - first > _FEW_SLOTS * metric.step_seconds for metric in metrics):
        return None
    return [(metric, first, end) for metric in metrics]


def _pending(row: Sequence[Any]) -> PendingSlot:
    name, slot, due, visible, receives, held, priority, error = row
    moments = from_seconds(slot), from_ms(due), from_ms(visible)
    return PendingSlot(name, *moments, receives, bool(held), priority == BACKFILL, error)


def _is_new(metric: KnownMetric, now: int) -> bool:
    """Whether no slot of it was due so far, and it never had another interval."""
    has_begun = to_seconds(metric.first_slot) + metric.lag_seconds <= now
    return not has_begun and metric.step_seconds == metric.interval_seconds
