"""`kizami try`: one request of a target, shown step by step; nothing is stored."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path

import click

from kizami.backend.times.asked import read_time
from kizami.cli.exit_codes import OK, exit_code
from kizami.cli.options import config_option
from kizami.cli.shown_zone import asked_moment, tz_option
from kizami.cli.terminal.printing import json_option, print_json, say
from kizami.core.errors import ApiError, ConfigurationError, KizamiError
from kizami.core.messages import MetricRecord
from kizami.core.targets.target import Target
from kizami.mock_api.service import quiet_mock_service
from kizami.platform.config_file import load_config


def _complete(context: click.Context, argument: click.Parameter, incomplete: str) -> list[str]:
    try:
        targets = load_config(context.params.get("config")).config.targets
    except KizamiError:
        return []  # nothing to suggest; the verb itself will say why
    return [target.name for target in targets if target.name.startswith(incomplete)]


@click.command(short_help="Ask a target once and show every step.")
@click.argument("name", required=False, shell_complete=_complete)
@click.option("--at", metavar="TIME", help="Ask for the window that this falls in: 2025-12-02T10:00:00Z, or -2h.")
@click.option("--url", metavar="URL", help="A target that is in no file, or another URL for NAME.")
@click.option("--path", metavar="PATH", help="What is added to the URL.")
@click.option("--query", multiple=True, metavar="NAME=VALUE", help="A parameter; may be repeated.")
@click.option("--header", multiple=True, metavar="NAME=VALUE", help="A header; may be repeated.")
@click.option("--body", metavar="TEXT", help="What is posted.")
@click.option("--method", metavar="METHOD", help="GET, HEAD, POST, PUT or QUERY.")
@click.option("--count", metavar="EXPRESSION", help="Where the value stands in the answer.")
@click.option("--set", "others", multiple=True, metavar="SETTING=VALUE", help="Any other setting of kizami.toml.")
@tz_option
@json_option
@config_option
def command(
    name: str | None,
    at: str | None,
    query: tuple[str, ...],
    header: tuple[str, ...],
    others: tuple[str, ...],
    as_json: bool,
    config: Path | None,
    **options: str | None,
) -> int:
    """Ask the target NAME once and show the request, the answer, where its value stands and what would be stored.

    Up to two more requests show whether the answer depends on the window.

    The options change what kizami.toml says of it for this one time, or describe a target of their own
    (--url). Nothing is stored. Secrets are shown as ••••.
    """
    from kizami.cli.trial.stated_target import find_stated, read_changes
    from kizami.cli.trial.trial import choose_message, run_trial, warnings
    from kizami.cli.trial.trial_json import trial_fields
    from kizami.cli.trial.trial_text import trial_lines

    stated = find_stated(config, name, read_changes(options, {"query": query, "headers": header}, others))
    asked = asked_moment()
    now = asked.now
    message = choose_message(stated.target, read_time(at, asked, "--at") if at else None, now)
    with _mock_if_needed(stated.target):
        trial = run_trial(stated.target, message, now)
    warned = list(warnings(trial, now))
    if as_json:
        print_json(trial_fields(trial, stated.table, warned))
    else:
        for line in trial_lines(trial, stated.table):
            click.echo(line)
    for warning in warned:
        say(f"warning: {warning}")
    return _tell(trial.outcome)


def _tell(outcome: tuple[MetricRecord, ...] | ApiError) -> int:
    if isinstance(outcome, ApiError):
        say("this answer would not be stored")
        return exit_code(outcome)
    say(f"{'this record' if len(outcome) == 1 else 'these records'} would be stored; nothing was")
    return OK


def _mock_if_needed(target: Target) -> ExitStack:
    """The mock API is served for the length of a `with`, unless it is there already."""
    stack = ExitStack()
    if target.is_mock:
        with suppress(ConfigurationError):  # another program has its port: what that says is shown
            stack.enter_context(quiet_mock_service())
    return stack
