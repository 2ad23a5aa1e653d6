"""The metric store on one machine: one row of the SQLite file for each (metric, slot)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from math import gcd
from pathlib import Path
from threading import Lock

import apsw

from kizami.errors import StoreError
from kizami.local.database import open_database, sqlite_errors, transaction
from kizami.local.metrics import KnownMetric, known_metric, register
from kizami.local.moments import to_ms, to_seconds
from kizami.local.reader import Reader
from kizami.messages import MetricRecord
from kizami.ports import PutOutcome

# A batch is one JSON parameter and one statement: SQLite works through it without the interpreter's lock, so
# the writer's thread leaves the event loop alone. An element: [slot, metric_id, count, collected_ms, late_ms,
# receives, backfilled].
STORE_BATCH = """
INSERT INTO slots
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6
FROM json_each(?1) WHERE true
ON CONFLICT DO NOTHING
"""


class SqliteMetricStore:
    """`ports.MetricStore` on a database file; many threads and processes may use it at once."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self._path = path
        self._turn = Lock()
        self._connection = open_database(path, create=create)
        self._reader = Reader(self._connection, path)

    def put_if_absent(self, record: MetricRecord) -> PutOutcome:
        slot = to_seconds(record.slot)
        with self._turn, sqlite_errors(StoreError, self._path), transaction(self._connection):
            metric = self._metric_with(record.metric, record.slot)
            self._connection.execute(
                "INSERT INTO slots VALUES (?, ?, ?, ?, 0, 1, 0) ON CONFLICT DO NOTHING",
                (slot, metric.id, record.count, to_ms(record.collected_at)),
            )
            return PutOutcome.STORED if self._connection.changes() else PutOutcome.DUPLICATE

    def query(self, metric: str, start: datetime, end: datetime) -> Iterator[MetricRecord]:
        return self._reader.records(metric, start, end)

    def close(self) -> None:
        """Give the file back."""
        self._connection.close()

    def _metric_with(self, name: str, slot: datetime) -> KnownMetric:
        """The metric, made known if need be, with a grid that `slot` stands on."""
        metric = known_metric(self._connection, name)
        step = gcd(to_seconds(slot), metric.step_seconds if metric else 60)
        if metric is None:
            return register(self._connection, name, step, 0, slot)
        if step != metric.step_seconds:
            self._connection.execute("UPDATE metrics SET step_seconds = ? WHERE id = ?", (step, metric.id))
        return metric


def store_batch(connection: apsw.Connection, rows: str) -> int:
    """Store the JSON array of rows; how many were new, the others being DUPLICATE."""
    connection.execute(STORE_BATCH, (rows,))
    return connection.changes()
