"""The requests that a host with a limit has had in the last period, and how many it may still have (no I/O)."""

from __future__ import annotations

from collections import deque

from kizami.core.targets.hosts import RequestLimit


class RequestWindow:
    """How many requests a host has had in the last period, and may still have; times are monotonic."""

    def __init__(self, limit: RequestLimit, before: RequestWindow | None = None) -> None:
        self._limit = limit
        self._period_ms = limit.period_seconds * 1000
        self._sent: deque[float] = deque(before._sent if before else ())
        self._sent_old: deque[float] = deque(before._sent_old if before else ())
        self.offered = 0  # to old requests, as of the loop's last look, for other threads

    def restore(self, sent_ms: float, requests: int, now_ms: float) -> None:
        """Note requests of an earlier run, in their order. Whether they were live ones is not known."""
        if sent_ms <= now_ms - self._period_ms:
            return
        for _ in range(min(requests, self._limit.requests)):
            if len(self._sent) >= self._limit.live:
                self._sent_old.append(sent_ms)
            self._sent.append(sent_ms)

    def note(self, now_ms: float, *, live: bool) -> None:
        """A request leaves."""
        self._sent.append(now_ms)
        if not live:
            self._sent_old.append(now_ms)

    def take_back(self, *, live: bool) -> None:
        """The last one was not sent after all."""
        self._sent.pop()
        if not live:
            self._sent_old.pop()

    def room(self, now_ms: float) -> int:
        """How many requests may leave now."""
        while self._sent and self._sent[0] <= now_ms - self._period_ms:
            self._sent.popleft()
        return self._limit.requests - len(self._sent)

    def old_room(self, now_ms: float) -> int:
        """How many of them may be old ones: live polls have their share of the period to themselves."""
        while self._sent_old and self._sent_old[0] <= now_ms - self._period_ms:
            self._sent_old.popleft()
        return min(self.room(now_ms), self._limit.old - len(self._sent_old))

    def next_ms(self, now_ms: float) -> float:
        """When there is more room than now."""
        first = [sent[0] for sent in (self._sent, self._sent_old) if sent]
        return max(now_ms, min(first) + self._period_ms) if first else now_ms
