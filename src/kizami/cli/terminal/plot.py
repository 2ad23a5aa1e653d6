"""A metric as a drawing: slots drawn together into columns, columns as dots, dots as characters (pure).

A line is drawn from one slot to the next only where both are stored: what is not known is left open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

from kizami.core.coverage import Span
from kizami.core.messages import MetricRecord


@dataclass(slots=True)
class Column:
    """Neighbouring slots that are drawn together; numbers of slots count from the start of the drawing."""

    expected: int
    stored: int = 0
    low: int = 0
    high: int = 0
    first_slot: int = 0
    last_slot: int = 0
    last_count: int = 0

    def add(self, slot: int, count: int) -> None:
        """Take in the next record."""
        if not self.stored:
            self.first_slot, self.low, self.high = slot, count, count
        self.low, self.high = min(self.low, count), max(self.high, count)
        self.last_slot, self.last_count = slot, count
        self.stored += 1

    def continues_in(self, following: Column) -> bool:
        """Whether no slot is missing between the two."""
        return bool(self.stored and following.stored) and following.first_slot == self.last_slot + 1


def gather_columns(records: Iterable[MetricRecord], drawn: Span, expected: Span, most: int) -> list[Column]:
    """At most `most` columns for the slots of `drawn`; where none is `expected`, none is missed."""
    step = timedelta(seconds=drawn.interval_seconds)
    slots = drawn.expected
    edges = column_edges(slots, most)
    due = range((expected.start - drawn.start) // step, (expected.end - drawn.start) // step)
    columns = [Column(_overlap(edge, due)) for edge in edges]
    for record in records:
        slot, off_grid = divmod(record.slot - drawn.start, step)
        if 0 <= slot < slots and not off_grid:
            columns[slot * len(columns) // slots].add(slot, record.count)
    return columns


def column_edges(slots: int, most: int) -> list[range]:
    """Which slots, by their numbers, each column draws."""
    count = min(slots, most)
    # The first slot n of column k is the first with n * count // slots == k.
    starts = [-(-number * slots // count) for number in range(count + 1)] if count else [0]
    return [range(start, end) for start, end in pairwise(starts)]


def _overlap(one: range, other: range) -> int:
    return max(0, min(one.stop, other.stop) - max(one.start, other.start))


@dataclass(frozen=True, slots=True)
class Glyphs:
    """How a drawing is written: `wide` x `high` dots a character, and the marks of the axis."""

    wide: int
    high: int
    edge: str
    corner: str
    axis: str
    partly_missing: str
    wholly_missing: str

    def character(self, dots: int) -> str:
        """The character with these dots: bit x * high + y for the dot at (x, y)."""
        if not dots:
            return " "
        return chr(0x2800 + _braille(dots)) if self.wide > 1 else "*"


MARGIN = 8
BRAILLE = Glyphs(2, 4, "│", "└", "─", "░", "█")
ASCII = Glyphs(1, 1, "|", "+", "-", ".", "#")


def _braille(dots: int) -> int:
    # Unicode numbers the upper three dots of the left side, then of the right side, then the lowest two.
    return dots & 0x07 | (dots & 0x70) >> 1 | (dots & 0x08) << 3 | dots & 0x80


def draw(columns: Sequence[Column], width: int, height: int, glyphs: Glyphs) -> list[str]:
    """`height` lines with the scale in their margin, then the axis, which marks where slots are missing.

    `width` is that of the plane beside the margin; it has room for `width * glyphs.wide` columns.
    """
    top = max((column.high for column in columns if column.stored), default=0) or 1
    plane = [[0] * width for _ in range(height)]
    for x, y in _dots(columns, width * glyphs.wide, height * glyphs.high, top):
        plane[y // glyphs.high][x // glyphs.wide] |= 1 << (x % glyphs.wide * glyphs.high + y % glyphs.high)
    scale = {0: scale_text(top), height - 1: "0"}
    rows = ("".join(map(glyphs.character, row)) for row in plane)
    lines = [f"{scale.get(number, ''):>{MARGIN - 2}} {glyphs.edge}{row}" for number, row in enumerate(rows)]
    return [*map(str.rstrip, lines), f"{'':{MARGIN - 1}}{glyphs.corner}{''.join(_axis(columns, width, glyphs))}"]


def scale_text(count: int) -> str:
    """A count in the margin's six characters: 999999, 1.0e6, 9.0e15."""
    return str(count) if count < 10**6 else f"{count:.1e}".replace("e+0", "e").replace("e+", "e")


def _dots(columns: Sequence[Column], wide: int, high: int, top: int) -> Iterator[tuple[int, int]]:
    previous = Column(0)
    for x in range(wide if columns else 0):
        column = columns[x * len(columns) // wide]
        if not column.stored:
            previous = column
            continue
        joined = [previous.last_count] if previous.continues_in(column) else []
        lowest, highest = min([column.low, *joined]), max([column.high, *joined])
        bottom, upper = (high - 1 - round(count * (high - 1) / top) for count in (lowest, highest))
        yield from ((x, y) for y in range(upper, bottom + 1))
        previous = column


def _axis(columns: Sequence[Column], width: int, glyphs: Glyphs) -> Iterator[str]:
    dots = width * glyphs.wide
    for x in range(0, dots, glyphs.wide):
        first, last = x * len(columns) // dots, (x + glyphs.wide - 1) * len(columns) // dots
        under = [column for column in columns[first : last + 1] if column.expected]
        if all(column.stored >= column.expected for column in under):
            yield glyphs.axis
        else:
            yield glyphs.partly_missing if any(column.stored for column in under) else glyphs.wholly_missing
