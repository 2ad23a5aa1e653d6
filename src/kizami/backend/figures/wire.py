"""Figures as JSON and CSV: the same names for verbs and API, times in UTC (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from kizami.backend.figures.report import Compared, FigureQuestion, Report
from kizami.backend.figures.summary import Aggregate, Figure
from kizami.core.answers.numbers import Number, plain_text
from kizami.core.slots import Window, format_second

_PLACES = 6


def report_json(report: Report, aggregates: Sequence[Aggregate]) -> dict[str, Any]:
    """One metric's stretches."""
    told = report.completeness
    return {
        "metricName": report.target.name,
        "intervalSeconds": report.target.interval_seconds,
        "stored": told.stored,
        "expected": told.expected,
        "buckets": [_row_json(row, aggregates) for row in report.rows],
    }


def answer_json(
    window: Window, question: FigureQuestion, reports: Sequence[Report], aggregates: Sequence[Aggregate]
) -> dict[str, Any]:
    """What was asked, and what each metric answers."""
    return {
        "from": format_second(window.start),
        "to": format_second(window.end),
        "every": question.every.text if question.every else None,
        "timeZone": str(question.zone),
        "compare": question.compare,
        "metrics": [report_json(report, aggregates) for report in reports],
    }


def _row_json(row: Compared, aggregates: Sequence[Aggregate]) -> dict[str, Any]:
    fields = figure_json(row.figure, aggregates)
    if row.before:
        fields["before"] = figure_json(row.before, aggregates)
        fields["change"] = {each.value: json_number(told_change(row, each)) for each in aggregates}
    return fields


def figure_json(figure: Figure, aggregates: Sequence[Aggregate]) -> dict[str, Any]:
    """One stretch."""
    return {
        "from": format_second(figure.start),
        "to": format_second(figure.end),
        "stored": figure.completeness.stored,
        "expected": figure.completeness.expected,
        **{each.value: json_number(told_value(figure, each)) for each in aggregates},
    }


def csv_columns(aggregates: Sequence[Aggregate], *, compared: bool) -> list[str]:
    """The heading of a row for each stretch."""
    names = [each.value for each in aggregates]
    columns = ["metricName", "from", "to", "stored", "expected", *names]
    if not compared:
        return columns
    before = [f"{name}Before" for name in ("from", "to", "stored", "expected", *names)]
    return [*columns, *before, *(f"{name}Change" for name in names)]


def csv_rows(report: Report, aggregates: Sequence[Aggregate]) -> list[list[str]]:
    """A row for each stretch, numbers in plain digits, nothing where there is nothing."""
    return [[report.target.name, *_cells(row, aggregates)] for row in report.rows]


def _cells(row: Compared, aggregates: Sequence[Aggregate]) -> list[str]:
    cells = _figure_cells(row.figure, aggregates)
    if not row.before:
        return cells
    changes = (figure_text(told_change(row, each)) for each in aggregates)
    return [*cells, *_figure_cells(row.before, aggregates), *changes]


def _figure_cells(figure: Figure, aggregates: Sequence[Aggregate]) -> list[str]:
    told = figure.completeness
    times = format_second(figure.start), format_second(figure.end)
    return [
        *times,
        str(told.stored),
        str(told.expected),
        *(figure_text(told_value(figure, each)) for each in aggregates),
    ]


def told_value(figure: Figure, aggregate: Aggregate) -> Number | Decimal | None:
    """A figure as it is told: exact, but for a mean."""
    value = figure.value(aggregate)
    return rounded(value) if aggregate is Aggregate.MEAN and isinstance(value, Decimal) else value


def told_change(row: Compared, aggregate: Aggregate) -> Decimal | None:
    """By how much it is more than before, likewise."""
    change = row.change(aggregate)
    return rounded(change) if aggregate is Aggregate.MEAN and change is not None else change


def rounded(mean: Decimal) -> Decimal:
    """Six digits after the point, or as many that count where the mean is small."""
    return round(mean, _PLACES if abs(mean) >= 1 or not mean else _PLACES - 1 - mean.adjusted())


def figure_text(value: Number | Decimal | None) -> str:
    """A figure in plain digits, every one of them; nothing where there is none."""
    return "" if value is None else plain_text(value)


def json_number(value: Number | Decimal | None) -> Number | None:
    """A figure as JSON has it; beyond 15 digits after decimal places come in, it is the nearest double."""
    if not isinstance(value, Decimal):
        return value
    return int(value) if value == value.to_integral_value() else float(value)
