"""`kizami sql`: the records asked in SQL, with nothing that could be changed."""

from __future__ import annotations

import sys
from contextlib import closing

import click

from kizami.cli.backends import BackendOptions, backend_options
from kizami.cli.sql.results import write_csv_result, write_json, write_table
from kizami.cli.sql.session import SqlSession
from kizami.cli.sql.shell import Shell
from kizami.cli.terminal.printing import json_option, plural, say
from kizami.platform.clock import SystemClock

_MODES = {"table": write_table, "json": write_json, "csv": write_csv_result}


@click.command(short_help="Ask the records in SQL.")
@click.argument("statement", metavar="[SELECT …]", required=False)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@json_option
@backend_options
def command(statement: str | None, as_csv: bool, as_json: bool, backend_options: BackendOptions) -> None:
    """Ask the tables records, metrics, queue and dead_letters in SQLite's SQL. Nothing can be changed.

    Without a statement it is read from stdin; on a terminal one after another is asked for.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other.")
    mode = "csv" if as_csv else "json" if as_json else "table"
    with backend_options.opened() as backend, closing(SqlSession(backend, SystemClock())) as session:
        if statement is None and sys.stdin.isatty():
            Shell(session, _MODES, mode).run()
            return
        count = _MODES[mode](session.ask(sys.stdin.read() if statement is None else statement), sys.stdout)
    sys.stdout.flush()
    say(plural(count, "row"))
