"""What wakes the loop while it waits: used by the writer's thread, by another thread or by a signal handler."""

from __future__ import annotations

import socket
from contextlib import suppress


class WakeUp:
    """Readable from `wake` until `clear_wakes`; waking twice is waking once."""

    def __init__(self) -> None:
        self._receiver, self._waker = socket.socketpair()
        self._receiver.setblocking(False)
        self._waker.setblocking(False)
        self._descriptor = self._receiver.fileno()

    def fileno(self) -> int:
        """What becomes readable."""
        return self._descriptor

    def wake(self) -> None:
        # A full pipe means that it is awake already; a closed one that nobody waits any more.
        with suppress(OSError):
            self._waker.send(b"!")

    def clear_wakes(self) -> None:
        with suppress(BlockingIOError):
            while self._receiver.recv(4096):
                pass

    def close(self) -> None:
        self._receiver.close()
        self._waker.close()
