"""`kizami export`: records as a file, of any length in constant memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import IO

import click

from kizami.cli.homes import HomeOptions, backend_options
from kizami.cli.metric_names import metrics_argument, require_known
from kizami.cli.ranges import TimeRange, range_options
from kizami.cli.terminal.printing import plural, say
from kizami.cli.terminal.record_formats import write_csv, write_jsonl, write_parquet
from kizami.core.messages import MetricRecord
from kizami.home.port import Home


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
@range_options(default_last=None)
@backend_options
def command(
    metrics: tuple[str, ...],
    format_name: str,
    output: Path | None,
    as_json: bool,
    time_range: TimeRange,
    home_options: HomeOptions,
) -> None:
    """Write the records of METRIC (or of all metrics), metric by metric, oldest first.

    A file appears under its name only when it is whole.
    """
    format_name = "jsonl" if as_json else format_name
    if output is None and format_name == "parquet" and sys.stdout.isatty():
        raise click.UsageError("--format parquet is not for a terminal; use --output FILE.")
    with home_options.opened() as home:
        names = [require_known(home, name) for name in metrics] or list(home.names())
        counted = Counted(_records(home, names, time_range))
        with _destination(output) as file:
            _write(counted, format_name, file)
    say(f"{plural(counted.count, 'record')} of {plural(len(names), 'metric')} written to {output or 'stdout'}")


class Counted:
    """Records, counted as they pass."""

    def __init__(self, records: Iterator[MetricRecord]) -> None:
        self._records = records
        self.count = 0

    def __iter__(self) -> Iterator[MetricRecord]:
        for record in self._records:
            self.count += 1
            yield record


def _records(home: Home, names: list[str], time_range: TimeRange) -> Iterator[MetricRecord]:
    for name in names:
        yield from home.records(name, time_range.start, time_range.end)


def _write(records: Counted, format_name: str, file: IO[bytes]) -> None:
    if format_name == "parquet":
        write_parquet(records, file)
        return
    text = TextIOWrapper(file, encoding="utf-8", newline="")
    (write_csv if format_name == "csv" else write_jsonl)(records, text)
    text.detach()  # flushed; the file is its owner's to close


@contextmanager
def _destination(output: Path | None) -> Iterator[IO[bytes]]:
    if output is None:
        yield sys.stdout.buffer
        return
    try:
        with output.open("wb") if _is_special(output) else _whole_file(output.resolve()) as file:
            yield file
    except OSError as error:
        raise click.ClickException(f"{output}: {error.strerror}") from None


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
