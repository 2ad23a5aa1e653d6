"""Figures of stretches of time as files: CSV, JSON lines and Parquet, a report at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import IO, Any

from kizami.backend.figures.report import Report
from kizami.backend.figures.summary import Aggregate
from kizami.backend.figures.wire import csv_columns, csv_rows, figure_json, told_value
from kizami.cli.terminal.record_formats import PLAIN, CsvForm, import_pyarrow
from kizami.core.epoch import to_ms

Aggregates = Sequence[Aggregate]


def write_figures_csv(
    reports: Iterable[Report], file: IO[str], aggregates: Aggregates, form: CsvForm = PLAIN
) -> None:
    """A heading, and a line for each stretch of a metric."""
    file.write(form.start + form.cells(csv_columns(aggregates, compared=False)) + form.line_end)
    for report in reports:
        name = form.cells([report.target.name])
        for _, start, end, *numbers in csv_rows(report, aggregates):
            cells = name, form.instant(start), form.instant(end), *numbers
            file.write(",".join(cells) + form.line_end)


def write_figures_jsonl(reports: Iterable[Report], file: IO[str], aggregates: Aggregates) -> None:
    """One JSON object a line."""
    for report in reports:
        for row in report.rows:
            fields = {"metricName": report.target.name, **figure_json(row.figure, aggregates)}
            file.write(json.dumps(fields, ensure_ascii=False) + "\n")


def write_figures_parquet(
    reports: Iterable[Report], file: IO[bytes], aggregates: Aggregates, decimals: int
) -> None:
    """The same columns with types; a sum, which may be long, is an exact decimal, and a mean a double."""
    arrow, parquet = import_pyarrow()
    instant, exact = arrow.timestamp("ms", tz="UTC"), arrow.decimal128(38, decimals)
    kinds = {Aggregate.SUM: exact, Aggregate.MEAN: arrow.float64(), Aggregate.MIN: exact, Aggregate.MAX: exact}
    name = arrow.dictionary(arrow.int32(), arrow.string())
    types = [name, instant, instant, arrow.int64(), arrow.int64(), *(kinds[each] for each in aggregates)]
    names = csv_columns(aggregates, compared=False)
    schema = arrow.schema([*map(arrow.field, names, types)])
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for report in reports:
            columns = [*zip(*_typed_rows(report, aggregates), strict=True)]
            arrays = [arrow.array(column, type=kind) for column, kind in zip(columns, types, strict=True)]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))


def _typed_rows(report: Report, aggregates: Aggregates) -> Iterable[tuple[Any, ...]]:
    for row in report.rows:
        figure, told = row.figure, row.figure.completeness
        values = (_typed(told_value(figure, each), each) for each in aggregates)
        times = to_ms(figure.start), to_ms(figure.end)
        yield report.target.name, *times, told.stored, told.expected, *values


def _typed(value: float | Decimal | None, aggregate: Aggregate) -> float | Decimal | None:
    if value is None:
        return None
    return float(value) if aggregate is Aggregate.MEAN else Decimal(str(value))
