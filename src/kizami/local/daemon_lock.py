"""One process works on a database: a lock that the system drops when its holder dies, however it dies.

`kizami up`, `kizami backfill` without a daemon, and `kizami restore` take it; the file says which of them has it
and, in a second line, what `kizami up` polls.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kizami.core.errors import StoreError
from kizami.local.store.database import beside, mode_of

_ENDING = "-lock"
_PATIENCE_SECONDS = 0.05
_MOST_BYTES = 65_536

UP, BACKFILL, RESTORE = "kizami up", "kizami backfill", "kizami restore"

About = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds the lock, and what it says of itself; 0 or "" where the lock file says nothing."""

    pid: int
    command: str
    about: About | None = None

    def __str__(self) -> str:
        return f"{f'`{self.command}`' if self.command else 'a process'} (pid {self.pid or 'unknown'})"


class AlreadyRunning(StoreError):
    """Another process works on the database."""

    def __init__(self, database: Path, holder: Holder, remedy: str = "") -> None:
        self.holder = holder
        what = remedy or "stop it or use another --database"
        super().__init__(f"{database}: {holder} already works on it; {what}")


class DaemonLock:
    """The lock while it is held."""

    def __init__(self, handle: int, command: str) -> None:
        self._handle = handle
        self._holder = f"{os.getpid()} {command}\n"
        self._told: About | None = None
        self._is_held = True
        self._mutex = threading.Lock()
        self._write(self._holder)

    def tell(self, about: About) -> None:
        """Let other processes read this while the lock is held; what cannot be written is told next time."""
        with self._mutex, suppress(OSError):
            if self._is_held and about != self._told:
                self._write(f"{self._holder}{json.dumps(about)}\n")
                self._told = about

    def end(self) -> None:
        """From now on nothing is told: the descriptor may be another file's."""
        with self._mutex:
            self._is_held = False

    def _write(self, text: str) -> None:
        content = text.encode()
        # A longer text than before is there at once; the rest of a longer one before it follows the second line.
        os.pwrite(self._handle, content, 0)
        os.ftruncate(self._handle, len(content))


@contextmanager
def sole_daemon(database: Path, command: str) -> Iterator[DaemonLock]:
    """Hold the daemon's lock of `database` for the length of a `with`; AlreadyRunning names the one that has it.

    `command` is the name under which other processes report it. The file beside the database stays: removing it
    would let a third process lock a new file of the same name.
    """
    with open_lock_file(database, _ENDING) as handle:
        _lock(handle, database)
        os.ftruncate(handle, 0)
        lock = DaemonLock(handle, command)
        try:
            yield lock
        finally:
            lock.end()


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


def find_daemon(database: Path) -> Holder | None:
    """The `kizami up` that works on `database`, if there is one."""
    holder = lock_holder(database)
    return holder if holder and holder.command == UP else None


def _holder(handle: int) -> Holder:
    first, _, rest = os.pread(handle, _MOST_BYTES, 0).decode("utf-8", "replace").partition("\n")
    pid, _, command = first.strip().partition(" ")
    try:
        about = json.loads(rest.partition("\n")[0])
    except ValueError:  # nothing yet, or half of it
        about = None
    return Holder(int(pid) if pid.isdecimal() else 0, command, about if isinstance(about, dict) else None)


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
