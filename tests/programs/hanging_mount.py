"""A mount that hangs, as one does whose server is gone: a FUSE file system that nobody serves."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_LIBC = ctypes.CDLL(None, use_errno=True)
_DETACH = 2


class HangingMount:
    """Every access below the directory blocks until `answer`; what is below it is there again then."""

    def __init__(self, directory: Path) -> None:
        self._directory = os.fsencode(directory)
        self._server: int | None = None

    def hang(self) -> None:
        self._server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._server},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        if _LIBC.mount(b"kizami-test", self._directory, b"fuse", 0, options):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def answer(self) -> None:
        if self._server is not None:
            _LIBC.umount2(self._directory, _DETACH)
            os.close(self._server)  # whoever waits gets an error
            self._server = None


@contextmanager
def hanging_mount(directory: Path) -> Iterator[HangingMount]:
    """One that does not hang yet, over a directory that is there; it is gone after the `with`."""
    mount = HangingMount(directory)
    try:
        mount.hang()
    except OSError:
        # Not `skip_for_lack_of`: no package adds FUSE to a kernel or its rights to a container.
        pytest.skip("needs a mount that hangs: run it as root on Linux, with /dev/fuse")
    mount.answer()
    try:
        yield mount
    finally:
        mount.answer()
