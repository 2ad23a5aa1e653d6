"""The wall clock of the one-machine runtime; everything that needs `now` is handed one, so tests can turn it."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class SystemClock:
    """The machine's clock. It may jump: the engine watches for that."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def milliseconds(self) -> float:
        return time.time() * 1000
