"""The locks on a database as another process sees them, for tests of whoever should hold one."""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from pathlib import Path
from types import TracebackType

# Where SQLite has its SHARED lock (os_unix.c), and struct flock as 64-bit Linux has it.
_SHARED_FIRST, _SHARED_SIZE = 0x40000002, 510
_FLOCK = struct.Struct("hhqqi4x")
_LOOK_SECONDS = 0.002


class SeenLocks:
    """Looks at the file's SHARED lock all the time; `lost` says whether it was ever seen to go again.

    The process of the test must not lock the file itself: nobody sees his own locks.
    """

    def __init__(self, database: Path) -> None:
        self._handle = os.open(database, os.O_RDWR)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.seen = 0
        self.lost = False

    def __enter__(self) -> SeenLocks:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        os.close(self._handle)

    def stop(self) -> None:
        """Look no more, because whoever is looked at is about to end."""
        self._ended.set()
        self._thread.join()

    def is_held(self) -> bool:
        """Whether another process holds at least SHARED."""
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _SHARED_FIRST, _SHARED_SIZE, 0)
        kind, *_ = _FLOCK.unpack(fcntl.fcntl(self._handle, fcntl.F_GETLK, asked))
        return bool(kind != fcntl.F_UNLCK)

    def _look(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            if self.is_held():
                self.seen += 1
            elif self.seen:
                self.lost = True
