"""`kizami aggregate`: run the aggregation batch for a company on this machine, and show its users' points."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import click

from kizami.aggregation.batch import Ending, RunOutcome
from kizami.aggregation.messages import AggregationMessage
from kizami.aggregation.points import DEFAULT_ZONE, UserPoints, point_day, require_zone
from kizami.aggregation.signing import ApiKey, require_company_id
from kizami.cli.backends import BackendOptions, backend_options
from kizami.cli.exit_codes import CONFIGURATION, FAILURE, OK, UNREACHABLE
from kizami.cli.options import Decorator, SuggestingGroup, database_option
from kizami.cli.shown_zone import tz_option
from kizami.cli.terminal.printing import instant_text, json_option, plural, print_json, say
from kizami.cli.terminal.tables import print_table
from kizami.core.epoch import from_seconds
from kizami.core.errors import ApiUnreachable, ConfigurationError, InvalidInput
from kizami.core.logs import printable, use_logs
from kizami.core.requests.urls import configured_url
from kizami.core.slots import format_second, shorten
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import MOCK_API_URL
from kizami.mock_api.users import users_key
from kizami.platform.clock import SystemClock

_MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])", re.ASCII)
_COLUMNS = (("user_number", False), ("points", True), ("last granted", False))
_TALLY_COLUMNS = (("users", False), ("", True))
PROGRESS_FROM_USERS = 1000  # fewer are done before a bar could be read

company_option: Decorator = click.option(
    "--company-id", required=True, metavar="ID", help="The company, as the users API knows it."
)
zone_option: Decorator = click.option(
    "--time-zone",
    envvar="AGGREGATION_TZ",
    show_envvar=True,
    default=DEFAULT_ZONE,
    show_default=True,
    help="The zone whose days and months count.",
)


@click.group(cls=SuggestingGroup, short_help="Grant users detected today a point, and show points.")
def command() -> None:
    """Grant each of a company's users who was detected today one point a day, and show the points."""


@command.command(short_help="Run the batch for a company.")
@company_option
@click.option("--api-key-env", metavar="NAME", help="The environment variable that holds the company's key.")
@click.option(
    "--api-key-file",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="The file that holds the company's key.",
)
@click.option(
    "--api-url",
    envvar="AGGREGATION_API_BASE_URL",
    show_envvar=True,
    default=MOCK_API_URL,
    show_default=True,
    help="The base URL of the users API; the default is the mock API, whose key is known.",
)
@zone_option
@click.option("--verbose", is_flag=True, help="Log every step, with stack traces.")
@json_option
@database_option
def run(
    company_id: str,
    api_key_env: str | None,
    api_key_file: Path | None,
    api_url: str,
    time_zone: str,
    verbose: bool,
    as_json: bool,
    database: Path,
) -> int:
    """Ask the users API for the company's users and grant a point to each one who was detected today.

    However often it runs, a user gets one point a day. A run that finds another one at work on the company
    does nothing; one that was killed is simply run again.
    """
    message = AggregationMessage(_company(company_id), _key(api_key_env, api_key_file, api_url))
    zone = _zone(time_zone)
    configured_url(api_url, "--api-url")
    use_logs() if verbose else _say_errors()
    from kizami.aggregation.local_runner import Aggregator

    with _progress() as on_progress:
        outcome = Aggregator(database, api_url, zone, on_progress).run(message, SystemClock().now())
    _report(company_id, outcome, as_json)
    return _exit_code(outcome)


@command.command(short_help="Show the points of a company's users.")
@company_option
@click.option("--month", metavar="YYYY-MM", help="The month; without it, the current one.")
@zone_option
@tz_option
@json_option
@backend_options
def points(
    company_id: str, month: str | None, time_zone: str, as_json: bool, backend_options: BackendOptions
) -> None:
    """Show how many points each of the company's users has in a month."""
    _company(company_id)
    wanted = _month(month) if month else point_day(SystemClock().now(), _zone(time_zone)).month
    found = (
        _points_on_aws(backend_options, company_id, wanted)
        if backend_options.backend == "aws"
        else _points_here(backend_options, company_id, wanted)
    )
    total = sum(item.points for item in found)
    shown_month = f"{wanted[:4]}-{wanted[4:]}"
    if as_json:
        users = [_fields(item) for item in found]
        print_json({"companyId": company_id, "month": shown_month, "total": total, "users": users})
    else:
        print_table(
            _COLUMNS, ([item.user_number, str(item.points), instant_text(_updated(item))] for item in found)
        )
    say(f"{company_id} in {shown_month}: {plural(total, 'point')} of {plural(len(found), 'user')}")


