"""`kizami query`: the records of one metric, and how complete they are."""

from __future__ import annotations

import json
import sys
from typing import IO

import click

from kizami.cli.homes import HomeOptions, backend_options
from kizami.cli.metric_names import find_target, metric_argument
from kizami.cli.ranges import TimeRange, range_options
from kizami.cli.terminal.printing import (
    emphasized,
    gap_fields,
    instant_text,
    json_option,
    plural,
    range_fields,
    say,
    stored_words,
)
from kizami.cli.terminal.record_formats import write_csv
from kizami.cli.terminal.records_with_gaps import RecordsWithGaps
from kizami.core.coverage import Gap
from kizami.core.messages import write_record
from kizami.home.targets import KnownTarget


@click.command(short_help="Show a metric's records.")
@metric_argument
@range_options(default_last="10m")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@json_option
@backend_options
def command(metric: str, time_range: TimeRange, as_csv: bool, as_json: bool, home_options: HomeOptions) -> None:
    """Show the records of METRIC in a range of time, oldest first, and where there are none.

    How complete they are is said on stderr: 719/720 means that one slot of 720 has no record.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other.")
    with home_options.opened() as home:
        found = find_target(home, metric)
        records = home.records(metric, time_range.start, time_range.end)
        expected = found.within(time_range.start, time_range.end, time_range.now)
        listing = RecordsWithGaps(records, expected)
        if as_json:
            _write_json(found, time_range, listing, sys.stdout)
        elif as_csv:
            write_csv(listing.records(), sys.stdout)
        else:
            _write_table(listing, sys.stdout)
    sys.stdout.flush()
    say(stored_words(listing.completeness))


def _write_table(listing: RecordsWithGaps, file: IO[str]) -> None:
    # Column widths are fixed, because nothing is known of the rows that are still to come.
    file.write(emphasized(f"{'slotTime':20}  {'count':>10}  collectedAt") + "\n")
    for entry in listing.entries():
        if isinstance(entry, Gap):
            file.write(f"{instant_text(entry.start)}  {'-':>10}  {plural(entry.slots, 'slot')} not stored\n")
        else:
            file.write(f"{instant_text(entry.slot)}  {entry.count:>10}  {instant_text(entry.collected_at)}\n")


def _write_json(target: KnownTarget, time_range: TimeRange, listing: RecordsWithGaps, file: IO[str]) -> None:
    """One document, written as its records come by; what is known only at the end stands at the end."""
    head = {"metricName": target.name, "intervalSeconds": target.interval_seconds, **range_fields(time_range)}
    file.write(json.dumps(head, ensure_ascii=False)[:-1] + ', "records": [')
    for number, record in enumerate(listing.records()):
        file.write((",\n" if number else "\n") + json.dumps(write_record(record), ensure_ascii=False))
    told = listing.completeness
    tail = {"gaps": [gap_fields(gap) for gap in listing.gaps], "stored": told.stored, "expected": told.expected}
    file.write("\n], " + json.dumps(tail)[1:] + "\n")
