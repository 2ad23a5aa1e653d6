"""One process works on a database: a lock that the system drops when its holder dies, however it dies.

`kizami up`, `kizami backfill` without a daemon, and `kizami restore` take it; the file says which of them has it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kizami.core.errors import StoreError
from kizami.local.store.database import beside, mode_of

_ENDING = "-lock"
_PATIENCE_SECONDS = 0.05
_LONGEST_ENTRY = 100

UP, BACKFILL, RESTORE = "kizami up", "kizami backfill", "kizami restore"


class Holder(NamedTuple):
    """The process that holds the lock; 0 or "" for what the lock file does not say."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"{f'`{self.command}`' if self.command else 'a process'} (pid {self.pid or 'unknown'})"


class AlreadyRunning(StoreError):
    """Another process works on the database."""

    def __init__(self, database: Path, holder: Holder, remedy: str = "") -> None:
        self.holder = holder
        what = remedy or "stop it or use another --database"
        super().__init__(f"{database}: {holder} already works on it; {what}")


@contextmanager
def sole_daemon(database: Path, command: str) -> Iterator[None]:
    """Hold the daemon's lock of `database` for the length of a `with`; AlreadyRunning names the one that has it.

    `command` is the name under which other processes report it. The file beside the database stays: removing it
    would let a third process lock a new file of the same name.
    """
    with open_lock_file(database, _ENDING) as handle:
        _lock(handle, database)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()} {command}\n".encode(), 0)
        yield


@contextmanager
def open_lock_file(database: Path, ending: str) -> Iterator[int]:
    """A handle on a file beside the database for the length of a `with`; a lock on it ends there too.

    It is made if need be, for those who may use the database.
    """
    path = beside(database, ending)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode_of(database))
    except OSError as error:
        raise StoreError(f"{path}: cannot be made ({error.strerror}); use a --database in another place") from None
    try:
        yield handle
    finally:
        os.close(handle)


def lock_holder(database: Path) -> Holder | None:
    """The process that works on `database`, if there is one; nothing is made or changed."""
    try:
        handle = os.open(beside(database, _ENDING), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _holder(handle)
    finally:
        os.close(handle)


def daemon_pid(database: Path) -> int | None:
    """The process of the `kizami up` that works on `database`, if there is one."""
    holder = lock_holder(database)
    return holder.pid or None if holder and holder.command == UP else None


def _holder(handle: int) -> Holder:
    pid, _, command = os.pread(handle, _LONGEST_ENTRY, 0).decode("ascii", "replace").strip().partition(" ")
    return Holder(int(pid) if pid.isdecimal() else 0, command)


def _lock(handle: int, database: Path) -> None:
    try:
        _lock_patiently(handle)
    except BlockingIOError:
        raise AlreadyRunning(database, _holder(handle)) from None


def _lock_patiently(handle: int) -> None:
    """A second try, because `lock_holder` holds the lock for an instant."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(_PATIENCE_SECONDS)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
