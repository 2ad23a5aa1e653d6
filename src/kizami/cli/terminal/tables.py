"""Tables for people: aligned for wide characters too, and on a terminal folded to its width."""

from __future__ import annotations

import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

import click

from kizami.cli.terminal.colours import Colour, coloured, emphasized

# Per column: does its text stand at the right edge? Such a text is a number and is never folded.
Columns = Sequence[tuple[str, bool]]

_BETWEEN = "  "
_INDENT = "    "
_NARROWEST = 12  # cells that a column of words keeps
_ENOUGH = 30  # with fewer the last column, if it has words, stands below its row
_PIECE = re.compile(r"\S+\s*|\s+")


def print_table(columns: Columns, rows: Iterable[Sequence[str]], colours: Iterable[Colour | None] = ()) -> None:
    """The rows under their headings on stdout, each in its colour."""
    for line in table_lines(columns, rows, colours):
        click.echo(line)


def table_lines(
    columns: Columns,
    rows: Iterable[Sequence[str]],
    colours: Iterable[Colour | None] = (),
    room: int | None = None,
) -> list[str]:
    """Heading and rows, each column as wide as its widest cell, or as `room` (the terminal's) allows."""
    heading, body, room = [name for name, _ in columns], list(rows), room or terminal_width()
    widths = _natural_widths([heading, *body])
    below = room is not None and _stands_below(columns, widths, room)
    if below:
        columns, widths = columns[:-1], widths[:-1]
    if room is not None:
        widths = _narrowed(columns, body, widths, room)
    lines = [emphasized(line) for line in _row_lines(heading[: len(columns)], widths, columns)]
    for row, colour in zip_longest(body, colours):
        lines += [coloured(line, colour) for line in _row_lines(row[: len(columns)], widths, columns)]
        if below:
            assert room is not None
            lines += [_INDENT + line for line in fold(row[-1], room - len(_INDENT)) if line]
    return lines


def fits(columns: Columns, rows: Sequence[Sequence[str]]) -> bool:
    """Whether the terminal is wide enough for each row on one line."""
    room = terminal_width()
    return room is None or _total(_natural_widths([[name for name, _ in columns], *rows])) <= room


def terminal_width() -> int | None:
    """How many cells a line of the terminal has; None where stdout is none, and lines may be of any length."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _natural_widths(cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(cell_width, column)) for column in zip(*cells, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_BETWEEN) * (len(widths) - 1)


def _stands_below(columns: Columns, widths: Sequence[int], room: int) -> bool:
    is_number, left = columns[-1][1], room - _total(widths[:-1]) - len(_BETWEEN)
    return not is_number and len(columns) > 1 and widths[-1] > max(left, _ENOUGH) > left


def _narrowed(columns: Columns, body: Sequence[Sequence[str]], widths: Sequence[int], room: int) -> list[int]:
    """First long headings are folded, then columns of words, the widest first."""
    widths, least = list(widths), _least_widths(columns, body)
    for is_number in (True, False):
        while _total(widths) > room:
            spare = [
                (width, index)
                for index, width in enumerate(widths)
                if columns[index][1] is is_number and width > least[index]
            ]
            if not spare:
                break
            widths[max(spare)[1]] -= 1
    return widths


def _least_widths(columns: Columns, body: Sequence[Sequence[str]]) -> list[int]:
    least = []
    for index, (name, is_number) in enumerate(columns):
        word = max(map(cell_width, name.split()), default=0)
        widest = max((cell_width(row[index]) for row in body), default=0)
        least.append(max(word, widest if is_number else min(widest, _NARROWEST)))
    return least


def _row_lines(row: Sequence[str], widths: Sequence[int], columns: Columns) -> Iterator[str]:
    folded = [fold(text, width) for text, width in zip(row, widths, strict=True)]
    for texts in zip_longest(*folded, fillvalue=""):
        cells = (pad(text, width, right) for text, width, (_, right) in zip(texts, widths, columns, strict=True))
        yield _BETWEEN.join(cells).rstrip()


def hanging(name: str, text: str, indent: int) -> list[str]:
    """`name`, then the text, folded to the terminal's width beside it."""
    width = terminal_width()
    lines = fold(text, max(width - indent, _NARROWEST)) if width else [text]
    return [pad("" if number else name, indent) + line for number, line in enumerate(lines)]


def fold(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` cells, broken between words where that is possible."""
    lines = [""]
    for piece in _pieces(text, width) if cell_width(text) > width else [text]:
        if lines[-1] and cell_width(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def _pieces(text: str, width: int) -> Iterator[str]:
    """Words with the spaces behind them; one that is wider than a line in characters."""
    for word in _PIECE.findall(text):
        if cell_width(word.rstrip()) > width:
            yield from word
        else:
            yield word


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
