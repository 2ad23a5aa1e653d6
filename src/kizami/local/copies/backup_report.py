"""What the daemon's last backup came to: a small file beside the database, which other processes read."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from kizami.backend.values import BackupState
from kizami.core.errors import InvalidInput
from kizami.core.slots import format_second, parse_instant
from kizami.local.store.database import beside, mode_of

_ENDING = "-backups"


def write_report(database: Path, state: BackupState) -> None:
    """Note it for those who ask; where that cannot be written, the log alone has it."""
    path = beside(database, _ENDING)
    part = path.with_name(f"{path.name}.part")
    fields = {
        "directory": state.directory,
        "everySeconds": state.every_seconds,
        "newest": _text(state.newest),
        "failedAt": _text(state.failed_at),
        "reason": state.reason,
    }
    with suppress(OSError):
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode_of(database))
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(json.dumps(fields, ensure_ascii=False) + "\n")
        part.replace(path)


def read_report(database: Path) -> BackupState | None:
    """What was noted last; None if nothing was, or nothing that can be read."""
    try:
        fields = json.loads(beside(database, _ENDING).read_text("utf-8"))
        where, every = str(fields["directory"]), int(fields["everySeconds"])
        return BackupState(
            where, every, _instant(fields["newest"]), _instant(fields["failedAt"]), fields["reason"]
        )
    except (OSError, ValueError, KeyError, TypeError, InvalidInput):
        return None


def remove_report(database: Path) -> None:
    """No backups are made (any more)."""
    with suppress(OSError):
        beside(database, _ENDING).unlink()


def _text(instant: datetime | None) -> str | None:
    return format_second(instant) if instant else None


def _instant(text: str | None) -> datetime | None:
    return parse_instant(text, "backup") if text else None
