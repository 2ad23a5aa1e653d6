"""What a statement gives, as it comes: a table for people, JSON and CSV for programs."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from math import isfinite
from typing import IO, Any

from kizami.cli.sql.session import ResultSet
from kizami.cli.terminal.colours import emphasized
from kizami.cli.terminal.tables import cell_width, pad

_MEASURED = 1000  # rows by which the columns' widths are chosen; a wider cell after them shifts its line

WriteResult = Callable[[ResultSet, IO[str]], int]


def write_table(result: ResultSet, file: IO[str]) -> int:
    """Columns under their names; how many rows there were."""
    rows = iter(result.rows)
    first = [*islice(rows, _MEASURED)]
    cells = [[_cell(value) for value in row] for row in first]
    widths = [max(map(cell_width, column)) for column in zip(result.columns, *cells, strict=True)]
    right = [all(isinstance(value, int | float | None) for value in column) for column in zip(*first, strict=True)]
    if result.columns:
        file.write(emphasized(_line(result.columns, widths, right or [False] * len(widths))) + "\n")
    count = 0
    for row in chain(cells, ([_cell(value) for value in row] for row in rows)):
        file.write(_line(row, widths, right) + "\n")
        count += 1
    return count


def _cell(value: Any) -> str:
    return "-" if value is None else " ".join(_text(value).splitlines())


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = (pad(cell, width, at_right) for cell, width, at_right in zip(cells, widths, right, strict=True))
    return "  ".join(padded).rstrip()


def write_json(result: ResultSet, file: IO[str]) -> int:
    """One array of objects, written as they come; of columns of one name, later ones have a number."""
    names, count = [*_distinct(result.columns)], 0
    file.write("[")
    for row in result.rows:
        fields = dict(zip(names, (_json_value(value) for value in row), strict=True))
        file.write((",\n" if count else "\n") + json.dumps(fields, ensure_ascii=False))
        count += 1
    file.write("\n]\n" if count else "]\n")
    return count


def write_csv_result(result: ResultSet, file: IO[str]) -> int:
    """A heading and a line a row; NULL is an empty cell."""
    writer, count = csv.writer(file, lineterminator="\n"), 0
    writer.writerow(result.columns)
    for row in result.rows:
        writer.writerow(["" if value is None else _text(value) for value in row])
        count += 1
    return count


def _distinct(names: Sequence[str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        number, distinct = 2, name
        while distinct in seen:
            distinct, number = f"{name}_{number}", number + 1
        seen.add(distinct)
        yield distinct


def _text(value: Any) -> str:
    """A fraction has the 15 digits that are sure, as SQLite's own shell writes it."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float):
        return f"{value:.15g}"
    return str(value)


def _json_value(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.15g}") if isfinite(value) else None
    return value.hex() if isinstance(value, bytes) else value
