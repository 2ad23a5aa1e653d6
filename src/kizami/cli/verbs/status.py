"""`kizami status`: how the collection is doing, once or again and again."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import click

from kizami.backend.health import TargetStatus, judge
from kizami.backend.port import Backend
from kizami.backend.values import DaemonState, TargetTrouble
from kizami.backend.wire import moment, state_values, worst_values
from kizami.cli.backends import BackendOptions, backend_options
from kizami.cli.shown_zone import tz_option
from kizami.cli.terminal.colours import is_terminal
from kizami.cli.terminal.printing import json_option, print_json
from kizami.cli.terminal.status_text import SHOWN, Status, day_of, read_status, status_lines
from kizami.core.coverage import Completeness
from kizami.platform.clock import SystemClock


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
@click.option("--all", "show_all", is_flag=True, help=f"List every metric, not only the {SHOWN} least complete.")
@tz_option
@json_option
@backend_options
def command(
    watch: bool, every_seconds: float, show_all: bool, as_json: bool, backend_options: BackendOptions
) -> None:
    """Show the newest slot of each metric, its coverage, and the queue.

    Coverage is of slots that are due; one that may still be on its way is not counted yet. Missing are the
    slots of the last day that are neither stored nor on the queue nor dead: `kizami gaps` lists them.
    """
    with backend_options.opened() as backend:
        if watch:
            _watch(backend, every_seconds, show_all, as_json)
            return
        status = read_status(backend, SystemClock().now())
    if as_json:
        print_json(status_fields(status))
    else:
        click.echo("\n".join(status_lines(status, show_all)))


def _watch(backend: Backend, every_seconds: float, show_all: bool, as_json: bool) -> None:
    with _screen(as_json, show_all) as show:
        while True:
            show(read_status(backend, SystemClock().now()))
            time.sleep(every_seconds)


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


def status_fields(status: Status) -> dict[str, Any]:
    """The status as a program reads it."""
    overview, missing = status.health.overview, status.health.missing_slots()
    daemon, queue, late = status.daemon, overview.queue, overview.lateness
    verdict = judge(overview)
    return {
        "now": moment(overview.now),
        "verdict": {
            "level": verdict.level.value,
            "finding": verdict.finding.value,
            **dict(zip(("condition", "metricName", "since", "cause"), worst_values(verdict), strict=True)),
        },
        "daemon": _daemon_fields(daemon) if daemon else None,
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


def _daemon_fields(daemon: DaemonState) -> dict[str, Any]:
    fields = {
        "running": daemon.is_running,
        "pid": daemon.pid,
        "trouble": daemon.trouble,
        "difference": daemon.difference,
    }
    backups = daemon.backups
    if backups is None:
        return {**fields, "backups": None}
    return {
        **fields,
        "backups": {
            "directory": backups.directory,
            "everySeconds": backups.every_seconds,
            "newest": moment(backups.newest),
            "failedAt": moment(backups.failed_at),
            "reason": backups.reason,
        },
    }


def _metric_fields(each: TargetStatus, missing: int, now: datetime) -> dict[str, Any]:
    newest = each.newest_slot
    return {
        "metricName": each.target.name,
        **dict(zip(("condition", "level", "since", "cause"), state_values(each), strict=True)),
        "polling": each.target.polling.value,
        "intervalSeconds": each.target.interval_seconds,
        "newestSlot": moment(newest),
        "ageSeconds": round((now - newest).total_seconds(), 1) if newest else None,
        "hour": _coverage_fields(each.hour),
        "day": _coverage_fields(day_of(each)),
        "missing": missing,
        **_trouble_fields(each.trouble),
    }


def _trouble_fields(trouble: TargetTrouble | None) -> dict[str, Any]:
    since, probe = (trouble.blocked_since, trouble.next_probe) if trouble else (None, None)
    return {
        "lastError": trouble.error if trouble else None,
        "blockedSince": moment(since),
        "nextProbe": moment(probe),
    }


def _coverage_fields(completeness: Completeness) -> dict[str, int]:
    return {"stored": completeness.stored, "expected": completeness.expected}
