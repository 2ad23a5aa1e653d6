"""`kizami dead-letters`: the slots that were given up, with their reasons: look, try again, or forget."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from kizami.backend.port import Backend
from kizami.backend.times.asked import read_time
from kizami.backend.values import DeadLetter
from kizami.backend.wire import dead_letter_json
from kizami.cli.backends import BackendOptions, backend_options
from kizami.cli.exit_codes import FAILURE, OK
from kizami.cli.metric_names import metric_argument, metrics_argument, require_known
from kizami.cli.options import SuggestingGroup
from kizami.cli.ranges import TimeRange, range_options
from kizami.cli.shown_zone import asked_moment, tz_option
from kizami.cli.terminal.printing import instant_text, json_option, plural, print_json, say
from kizami.cli.terminal.tables import print_table
from kizami.core.errors import ConfigurationError

_COLUMNS = (("metric", False), ("slot", False), ("died", False), ("tried", True), ("reason", False))


def which_letters(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the arguments that choose dead letters, by metric and by the time of their slots."""
    return metrics_argument(range_options(default_last=None)(json_option(backend_options(verb))))


@click.group(cls=SuggestingGroup, short_help="List, retry or forget the slots that were given up.")
def command() -> None:
    """The slots that were tried as often as the limit allows, with the reason of the last failure."""


@command.command("list", short_help="List them, the one that died last first.")
@which_letters
@click.option("--limit", type=click.IntRange(0), default=50, show_default=True, help="At most so many; 0: all.")
def list_letters(
    metrics: tuple[str, ...], time_range: TimeRange, limit: int, as_json: bool, backend_options: BackendOptions
) -> None:
    """List the dead letters of METRIC (or of all metrics), the one that died last first."""
    with backend_options.opened() as backend:
        found = find_letters(backend, metrics, time_range)
    shown = found[:limit] if limit else found
    if as_json:
        print_json({"total": len(found), "deadLetters": [dead_letter_json(letter) for letter in shown]})
    elif shown:
        print_table(_COLUMNS, [_row(letter) for letter in shown])
    more = f"; --limit 0 lists the other {len(found) - len(shown):,}" if len(shown) < len(found) else ""
    say(f"{plural(len(found), 'dead letter')}{more}")


@command.command(short_help="Show all that is known about one.")
@metric_argument
@click.argument("slot")
@tz_option
@json_option
@backend_options
def show(metric: str, slot: str, as_json: bool, backend_options: BackendOptions) -> int:
    """Show all that is known about the dead letter of one slot, such as 2025-12-02T10:23:05Z."""
    instant = read_time(slot, asked_moment(), "SLOT")
    with backend_options.opened() as backend:
        require_dead_letters(backend)
        name = require_known(backend, metric)
        found = [letter for letter in backend.dead_letters() if (letter.metric, letter.slot) == (name, instant)]
    if not found:
        say(f"{metric} {instant_text(instant)} is not a dead letter")
        return FAILURE
    fields = dead_letter_json(found[0])
    if as_json:
        print_json(fields)
    else:
        print_table((("field", False), ("value", False)), [(name, str(value)) for name, value in fields.items()])
    return OK


@command.command(short_help="Put them back on the queue, to be tried afresh.")
@which_letters
def redrive(
    metrics: tuple[str, ...], time_range: TimeRange, as_json: bool, backend_options: BackendOptions
) -> None:
    """Put the dead letters of METRIC (or of all metrics) back on the queue, to be tried afresh."""
    with backend_options.opened() as backend:
        found = find_letters(backend, metrics, time_range)
        redriven = backend.redrive(found)
    kept = len(found) - redriven
    if as_json:
        print_json({"redriven": redriven, "kept": kept})
    say(f"{plural(redriven, 'dead letter')} back on the queue")
    if kept:
        why = "the target is paused, removed or has backfill = false, or another was quicker"
        say(f"{plural(kept, 'dead letter')} not: {why}")


@command.command(short_help="Forget them; their slots are missing from then on.")
@which_letters
@click.option("--yes", is_flag=True, help="Do not ask.")
def purge(
    metrics: tuple[str, ...], time_range: TimeRange, yes: bool, as_json: bool, backend_options: BackendOptions
) -> None:
    """Forget the dead letters of METRIC (or of all metrics); their slots are missing from then on."""
    with backend_options.opened() as backend:
        found = find_letters(backend, metrics, time_range)
        if found and not yes:
            _ask(f"Forget {plural(len(found), 'dead letter')} and their reasons?")
        purged = backend.purge(found)
    if as_json:
        print_json({"purged": purged})
    say(f"{plural(purged, 'dead letter')} forgotten; `kizami backfill --gaps` asks for their slots again")


def _ask(question: str) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is no terminal to ask on; add --yes.")
    click.confirm(question, abort=True, err=True)


def find_letters(backend: Backend, metrics: tuple[str, ...], time_range: TimeRange) -> list[DeadLetter]:
    """The dead letters of the metrics (or of all) whose slots lie in the range, the newest first."""
    require_dead_letters(backend)
    for name in metrics:
        require_known(backend, name)
    letters = backend.dead_letters()
    if unreadable := backend.queue_depth(time_range.now).unreadable:
        say(f"let alone, because they are no schedule messages: {plural(unreadable, 'dead letter')}")
    return [
        letter
        for letter in letters
        if (not metrics or letter.metric in metrics) and time_range.start <= letter.slot < time_range.end
    ]


def require_dead_letters(backend: Backend) -> None:
    """Where none are kept, "0 dead letters" would be taken for good news."""
    if not backend.keeps_dead_letters:
        problem = "has no dead-letter queue, a slot that fails is tried until it expires"
        raise ConfigurationError("the stack", f"{problem}; deploy it with max_receives above 0")


def _row(letter: DeadLetter) -> list[str]:
    tried = f"{letter.receives}x"
    return [letter.metric, instant_text(letter.slot), instant_text(letter.died_at), tried, letter.reason]
