"""A copy of the database as it is at one moment, made page by page while others use it, and verified."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from kizami.core.errors import StoreError
from kizami.local.store.database import explain, open_copy, open_new, sqlite_errors
from kizami.local.store.history.sealed import require_sound_history

# How far a copy has come: pages that are copied, and pages in all. Called between steps; may take its time.
Progress = Callable[[int, int], None]
RowCounts = dict[str, int]

_STEP_PAGES = 256
_INSTRUCTIONS = 20_000  # of SQLite's, between two looks at whether somebody wants it to end


def copy_pages(source: apsw.Connection, place: Path, target: Path, progress: Progress) -> RowCounts:
    """Copy what `source`, the file at `place`, has at this moment into a new one; how many rows each table has.

    The read is one transaction: without it, every commit of the daemon would make the copy begin anew. It lets
    the write-ahead log grow by what is written meanwhile, and holds up nobody.
    """
    with sqlite_errors(StoreError, target), closing(open_new(target)) as made, _one_moment(source):
        with made.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(_STEP_PAGES)
                progress(backup.page_count - backup.remaining, backup.page_count)
        # A copy is one file: without a log it can be read from wherever it is put.
        made.execute("PRAGMA journal_mode = DELETE")
        with sqlite_errors(StoreError, place):
            return row_counts(source)


@contextmanager
def _one_moment(connection: apsw.Connection) -> Iterator[None]:
    connection.execute("BEGIN")
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        yield
    finally:
        connection.execute("ROLLBACK")


def row_counts(connection: apsw.Connection) -> RowCounts:
    """How many rows each table has."""
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return {name: int(connection.execute(f'SELECT count(*) FROM "{name}"').get) for name in names}


def require_sound(copy: Path, counts: RowCounts | None = None, check: Callable[[], None] = lambda: None) -> None:
    """Read the whole copy; StoreError with what is wrong if it or its sealed history is damaged, or lacks rows.

    `check` is called again and again while that takes its time, and may raise whatever ends it.
    """
    with closing(open_copy(copy)) as connection:
        connection.set_progress_handler(_looking(check), _INSTRUCTIONS)
        try:
            finding = str(connection.execute("PRAGMA integrity_check(1)").get).splitlines()[-1]
            found = row_counts(connection) if finding == "ok" else {}
            if finding == "ok":
                require_sound_history(connection, check)
        except apsw.Error as error:
            raise StoreError(f"{copy}: {explain(error)}") from error
    if finding != "ok":
        raise StoreError(f"{copy}: is damaged ({finding})")
    if counts is not None and found != counts:
        differing = sorted(name for name in {*found, *counts} if found.get(name) != counts.get(name))
        raise StoreError(f"{copy}: its rows are not those that were copied ({', '.join(differing)})")


def _looking(check: Callable[[], None]) -> Callable[[], bool]:
    def look() -> bool:
        check()
        return False

    return look
