"""A file appears under its name only when it is whole: it is made beside it and then moved there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kizami.local.store.database import beside, sync_directory

_ENDING = ".kizami.part"  # which no other program gives a file: what has it may be removed
_SIDE_FILES = ("", "-journal", "-wal", "-shm")
_PART = re.compile(rf"\..+\.(\d+){re.escape(_ENDING)}(?:{'|'.join(_SIDE_FILES)})", re.DOTALL)


@contextmanager
def part_of(path: Path) -> Iterator[Path]:
    """Where to make the file of that name; whatever is there at the end of the `with` is removed."""
    part = path.with_name(f".{path.name}.{os.getpid()}{_ENDING}")
    remove_leftovers(path.parent)
    try:
        yield part
    finally:
        remove_with_side_files(part)


def remove_with_side_files(path: Path) -> None:
    """Remove a database that nobody uses, and what SQLite may have put beside it."""
    for ending in _SIDE_FILES:
        with suppress(OSError):
            beside(path, ending).unlink()


def remove_leftovers(directory: Path) -> None:
    """Remove the parts, and what SQLite put beside them, that killed processes have left in a directory.

    To be called before this process makes one: a killed one may have had its id, as in a container.
    """
    with suppress(OSError):
        for each in directory.glob(f".*{_ENDING}*"):
            match = _PART.fullmatch(each.name)
            if match and (int(match[1]) == os.getpid() or not _is_running(int(match[1]))):
                with suppress(OSError):
                    each.unlink()


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


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
