"""The records of `kizami up` as JSON lines on stdout, for whoever reads along; a slow reader holds up nobody."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

from kizami.cli.terminal.unblocked_output import write_whole
from kizami.core.messages import write_record
from kizami.local.engine.loop import StoredRecord

_LIMIT = 100_000  # lines kept for a reader that is slower than the polls

logger = logging.getLogger(__name__)


class RecordLines:
    """Writes on a thread of its own; `stop` is called when nobody reads any more (`| head`)."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._records: deque[StoredRecord] = deque()
        self._news = threading.Condition()
        self._closing = False
        self._dropped = 0
        self._trouble: str | None = None
        self._thread = threading.Thread(target=self._run, name="row-lines", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._news:
            self._closing = True
            self._news.notify()
        self._thread.join(timeout=0.3)  # what a reader that has stopped reading has not taken is lost

    def show(self, records: list[StoredRecord]) -> None:
        """Have these written soon."""
        with self._news:
            self._records.extend(records)
            while len(self._records) > _LIMIT:
                self._records.popleft()
                self._dropped += 1
            self._news.notify()

    def _run(self) -> None:
        try:
            while (records := self._next()) is not None:
                self._write("".join(line_of(record) for record in records))
        except BrokenPipeError:
            self._stop()

    def _write(self, lines: str) -> None:
        try:
            write_whole(sys.stdout.fileno(), lines.encode(sys.stdout.encoding, "backslashreplace"))
            self._trouble = None
        except BrokenPipeError:
            raise
        except OSError as error:  # a file on a full disk: the records are in the database all the same
            if error.strerror != self._trouble:
                logger.error(
                    "stdout cannot be written; rows are left out there",
                    extra={"event": "stdout.unwritable", "reason": error.strerror},
                )
            self._trouble = error.strerror

    def _next(self) -> list[StoredRecord] | None:
        with self._news:
            self._news.wait_for(lambda: self._records or self._closing)
            if self._dropped:
                logger.warning(
                    "stdout is read too slowly; lines are left out",
                    extra={"event": "stdout.slow", "lines": self._dropped},
                )
                self._dropped = 0
            records = list(self._records)
            self._records.clear()
            return records or None


def line_of(stored: StoredRecord) -> str:
    """A record with the names of the table, and how it came about."""
    line = write_record(stored.record) | {
        "lateMs": stored.late_ms,
        "receives": stored.receives,
        "backfilled": stored.backfilled,
    }
    return json.dumps(line, ensure_ascii=False) + "\n"
