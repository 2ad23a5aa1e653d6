"""`kizami doctor`: this machine and every target checked, with a remedy for whatever is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from kizami.cli.backends import find_difference
from kizami.cli.checks.machine import Check, Health, check_clock, check_database, check_sqlite
from kizami.cli.exit_codes import CHECK_FAILED, OK
from kizami.cli.options import config_option, database_option
from kizami.cli.terminal.colours import Colour
from kizami.cli.terminal.printing import json_option, plural, print_json, say
from kizami.cli.terminal.tables import print_table
from kizami.core.config import Config
from kizami.core.errors import ConfigurationError
from kizami.mock_api.service import PLACE, MockService, is_needed, quiet_mock_service
from kizami.platform.clock import SystemClock
from kizami.platform.config_file import load_config

_SHOWN_TARGETS = 20
_COLOURS: dict[Health, Colour] = {Health.WARNING: "yellow", Health.FAILED: "red"}
_COLUMNS = (("", False), ("check", False), ("finding", False), ("remedy", False))


@click.command(short_help="Check this machine and every target.")
@json_option
@config_option
@database_option
def command(as_json: bool, config: Path | None, database: Path) -> int:
    """Check the clock, SQLite, the database's file, the mock API's port and receivers, and ask every target once.

    A target is asked up to two more times, to see whether its answer depends on the window.
    Each line has a finding and, where something is wrong, a remedy. Exit code 5 if a check failed.
    """
    settings = load_config(config)
    checks = list(_examine(settings.config, database))
    if difference := find_difference(database, settings):
        checks.append(Check("daemon", Health.WARNING, difference))
    if as_json:
        print_json({"checks": [_fields(check) for check in checks]})
    else:
        shown = _worth_showing(checks)
        print_table(_COLUMNS, [_row(check) for check in shown], [_COLOURS.get(check.health) for check in shown])
    failed = sum(check.health is Health.FAILED for check in checks)
    say(f"{plural(len(checks), 'check')}, {failed or 'none'} failed")
    return CHECK_FAILED if failed else OK


def _examine(config: Config, database: Path) -> Iterator[Check]:
    from kizami.cli.checks.alerts import check_alerts
    from kizami.cli.checks.targets import check_targets

    yield check_sqlite()
    yield check_database(database)
    with ExitStack() as stack:
        if is_needed(config):
            yield _check_port(stack)
        yield check_clock(config.enabled_targets)
        yield from check_targets(config.enabled_targets, SystemClock().now())
    yield from check_alerts(config.alerts)


def _check_port(stack: ExitStack) -> Check:
    """The mock API is served here for the rest of the checks, unless it is there already."""
    try:
        service = stack.enter_context(quiet_mock_service())
    except ConfigurationError as error:
        finding, _, remedy = error.problem.partition("; ")
        return Check(f"port {PLACE}", Health.FAILED, finding, remedy)
    free = "free; `kizami up` serves the mock API there"
    return Check(
        f"port {PLACE}", Health.OK, free if service is MockService.OURS else "the mock API is there already"
    )


def _worth_showing(checks: Sequence[Check]) -> list[Check]:
    """All of them, but of many targets only those that are not well, and a line for the rest."""
    well = [check for check in checks if check.health is Health.OK and check.name.startswith("target ")]
    if len(well) <= _SHOWN_TARGETS:
        return list(checks)
    rest = Check("targets", Health.OK, f"{len(well):,} others answer validly")
    return [*(check for check in checks if check not in well), rest]


def _row(check: Check) -> list[str]:
    return [check.health.value, check.name, check.finding, check.remedy]


def _fields(check: Check) -> dict[str, str]:
    return {"check": check.name, "health": check.health.value, "finding": check.finding, "remedy": check.remedy}
