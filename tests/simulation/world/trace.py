"""What happened, a line an event: the same seed gives the same lines, to the byte."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path

_KEPT = 400


class Trace:
    """The digest of all lines, and the last of them.

    `root` is where the machine's files really are, another place in each run: paths are told from there on.
    """

    def __init__(self, moment: Callable[[], int], root: Path | None = None) -> None:
        self._moment = moment
        self._root = None if root is None else str(root)
        self._digest = hashlib.sha256()
        self.last: deque[str] = deque(maxlen=_KEPT)
        self.kinds: Counter[str] = Counter()

    def add(self, kind: str, *fields: object) -> None:
        line = " ".join([f"{self._moment() / 1_000_000:.6f}", kind, *map(str, fields)])
        if self._root is not None:
            line = line.replace(self._root, "")
        self._digest.update(line.encode() + b"\n")
        self.last.append(line)
        self.kinds[kind] += 1

    def digest(self) -> str:
        return self._digest.hexdigest()


class TraceHandler(logging.Handler):
    """Log lines are events too, by their names; `check` is given each whole, and what it says."""

    def __init__(self, trace: Trace, check: Callable[[str, dict[str, object]], None]) -> None:
        super().__init__()
        self._trace = trace
        self._check = check

    def emit(self, record: logging.LogRecord) -> None:
        said = {name: value for name, value in record.__dict__.items() if name not in _OF_EVERY_RECORD}
        self._check(f"{record.getMessage()} {said}", said)
        self._trace.add(
            f"log:{said.get('event')}", record.levelname, said.get("reason", ""), said.get("slots", "")
        )


_OF_EVERY_RECORD = set(logging.makeLogRecord({}).__dict__)
