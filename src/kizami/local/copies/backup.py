"""A backup: refused where it would do harm, made beside its name, verified, and only then there."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import apsw

from kizami.core.errors import InvalidInput, StoreError
from kizami.local.copies.copying import Progress, copy_pages, require_sound
from kizami.local.copies.placing import part_of, put_in_place
from kizami.local.store.database import beside, open_copy, open_unchanged, sqlite_errors
from kizami.local.store.history.sums import count_stored


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup that was made: a file, how large it is, what is in it, how long it took.

    `warning` says why a power failure may still undo it.
    """

    file: Path
    bytes: int
    records: int
    metrics: int
    seconds: float
    warning: str | None = None


def make_backup(
    database: Path,
    file: Path,
    *,
    replace: bool = False,
    progress: Progress = lambda done, pages: None,
    check: Callable[[], None] = lambda: None,
) -> Backup:
    """Copy the database, whether a daemon runs on it or not, to `file`, which appears when it is verified.

    InvalidInput where `file` is there and may not be replaced, or is in use as a database; StoreError where the
    database cannot be read or the file cannot be written. Both are then as they were.
    """
    began = time.monotonic()
    target = file.resolve()
    require_free(database, target, replace=replace)
    with closing(open_unchanged(database)) as source, part_of(target) as part:
        _require_room(source, target)
        counts = copy_pages(source, database, part, progress)
        require_sound(part, counts, check)
        records, size = count_records(part), part.stat().st_size
        warning = _place(part, target, replace=replace)
    return Backup(file, size, records, counts["metrics"], time.monotonic() - began, warning)


def count_records(copy: Path) -> int:
    """How many records a copy of a database has."""
    with closing(open_copy(copy)) as connection, sqlite_errors(StoreError, copy):
        return count_stored(connection)


def require_free(database: Path, file: Path, *, replace: bool) -> None:
    """InvalidInput if a backup may not have that name."""
    if file.exists() and database.exists() and os.path.samefile(file, database):
        raise InvalidInput("FILE", f"{file} is the database itself; choose another name")
    for ending in ("-wal", "-journal"):
        if (log := beside(file, ending)).exists():
            raise InvalidInput("FILE", f"{log} belongs to a database of that name; choose another name")
    if file.exists() and not replace:
        raise InvalidInput("FILE", f"{file} is there already; choose another name, or --force to replace it")
    if file.exists():
        _require_backup(file)


def _require_backup(file: Path) -> None:
    """Only what is a backup is replaced by one: a name may be mistyped."""
    try:
        open_copy(file).close()
    except StoreError:
        raise InvalidInput("FILE", f"{file} is no backup, so it is not replaced; choose another name") from None


def _require_room(source: apsw.Connection, target: Path) -> None:
    with sqlite_errors(StoreError, target):
        free = shutil.disk_usage(target.parent).free
        needed = int(source.execute("PRAGMA page_count").get) * int(source.execute("PRAGMA page_size").get)
    if needed > free:
        raise StoreError(f"{target}: needs {_megabytes(needed)}, and {_megabytes(free)} are free there; make room")


def _megabytes(size: int) -> str:
    return f"{-(-size // 1_000_000):,} MB"


def _place(part: Path, target: Path, *, replace: bool) -> str | None:
    try:
        with sqlite_errors(StoreError, target):
            return put_in_place(part, target, replace=replace)
    except StoreError as error:
        if isinstance(error.__cause__, FileExistsError):
            problem = f"{target} has come up meanwhile; choose another name, or --force to replace it"
            raise InvalidInput("FILE", problem) from None
        raise
