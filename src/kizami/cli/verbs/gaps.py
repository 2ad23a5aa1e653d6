"""`kizami gaps`: the due slots that nobody has collected, as runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import click

from kizami.backend.targets import KnownTarget
from kizami.backend.wire import gap_fields
from kizami.cli.backends import BackendOptions, backend_options
from kizami.cli.exit_codes import CHECK_FAILED, OK
from kizami.cli.metric_names import chosen_targets, metrics_argument
from kizami.cli.ranges import TimeRange, range_options, widened
from kizami.cli.terminal.printing import (
    age_text,
    instant_text,
    json_option,
    nothing_due,
    plural,
    print_json,
    range_fields,
    say,
)
from kizami.cli.terminal.tables import print_table
from kizami.core.coverage import Gap, Span, count_slots

_COLUMNS = (("metric", False), ("from", False), ("to", False), ("slots", True), ("length", True))


@click.command(short_help="List the slots that nobody has collected.")
@metrics_argument
@range_options(default_last="24h")
@click.option("--check", is_flag=True, help="Exit with code 5 if there are any.")
@json_option
@backend_options
def command(
    metrics: tuple[str, ...], time_range: TimeRange, check: bool, as_json: bool, backend_options: BackendOptions
) -> int:
    """List the due slots of METRIC (or of all that are polled) that are missing.

    A missing slot is neither stored nor on the queue nor a dead letter: nobody tried, or nobody will any more.
    `kizami backfill --gaps` asks for them again.
    """
    with backend_options.opened() as backend:
        chosen = chosen_targets(backend, metrics)
        spans = {name: span_of(target, time_range) for name, target in chosen.items()}
        found = backend.missing(spans)
        daemon = backend.daemon() if time_range.reaches_now else None
    missing = count_slots(chain.from_iterable(found.values()))
    if as_json:
        print_json({**range_fields(time_range), "missing": missing, "gaps": gap_list(found)})
    else:
        print_gaps(found)
    expected = sum(span.expected for span in spans.values())
    told = f"{plural(missing, 'slot')} of {expected:,} missing in {plural(len(chosen), 'metric')}"
    say(told if expected else nothing_due(daemon))
    return CHECK_FAILED if check and missing else OK


def span_of(target: KnownTarget, time_range: TimeRange) -> Span:
    """Its due slots of the range; of the default one at least the newest, also with a long interval or lag."""
    wider = widened(time_range, target.interval_seconds, target.lag_seconds)
    return target.within(wider.start, wider.end, wider.now)


def print_gaps(found: Mapping[str, Sequence[Gap]]) -> None:
    """A table of the gaps; nothing if there are none."""
    rows = [
        [name, instant_text(gap.start), instant_text(gap.end), str(gap.slots), age_text(gap.end - gap.start)]
        for name, gaps in found.items()
        for gap in gaps
    ]
    if rows:
        print_table(_COLUMNS, rows)


def gap_list(found: Mapping[str, Sequence[Gap]]) -> list[dict[str, str | int]]:
    """The gaps as a program reads them."""
    return [{"metricName": name, **gap_fields(gap)} for name, gaps in found.items() for gap in gaps]
