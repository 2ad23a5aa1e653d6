"""`kizami targets`: the configuration checked and listed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kizami.cli.options import config_option
from kizami.cli.terminal.printing import json_option, plural, print_json, print_table, say
from kizami.core.messages import pointer_text
from kizami.core.targets.target import Target
from kizami.platform.config_file import load_config

_COLUMNS = (
    ("metric", False),
    ("url", False),
    ("interval", True),
    ("lag", True),
    ("timeout", True),
    ("polled", False),
)


@click.command(short_help="Check and list what is polled.")
@json_option
@config_option
def command(as_json: bool, config: Path | None) -> None:
    """Check the configuration and list its targets.

    A mistake in it is one line that names the place, and exit code 3. Headers are shown by name and by
    reference only: no secret is read.
    """
    settings = load_config(config)
    if as_json:
        path = str(settings.path) if settings.path else None
        print_json({"config": path, "targets": list(map(target_fields, settings.config.targets))})
    else:
        print_table(_COLUMNS, [_row(target) for target in settings.config.targets])
    place = f"in {settings.path}" if settings.path else "without a file: the mock API"
    say(f"{plural(len(settings.config.targets), 'target')} {place}")
    for target in settings.config.enabled_targets:
        if target.timing_problem:
            say(f"warning: {target.timing_problem}")


def _row(target: Target) -> list[str]:
    seconds = (f"{target.interval_seconds}s", f"{target.lag_seconds}s", f"{target.timeout_seconds:g}s")
    return [target.name, target.url, *seconds, "yes" if target.enabled else "paused"]


def target_fields(target: Target) -> dict[str, Any]:
    """The target with the names of kizami.toml; times in seconds."""
    return {
        "name": target.name,
        "url": target.url,
        "path": target.path,
        "interval": target.interval_seconds,
        "lag": target.lag_seconds,
        "timeout": target.timeout_seconds,
        "count": pointer_text(target.count_pointer),
        "echo": target.echoes_window,
        "headers": {name: str(value) for name, value in target.headers.items()},
        "enabled": target.enabled,
        "catch_up": target.catch_up_seconds,
    }
