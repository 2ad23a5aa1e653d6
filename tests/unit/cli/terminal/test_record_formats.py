"""Records as files: the same columns in CSV, JSON lines and Parquet, written as they are read."""

from __future__ import annotations

import builtins
import csv
import io
import json
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow.parquet
import pytest

from kizami.backend.columns import RecordColumns, columns_of
from kizami.cli.terminal import record_formats
from kizami.cli.terminal.record_formats import (
    COLUMNS,
    EXCEL,
    write_csv_columns,
    write_jsonl,
    write_parquet,
)
from kizami.core.errors import ConfigurationError
from kizami.core.messages import MAX_COUNT, MetricRecord, write_record
from samples.database import T0, at

RECORDS = [
    MetricRecord("応答数", T0, 7, at(1) + timedelta(milliseconds=123)),
    MetricRecord("calls", at(1), MAX_COUNT, at(2)),
]


def test_records_of_several_metrics_come_in_pieces_of_one() -> None:
    assert [piece.metric for piece in columns_of(RECORDS)] == ["応答数", "calls"]


def pieces() -> Iterator[RecordColumns]:
    """The records, each metric's on their own."""
    for record in RECORDS:
        yield from columns_of([record])


def test_csv_has_the_names_of_the_table() -> None:
    file = io.StringIO()
    write_csv_columns(pieces(), file)
    rows = list(csv.DictReader(io.StringIO(file.getvalue())))
    assert rows == [{name: str(value) for name, value in write_record(record).items()} for record in RECORDS]
    assert tuple(rows[0]) == COLUMNS
    assert "\r" not in file.getvalue()


def test_json_lines_are_one_record_each() -> None:
    file = io.StringIO()
    write_jsonl(pieces(), file)
    assert [json.loads(line) for line in file.getvalue().splitlines()] == [write_record(each) for each in RECORDS]


def test_parquet_keeps_types_and_milliseconds() -> None:
    file = io.BytesIO()
    write_parquet(pieces(), file)
    table = pyarrow.parquet.read_table(io.BytesIO(file.getvalue()))
    assert table.column_names == list(COLUMNS)
    rows: list[dict[str, Any]] = table.to_pylist()
    assert [tuple(row.values()) for row in rows] == [(r.metric, r.slot, r.count, r.collected_at) for r in RECORDS]


def test_parquet_has_a_dictionary_of_metrics_and_types_for_the_rest() -> None:
    file = io.BytesIO()
    write_parquet(pieces(), file)
    types = [str(kind) for kind in pyarrow.parquet.ParquetFile(io.BytesIO(file.getvalue())).schema_arrow.types]
    moment = "timestamp[ms, tz=UTC]"
    assert types == ["dictionary<values=string, indices=int32, ordered=0>", moment, "int64", moment]


def test_parquet_has_as_many_decimal_places_as_the_metric_with_the_most() -> None:
    file = io.BytesIO()
    cents = RecordColumns("cents", 2, [0, 5], [1, -250], [1, 2])
    whole = RecordColumns("whole", 0, [0], [MAX_COUNT], [1])
    write_parquet([cents, whole], file, 9)
    counts: list[Any] = pyarrow.parquet.read_table(io.BytesIO(file.getvalue()))["count"].to_pylist()
    assert counts == [Decimal("0.01"), Decimal("-2.5"), MAX_COUNT]


HOSTILE = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1+1", 'a,"b', "a\nb", "応答数"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_spreadsheet_computes_no_name(name: str) -> None:
    file = io.StringIO()
    write_csv_columns([RecordColumns(name, 0, [0], [-7], [1500])], file, EXCEL)
    assert file.getvalue().startswith("\ufeffmetricName,slotTime,count,collectedAt\r\n")
    (row,) = csv.DictReader(io.StringIO(file.getvalue().removeprefix("\ufeff"), newline=""))
    assert row["metricName"] == (name if name[0] in "a応" else f"'{name}")
    assert (row["slotTime"], row["count"], row["collectedAt"]) == (
        "1970-01-01 00:00:00",
        "-7",
        "1970-01-01 00:00:01",
    )


def test_parquet_is_written_group_by_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_formats, "_ROW_GROUP", 2)
    file = io.BytesIO()
    sizes = []

    def watched() -> Iterator[RecordColumns]:
        for number in range(5):
            sizes.append(file.tell())
            yield from columns_of([MetricRecord("calls", at(number), number, at(number + 1))])

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
    with pytest.raises(ConfigurationError, match=r"needs pyarrow, .*pip install 'kizami\[parquet\]'"):
        write_parquet(pieces(), io.BytesIO())
