"""A pipe whose reader has stopped reading, for tests of whoever writes to it."""

from __future__ import annotations

import os
from types import TracebackType


class FullPipe:
    """`writer` blocks whoever writes to it until `read` has taken what is in it."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        os.set_blocking(self.writer, False)
        self._filling = 0
        for size in (65536, 1):
            while self._write(b"-" * size):
                self._filling += size
        os.set_blocking(self.writer, True)

    def __enter__(self) -> FullPipe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.writer)
        os.close(self._reader)

    def read(self, until: bytes) -> bytes:
        """What was written to it up to these bytes."""
        text = b""
        while until not in text:
            taken = os.read(self._reader, 65536)
            text += taken[self._filling :]
            self._filling -= min(self._filling, len(taken))
        return text

    def _write(self, data: bytes) -> int:
        try:
            return os.write(self.writer, data)
        except BlockingIOError:
            return 0
