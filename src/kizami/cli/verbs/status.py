"""`kizami status`: how the collection is doing, once or again and again."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from math import ceil
from typing import Any

import click

from kizami.cli.homes import Backend, Daemon, HomeOptions, Polling, backend_options
from kizami.cli.overview import LATENESS_RANGE, MetricOverview, Overview, read_overview
from kizami.cli.terminal.printing import (
    age_text,
    completeness_text,
    instant_text,
    is_terminal,
    json_option,
    plural,
    print_json,
    table_lines,
)
from kizami.core.coverage import Completeness
from kizami.home.values import QueueDepth
from kizami.platform.clock import SystemClock

_SHOWN = 20
_COLUMNS = (
    ("metric", False),
    ("newest slot", False),
    ("age", True),
    ("last hour", True),
    ("last day", True),
    ("missing", True),
)


@click.command(short_help="Show how the collection is doing.")
@click.option("--watch", is_flag=True, help="Show it again and again until Ctrl-C.")
@click.option(
    "--every",
    "every_seconds",
    metavar="SECONDS",
    default=2.0,
    show_default=True,
    type=click.FloatRange(0.1, 3600),
    help="How often, with --watch.",
)
@click.option("--all", "show_all", is_flag=True, help=f"List every metric, not only the {_SHOWN} least complete.")
@json_option
@backend_options
def command(watch: bool, every_seconds: float, show_all: bool, as_json: bool, home: HomeOptions) -> None:
    """Show the newest slot of each metric, its coverage, and the queue.

    Coverage is of slots that are due; one that may still be on its way is not counted yet. Missing are the
    slots of the last day that are neither stored nor on the queue nor dead: `kizami gaps` lists them.
    """
    with home.opened() as backend:
        if watch:
            _watch(backend, every_seconds, show_all, as_json)
            return
        overview = read_overview(backend, SystemClock().now())
    if as_json:
        print_json(overview_fields(overview))
    else:
        click.echo("\n".join(overview_lines(overview, show_all)))


def _watch(backend: Backend, every_seconds: float, show_all: bool, as_json: bool) -> None:
    with _screen(as_json, show_all) as show:
        while True:
            show(read_overview(backend, SystemClock().now()))
            time.sleep(every_seconds)


@contextmanager
def _screen(as_json: bool, show_all: bool) -> Iterator[Callable[[Overview], None]]:
    """What shows an overview: in place on a terminal, else one after another."""
    if as_json:
        yield lambda overview: click.echo(json.dumps(overview_fields(overview), ensure_ascii=False))
    elif not is_terminal(sys.stdout):
        yield lambda overview: click.echo("\n".join([*overview_lines(overview, show_all), ""]))
    else:
        from rich.live import Live
        from rich.text import Text

        with Live(screen=True, auto_refresh=False) as live:
            yield lambda overview: live.update(
                Text.from_ansi("\n".join(overview_lines(overview, show_all))), refresh=True
            )


def overview_lines(overview: Overview, show_all: bool = False) -> list[str]:
    """The overview as a person reads it: a table of metrics, then what they share."""
    shown = overview.metrics if show_all else overview.metrics[:_SHOWN]
    lines = table_lines(_COLUMNS, [_row(each, overview.now) for each in shown])
    if len(shown) < len(overview.metrics):
        lines.append(f"… and {len(overview.metrics) - len(shown):,} more, no less complete (--all lists them)")
    return [*lines, "", *_summary_lines(overview)]


def _row(each: MetricOverview, now: datetime) -> list[str]:
    polled = each.metric.polling is Polling.ON
    return [
        each.metric.name if polled else f"{each.metric.name} ({each.metric.polling.value})",
        instant_text(each.newest),
        age_text(now - each.newest) if each.newest else "-",
        _coverage_text(each.hour),
        _coverage_text(each.day),
        str(each.missing) if polled else "-",
    ]


def _coverage_text(completeness: Completeness) -> str:
    return completeness_text(completeness) if completeness.expected else "-"


def _summary_lines(overview: Overview) -> list[str]:
    queue, late = overview.queue, overview.lateness
    minutes = f"last {LATENESS_RANGE.seconds // 60} minutes"
    daemon = [f"daemon    {_daemon_text(overview.daemon)}"] if overview.daemon else []
    return [
        *daemon,
        f"coverage  {_overall_coverage_text(overview)}",
        f"missing   {plural(overview.missing, 'slot')} of the last day",
        f"lateness  p50 {late.p50_ms} ms, p99 {late.p99_ms} ms, {plural(late.polls, 'poll')} in the {minutes}"
        if late.polls
        else f"lateness  no polls {'yet' if overview.first_tick else f'in the {minutes}'}",
        f"queue     {_queue_text(queue)}",
        f"dead      {plural(queue.dead, 'dead letter')}",
    ]


def _overall_coverage_text(overview: Overview) -> str:
    if overview.first_tick is None:
        return f"{_coverage_text(overview.hour)} of the last hour, {_coverage_text(overview.day)} of the last day"
    ahead = overview.first_tick - overview.now
    if ahead > timedelta():
        return f"starting: the first slot is due in {age_text(ceil(ahead.total_seconds()))}"
    return "starting: the first slot is on its way"


def _daemon_text(daemon: Daemon) -> str:
    state = f"running (pid {daemon.pid})" if daemon.running else "not running; `kizami up` starts it"
    return f"{state}; {daemon.trouble}" if daemon.trouble else state


def _queue_text(queue: QueueDepth) -> str:
    counts = f"{queue.waiting:,} waiting, {queue.delayed:,} planned, {queue.in_flight:,} in flight"
    oldest = queue.oldest_age_seconds
    return counts if oldest is None else f"{counts}, the oldest for {oldest:.1f} s"


def overview_fields(overview: Overview) -> dict[str, Any]:
    """The overview as a program reads it."""
    daemon, queue, late = overview.daemon, overview.queue, overview.lateness
    return {
        "now": instant_text(overview.now),
        "daemon": {"running": daemon.running, "pid": daemon.pid, "trouble": daemon.trouble} if daemon else None,
        "coverage": {"hour": _coverage_fields(overview.hour), "day": _coverage_fields(overview.day)},
        "missing": overview.missing,
        "lateness": {"polls": late.polls, "p50Ms": late.p50_ms, "p99Ms": late.p99_ms, "maxMs": late.max_ms},
        "queue": {
            "waiting": queue.waiting,
            "planned": queue.delayed,
            "inFlight": queue.in_flight,
            "oldestAgeSeconds": queue.oldest_age_seconds,
        },
        "deadLetters": queue.dead,
        "metrics": [_metric_fields(each, overview.now) for each in overview.metrics],
    }


def _metric_fields(each: MetricOverview, now: datetime) -> dict[str, Any]:
    return {
        "metricName": each.metric.name,
        "polling": each.metric.polling.name.lower(),
        "intervalSeconds": each.metric.interval_seconds,
        "newestSlot": instant_text(each.newest) if each.newest else None,
        "ageSeconds": round((now - each.newest).total_seconds(), 1) if each.newest else None,
        "hour": _coverage_fields(each.hour),
        "day": _coverage_fields(each.day),
        "missing": each.missing,
    }


def _coverage_fields(completeness: Completeness) -> dict[str, int]:
    return {"stored": completeness.stored, "expected": completeness.expected}
