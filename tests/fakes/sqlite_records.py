"""The records on one machine for the suite of all stores: written as the daemon's writer does, one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from math import gcd
from pathlib import Path
from threading import Lock

from kizami.core.epoch import to_ms, to_seconds
from kizami.core.errors import StoreError
from kizami.core.messages import MetricRecord
from kizami.core.ports import PutOutcome
from kizami.local.engine.write_batch import WriteBatch
from kizami.local.store.database import open_database, sqlite_errors, transaction
from kizami.local.store.metrics import register_slot
from kizami.local.store.reader import Reader
from kizami.local.store.rows import StoredRow


class SqliteRecords:
    """A `ReadableStore` on a database file; many threads and processes may use it at once."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self._path = path
        self._turn = Lock()
        self._connection = open_database(path, create=create)
        self._reader = Reader(self._connection, path)

    def put_if_absent(self, record: MetricRecord) -> PutOutcome:
        return self.put_all_if_absent([record])[0]

    def put_all_if_absent(self, records: Sequence[MetricRecord]) -> list[PutOutcome]:
        with self._turn, sqlite_errors(StoreError, self._path), transaction(self._connection):
            return [self._put(record) for record in records]

    def _put(self, record: MetricRecord) -> PutOutcome:
        slot = to_seconds(record.slot)
        metric = register_slot(self._connection, record.metric, record.slot, gcd(60, slot))
        there = "SELECT 1 FROM slots WHERE slot = ? AND metric_id = ?"
        duplicate = self._connection.execute(there, (slot, metric.id)).fetchone()
        row = StoredRow(slot, metric.id, int(record.count), to_ms(record.collected_at), 0, 1, False)
        WriteBatch(stored=[row]).write(self._connection, now_ms=0)
        return PutOutcome.DUPLICATE if duplicate else PutOutcome.STORED

    def query(self, metric: str, start: datetime, end: datetime) -> Iterator[MetricRecord]:
        return self._reader.records(metric, start, end)

    def close(self) -> None:
        """Give the file back."""
        self._connection.close()
