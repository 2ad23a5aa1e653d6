"""`kizami backup`: a verified copy of the database, made while it is used."""

from __future__ import annotations

from pathlib import Path

import click

from kizami.cli.options import database_option
from kizami.cli.terminal.page_progress import page_progress
from kizami.cli.terminal.printing import json_option, plural, print_json, say
from kizami.local.copies.backup import make_backup
from kizami.local.copies.rotation import backup_name
from kizami.platform.clock import SystemClock


@click.command(short_help="Copy the database while it is used.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@json_option
@database_option
def command(file: Path, force: bool, as_json: bool, database: Path) -> None:
    """Copy the database to FILE, as it is at this moment; a running `kizami up` is not held up.

    FILE appears when the copy is whole and verified. In a directory it gets a name with the time.
    """
    file = file / backup_name(SystemClock().now()) if file.is_dir() else file
    with page_progress("copying") as progress:
        made = make_backup(database, file, replace=force, progress=progress)
    if as_json:
        print_json(
            {
                "file": str(made.file),
                "bytes": made.bytes,
                "records": made.records,
                "metrics": made.metrics,
                "seconds": round(made.seconds, 3),
            }
        )
    held = f"{plural(made.records, 'record')} of {plural(made.metrics, 'metric')}"
    say(f"{made.file}: {held}, {made.bytes / 1e6:,.1f} MB, verified, in {made.seconds:.1f} s")
    if made.warning:
        say(f"{made.file}: {made.warning}")
