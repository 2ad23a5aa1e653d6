"""The backups that `kizami up` makes, as its flags say, over the environment, over `[backup]` of kizami.toml."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from kizami.core.config import DEFAULT_BACKUPS_KEPT, MOST_BACKUPS_KEPT, BackupPlan, backup_seconds

_EVERY = "--backup-every"


@dataclass(frozen=True, slots=True)
class BackupFlags:
    """What the flags say; None where they say nothing."""

    every_seconds: int | None = None
    keep: int | None = None
    directory: Path | None = None

    def plan(self, configured: BackupPlan | None) -> BackupPlan | None:
        """The plan in force: the flags over the file's; None if neither says how often."""
        every = self.every_seconds or (configured.every_seconds if configured else None)
        if every is None:
            return None
        keep = self.keep or (configured.keep if configured else DEFAULT_BACKUPS_KEPT)
        directory = str(self.directory) if self.directory else configured.directory if configured else None
        return BackupPlan(every, keep, directory)


def backup_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the flags, and its function one `backups`."""

    @click.option(
        _EVERY,
        metavar="DURATION",
        envvar="KIZAMI_BACKUP_EVERY",
        show_envvar=True,
        help="Make a backup so often: 6h, 1d.  [default: as the file says, or never]",
    )
    @click.option(
        "--backup-keep",
        type=click.IntRange(1, MOST_BACKUPS_KEPT),
        envvar="KIZAMI_BACKUP_KEEP",
        show_envvar=True,
        help=f"Keep so many, and remove older ones.  [default: as the file says, or {DEFAULT_BACKUPS_KEPT}]",
    )
    @click.option(
        "--backup-directory",
        type=click.Path(path_type=Path, file_okay=False),
        envvar="KIZAMI_BACKUP_DIRECTORY",
        show_envvar=True,
        help="Where.  [default: as the file says, or backups beside the database]",
    )
    @wraps(verb)
    def with_backups(
        *arguments: Any,
        backup_every: str | None,
        backup_keep: int | None,
        backup_directory: Path | None,
        **options: Any,
    ) -> Any:
        flags = BackupFlags(_seconds(backup_every), backup_keep, backup_directory)
        return verb(*arguments, backups=flags, **options)

    return with_backups


def _seconds(text: str | None) -> int | None:
    return None if text is None else backup_seconds(text, _EVERY)
