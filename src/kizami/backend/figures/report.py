"""The figures of a metric by stretches of a range, and those of the same stretches some time before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from decimal import Decimal

from kizami.backend.figures.edges import Every, edges_between, moved_back, require_whole_slots, start_of
from kizami.backend.figures.summary import Aggregate, Figure, summarize
from kizami.backend.port import Backend
from kizami.backend.targets import KnownTarget
from kizami.backend.times.durations import read_duration
from kizami.core.coverage import Completeness, add_up
from kizami.core.errors import InvalidInput
from kizami.core.slots import Window


@dataclass(frozen=True, slots=True)
class Compared:
    """The figures of a stretch, and those of the one that it is compared with, if it is."""

    figure: Figure
    before: Figure | None = None

    def change(self, aggregate: Aggregate) -> Decimal | None:
        """By how much it is more than before; None where there is nothing on either side."""
        value = self.figure.value(aggregate)
        before = self.before.value(aggregate) if self.before else None
        return None if value is None or before is None else _decimal(value) - _decimal(before)


def _decimal(value: float | Decimal) -> Decimal:
    return Decimal(str(value))  # of a float, the decimal that it stands for


@dataclass(frozen=True, slots=True)
class Report:
    """All stretches of one metric, ascending."""

    target: KnownTarget
    rows: Sequence[Compared]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def completeness(self) -> Completeness:
        """Of the range as a whole."""
        return add_up(row.figure.completeness for row in self.rows)


@dataclass(frozen=True, slots=True)
class FigureQuestion:
    """What is asked about a range: by which stretches (None: it is one), of which zone, compared with when."""

    every: Every | None
    zone: tzinfo
    compare: str | None = None
    prefix: str = ""  # of what its parts are called where it is asked

    def whole(self, window: Window) -> Window:
        """The range from where its first stretch begins."""
        return Window(start_of(self.every, self.zone, window.start), window.end) if self.every else window

    def edges(self, window: Window) -> list[datetime]:
        """The edges of the range; InvalidInput where they are too many."""
        if self.every is None:
            return [window.start, window.end]
        return edges_between(self.every, self.zone, window.start, window.end, f"{self.prefix}every")

    def pieces(self, window: Window, stretches: int) -> Iterator[Window]:
        """The range in pieces of about so many stretches, none of which is cut."""
        start = window.start
        while self.every and (end := self._start_after(start, stretches)) < window.end:
            yield Window(start, end)
            start = end
        yield Window(start, window.end)

    def _start_after(self, start: datetime, stretches: int) -> datetime:
        assert self.every is not None
        try:
            return start_of(self.every, self.zone, start + (stretches + 1) * self.every.length)
        except OverflowError:
            return datetime.max.replace(tzinfo=UTC)

    def edges_before(self, edges: Sequence[datetime]) -> list[datetime] | None:
        """The edges of what it is compared with, if it is."""
        if self.compare is None:
            return None
        field = f"{self.prefix}compare"
        seconds = read_duration(self.compare, field)
        if not seconds:
            raise InvalidInput(field, f"{self.compare} is not some time before, such as 1d or 1w")
        try:
            return moved_back(edges, seconds, self.zone)
        except OverflowError:
            raise InvalidInput(field, f"{self.compare} reaches back before year 0001") from None


def read_report(
    backend: Backend, target: KnownTarget, question: FigureQuestion, edges: Sequence[datetime], now: datetime
) -> Report:
    """The figures of one metric between the edges."""
    if question.every:
        require_whole_slots(question.every, target, f"{question.prefix}every")
    figures = summarize(target, edges, backend.figures(target.name, edges), now)
    edges_before = question.edges_before(edges)
    if edges_before is None:
        return Report(target, [Compared(figure) for figure in figures])
    before = summarize(target, edges_before, backend.figures(target.name, edges_before), now)
    return Report(target, [Compared(*pair) for pair in zip(figures, before, strict=True)])
