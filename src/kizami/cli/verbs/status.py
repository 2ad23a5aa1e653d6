"""`kizami status`: how the collection is doing, once or again and again."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any

import click

from kizami.cli.homes import HomeOptions, backend_options
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
from kizami.home.health import LATENESS_RANGE, Overview, judge
from kizami.home.port import Home
from kizami.home.snapshot import HomeHealth, TargetStatus, read_health
from kizami.home.targets import Polling
from kizami.home.values import DaemonState, QueueDepth
from kizami.platform.clock import SystemClock
from kizami.web.view.phrasing import verdict_sentence
from kizami.web.view.words import words_in

_SHOWN = 20
_NOT_POLLED = {Polling.PAUSED: "paused", Polling.DISABLED: "disabled", Polling.REMOVED: "not configured"}
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
def command(watch: bool, every_seconds: float, show_all: bool, as_json: bool, home_options: HomeOptions) -> None:
    """Show the newest slot of each metric, its coverage, and the queue.

    Coverage is of slots that are due; one that may still be on its way is not counted yet. Missing are the
    slots of the last day that are neither stored nor on the queue nor dead: `kizami gaps` lists them.
    """
    with home_options.opened() as home:
        if watch:
            _watch(home, every_seconds, show_all, as_json)
            return
        status = read_status(home, SystemClock().now())
    if as_json:
        print_json(status_fields(status))
    else:
        click.echo("\n".join(status_lines(status, show_all)))


def _watch(home: Home, every_seconds: float, show_all: bool, as_json: bool) -> None:
    with _screen(as_json, show_all) as show:
        while True:
            show(read_status(home, SystemClock().now()))
            time.sleep(every_seconds)


@dataclass(frozen=True, slots=True)
class Status:
    """What the verb shows: the home's health, and the daemon that collects, if one does there."""

    health: HomeHealth
    daemon: DaemonState | None

    @property
    def targets(self) -> list[TargetStatus]:
        """All of them, those that need a look first."""
        return sorted(self.health.targets.values(), key=_urgency)


def read_status(home: Home, now: datetime) -> Status:
    """The state of the home at `now`."""
    return Status(read_health(home, now), home.daemon())


def _urgency(status: TargetStatus) -> tuple[float, float, str]:
    return status.hour.ratio, _day(status).ratio, status.target.name


def _day(status: TargetStatus) -> Completeness:
    """Of a target that is not polled nothing is expected."""
    return status.day if status.target.is_on else Completeness(0, 0)


@contextmanager
def _screen(as_json: bool, show_all: bool) -> Iterator[Callable[[Status], None]]:
    """What shows a status: in place on a terminal, else one after another."""
    if as_json:
        yield lambda status: click.echo(json.dumps(status_fields(status), ensure_ascii=False))
    elif not is_terminal(sys.stdout):
        yield lambda status: click.echo("\n".join([*status_lines(status, show_all), ""]))
    else:
        from rich.live import Live
        from rich.text import Text

        with Live(screen=True, auto_refresh=False) as live:
            yield lambda status: live.update(
                Text.from_ansi("\n".join(status_lines(status, show_all))), refresh=True
            )


def status_lines(status: Status, show_all: bool = False) -> list[str]:
    """The status as a person reads it: a table of metrics, then what they share."""
    every, missing = status.targets, status.health.missing_slots()
    shown = every if show_all else every[:_SHOWN]
    now = status.health.overview.now
    lines = table_lines(_COLUMNS, [_row(each, missing[each.target.name], now) for each in shown])
    if len(shown) < len(every):
        lines.append(f"… and {len(every) - len(shown):,} more, no less complete (--all lists them)")
    return [*lines, "", *_summary_lines(status)]


def _row(each: TargetStatus, missing: int, now: datetime) -> list[str]:
    target = each.target
    return [
        target.name if target.is_on else f"{target.name} ({_NOT_POLLED[target.polling]})",
        instant_text(each.newest_slot),
        age_text(now - each.newest_slot) if each.newest_slot else "-",
        _coverage_text(each.hour),
        _coverage_text(_day(each)),
        str(missing) if target.is_on else "-",
    ]


