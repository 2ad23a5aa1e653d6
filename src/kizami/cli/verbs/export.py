"""`kizami export`: records as a file, of any length in constant memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Generic, TypeVar

import click

from kizami.backend.columns import RecordColumns
from kizami.backend.figures.report import Report, read_report
from kizami.backend.figures.summary import Aggregate
from kizami.backend.port import Backend
from kizami.backend.targets import KnownTarget
from kizami.cli.backends import BackendOptions, backend_options
from kizami.cli.figure_options import FigureOptions, figure_options
from kizami.cli.metric_names import find_targets, metrics_argument
from kizami.cli.ranges import TimeRange, range_options
from kizami.cli.terminal.figure_formats import write_figures_csv, write_figures_jsonl, write_figures_parquet
from kizami.cli.terminal.printing import plural, say, unwritable
from kizami.cli.terminal.record_formats import (
    EXCEL,
    PLAIN,
    CsvForm,
    write_csv_columns,
    write_jsonl,
    write_parquet,
)
from kizami.core.epoch import from_seconds
from kizami.core.slots import Window

_STRETCHES = 5000  # that are in memory at once


@click.command(short_help="Write records as CSV, JSON lines or Parquet.")
@metrics_argument
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["csv", "jsonl", "parquet"]),
    default="csv",
    show_default=True,
    help="The file's format.",
)
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), help="The file; default: stdout.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format jsonl.")
@click.option("--excel", is_flag=True, help="CSV that a spreadsheet opens rightly.")
@range_options(default_last=None)
@figure_options
@backend_options
def command(
    metrics: tuple[str, ...],
    format_name: str,
    output: Path | None,
    as_json: bool,
    excel: bool,
    time_range: TimeRange,
    figures: FigureOptions,
    backend_options: BackendOptions,
) -> None:
    """Write the records of METRIC (or of all metrics), metric by metric, oldest first.

    METRIC may be several names, and patterns such as 'chat/*'. With --every it is the figures of each hour or day.
    A file appears under its name only when it is whole.
    """
    format_name = "jsonl" if as_json else format_name
    if excel and format_name != "csv":
        raise click.UsageError(f"--excel is CSV, and goes without --format {format_name}.")
    if output is None and format_name == "parquet" and sys.stdout.isatty():
        raise click.UsageError("--format parquet is not for a terminal; use --output FILE.")
    with backend_options.opened() as backend:
        names = [each.name for each in find_targets(backend, metrics)] if metrics else list(backend.names())
        targets = backend.targets(names)
        export = Export("excel" if excel else format_name, max((each.decimals for each in targets), default=0))
        with _destination(output) as file:
            if figures.is_asked:
                reports = figure_reports(backend, targets, time_range, figures)
                written = export.figures(reports, file, figures.aggregates or tuple(Aggregate))
            else:
                written = export.records(_records(backend, names, time_range), file)
    what = plural(written, "row" if figures.is_asked else "record")
    say(f"{what} of {plural(len(names), 'metric')} written to {output or 'stdout'}")


@dataclass(frozen=True, slots=True)
class Export:
    """What is written to a file: in which format, with how many decimal places where that has to be said."""

    format_name: str
    decimals: int

    @property
    def _csv_form(self) -> CsvForm:
        return EXCEL if self.format_name == "excel" else PLAIN

    def records(self, pieces: Iterator[RecordColumns], file: IO[bytes]) -> int:
        """How many there were."""
        counted = Counted(pieces)
        if self.format_name == "parquet":
            write_parquet(counted, file, self.decimals)
        else:
            with _as_text(file) as text:
                if self.format_name == "jsonl":
                    write_jsonl(counted, text)
                else:
                    write_csv_columns(counted, text, self._csv_form)
        return counted.count

    def figures(self, reports: Iterator[Report], file: IO[bytes], aggregates: Sequence[Aggregate]) -> int:
        """How many stretches there were."""
        counted = Counted(reports)
        if self.format_name == "parquet":
            write_figures_parquet(counted, file, aggregates, self.decimals)
        else:
            with _as_text(file) as text:
                if self.format_name == "jsonl":
                    write_figures_jsonl(counted, text, aggregates)
                else:
                    write_figures_csv(counted, text, aggregates, self._csv_form)
        return counted.count


@contextmanager
def _as_text(file: IO[bytes]) -> Iterator[IO[str]]:
    text = TextIOWrapper(file, encoding="utf-8", newline="")
    yield text
    text.detach()  # flushed; the file is its owner's to close


Piece = TypeVar("Piece", bound=Sized)


class Counted(Generic[Piece]):
    """Pieces, whose rows are counted as they pass."""

    def __init__(self, pieces: Iterator[Piece]) -> None:
        self._pieces = pieces
        self.count = 0

    def __iter__(self) -> Iterator[Piece]:
        for piece in self._pieces:
            self.count += len(piece)
            yield piece


def _records(backend: Backend, names: list[str], time_range: TimeRange) -> Iterator[RecordColumns]:
    for name in names:
        yield from backend.record_columns(name, time_range.start, time_range.end)


def figure_reports(
    backend: Backend, targets: Sequence[KnownTarget], asked: TimeRange, figures: FigureOptions
) -> Iterator[Report]:
    """The figures of each target, some thousand stretches at a time; from its oldest record on, unless told."""
    question, end = figures.question, min(asked.end, asked.now)
    for target in targets:
        oldest = next(backend.record_columns(target.name, asked.start, end), None)
        if oldest is None:
            continue
        start = asked.start if asked.is_exact else from_seconds(oldest.slots[0])
        window = Window(start, end)
        for piece in question.pieces(window if asked.is_exact else question.whole(window), _STRETCHES):
            yield read_report(backend, target, question, question.edges(piece), asked.now)


@contextmanager
def _destination(output: Path | None) -> Iterator[IO[bytes]]:
    if output is None:
        yield sys.stdout.buffer
        return
    try:
        with output.open("wb") if _is_special(output) else _whole_file(output.resolve()) as file:
            yield file
    except OSError as error:
        raise unwritable(output, error) from None


def _is_special(path: Path) -> bool:
    """A device or a pipe is written to; moving a file into its place would remove it."""
    return path.exists() and not path.is_file()


@contextmanager
def _whole_file(path: Path) -> Iterator[IO[bytes]]:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
