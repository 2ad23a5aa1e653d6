"""How a verb speaks: data to stdout, words to stderr, plain text or JSON, aligned also for wide characters."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import IO, Any

import click

from kizami.cli.options import Decorator
from kizami.cli.ranges import TimeRange
from kizami.core.coverage import Completeness, Gap
from kizami.core.slots import format_second

json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

NOTHING_DUE = "no slot is due in this range"

# Per column: does its text stand at the right edge?
Columns = Sequence[tuple[str, bool]]


def say(words: str) -> None:
    """A line for the person, on stderr."""
    click.echo(f"kizami: {words}", err=True)


def print_json(document: Any) -> None:
    """The document on stdout: indented for a terminal, one line for a program."""
    indent = 2 if sys.stdout.isatty() else None
    click.echo(json.dumps(document, ensure_ascii=False, indent=indent))


def print_table(columns: Columns, rows: Iterable[Sequence[str]]) -> None:
    """The rows under their headings on stdout."""
    for line in table_lines(columns, rows):
        click.echo(line)


def table_lines(columns: Columns, rows: Iterable[Sequence[str]]) -> list[str]:
    """Heading and rows, each column as wide as its widest cell."""
    heading = [name for name, _ in columns]
    cells = [heading, *rows]
    widths = [max(map(cell_width, column)) for column in zip(*cells, strict=True)]
    lines = [_aligned(row, widths, columns) for row in cells]
    return [emphasized(lines[0]), *lines[1:]]


def _aligned(row: Sequence[str], widths: Sequence[int], columns: Columns) -> str:
    cells = (pad(text, width, right) for text, width, (_, right) in zip(row, widths, columns, strict=True))
    return "  ".join(cells).rstrip()


def pad(text: str, width: int, right: bool = False) -> str:
    """`text` filled up to `width` cells of a terminal."""
    filling = " " * (width - cell_width(text))
    return filling + text if right else text + filling


def cell_width(text: str) -> int:
    """How many cells of a terminal `text` takes: Japanese characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(_character_width(character) for character in text)


def _character_width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def emphasized(text: str) -> str:
    """Bold where a person looks at a terminal that has not asked for plain text."""
    return click.style(text, bold=True) if is_styled() else text


def is_styled() -> bool:
    """Whether stdout is a terminal that takes colours (https://no-color.org)."""
    return is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")


def is_terminal(stream: IO[str]) -> bool:
    """Whether a person looks at it, on a terminal that can do more than print lines."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def instant_text(instant: datetime | None) -> str:
    """As on the wire, cut to the second; a dash where there is none."""
    return "-" if instant is None else format_second(instant)


def age_text(age: timedelta | float) -> str:
    """How long ago, in its two largest units: 4s, 2m 5s, 3h 20m, 6d 1h."""
    seconds = int(age.total_seconds() if isinstance(age, timedelta) else age)
    sign, seconds = ("-" if seconds < 0 else ""), abs(seconds)
    units = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))
    parts: list[str] = []
    for size, unit in units:
        if seconds >= size or (unit == "s" and not parts):
            parts.append(f"{seconds // size}{unit}")
            seconds %= size
    return sign + " ".join(parts[:2])


def percent_text(ratio: float) -> str:
    """Never 100% unless it is whole."""
    return "100%" if ratio >= 1 else f"{int(ratio * 1000) / 10:.1f}%"


def completeness_text(completeness: Completeness) -> str:
    """`719/720 (99.8%)`."""
    return f"{completeness} ({percent_text(completeness.ratio)})"


def stored_words(completeness: Completeness) -> str:
    """How complete a range is; of nothing, nothing is complete."""
    return f"{completeness_text(completeness)} slots stored" if completeness.expected else NOTHING_DUE


def range_fields(time_range: TimeRange) -> dict[str, str]:
    """A range in JSON, cut to the second."""
    return {"from": instant_text(time_range.start), "to": instant_text(time_range.end)}


def gap_fields(gap: Gap) -> dict[str, str | int]:
    """A gap in JSON."""
    return {"from": instant_text(gap.start), "to": instant_text(gap.end), "slots": gap.slots}


def plural(number: int, noun: str) -> str:
    """`1 slot`, `2 slots`, `1,234 slots`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