def _coverage_text(completeness: Completeness) -> str:
    return completeness_text(completeness) if completeness.expected else "-"


def _summary_lines(status: Status) -> list[str]:
    overview = status.health.overview
    queue, late = overview.queue, overview.lateness
    minutes = f"last {LATENESS_RANGE.seconds // 60} minutes"
    daemon = [f"daemon    {_daemon_text(status.daemon)}"] if status.daemon else []
    return [
        f"verdict   {_verdict_text(overview)}",
        *daemon,
        f"coverage  {_overall_coverage_text(overview)}",
        f"missing   {plural(overview.gap_slots, 'slot')} of the last day",
        f"lateness  p50 {late.p50_ms} ms, p99 {late.p99_ms} ms, {plural(late.polls, 'poll')} in the {minutes}"
        if late.polls
        else f"lateness  no polls {'yet' if overview.first_tick else f'in the {minutes}'}",
        f"queue     {_queue_text(queue)}",
        f"dead      {plural(queue.dead, 'dead letter')}",
    ]


def _verdict_text(overview: Overview) -> str:
    """The sentence that stands at the head of the page."""
    return verdict_sentence(overview, judge(overview), words_in("en"))


def _overall_coverage_text(overview: Overview) -> str:
    if overview.first_tick is None:
        return f"{_coverage_text(overview.hour)} of the last hour, {_coverage_text(overview.day)} of the last day"
    ahead = overview.first_tick - overview.now
    if ahead > timedelta():
        return f"starting: the first slot is due in {age_text(ceil(ahead.total_seconds()))}"
    return "starting: the first slot is on its way"


def _daemon_text(daemon: DaemonState) -> str:
    state = f"running (pid {daemon.pid})" if daemon.is_running else "not running; `kizami up` starts it"
    return f"{state}; {daemon.trouble}" if daemon.trouble else state


def _queue_text(queue: QueueDepth) -> str:
    counts = f"{queue.waiting:,} waiting, {queue.planned:,} planned, {queue.in_flight:,} in flight"
    oldest = queue.oldest_age_seconds
    return counts if oldest is None else f"{counts}, the oldest for {oldest:.1f} s"


def status_fields(status: Status) -> dict[str, Any]:
    """The status as a program reads it."""
    overview, missing = status.health.overview, status.health.missing_slots()
    daemon, queue, late = status.daemon, overview.queue, overview.lateness
    verdict = judge(overview)
    return {
        "now": instant_text(overview.now),
        "verdict": {"level": verdict.level.value, "finding": verdict.finding.value},
        "daemon": {"running": daemon.is_running, "pid": daemon.pid, "trouble": daemon.trouble} if daemon else None,
        "coverage": {"hour": _coverage_fields(overview.hour), "day": _coverage_fields(overview.day)},
        "missing": overview.gap_slots,
        "lateness": {"polls": late.polls, "p50Ms": late.p50_ms, "p99Ms": late.p99_ms, "maxMs": late.max_ms},
        "queue": {
            "waiting": queue.waiting,
            "planned": queue.planned,
            "inFlight": queue.in_flight,
            "oldestAgeSeconds": queue.oldest_age_seconds,
        },
        "deadLetters": queue.dead,
        "metrics": [_metric_fields(each, missing[each.target.name], overview.now) for each in status.targets],
    }


def _metric_fields(each: TargetStatus, missing: int, now: datetime) -> dict[str, Any]:
    newest = each.newest_slot
    return {
        "metricName": each.target.name,
        "polling": each.target.polling.value,
        "intervalSeconds": each.target.interval_seconds,
        "newestSlot": instant_text(newest) if newest else None,
        "ageSeconds": round((now - newest).total_seconds(), 1) if newest else None,
        "hour": _coverage_fields(each.hour),
        "day": _coverage_fields(_day(each)),
        "missing": missing,
    }


def _coverage_fields(completeness: Completeness) -> dict[str, int]:
    return {"stored": completeness.stored, "expected": completeness.expected}
