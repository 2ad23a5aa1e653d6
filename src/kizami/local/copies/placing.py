"""A file appears under its name only when it is whole: it is made beside it and then moved there."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from kizami.core.errors import StoreError
from kizami.local.store.database import PRIVATE_MODE, sqlite_errors, sync_directory

_ENDING = ".kizami.part"  # which no other program gives a file: what has it may be removed
_SIDE_FILES = ("", "-journal", "-wal", "-shm")
_LOCK = "-lock"  # a file beside the part, because SQLite loses its locks on a file that somebody else closes
_PART = re.compile(rf"(\..+\.\d+{re.escape(_ENDING)})(?:{'|'.join(_SIDE_FILES)}|{_LOCK})", re.DOTALL)


@contextmanager
def part_of(path: Path) -> Iterator[Path]:
    """Where to make the file of that name; whatever is there at the end of the `with` is removed.

    It is locked meanwhile, for another machine or container may use the directory too; StoreError if it cannot be.
    """
    remove_leftovers(path.parent)
    # Another container may have a process of the same id.
    parts = (path.with_name(f".{path.name}.{number}{_ENDING}") for number in count(os.getpid()))
    with sqlite_errors(StoreError, path):
        part, lock = next((part, lock) for part in parts if (lock := _lock(part)) is not None)
    try:
        yield part
    finally:
        _remove(part, lock)


def remove_leftovers(directory: Path) -> None:
    """Remove the parts, and what SQLite put beside them, that killed processes have left in a directory."""
    with suppress(OSError):
        found = {match[1] for each in directory.glob(f".*{_ENDING}*") if (match := _PART.fullmatch(each.name))}
        for name in sorted(found):
            with suppress(OSError):
                if (lock := _lock(directory / name)) is not None:
                    _remove(directory / name, lock)


def _lock(part: Path) -> int | None:
    """The lock of a part, or None while somebody else has it."""
    path = part.with_name(part.name + _LOCK)
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_MODE)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(path.stat(), os.fstat(handle)):
                return handle
        except BlockingIOError:
            os.close(handle)
            return None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # whoever had the lock has just removed its file


def _remove(part: Path, lock: int) -> None:
    try:
        for ending in (*_SIDE_FILES, _LOCK):  # the lock last: from then on another one may make the part
            with suppress(OSError):
                part.with_name(part.name + ending).unlink()
    finally:
        os.close(lock)


def put_in_place(part: Path, path: Path, *, replace: bool) -> str | None:
    """Give the whole file its name; FileExistsError if that is taken and may not be replaced.

    The file has its name when this returns; a text says why a power failure may still undo that.
    """
    if replace:
        part.replace(path)
    else:
        _link(part, path)
    try:
        sync_directory(path.parent)
    except OSError as error:
        return f"the disk has not confirmed the new name ({error.strerror or error}); run `sync`"
    return None


def _link(part: Path, path: Path) -> None:
    try:
        os.link(part, path)  # which, unlike a rename, replaces nothing
    except FileExistsError:
        raise
    except OSError:  # the file system has no links
        if path.exists():
            raise FileExistsError(path) from None
        part.replace(path)
