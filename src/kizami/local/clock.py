"""The wall clock of the one-machine runtime; everything that needs `now` is handed one, so tests can turn it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class WallClock(Protocol):
    """`ports.Clock`, and the same moment as milliseconds since 1970, which is what the engine counts in."""

    def now(self) -> datetime:
        """The current instant, aware, in UTC."""

    def milliseconds(self) -> float:
        """The current instant, with its fraction."""


class SystemClock:
    """The machine's clock. It may jump: the engine watches for that."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def milliseconds(self) -> float:
        return time.time() * 1000
