"""What is to be asked when: the live messages that were handed out ahead of time, by their moment (no I/O)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from kizami.local.store.rows import TakenMessage


class Agenda:
    """Many messages share a moment, so what is kept in order is the moments."""

    def __init__(self) -> None:
        self._at: dict[int, list[TakenMessage]] = {}
        self._moments: list[int] = []

    def add(self, taken: TakenMessage) -> None:
        together = self._at.get(taken.due_ms)
        if together is None:
            together = self._at[taken.due_ms] = []
            heapq.heappush(self._moments, taken.due_ms)
        together.append(taken)

    @property
    def next_ms(self) -> int | None:
        """The first moment at which something is to be asked."""
        return self._moments[0] if self._moments else None

    def due(self, now_ms: float) -> Iterator[TakenMessage]:
        """Take out what is due, moment by moment."""
        while self._moments and self._moments[0] <= now_ms:
            yield from self._at.pop(heapq.heappop(self._moments))

    def clear(self) -> Iterator[TakenMessage]:
        """Take out everything."""
        return self.due(float("inf"))
