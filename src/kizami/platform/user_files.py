"""Files that a setting names: regular files of a limited size, and none of them is waited for without end.

A pipe or a device at such a path would block a read or never end it, and a mount that hangs blocks even a look at
the path. So every call runs in a thread that is left behind when it does not answer in time.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

Found = TypeVar("Found")
Stamp = tuple[int, int, int] | None

PATIENCE_SECONDS = 10.0  # a disk that has to spin up and an automounted directory answer sooner
# A header line that servers take has at most some 16 KB, and a bundle of every public authority some 250 KB.
SECRET_BYTES, CERTIFICATE_BYTES = 64 * 2**10, 2 * 2**20

_CHUNK = 2**20
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_NO_ANSWER = f"no answer within {PATIENCE_SECONDS:g} s; is its file system mounted and reachable?"

_hanging: set[str] = set()  # directories in which a call has not come back


def read_file(path: Path, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes, else raise OSError with the reason."""
    (found,) = _each(lambda path: _read(path, limit), [path])
    if isinstance(found, OSError):
        raise found
    return found


def stamp_of(path: Path) -> Stamp:
    """Return what tells one version of a file from the next, None if there is none; TimeoutError if it hangs."""
    (stamp,) = stamps_of([path])
    if isinstance(stamp, TimeoutError):
        raise stamp
    return stamp


def stamps_of(paths: Sequence[Path]) -> list[Stamp | TimeoutError]:
    """Return the stamp of each of the paths."""
    return [found if isinstance(found, tuple | TimeoutError) else None for found in _each(_stamp, paths)]


def _stamp(path: Path) -> Stamp:
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read(path: Path, limit: int) -> bytes:
    # O_NONBLOCK: to open a pipe that nobody writes would block, and so may a device.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        _require_file(handle, limit)
        found, left = [], limit + 1
        while left > 0 and (chunk := os.read(handle, min(_CHUNK, left))):
            found.append(chunk)
            left -= len(chunk)
        if left <= 0:  # it has grown, or it is a file of /proc, whose size says nothing
            raise _too_large(limit)
        return b"".join(found)
    finally:
        os.close(handle)


def _require_file(handle: int, limit: int) -> None:
    status = os.fstat(handle)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file")
    if status.st_size > limit:
        raise _too_large(limit)


def _too_large(limit: int) -> OSError:
    size = f"{limit // 2**20} MiB" if limit >= 2**20 else f"{limit // 2**10} KiB"
    return OSError(errno.EFBIG, f"it is larger than {size}")


def _no_answer() -> TimeoutError:
    return TimeoutError(errno.ETIMEDOUT, _NO_ANSWER)


def _each(call: Callable[[Path], Found], paths: Sequence[Path]) -> list[Found | OSError]:
    """Return what `call` gives for each path, or its OSError; a call that hangs does not keep the others."""
    found: list[Found | OSError] = []
    while len(found) < len(paths):
        found += _Calls(call, paths[len(found) :]).wait()
    return found


class _Calls(Generic[Found]):
    """Calls one after another in a thread, until one of them hangs."""

    def __init__(self, call: Callable[[Path], Found], paths: Sequence[Path]) -> None:
        self._call = call
        self._paths = paths
        self._found: list[Found | OSError] = []
        self._is_left = False
        self._news = threading.Condition()
        threading.Thread(target=self._run, name="kizami-files", daemon=True).start()

    def wait(self) -> list[Found | OSError]:
        """Return the outcomes up to the first call that hangs."""
        with self._news:
            while len(self._found) < len(self._paths):
                before = len(self._found)
                self._news.wait(PATIENCE_SECONDS)
                if len(self._found) == before:
                    self._is_left = True
                    _hanging.add(_directory(self._paths[before]))
                    return [*self._found, _no_answer()]
            return self._found

    def _run(self) -> None:
        for path in self._paths:
            found = self._outcome(path)
            with self._news:
                if self._is_left:
                    _hanging.discard(_directory(path))
                    return
                self._found.append(found)
                self._news.notify()

    def _outcome(self, path: Path) -> Found | OSError:
        if _directory(path) in _hanging:  # what is beside it is on the same mount
            return _no_answer()
        try:
            return self._call(path)
        except OSError as error:
            return error
        except ValueError as error:  # a NUL in the path
            return OSError(errno.EINVAL, str(error))


def _directory(path: Path) -> str:
    return os.path.dirname(os.path.abspath(path))
