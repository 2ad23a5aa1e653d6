"""A backup put in the place of the database: checked first, in one step, and with the former one kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path

from kizami.core.errors import InvalidInput, StoreError
from kizami.local.copies.backup import count_records
from kizami.local.copies.copying import Progress, copy_pages, require_sound
from kizami.local.copies.placing import part_of, put_in_place
from kizami.local.daemon_lock import RESTORE, AlreadyRunning, sole_daemon
from kizami.local.store.database import (
    beside,
    is_foreign,
    open_copy,
    open_unchanged,
    sole_user,
    sqlite_errors,
    sync_directory,
)

_REPLACED = "-replaced-"
_LOGS = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class Restored:
    """How many records the database has now, and where the former one is, if there was one.

    `warning` says why a power failure may still undo it.
    """

    records: int
    former: Path | None
    warning: str | None = None


def restore_backup(
    file: Path,
    database: Path,
    now: datetime,
    *,
    progress: Progress = lambda done, pages: None,
    check: Callable[[], None] = lambda: None,
) -> Restored:
    """Put what `file` holds in the place of the database; `file` stays as it is.

    StoreError where the backup is damaged, another program's or another version's, where another process has the
    database open, or where it cannot be replaced: nothing is changed then. What fails after the backup has taken
    its place is not an error but the result's `warning`. A kill at any point leaves the former database or
    the restored one under its name, whole.
    """
    if not file.exists():
        raise InvalidInput("FILE", f"{file} is not there")
    with sqlite_errors(StoreError, database):
        is_itself = database.exists() and os.path.samefile(file, database)
    if is_itself:
        raise InvalidInput("FILE", f"{file} is the database itself; name a backup of it")
    target = database.resolve()
    with ExitStack() as stack:
        _require_backup_sound(file, check)
        stack.enter_context(_without_daemon(database))
        source = stack.enter_context(closing(open_copy(file)))
        part = stack.enter_context(part_of(target))
        counts = copy_pages(source, file, part, progress)
        require_sound(part, counts, check)
        records = count_records(part)
        return Restored(records, *_take_the_place(part, target, now))


def _require_backup_sound(file: Path, check: Callable[[], None]) -> None:
    """StoreError in the words of somebody who wants to restore it."""
    try:
        require_sound(file, check=check)
    except StoreError as error:
        problem, _, remedy = str(error).partition("; ")
        if not remedy.endswith("with that version"):
            remedy = "the database is left as it was, use another backup"
        raise StoreError(f"{problem}; {remedy}") from None


def _without_daemon(database: Path) -> ExitStack:
    """The daemon's lock, so that none starts meanwhile."""
    stack = ExitStack()
    try:
        stack.enter_context(sole_daemon(database, RESTORE))
    except AlreadyRunning as error:
        raise AlreadyRunning(database, error.holder, "stop it, then restore") from None
    return stack


def _take_the_place(part: Path, target: Path, now: datetime) -> tuple[Path | None, str | None]:
    """Keep the former database under another name, then replace it in one step; that name, and a warning."""
    with sqlite_errors(StoreError, target), ExitStack() as undoing:
        if not target.exists():
            _keep_logs(target, _free_name(target, now), undoing)
            warning = put_in_place(part, target, replace=False)
            undoing.pop_all()
            return None, warning
        if is_foreign(target):
            raise StoreError(f"{target}: belongs to another application; use another --database")
        _carry_log_over(target)
        with sole_user(target):
            _forget_killed_restore(target)
            former = _free_name(target, now)
            _like(part, target)
            _give_second_name(target, former)
            undoing.callback(_forgotten, former)
            # What could not be carried over goes with it, before the new file could be taken for its own.
            _keep_logs(target, former, undoing)
            warning = put_in_place(part, target, replace=True)
            undoing.pop_all()
        return former, warning


def _give_second_name(target: Path, former: Path) -> None:
    try:
        os.link(target, former)
    except OSError as error:
        remedy = "move it away yourself, then restore"
        raise StoreError(f"{target}: cannot be kept under another name ({error.strerror}); {remedy}") from None


def _carry_log_over(target: Path) -> None:
    """The last one to close a database carries its log over; of a damaged one the log is kept beside it."""
    with suppress(StoreError):
        connection = open_unchanged(target)
        with sqlite_errors(StoreError, target), closing(connection):
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()


def _keep_logs(target: Path, former: Path, undoing: ExitStack) -> None:
    for ending in _LOGS:
        if (log := beside(target, ending)).exists():
            log.replace(beside(former, ending))
            undoing.callback(_moved_back, beside(former, ending), log)
            sync_directory(target.parent)


def _moved_back(file: Path, to: Path) -> None:
    with suppress(OSError):
        file.replace(to)


def _forgotten(name: Path) -> None:
    with suppress(OSError):
        name.unlink()


def _free_name(target: Path, now: datetime) -> Path:
    return next(name for name in _names(target, now) if not name.exists())


def _names(target: Path, now: datetime) -> Iterator[Path]:
    name = f"{target.name}{_REPLACED}{now:%Y%m%dT%H%M%SZ}"
    yield target.with_name(name)
    yield from (target.with_name(f"{name}-{number}") for number in count(2))


def _forget_killed_restore(target: Path) -> None:
    """One that was killed in the middle has left a second name of the database, which nobody may open by that."""
    for name in target.parent.glob(f"{target.name}{_REPLACED}*"):
        if os.path.samefile(name, target):
            name.unlink()


def _like(part: Path, target: Path) -> None:
    """Who may use the former database may use the new one: root restores it for the daemon's user."""
    former = target.stat()
    with suppress(PermissionError):
        os.chown(part, former.st_uid, former.st_gid)
    part.chmod(former.st_mode & 0o7777)