def _points_here(backend_options: BackendOptions, company_id: str, month: str) -> list[UserPoints]:
    from kizami.aggregation.stores.sqlite import SqlitePointStore
    from kizami.local.store.database import open_database

    connection = open_database(backend_options.database)
    try:
        return list(SqlitePointStore(connection, backend_options.database).points(company_id, month))
    finally:
        connection.close()


def _points_on_aws(backend_options: BackendOptions, company_id: str, month: str) -> list[UserPoints]:
    tables = backend_options.places.company_tables
    if tables is None:
        raise ConfigurationError("POINTS_TABLE_NAME", "is not set, and the stack has no such table")
    from kizami.aggregation.stores.points_table import DynamoDbPointStore

    return list(DynamoDbPointStore(tables[1]).points(company_id, month))


def _company(text: str) -> str:
    return require_company_id(text, "--company-id")


def _zone(name: str) -> ZoneInfo:
    return require_zone(name, "--time-zone")


def _key(variable: str | None, file: Path | None, url: str) -> ApiKey:
    """The key, read before anything else is done; never an argument, which every process could see."""
    if variable and file:
        raise click.UsageError("--api-key-env and --api-key-file exclude each other.")
    from kizami.aggregation.local_runner import look_up_key

    if variable:
        return look_up_key(SecretReference("env", variable), "--api-key-env")
    if file:
        return look_up_key(SecretReference("file", str(file)), "--api-key-file")
    if url == MOCK_API_URL:
        return users_key(os.environ)
    raise click.UsageError("--api-key-env NAME or --api-key-file PATH is needed for any API but the mock.")


def _month(text: str) -> str:
    match = _MONTH.fullmatch(text)
    if not match:
        raise InvalidInput("--month", f"{shorten(text)} is not a month like 2025-12")
    return match[1] + match[2]


class _OneLine(logging.Formatter):
    """The message alone: a person has no use for the stack trace that the line carries for the logs."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(f"kizami: {record.getMessage()}")


def _say_errors() -> None:
    use_logs(logging.ERROR)
    for handler in logging.getLogger("kizami").handlers:
        handler.setFormatter(_OneLine())


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """What shows how far a large company is, where a person looks on."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("users", visible=False)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, visible=total >= PROGRESS_FROM_USERS)

        yield show


def _report(company_id: str, outcome: RunOutcome, as_json: bool) -> None:
    counts = asdict(outcome.tally)
    if as_json:
        names = {name: re.sub(r"_(.)", lambda match: match[1].upper(), name) for name in counts}
        tally = {names[name]: count for name, count in counts.items()}
        print_json({"companyId": company_id, "ending": outcome.ending.value, "code": outcome.code.code, **tally})
    elif outcome.tally.users:
        print_table(_TALLY_COLUMNS, ([name.replace("_", " "), str(count)] for name, count in counts.items()))
    say(f"{company_id}: {_WORDS[outcome.ending]} ({outcome.code.code})")


_WORDS = {
    Ending.COMPLETED: "completed",
    Ending.LOCKED: "another run is at work on it, nothing was done",
    Ending.INCOMPLETE: "not all points could be written; run it again",
    Ending.STOPPED: "stopped before its end; run it again",
    Ending.FAILED: "failed; run it again",
}


def _exit_code(outcome: RunOutcome) -> int:
    if not outcome.is_failure:
        return OK
    if outcome.fault and issubclass(outcome.fault, ApiUnreachable):
        return UNREACHABLE
    return CONFIGURATION if outcome.fault and issubclass(outcome.fault, ConfigurationError) else FAILURE


def _fields(item: UserPoints) -> dict[str, str | int]:
    return {
        "userNumber": item.user_number,
        "points": item.points,
        "updateTimestamp": format_second(_updated(item)),
    }


def _updated(item: UserPoints) -> datetime:
    return from_seconds(item.updated_at)
