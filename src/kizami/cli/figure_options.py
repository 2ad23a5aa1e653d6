"""What a verb is asked to tell instead of records: `--every`, `--sum`, `--mean`, `--min`, `--max`, `--compare`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from kizami.backend.figures.edges import Every, parse_every
from kizami.backend.figures.report import FigureQuestion
from kizami.backend.figures.summary import Aggregate
from kizami.cli.ranges import TimeRange
from kizami.cli.shown_zone import shown_zone
from kizami.core.slots import Window, shift

_STRETCHES = 24  # that are shown if no range is named


@dataclass(frozen=True, slots=True)
class FigureOptions:
    """The stretches, the figures of each in the order of `Aggregate`, and what they are compared with."""

    every: Every | None = None
    aggregates: tuple[Aggregate, ...] = ()
    compare: str | None = None

    @property
    def is_asked(self) -> bool:
        """Whether figures are wanted, and not records."""
        return bool(self.every or self.aggregates or self.compare)

    @property
    def question(self) -> FigureQuestion:
        """What is asked of a range."""
        return FigureQuestion(self.every, shown_zone(), self.compare, prefix="--")

    def window(self, asked: TimeRange) -> Window:
        """The range up to now; unless the user says where it begins, its first stretch is whole."""
        start = asked.start
        if asked.is_default and self.every:
            start = shift(asked.now, -_STRETCHES * self.every.length.total_seconds())
        window = Window(start, min(asked.end, asked.now))
        return window if asked.is_exact else self.question.whole(window)


def figure_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the options that ask for figures, and its function one `figures`."""

    @click.option("--every", metavar="DURATION", help="Figures of each 1m, 5m, 1h, 1d, 1w or 1mo, not records.")
    @click.option("--sum", "with_sum", is_flag=True, help="Show the sum of the counts.")
    @click.option("--mean", "with_mean", is_flag=True, help="Show their mean.")
    @click.option("--min", "with_min", is_flag=True, help="Show the lowest.")
    @click.option("--max", "with_max", is_flag=True, help="Show the highest.")
    @wraps(verb)
    def with_figures(
        *arguments: Any,
        every: str | None,
        with_sum: bool,
        with_mean: bool,
        with_min: bool,
        with_max: bool,
        compare: str | None = None,
        **options: Any,
    ) -> Any:
        wanted = zip(Aggregate, (with_sum, with_mean, with_min, with_max), strict=True)
        aggregates = tuple(each for each, is_wanted in wanted if is_wanted)
        stretch = parse_every(every, "--every") if every is not None else None
        return verb(*arguments, figures=FigureOptions(stretch, aggregates, compare), **options)

    return with_figures
