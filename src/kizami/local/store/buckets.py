"""Records in stretches for the chart: their extremes, from the tallies where a stretch is as long as those."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import apsw

from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.slots import floor_to_second
from kizami.home.values import Bucket
from kizami.local.store.metrics import KnownMetric
from kizami.local.store.schema import TALLY_SECONDS

# Both are one aggregate: SQLite works through weeks without the interpreter's lock.
_FROM_TALLIES = f"""
WITH RECURSIVE grid (bucket) AS (
    SELECT :start WHERE :start < :end
    UNION ALL SELECT bucket + {TALLY_SECONDS} FROM grid WHERE bucket + {TALLY_SECONDS} < :end
)
SELECT t.bucket - t.bucket % :seconds, sum(stored), min(lowest), max(highest), sum(total)
FROM grid CROSS JOIN tallies AS t ON t.bucket = grid.bucket AND metric_id = :metric GROUP BY 1
"""
_FROM_SLOTS = """
WITH RECURSIVE grid (slot) AS (
    SELECT :start WHERE :start < :end
    UNION ALL SELECT slot + :step FROM grid WHERE slot + :step < :end
)
SELECT s.slot - s.slot % :seconds, count(*), min(count), max(count), sum(count)
FROM grid CROSS JOIN slots AS s ON s.slot = grid.slot AND metric_id = :metric GROUP BY 1
"""

_COUNTS_AT = """
SELECT s.slot, count FROM json_each(?1) CROSS JOIN slots AS s ON s.slot = value AND metric_id = ?2
"""


def read_buckets(
    connection: apsw.Connection, metric: KnownMetric, start: datetime, end: datetime, seconds: int
) -> list[Bucket]:
    """The stretches of `seconds`, counted from 1970, that begin before `end` and end after `start`.

    They are whole, ascending, and those without a record are left out.
    """
    first = to_seconds(floor_to_second(start)) // seconds * seconds
    last = -(-to_seconds(end) // seconds) * seconds
    bounds = {"start": first, "end": last, "seconds": seconds, "metric": metric.id, "step": metric.step_seconds}
    sql = _FROM_SLOTS if seconds % TALLY_SECONDS else _FROM_TALLIES
    rows: list[tuple[Any, ...]] = connection.execute(sql, bounds).fetchall()
    return [Bucket(from_seconds(bucket), *values) for bucket, *values in rows]


def read_counts(
    connection: apsw.Connection, metric: KnownMetric, slots: Sequence[datetime]
) -> dict[datetime, int]:
    """The counts of those of the slots that are stored."""
    wanted = json.dumps(sorted({to_seconds(slot) for slot in slots}))
    rows: list[tuple[Any, ...]] = connection.execute(_COUNTS_AT, (wanted, metric.id)).fetchall()
    return {from_seconds(slot): count for slot, count in rows}
