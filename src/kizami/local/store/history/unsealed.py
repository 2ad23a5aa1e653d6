"""The stored slots that are rows of their own: the newest, and those that came late into a span (SQL only)."""

from __future__ import annotations

from typing import Any

import apsw

from kizami.core.sealed_spans import Names
from kizami.local.store.metrics import KnownMetric
from kizami.local.store.schema import TALLY_SECONDS

Row = tuple[Any, ...]

# The buckets in which the metric has rows, found by hopping from one bucket to the next.
_TALLIES = """
WITH RECURSIVE hop (bucket) AS (
    SELECT min(bucket) FROM tallies WHERE bucket > :first - :width AND bucket < :end
    UNION ALL
    SELECT (SELECT min(bucket) FROM tallies WHERE bucket > hop.bucket AND bucket < :end)
    FROM hop WHERE hop.bucket IS NOT NULL
)
SELECT hop.bucket, stored, lowest, highest, total
FROM hop CROSS JOIN tallies ON tallies.bucket = hop.bucket AND metric_id = :metric
"""

# The metric's rows of one bucket: its grid joined with the primary key, so that no other metric's rows are read.
_OF_BUCKET = """
WITH RECURSIVE grid (slot) AS (
    SELECT :first WHERE :first < :end
    UNION ALL SELECT slot + :step FROM grid WHERE slot + :step < :end
)
SELECT {names} FROM grid CROSS JOIN slots AS row ON row.slot = grid.slot AND row.metric_id = :metric
"""


def tallies_of(connection: apsw.Connection, metric: KnownMetric, first: int, end: int) -> list[Row]:
    """Start, stored, lowest, highest, total of the buckets of [first, end) and rows of the metric."""
    bounds = {"first": first, "end": end, "metric": metric.id, "width": TALLY_SECONDS}
    return connection.execute(_TALLIES, bounds).fetchall()


def rows_of(connection: apsw.Connection, metric: KnownMetric, first: int, end: int, names: Names) -> list[Row]:
    """The metric's rows of [first, end) by ascending slot, of these columns."""
    sql = _OF_BUCKET.format(names=", ".join(f"row.{name}" for name in names))
    step, found = metric.step_seconds, list[Row]()
    for bucket, *_ in tallies_of(connection, metric, first, end):
        start = -(-max(bucket, first) // step) * step
        bounds = {"first": start, "end": min(bucket + TALLY_SECONDS, end), "step": step, "metric": metric.id}
        found += connection.execute(sql, bounds).fetchall()
    return found
