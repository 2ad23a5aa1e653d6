"""Text for whoever reads along, written by a thread of its own: a reader that has stopped holds up nobody."""

from __future__ import annotations

import atexit
import io
import logging
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import TextIO, cast

_LIMIT = 10_000  # pieces of text, mostly lines, that are kept for a reader
_PATIENCE_SECONDS = 0.5  # of the end with a reader that takes nothing

logger = logging.getLogger(__name__)


def unblock_stderr() -> None:
    """Let nobody in this process wait for the reader of stderr any more; what is too much for it is left out."""
    try:
        output = UnblockedOutput(sys.stderr, _tell_of_lines)
    except (OSError, ValueError):  # it is no file of the system's, so that nobody can stop reading it
        return
    sys.stderr = cast(TextIO, output)
    atexit.register(output.finish)


class UnblockedOutput(io.TextIOBase):
    """Stands for a stream and never blocks.

    What is written is written at once unless the reader has stopped. Then the newest pieces are kept, and when
    it reads again `left_out` is called with the number of the others. `failed` is told of each error.
    """

    def __init__(
        self,
        stream: TextIO,
        left_out: Callable[[int], None],
        failed: Callable[[OSError], None] = lambda error: None,
        limit: int = _LIMIT,
    ) -> None:
        self._descriptor = stream.fileno()
        self._terminal = stream.isatty()
        self._encoding = stream.encoding or "utf-8"
        self._left_out = left_out
        self._failed = failed
        self._pieces: deque[bytes] = deque()
        self._limit = limit
        self._dropped = 0
        self._written = 0
        self._writing = False
        self._news = threading.Condition()
        threading.Thread(target=self._run, name="output", daemon=True).start()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return self._terminal

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        """Have it written soon."""
        piece = text.encode(self._encoding, "backslashreplace")
        with self._news:
            self._pieces.append(piece)
            if len(self._pieces) > self._limit:
                self._pieces.popleft()
                self._dropped += 1
            self._news.notify_all()
        return len(text)

    def finish(self) -> None:
        """Wait until all is written, or until the reader has taken nothing for a while."""
        with self._news:
            while (self._pieces or self._writing) and self._is_read():
                pass

    def _is_read(self) -> bool:
        written = self._written
        return self._news.wait_for(lambda: self._written != written, _PATIENCE_SECONDS)

    def _run(self) -> None:
        while True:
            self._write(self._next())
            with self._news:
                self._written += 1
                self._writing = False
                self._news.notify_all()
            self._tell()

    def _tell(self) -> None:
        """Once, when the reader has caught up: each line about others that were left out would take their room."""
        with self._news:
            dropped = 0 if self._pieces else self._dropped
            self._dropped -= dropped
        if dropped:
            self._left_out(dropped)

    def _next(self) -> bytes:
        with self._news:
            self._news.wait_for(lambda: self._pieces)
            self._writing = True
            return self._pieces.popleft()

    def _write(self, piece: bytes) -> None:
        try:
            write_whole(self._descriptor, piece)
        except OSError as error:
            self._failed(error)


def write_whole(descriptor: int, data: bytes) -> None:
    """Write all of it, however long the reader takes, with no lock of Python's held.

    A thread that is stuck with one would make the interpreter abort at its end.
    """
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:  # whoever gave us the stream has made it so
            select.select([], [descriptor], [])


def _tell_of_lines(count: int) -> None:
    logger.warning("stderr was not read; lines are left out", extra={"event": "stderr.slow", "lines": count})
