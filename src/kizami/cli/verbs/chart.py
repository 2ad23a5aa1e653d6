"""`kizami chart`: a metric drawn in the terminal, gaps left open."""

from __future__ import annotations

import shutil
import sys
from typing import Any

import click

from kizami.cli.homes import HomeOptions, backend_options
from kizami.cli.metric_names import find_target, metric_argument
from kizami.cli.ranges import TimeRange, range_options
from kizami.cli.terminal.plot import ASCII, BRAILLE, MARGIN, Column, Glyphs, column_edges, draw, gather_columns
from kizami.cli.terminal.printing import (
    emphasized,
    instant_text,
    json_option,
    print_json,
    range_fields,
    say,
    stored_words,
)
from kizami.core.coverage import Completeness, Span
from kizami.core.slots import shift

_NARROWEST = 24


@click.command(short_help="Draw a metric in the terminal.")
@metric_argument
@range_options(default_last="1h")
@click.option("--width", type=click.IntRange(_NARROWEST, 1000), help="Characters; default: the terminal's width.")
@click.option("--height", type=click.IntRange(2, 200), default=12, show_default=True, help="Lines of the drawing.")
@json_option
@backend_options
def command(
    metric: str, time_range: TimeRange, width: int | None, height: int, as_json: bool, home_options: HomeOptions
) -> None:
    """Draw METRIC over a range of time.

    Slots without a record are left open, never bridged by a line; the axis marks where some or all are
    missing. Where a column stands for many slots it reaches from their least to their greatest count.
    """
    plane = (width or max(_NARROWEST, shutil.get_terminal_size().columns)) - MARGIN
    glyphs = _glyphs()
    with home_options.opened() as home:
        found = find_target(home, metric)
        wanted = time_range.start, time_range.end, time_range.now
        drawn, expected = found.whole(*wanted), found.within(*wanted)
        records = home.records(metric, drawn.start, drawn.end)
        columns = gather_columns(records, drawn, expected, plane * glyphs.wide)
    if as_json:
        print_json({"metricName": metric, **range_fields(time_range), "columns": _column_fields(columns, drawn)})
    else:
        click.echo(emphasized(metric))
        click.echo("\n".join([*draw(columns, plane, height, glyphs), _time_axis(drawn, plane)]))
    say(_words(columns, glyphs))


def _glyphs() -> Glyphs:
    """Braille where the output can write it."""
    try:
        "⠿└─░█".encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return ASCII
    return BRAILLE


def _time_axis(drawn: Span, plane: int) -> str:
    start, end = instant_text(drawn.start), instant_text(drawn.end)
    if plane < len(start) + len(end) + 2:
        start, end = start[11:19], end[11:19]  # the time of day alone
    return " " * MARGIN + start.ljust(plane - len(end)) + end


def _words(columns: list[Column], glyphs: Glyphs) -> str:
    stored = sum(column.stored for column in columns)
    missing = sum(max(0, column.expected - column.stored) for column in columns)
    told = stored_words(Completeness(stored, stored + missing))
    marks = f"{glyphs.partly_missing} some and {glyphs.wholly_missing} all slots missing"
    return f"{told}; on the axis {marks}" if missing else told


def _column_fields(columns: list[Column], drawn: Span) -> list[dict[str, Any]]:
    edges = column_edges(drawn.expected, len(columns))
    return [
        {
            "from": instant_text(shift(drawn.start, edge.start * drawn.interval_seconds)),
            "to": instant_text(shift(drawn.start, edge.stop * drawn.interval_seconds)),
            "stored": column.stored,
            "expected": max(column.expected, column.stored),
            "min": column.low if column.stored else None,
            "max": column.high if column.stored else None,
        }
        for edge, column in zip(edges, columns, strict=True)
    ]
