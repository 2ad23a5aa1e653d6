"""Where the verbs get their `now`: the wall clock, read once a run."""

from __future__ import annotations

from datetime import UTC, datetime


class WallClock:
    """`ports.Clock` on this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)
