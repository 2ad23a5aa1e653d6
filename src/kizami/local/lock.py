"""One daemon per database: a lock that the operating system drops when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kizami.errors import StoreError


class AlreadyRunning(StoreError):
    """Somebody else works on the database."""


@contextmanager
def sole_daemon(database: Path) -> Iterator[None]:
    """Hold the daemon's lock of `database` for the length of a `with`; AlreadyRunning names the one that has it.

    The file beside the database stays: removing it would let a third daemon lock a new file of the same name.
    """
    path = database.with_name(database.name + "-lock")
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StoreError(f"{path}: cannot be made ({error.strerror}); use a --database in another place") from None
    try:
        _lock(handle, database)
        os.ftruncate(handle, 0)
        os.pwrite(handle, b"%d\n" % os.getpid(), 0)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, database: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip() or "unknown"
        raise AlreadyRunning(
            f"{database}: `kizami up` already works on it (pid {holder}); stop that one or use another --database"
        ) from None
