"""`kizami chart`: metrics drawn in the terminal, gaps left open."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click

from kizami.backend.figures.report import read_report
from kizami.backend.figures.summary import Aggregate, Figure
from kizami.backend.figures.wire import figure_json
from kizami.backend.port import Backend
from kizami.backend.targets import KnownTarget
from kizami.backend.values import DaemonState
from kizami.cli.backends import BackendOptions, backend_options
from kizami.cli.figure_options import FigureOptions, figure_options
from kizami.cli.metric_names import find_targets, some_metrics_argument
from kizami.cli.ranges import TimeRange, range_options, widened
from kizami.cli.terminal.colours import emphasized
from kizami.cli.terminal.plot import ASCII, BRAILLE, MARGIN, Glyphs, column_edges, column_of, draw
from kizami.cli.terminal.printing import (
    instant_text,
    json_option,
    print_json,
    say,
    stored_words,
)
from kizami.core.coverage import add_up
from kizami.core.errors import InvalidInput
from kizami.core.slots import format_second

_NARROWEST = 24


@dataclass(frozen=True, slots=True)
class Drawing:
    """A metric by stretches, each a column: from the lowest to the highest count, or at one of their figures."""

    target: KnownTarget
    start: datetime
    end: datetime
    figures: Sequence[Figure]
    aggregate: Aggregate | None


@click.command(short_help="Draw metrics in the terminal.")
@some_metrics_argument
@range_options(default_last="1h")
@figure_options
@click.option("--width", type=click.IntRange(_NARROWEST, 1000), help="Characters; default: the terminal's width.")
@click.option("--height", type=click.IntRange(2, 200), default=12, show_default=True, help="Lines of the drawing.")
@json_option
@backend_options
def command(
    metrics: tuple[str, ...],
    time_range: TimeRange,
    figures: FigureOptions,
    width: int | None,
    height: int,
    as_json: bool,
    backend_options: BackendOptions,
) -> None:
    """Draw METRIC over a range of time; several metrics, also 'chat/*', one below the other.

    Slots without a record are left open, never bridged by a line; the axis marks where some or all are
    missing. Where a column stands for many slots it reaches from their least to their greatest count, or is at
    their --sum, --mean, --min or --max. With --every the columns are hours or days.
    """
    if len(figures.aggregates) > 1:
        raise click.UsageError("Draw one of --sum, --mean, --min and --max at a time.")
    plane = (width or max(_NARROWEST, shutil.get_terminal_size().columns)) - MARGIN
    glyphs = _glyphs()
    with backend_options.opened() as backend:
        drawings = [
            _drawing(backend, target, time_range, figures, plane * glyphs.wide)
            for target in find_targets(backend, metrics)
        ]
        daemon = backend.daemon() if time_range.reaches_now else None
    if as_json:
        _print_json(drawings)
    else:
        for drawing in drawings:
            _print_drawing(drawing, plane, height, glyphs)
    say(_words(drawings, glyphs, daemon))


def _drawing(
    backend: Backend, target: KnownTarget, asked: TimeRange, figures: FigureOptions, most: int
) -> Drawing:
    aggregate = figures.aggregates[0] if figures.aggregates else None
    if figures.every:
        edges = _fitting(figures.question.edges(figures.window(asked)), most)
    else:
        wider = widened(asked, target.interval_seconds, target.lag_seconds)
        edges = column_edges(target.whole(wider.start, wider.end, wider.now), most)
    report = read_report(backend, target, figures.question, edges, asked.now)
    return Drawing(target, edges[0], edges[-1], [row.figure for row in report.rows], aggregate)


def _fitting(edges: list[datetime], most: int) -> list[datetime]:
    if len(edges) - 1 > most:
        remedy = "use a longer one, a shorter range or a greater --width"
        raise InvalidInput("--every", f"{len(edges) - 1:,} columns do not fit, only {most:,}; {remedy}")
    return edges


def _glyphs() -> Glyphs:
    """Braille where the output can write it."""
    try:
        "⠿└─░█".encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return ASCII
    return BRAILLE


def _print_drawing(drawing: Drawing, plane: int, height: int, glyphs: Glyphs) -> None:
    interval = drawing.target.interval_seconds
    columns = [column_of(figure, interval, drawing.aggregate) for figure in drawing.figures]
    click.echo(emphasized(drawing.target.name))
    click.echo("\n".join([*draw(columns, plane, height, glyphs), _time_axis(drawing, plane)]))


def _time_axis(drawing: Drawing, plane: int) -> str:
    start, end = instant_text(drawing.start), instant_text(drawing.end)
    if plane < len(start) + len(end) + 2:
        start, end = start[11:19], end[11:19]  # the time of day alone
    return " " * MARGIN + start.ljust(plane - len(end)) + end


def _print_json(drawings: Sequence[Drawing]) -> None:
    documents = [_fields(drawing) for drawing in drawings]
    print_json(documents[0] if len(documents) == 1 else {"metrics": documents})


def _fields(drawing: Drawing) -> dict[str, Any]:
    told = [drawing.aggregate] if drawing.aggregate else [Aggregate.MIN, Aggregate.MAX]
    return {
        "metricName": drawing.target.name,
        "from": format_second(drawing.start),
        "to": format_second(drawing.end),
        "columns": [figure_json(figure, told) for figure in drawing.figures],
    }


def _words(drawings: Sequence[Drawing], glyphs: Glyphs, daemon: DaemonState | None) -> str:
    told = add_up(figure.completeness for drawing in drawings for figure in drawing.figures)
    marks = f"{glyphs.partly_missing} some and {glyphs.wholly_missing} all slots missing"
    stored = stored_words(told, daemon)
    return f"{stored}; on the axis {marks}" if told.missing else stored
