"""Figures as a table: a row for each stretch, beside the same stretch some time before if that is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from kizami.backend.figures.report import Compared, Report
from kizami.backend.figures.summary import Aggregate, Figure
from kizami.backend.figures.wire import figure_text, told_change, told_value
from kizami.cli.terminal.printing import instant_text
from kizami.cli.terminal.tables import Columns
from kizami.core.answers.numbers import Number
from kizami.core.coverage import Completeness


def figure_columns(aggregates: Sequence[Aggregate], compare: str | None, *, named: bool) -> Columns:
    """The headings; with `named` the metric stands first."""
    columns = [("metric", False)] if named else []
    columns.append(("from", False))
    for each in aggregates:
        columns.append((each.value, True))
        columns += [(f"{compare} before", True), ("change", True)] if compare else []
    columns.append(("stored", True))
    return [*columns, (f"{compare} before", True)] if compare else columns


def figure_rows(reports: Sequence[Report], aggregates: Sequence[Aggregate], *, named: bool) -> Iterator[list[str]]:
    """A row for each stretch of each metric."""
    for report in reports:
        name = [report.target.name] if named else []
        for row in report.rows:
            yield [*name, instant_text(row.figure.start), *_cells(row, aggregates)]


def _cells(row: Compared, aggregates: Sequence[Aggregate]) -> Iterator[str]:
    for each in aggregates:
        yield _value_text(told_value(row.figure, each))
        if row.before:
            yield _value_text(told_value(row.before, each))
            yield change_text(told_change(row, each), row.before, each)
    yield stored_text(row.figure.completeness)
    if row.before:
        yield stored_text(row.before.completeness)


def _value_text(value: Number | Decimal | None) -> str:
    return figure_text(value) or "-"


def stored_text(told: Completeness) -> str:
    """`59/60`; a dash where nothing was due."""
    return str(told) if told.expected else "-"


def change_text(change: Decimal | None, before: Figure, aggregate: Aggregate) -> str:
    """`+12 (+10.0%)`: by how much it is more, and what part of the value before that is."""
    if change is None:
        return "-"
    words = f"{'+' if change > 0 else ''}{figure_text(change)}"
    value = before.value(aggregate)
    return f"{words} ({float(change) / abs(float(value)):+.1%})" if value else words
