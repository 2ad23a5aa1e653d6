"""`kizami query`: the records of metrics, or their figures by the hour or day, and how complete they are."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from itertools import chain
from typing import IO, Any

import click

from kizami.backend.figures.report import Report, read_report
from kizami.backend.figures.selection import is_pattern
from kizami.backend.figures.summary import Aggregate
from kizami.backend.figures.wire import answer_json, csv_columns, csv_rows
from kizami.backend.port import Backend
from kizami.backend.targets import KnownTarget
from kizami.backend.wire import gap_fields
from kizami.cli.backends import BackendOptions, backend_options
from kizami.cli.figure_options import FigureOptions, figure_options
from kizami.cli.metric_names import find_targets, some_metrics_argument
from kizami.cli.ranges import TimeRange, range_options, widened
from kizami.cli.terminal.colours import emphasized
from kizami.cli.terminal.figure_tables import figure_columns, figure_rows
from kizami.cli.terminal.printing import (
    instant_text,
    json_option,
    plural,
    print_json,
    range_fields,
    say,
    stored_words,
)
from kizami.cli.terminal.record_formats import write_csv_columns
from kizami.cli.terminal.records_with_gaps import RecordsWithGaps
from kizami.cli.terminal.tables import print_table
from kizami.core.coverage import Completeness, Gap, add_up
from kizami.core.epoch import EPOCH, InstantTexts
from kizami.core.slots import Window

_COUNT_WIDTH = 10


@click.command(short_help="Show records, or sums and means by the hour or day.")
@some_metrics_argument
@range_options(default_last="10m")
@figure_options
@click.option("--compare", metavar="DURATION", help="Beside the same time so long before: 1d, 1w.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@json_option
@backend_options
def command(
    metrics: tuple[str, ...],
    time_range: TimeRange,
    figures: FigureOptions,
    as_csv: bool,
    as_json: bool,
    backend_options: BackendOptions,
) -> None:
    """Show the records of METRIC in a range of time, oldest first, and where there are none.

    METRIC may be several names, and patterns such as 'chat/*'. With --every, --sum, --mean, --min, --max or
    --compare it is figures that are shown: of each hour or day, or of the range as a whole. How complete they are
    is said on stderr: 719/720 means that one slot of 720 has no record.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other.")
    form = "csv" if as_csv else "json" if as_json else "table"
    with backend_options.opened() as backend:
        targets = find_targets(backend, metrics)
        if figures.is_asked:
            told = _tell_figures(backend, targets, time_range, figures, form)
        else:
            is_one = len(metrics) == 1 and not is_pattern(metrics[0]) and len(targets) == 1
            told = _tell_records(backend, targets, time_range, form, is_one)
        daemon = backend.daemon() if time_range.reaches_now else None
    sys.stdout.flush()
    say(stored_words(told, daemon))


def _tell_figures(
    backend: Backend, targets: Sequence[KnownTarget], asked: TimeRange, figures: FigureOptions, form: str
) -> Completeness:
    window, question = figures.window(asked), figures.question
    edges = question.edges(window)
    question.edges_before(edges)  # a mistake in it is told before anything is read
    reports = [read_report(backend, target, question, edges, asked.now) for target in targets]
    # Beside another time the sum alone: all four would be a dozen columns.
    usual = (Aggregate.SUM,) if figures.compare and form == "table" else tuple(Aggregate)
    _write_figures(window, figures, reports, figures.aggregates or usual, form)
    return add_up(report.completeness for report in reports)


def _write_figures(
    window: Window,
    figures: FigureOptions,
    reports: Sequence[Report],
    aggregates: Sequence[Aggregate],
    form: str,
) -> None:
    if form == "json":
        print_json(answer_json(window, figures.question, reports, aggregates))
    elif form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(csv_columns(aggregates, compared=figures.compare is not None))
        writer.writerows(chain.from_iterable(csv_rows(report, aggregates) for report in reports))
    else:
        named = len(reports) > 1
        columns = figure_columns(aggregates, figures.compare, named=named)
        print_table(columns, figure_rows(reports, aggregates, named=named))


def _tell_records(
    backend: Backend, targets: Sequence[KnownTarget], asked: TimeRange, form: str, is_one: bool
) -> Completeness:
    listings = {target.name: _listing(backend, target, asked) for target in targets}
    if form == "csv":
        write_csv_columns(chain.from_iterable(listing.records() for listing in listings.values()), sys.stdout)
    elif form == "json" and is_one:
        _write_json(targets[0], asked, listings[targets[0].name], sys.stdout)
    elif form == "json":
        _write_documents(targets, asked, listings, sys.stdout)
    else:
        for name, listing in listings.items():
            sys.stdout.write("" if is_one else f"{emphasized(name)}\n")
            _write_table(listing, sys.stdout)
    return add_up(listing.completeness for listing in listings.values())


def _listing(backend: Backend, target: KnownTarget, asked: TimeRange) -> RecordsWithGaps:
    wider = widened(asked, target.interval_seconds, target.lag_seconds)
    pieces = backend.record_columns(target.name, wider.start, wider.end)
    return RecordsWithGaps(pieces, target.within(wider.start, wider.end, wider.now))


def _write_table(listing: RecordsWithGaps, file: IO[str]) -> None:
    # Column widths are fixed, because nothing is known of the rows that are still to come.
    width = len(instant_text(EPOCH))  # with its offset it is longer than in UTC
    file.write(emphasized(f"{'slotTime':{width}}  {'count':>{_COUNT_WIDTH}}  collectedAt") + "\n")
    texts = InstantTexts(instant_text)
    for entry in listing.entries():
        if isinstance(entry, Gap):
            file.write(
                f"{instant_text(entry.start)}  {'-':>{_COUNT_WIDTH}}  {plural(entry.slots, 'slot')} not stored\n"
            )
        else:
            file.write(entry.lines(("", "  ", "  ", "\n"), texts, _COUNT_WIDTH).decode())


def _write_documents(
    targets: Sequence[KnownTarget], asked: TimeRange, listings: dict[str, RecordsWithGaps], file: IO[str]
) -> None:
    """Those of several metrics, in one document."""
    file.write('{"metrics": [')
    for number, target in enumerate(targets):
        file.write(",\n" if number else "\n")
        _write_json(target, asked, listings[target.name], file)
    file.write("]}\n")


def _write_json(target: KnownTarget, asked: TimeRange, listing: RecordsWithGaps, file: IO[str]) -> None:
    """One document, written as its records come by; what is known only at the end stands at the end."""
    time_range = widened(asked, target.interval_seconds, target.lag_seconds)
    head: dict[str, Any] = {
        "metricName": target.name,
        "intervalSeconds": target.interval_seconds,
        **range_fields(time_range),
    }
    file.write(json.dumps(head, ensure_ascii=False)[:-1] + ', "records": [')
    texts, end = InstantTexts(), ",\n"
    for number, piece in enumerate(listing.records()):
        file.write((end if number else "\n") + piece.json_objects(end, texts).decode().removesuffix(end))
    told = listing.completeness
    tail = {"gaps": [gap_fields(gap) for gap in listing.gaps], "stored": told.stored, "expected": told.expected}
    file.write("\n], " + json.dumps(tail)[1:] + "\n")
