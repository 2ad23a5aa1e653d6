"""One daemon per database: a lock that the operating system drops when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kizami.core.errors import StoreError
from kizami.local.store.database import beside, mode_of

_ENDING = "-lock"
_PATIENCE_SECONDS = 0.05


class AlreadyRunning(StoreError):
    """Somebody else works on the database."""


@contextmanager
def sole_daemon(database: Path) -> Iterator[None]:
    """Hold the daemon's lock of `database` for the length of a `with`; AlreadyRunning names the one that has it.

    The file beside the database stays: removing it would let a third daemon lock a new file of the same name.
    """
    with open_lock_file(database, _ENDING) as handle:
        _lock(handle, database)
        os.ftruncate(handle, 0)
        os.pwrite(handle, b"%d\n" % os.getpid(), 0)
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


def daemon_pid(database: Path) -> int | None:
    """The process that works on `database`, if there is one; nothing is made or changed."""
    try:
        handle = os.open(beside(database, _ENDING), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        holder = _holder(handle)
        return int(holder) if holder.isdecimal() else None
    finally:
        os.close(handle)


def _holder(handle: int) -> str:
    return os.pread(handle, 20, 0).decode("ascii", "replace").strip()


def _lock(handle: int, database: Path) -> None:
    try:
        _lock_patiently(handle)
    except BlockingIOError:
        holder = _holder(handle) or "unknown"
        raise AlreadyRunning(
            f"{database}: `kizami up` already works on it (pid {holder}); stop that one or use another --database"
        ) from None


def _lock_patiently(handle: int) -> None:
    """A second try, because `daemon_pid` holds the lock for an instant."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(_PATIENCE_SECONDS)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
