"""Dated backups in a directory: what they are called, when the next one is due, which are too many (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

_NAME = re.compile(r"kizami-(\d{8}T\d{6}Z)\.db", re.ASCII)
_FORM = "%Y%m%dT%H%M%SZ"


def backup_name(moment: datetime) -> str:
    """What the backup of that moment is called; names sort as their moments do."""
    return f"kizami-{moment.astimezone(UTC):{_FORM}}.db"


def moment_of(name: str) -> datetime | None:
    """When the backup of that name was made; None if it is none of these."""
    match = _NAME.fullmatch(name)
    try:
        return datetime.strptime(match[1], _FORM).replace(tzinfo=UTC) if match else None
    except ValueError:
        return None


def dated(names: Iterable[str]) -> list[tuple[datetime, str]]:
    """Those of the names that are backups, oldest first; whatever else is in the directory is left alone."""
    return sorted((moment, name) for name in names if (moment := moment_of(name)))


def next_due(names: Iterable[str], every_seconds: int, now: datetime) -> datetime:
    """When the next backup is due: so long after the newest one, at once where there is none.

    A backup from the future, made when the clock was ahead, is not waited for.
    """
    made = [moment for moment, _ in dated(names) if moment <= now]
    return made[-1] + timedelta(seconds=every_seconds) if made else now


def superfluous(names: Iterable[str], keep: int, now: datetime) -> list[str]:
    """The oldest ones, beyond the newest `keep`.

    Those from the future were made before the clock was set back: they are the oldest, else the one that was just
    made would go, the next would be due at once, and so on.
    """
    made = sorted(dated(names), key=lambda backup: (backup[0] <= now, backup))
    return [name for _, name in made[:-keep]]


def backups_in(directory: Path) -> list[str]:
    """The names in a directory; none if it is not there yet."""
    return [path.name for path in directory.iterdir()] if directory.is_dir() else []
