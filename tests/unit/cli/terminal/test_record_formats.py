"""Records as files: the same columns in CSV, JSON lines and Parquet, written as they are read."""

from __future__ import annotations

import builtins
import csv
import io
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pyarrow.parquet
import pytest

from kizami.cli.terminal import record_formats
from kizami.cli.terminal.record_formats import COLUMNS, write_csv, write_jsonl, write_parquet
from kizami.core.errors import ConfigurationError
from kizami.core.messages import MAX_COUNT, MetricRecord, write_record
from samples.database import T0, at

RECORDS = [
    MetricRecord("応答数", T0, 7, at(1) + timedelta(milliseconds=123)),
    MetricRecord("calls", at(1), MAX_COUNT, at(2)),
]


def test_csv_has_the_names_of_the_table() -> None:
    file = io.StringIO()
    write_csv(RECORDS, file)
    rows = list(csv.DictReader(io.StringIO(file.getvalue())))
    assert rows == [{name: str(value) for name, value in write_record(record).items()} for record in RECORDS]
    assert tuple(rows[0]) == COLUMNS
    assert "\r" not in file.getvalue()


def test_json_lines_are_one_record_each() -> None:
    file = io.StringIO()
    write_jsonl(RECORDS, file)
    assert [json.loads(line) for line in file.getvalue().splitlines()] == [write_record(each) for each in RECORDS]


def test_parquet_keeps_types_and_milliseconds() -> None:
    file = io.BytesIO()
    write_parquet(RECORDS, file)
    table = pyarrow.parquet.read_table(io.BytesIO(file.getvalue()))
    assert table.column_names == list(COLUMNS)
    rows: list[dict[str, Any]] = table.to_pylist()
    assert [tuple(row.values()) for row in rows] == [(r.metric, r.slot, r.count, r.collected_at) for r in RECORDS]


def test_parquet_is_written_group_by_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_formats, "_ROW_GROUP", 2)
    file = io.BytesIO()
    sizes = []

    def watched() -> Iterator[MetricRecord]:
        for number in range(5):
            sizes.append(file.tell())
            yield MetricRecord("calls", at(number), number, at(number + 1))

    write_parquet(watched(), file)
    assert sizes[4] > sizes[2] > sizes[0]
    assert pyarrow.parquet.ParquetFile(io.BytesIO(file.getvalue())).num_row_groups == 3


def test_without_pyarrow_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def no_pyarrow(name: str, *rest: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", no_pyarrow)
    with pytest.raises(ConfigurationError, match=r"needs pyarrow, .*pip install pyarrow"):
        write_parquet(RECORDS, io.BytesIO())
