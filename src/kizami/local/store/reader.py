"""What can be asked of the database: records, coverage, lateness, the queue's depth (for verbs and the dashboard).

Reading never waits for the daemon and never holds it up: an answer is one short statement, and long ranges
are read piece by piece. Ranges are [start, end), their order is ascending, an unknown metric has no rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw

from kizami.core.coverage import Completeness, Span
from kizami.core.epoch import from_ms, from_seconds, to_ms, to_seconds
from kizami.core.errors import StoreError
from kizami.core.messages import MetricRecord
from kizami.home.values import Lateness, PendingSlot, QueueDepth, StoredSlot, lateness_of
from kizami.local.store.database import open_database, sqlite_errors
from kizami.local.store.metrics import KnownMetric, known_metric, known_metrics
from kizami.local.store.pauses import paused_metrics
from kizami.local.store.schema import TALLY_SECONDS
from kizami.local.store.statements import BACKFILL, LIVE

# The buckets in which the metric has rows, found by hopping from one bucket to the next.
_BUCKETS = """
WITH RECURSIVE hop (bucket) AS (
    SELECT min(bucket) FROM tallies WHERE bucket > :start - :width AND bucket < :end
    UNION ALL
    SELECT (SELECT min(bucket) FROM tallies WHERE bucket > hop.bucket AND bucket < :end)
    FROM hop WHERE hop.bucket IS NOT NULL
)
SELECT hop.bucket FROM hop CROSS JOIN tallies ON tallies.bucket = hop.bucket AND metric_id = :metric
"""

# The metric's rows of one bucket: its grid joined with the primary key, so that no other metric's rows are read.
_OF_BUCKET = """
WITH RECURSIVE grid (slot) AS (
    SELECT :start WHERE :start < :end
    UNION ALL SELECT slot + :step FROM grid WHERE slot + :step < :end
)
SELECT {columns} FROM grid CROSS JOIN slots AS row ON row.slot = grid.slot AND row.metric_id = :metric
"""

# The queue and the dead letters are small enough to be looked through.
_OF_RANGE = "SELECT {columns} FROM {table} AS row WHERE slot >= :start AND slot < :end AND metric_id = :metric"

# Whole buckets are tallied already; only the rows before the first and after the last one are counted.
_COUNT_ALL = """
SELECT name, sum(stored) FROM (
    SELECT metric_id, sum(stored) AS stored FROM tallies WHERE bucket >= :head AND bucket < :tail GROUP BY 1
    UNION ALL SELECT metric_id, count(*) FROM slots WHERE slot >= :start AND slot < :head GROUP BY 1
    UNION ALL SELECT metric_id, count(*) FROM slots WHERE slot >= :tail AND slot < :end GROUP BY 1
) JOIN metrics ON id = metric_id GROUP BY metric_id
"""

# A few hundred distinct values stand for the hundreds of thousands of polls of an hour.
_LATENESS = """
SELECT late_ms, count(*) FROM slots WHERE slot >= ? AND slot < ? AND NOT backfilled GROUP BY 1 ORDER BY 1
"""

_NEWEST = """
SELECT name, max(newest) FROM tallies JOIN metrics ON id = metric_id WHERE bucket >= ? GROUP BY metric_id
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

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[Reader]:
        """A reader for the length of a `with`; StoreError if there is no database at `path`."""
        connection = open_database(path)
        try:
            yield cls(connection, path)
        finally:
            connection.close()

    def metrics(self) -> dict[str, KnownMetric]:
        """Every metric that was ever polled, by name."""
        with sqlite_errors(StoreError, self._path):
            return known_metrics(self._connection)

    def paused(self) -> dict[str, datetime]:
        """The metrics that are paused from the dashboard, and since when."""
        with sqlite_errors(StoreError, self._path):
            return paused_metrics(self._connection)

    def newest_slots(self) -> dict[str, datetime]:
        """The newest stored slot of each metric that has one."""
        ((last,),) = self.rows("SELECT ifnull(max(bucket), 0) FROM tallies")
        newest = dict(self.rows(_NEWEST, (last - _RECENT_SECONDS,)))
        # Weeks of tallies are read through only for a metric that has been silent for a while.
        if len(newest) < len(self.metrics()):
            newest = dict(self.rows(_NEWEST, (0,)))
        return {name: from_seconds(slot) for name, slot in newest.items()}

    def records(self, metric: str, start: datetime, end: datetime) -> Iterator[MetricRecord]:
        """The metric's records."""
        for slot, count, collected in self._of_metric(
            "slots", "row.slot, count, collected_ms", metric, start, end
        ):
            yield MetricRecord(metric, from_seconds(slot), count, from_ms(collected))

    def stored(self, metric: str, start: datetime, end: datetime) -> Iterator[StoredSlot]:
        """The metric's records with how they came about."""
        columns = "row.slot, count, collected_ms, late_ms, receives, backfilled"
        for slot, count, collected, late, receives, old in self._of_metric("slots", columns, metric, start, end):
            yield StoredSlot(from_seconds(slot), count, from_ms(collected), late, receives, bool(old))

    def pending(self, metric: str, start: datetime, end: datetime) -> Iterator[PendingSlot]:
        """The metric's messages on the queue."""
        columns = "row.slot, due_ms, visible_ms, receives, held, priority, last_error"
        for slot, due, visible, *rest in self._of_metric("messages", columns, metric, start, end):
            receives, held, priority, error = rest
            moments = from_seconds(slot), from_ms(due), from_ms(visible)
            yield PendingSlot(metric, *moments, receives, bool(held), priority == BACKFILL, error)

    def stored_counts(self, start: datetime, end: datetime) -> dict[str, int]:
        """How many slots of each metric are stored; metrics with none are left out."""
        first, last = to_seconds(start), to_seconds(end)
        head, tail = -(-first // TALLY_SECONDS) * TALLY_SECONDS, last - last % TALLY_SECONDS
        if head > tail:
            head = tail = first
        return dict(self.rows(_COUNT_ALL, {"start": first, "head": head, "tail": tail, "end": last}))

    def stored_count(self, metric: str, start: datetime, end: datetime) -> int:
        """How many slots of one metric are stored."""
        return sum(count for (count,) in self._of_metric("slots", "count(*)", metric, start, end))

    def completeness(self, spans: Mapping[str, Span]) -> dict[str, Completeness]:
        """How much of each metric's span is stored; spans with the same bounds are counted in one go."""
        names_by_bounds: dict[tuple[datetime, datetime], list[str]] = {}
        for name, span in spans.items():
            names_by_bounds.setdefault((span.start, span.end), []).append(name)
        stored: dict[str, int] = {}
        for (start, end), names in names_by_bounds.items():
            stored |= self._counts_of(names, start, end)
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

    def lateness(self, start: datetime, end: datetime) -> Lateness:
        """The lateness of the live polls."""
        return lateness_of(self.rows(_LATENESS, (to_seconds(start), to_seconds(end))))

    def rows(self, sql: str, bindings: apsw.Bindings | None = None) -> list[tuple[Any, ...]]:
        """What one statement gives, whole."""
        with sqlite_errors(StoreError, self._path):
            return self._connection.execute(sql, bindings).fetchall()

    def _counts_of(self, names: list[str], start: datetime, end: datetime) -> dict[str, int]:
        if len(names) == 1:
            return {names[0]: self.stored_count(names[0], start, end)}
        counts = self.stored_counts(start, end)
        return {name: counts.get(name, 0) for name in names}

    def _of_metric(
        self, table: str, columns: str, name: str, start: datetime, end: datetime
    ) -> Iterator[tuple[Any, ...]]:
        with sqlite_errors(StoreError, self._path):
            metric = known_metric(self._connection, name)
        if metric is None:
            return
        bounds = {"start": to_seconds(start), "end": to_seconds(end), "metric": metric.id}
        if table == "slots":
            yield from self._slots(columns, bounds, metric.step_seconds)
        else:
            yield from self.rows(_OF_RANGE.format(table=table, columns=columns), bounds)

    def _slots(self, columns: str, bounds: dict[str, int], step: int) -> Iterator[tuple[Any, ...]]:
        sql = _OF_BUCKET.format(columns=columns)
        for (bucket,) in self.rows(_BUCKETS, {**bounds, "width": TALLY_SECONDS}):
            first = -(-max(bucket, bounds["start"]) // step) * step
            end = min(bucket + TALLY_SECONDS, bounds["end"])
            yield from self.rows(sql, {**bounds, "start": first, "end": end, "step": step})
