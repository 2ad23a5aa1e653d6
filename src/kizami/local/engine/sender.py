"""The minute trigger and the Sender's plan on one machine: which messages to put on the queue next (no I/O).

The messages of a minute go onto the queue during the minute before, a few targets at a time, so that
neither the loop nor the disk ever has a burst of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from kizami.core.epoch import from_ms, to_seconds
from kizami.core.sender import minute_windows
from kizami.local.engine.active_targets import ActiveTarget
from kizami.local.store.rows import SentRow

MINUTE_MS = 60_000
_READY_MS = 45_000  # a minute's plan is complete this long after the minute before it began
_CHUNK = 32  # targets planned in one go, about a millisecond of work


class Sender:
    """Plans minute after minute, from the first tick after `start_ms` on."""

    def __init__(self, active: Sequence[ActiveTarget], start_ms: float) -> None:
        self._targets = sorted(active, key=lambda each: each.metric_id)
        self._start_ms = start_ms
        self._minute_ms = int(start_ms // MINUTE_MS) * MINUTE_MS
        self._planned = 0  # of the targets, for that minute

    def next_rows(self, now_ms: float) -> list[SentRow]:
        """The messages that should go onto the queue now."""
        count = min(self._wanted(now_ms) - self._planned, _CHUNK)
        if count <= 0:
            return []
        chunk = self._targets[self._planned : self._planned + count]
        rows = [row for active in chunk for row in self._rows(active)]
        self._planned += count
        if self._planned == len(self._targets):
            self._minute_ms += MINUTE_MS
            self._planned = 0
        return rows

    def is_behind(self, now_ms: float) -> bool:
        """Whether a minute has passed that is not planned: its slots are catch-up's by then."""
        return bool(self._targets) and now_ms >= self._minute_ms + MINUTE_MS

    def has_more(self, now_ms: float) -> bool:
        """Whether `next_rows` would give some at once."""
        return self._wanted(now_ms) > self._planned

    def _wanted(self, now_ms: float) -> int:
        """How many targets should have their messages of the minute by now; all of them once it has begun."""
        share = (now_ms - (self._minute_ms - MINUTE_MS)) / _READY_MS
        return min(len(self._targets), int(share * len(self._targets)) + 1) if share > 0 else 0

    def _rows(self, active: ActiveTarget) -> list[SentRow]:
        seconds, offset_ms = active.target.interval_seconds, active.offset_ms
        return [
            SentRow(slot, active.metric_id, seconds, tick_ms + offset_ms)
            for slot, tick_ms in _ticks(self._minute_ms, seconds, active.target.lag_seconds)
            if tick_ms > self._start_ms
        ]


@lru_cache(maxsize=64)  # the targets of one interval and lag share the plan of a minute
def _ticks(minute_ms: int, interval_seconds: int, lag_seconds: int) -> list[tuple[int, int]]:
    windows = minute_windows(from_ms(minute_ms), interval_seconds, lag_seconds)
    return [(to_seconds(window.start), minute_ms + delay * 1000) for delay, window in windows]
