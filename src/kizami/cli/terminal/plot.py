"""A metric as a drawing: the figures of stretches as columns, columns as dots, dots as characters (pure).

A line is drawn from one column to the next only where both are whole: what is not known is left open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from kizami.backend.figures.summary import Aggregate, Figure
from kizami.core.answers.numbers import Number, plain_text
from kizami.core.coverage import Span
from kizami.core.slots import shift


@dataclass(frozen=True, slots=True)
class Column:
    """Neighbouring slots that are drawn together, from the least to the greatest count or as one figure."""

    slots: int
    expected: int
    stored: int
    low: Number | Decimal = 0
    high: Number | Decimal = 0

    @property
    def is_whole(self) -> bool:
        return self.stored >= self.slots

    def reaching(self, previous: Column) -> Column:
        """Itself, drawn out to the column before it if nothing is missing in either."""
        if not (self.is_whole and previous.is_whole and previous.stored):
            return self
        low, high = min(self.low, previous.high), max(self.high, previous.low)
        return Column(self.slots, self.expected, self.stored, low, high)


def column_of(figure: Figure, interval_seconds: int, aggregate: Aggregate | None = None) -> Column:
    """The column of a stretch: its extremes, or the one figure that is wanted."""
    slots = (figure.end - figure.start) // timedelta(seconds=interval_seconds)
    told = figure.completeness
    values = [figure.value(each) for each in ([aggregate] if aggregate else [Aggregate.MIN, Aggregate.MAX])]
    return Column(slots, told.expected, told.stored, values[0] or 0, values[-1] or 0)


def column_edges(drawn: Span, most: int) -> list[datetime]:
    """The edges of at most `most` columns, of as many whole slots each as can be."""
    slots = drawn.expected
    count = min(slots, most)
    # The first slot n of column k is the first with n * count // slots == k.
    starts = [-(-number * slots // count) for number in range(count + 1)] if count else [0]
    return [shift(drawn.start, number * drawn.interval_seconds) for number in starts]


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
    top = max((0, *(column.high for column in columns if column.stored)))
    bottom = min((0, *(column.low for column in columns if column.stored)))
    top = top if top > bottom else 1
    plane = [[0] * width for _ in range(height)]
    for x, y in _dots(columns, width * glyphs.wide, height * glyphs.high, float(bottom), float(top)):
        plane[y // glyphs.high][x // glyphs.wide] |= 1 << (x % glyphs.wide * glyphs.high + y % glyphs.high)
    scale = {0: scale_text(top), height - 1: scale_text(bottom)}
    rows = ("".join(map(glyphs.character, row)) for row in plane)
    lines = [f"{scale.get(number, ''):>{MARGIN - 2}} {glyphs.edge}{row}" for number, row in enumerate(rows)]
    return [*map(str.rstrip, lines), f"{'':{MARGIN - 1}}{glyphs.corner}{''.join(_axis(columns, width, glyphs))}"]


def scale_text(count: Number | Decimal) -> str:
    """A count in the margin's six characters: 999999, 1.0e6, 9.0e15, -0.25, 1.0e-5."""
    text = plain_text(count)
    if len(text) <= MARGIN - 2:
        return text
    if 0.001 <= abs(float(count)) < 10**5:
        return text[: MARGIN - 2].rstrip(".")
    return f"{count:.{0 if count < 0 else 1}e}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")


def _dots(columns: Sequence[Column], wide: int, high: int, least: float, top: float) -> Iterator[tuple[int, int]]:
    previous, scale = Column(1, 0, 0), (high - 1) / (top - least)
    for x in range(wide if columns else 0):
        column = columns[x * len(columns) // wide]
        if column.stored:
            reach = column.reaching(previous)
            bottom, upper = (high - 1 - round((float(count) - least) * scale) for count in (reach.low, reach.high))
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
