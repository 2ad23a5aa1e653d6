"""Records as files: CSV, JSON lines and Parquet, written as they are read, so that any number fits into memory."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from itertools import islice
from typing import IO, Any

from kizami.core.errors import ConfigurationError
from kizami.core.messages import MetricRecord, write_record

COLUMNS = ("metricName", "slotTime", "count", "collectedAt")
_ROW_GROUP = 50_000


def write_csv(records: Iterable[MetricRecord], file: IO[str]) -> None:
    """A heading and one line a record, with the names of the `AiResponseMetrics` table."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(write_record(record).values() for record in records)


def write_jsonl(records: Iterable[MetricRecord], file: IO[str]) -> None:
    """One JSON object a line."""
    for record in records:
        file.write(json.dumps(write_record(record), ensure_ascii=False) + "\n")


def write_parquet(records: Iterable[MetricRecord], file: IO[bytes]) -> None:
    """The same columns with types of their own: timestamps in UTC and 64-bit counts."""
    arrow, parquet = _import_pyarrow()
    instant = arrow.timestamp("ms", tz="UTC")
    types = (arrow.dictionary(arrow.int32(), arrow.string()), instant, arrow.int64(), instant)
    schema = arrow.schema([arrow.field(*column, nullable=False) for column in zip(COLUMNS, types, strict=True)])
    remaining = iter(records)
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        while rows := list(islice(remaining, _ROW_GROUP)):
            columns = zip(*((row.metric, row.slot, row.count, row.collected_at) for row in rows), strict=True)
            arrays = [arrow.array(column, type) for column, type in zip(columns, types, strict=True)]
            writer.write_table(arrow.table(arrays, schema=schema))


def _import_pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        problem = "needs pyarrow, which is not installed; pip install pyarrow"
        raise ConfigurationError("--format parquet", problem) from None
    return pyarrow, parquet
