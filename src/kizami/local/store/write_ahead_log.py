"""The write-ahead log beside the database: how large it is, and whose read keeps it from being emptied.

SQLite writes it from the beginning again when all of it is in the database and nobody reads any more what was
there before. A read that does not end therefore lets it grow by all that is written meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import apsw

from kizami.local.store.database import LOG_BYTES, beside

LARGE_BYTES = 2 * LOG_BYTES

_LOOK_SECONDS = 10.0
_LOCKS = Path("/proc/locks")  # Linux only; a look at the file itself would drop our locks on it
_FIRST_READ_LOCK, _LAST_READ_LOCK = 123, 127  # bytes of the -shm file (wal.c, os_unix.c)

logger = logging.getLogger(__name__)


class LogWatch:
    """Tells once of a log that a read lets grow, and once of its end; for the thread that writes."""

    def __init__(self, database: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._monotonic = monotonic
        self._looked_at = monotonic()
        self._told = False

    def look(self, connection: apsw.Connection) -> None:
        """Look whether it is time to tell of something; costs next to nothing unless the log is large."""
        if self._monotonic() - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = self._monotonic()
        size = log_bytes(self._database)
        if size <= LARGE_BYTES:
            self._tell_of_the_end(size)
        elif not self._told and _is_held(connection):
            self._told = True
            logger.warning(
                "a read of the database that does not end lets its log grow; end it",
                extra={
                    "event": "database_log.held",
                    "log_megabytes": size // 2**20,
                    "readers": readers(self._database),
                },
            )

    def _tell_of_the_end(self, size: int) -> None:
        if self._told:
            logger.info(
                "the database's log is small again",
                extra={"event": "database_log.released", "log_megabytes": size // 2**20},
            )
        self._told = False


def describe_large_log(database: Path) -> str:
    """What to say of the log if it is large; nothing if it is not."""
    size = log_bytes(database)
    if size <= LARGE_BYTES:
        return ""
    pids = " and ".join(f"pid {pid}" for pid in readers(database))
    return f"its log has {size // 2**20} MB, because a read goes on{f' ({pids})' if pids else ''}"


def log_bytes(database: Path) -> int:
    """How large the log is; 0 if there is none."""
    try:
        return beside(database, "-wal").stat().st_size
    except OSError:
        return 0


def readers(database: Path) -> list[int]:
    """The processes that are reading the database at this moment, as far as the system tells."""
    try:
        inode = str(beside(database, "-shm").stat().st_ino)
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return []
    return sorted({pid for line in lines if (pid := _reader(line.split(), inode)) > 0})


def _reader(fields: list[str], inode: str) -> int:
    """Whose lock a line like `1: POSIX  ADVISORY  READ 4711 fe:00:1234 124 124` is; 0 if it is none of these."""
    if len(fields) != 8 or fields[5].rpartition(":")[2] != inode:
        return 0
    pid, first, last = fields[4], fields[6], fields[7]
    if int(first) > _LAST_READ_LOCK or last == "EOF" or int(last) < _FIRST_READ_LOCK:
        return 0
    return int(pid)


def _is_held(connection: apsw.Connection) -> bool:
    """Whether there is something in the log that cannot be carried over; what can be, is."""
    try:
        _, frames, carried_over = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").get
    except apsw.Error:
        return False
    return bool(carried_over < frames)
