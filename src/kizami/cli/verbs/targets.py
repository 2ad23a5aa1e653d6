"""`kizami targets`: the configuration checked and listed."""

from __future__ import annotations

from pathlib import Path

import click

from kizami.cli.backends import say_difference
from kizami.cli.options import config_option, database_option
from kizami.cli.terminal.printing import age_text, json_option, plural, print_json, say
from kizami.cli.terminal.tables import print_table
from kizami.core.targets.description import target_fields
from kizami.core.targets.target import Target
from kizami.platform.config_file import load_config, read_schema

_COLUMNS = (
    ("metric", False),
    ("url", False),
    ("interval", True),
    ("lag", True),
    ("timeout", True),
    ("polled", False),
)


@click.command(short_help="Check and list what is polled.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of kizami.toml instead, for editors.")
@json_option
@config_option
@database_option
def command(schema: bool, as_json: bool, config: Path | None, database: Path) -> None:
    """Check the configuration and list its targets.

    A mistake in it is one line that names the place, and exit code 3. Headers are shown by name and by
    reference only: no secret is read.
    """
    if schema:
        click.echo(read_schema(), nl=False)
        return
    settings = load_config(config)
    difference = say_difference(database, settings)
    if as_json:
        path = str(settings.path) if settings.path else None
        targets = list(map(target_fields, settings.config.targets))
        print_json({"config": path, "difference": difference, "targets": targets})
    else:
        print_table(_COLUMNS, [_row(target) for target in settings.config.targets])
    place = f"in {settings.path}" if settings.path else "without a file: the mock API"
    say(f"{plural(len(settings.config.targets), 'target')} {place}")
    for target in settings.config.enabled_targets:
        if target.timing_problem:
            say(f"warning: {target.timing_problem}")


def _row(target: Target) -> list[str]:
    seconds = age_text(target.interval_seconds), age_text(target.lag_seconds), f"{target.timeout_seconds:g}s"
    return [target.name, target.url, *seconds, "yes" if target.enabled else "paused"]
