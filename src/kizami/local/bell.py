"""A bell that wakes the loop: rung by the writer's thread, by another thread or by a signal handler."""

from __future__ import annotations

import socket
from contextlib import suppress


class Bell:
    """Rings until it is hushed; ringing twice is ringing once."""

    def __init__(self) -> None:
        self._clapper, self._rope = socket.socketpair()
        self._clapper.setblocking(False)
        self._rope.setblocking(False)
        self._descriptor = self._clapper.fileno()

    def fileno(self) -> int:
        """What becomes readable when it rings."""
        return self._descriptor

    def ring(self) -> None:
        # A full pipe means that it rings already; a closed one that nobody listens any more.
        with suppress(OSError):
            self._rope.send(b"!")

    def hush(self) -> None:
        with suppress(BlockingIOError):
            while self._clapper.recv(4096):
                pass

    def close(self) -> None:
        self._clapper.close()
        self._rope.close()
