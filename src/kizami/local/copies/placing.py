"""A file appears under its name only when it is whole: it is made beside it and then moved there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kizami.local.store.database import beside, sync_directory

_PART = re.compile(r"\..+\.(\d+)\.part", re.DOTALL)
_SIDE_FILES = ("", "-journal", "-wal", "-shm")


@contextmanager
def part_of(path: Path) -> Iterator[Path]:
    """Where to make the file of that name; whatever is there at the end of the `with` is removed."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    remove_leftovers(path.parent, path.name)
    try:
        yield part
    finally:
        remove_with_side_files(part)


def remove_with_side_files(path: Path) -> None:
    """Remove a database that nobody uses, and what SQLite may have put beside it."""
    for ending in _SIDE_FILES:
        with suppress(OSError):
            beside(path, ending).unlink()


def remove_leftovers(directory: Path, of_name: str = "") -> None:
    """Remove the parts, of files of that name or of all, that processes have left which were killed."""
    with suppress(OSError):
        for each in directory.glob(f".{of_name or '*'}.*.part"):
            match = _PART.fullmatch(each.name)
            if match and not _is_running(int(match[1])):
                remove_with_side_files(each)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def put_in_place(part: Path, path: Path, *, replace: bool) -> None:
    """Give the whole file its name; FileExistsError if that is taken and may not be replaced."""
    if replace:
        part.replace(path)
    else:
        _link(part, path)
    sync_directory(path.parent)


def _link(part: Path, path: Path) -> None:
    try:
        os.link(part, path)  # which, unlike a rename, replaces nothing
    except FileExistsError:
        raise
    except OSError:  # the file system has no links
        if path.exists():
            raise FileExistsError(path) from None
        part.replace(path)
