"""Discrete events, and queues of SQS whose messages call a function; the time that passes is simulated.

A message is visible after its delay. A queue calls its function with the oldest visible message as long as fewer
than `limit` deliveries are under way: that is the MaximumConcurrency of its event source mapping. A mapping may
also begin small. AWS documents five deliveries at once and up to 300 more a minute while messages wait
(https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html); here it never shrinks again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Generic, TypeVar

Action = Callable[[], None]
M = TypeVar("M")

GROWTH_A_SECOND = 300 / 60


class Agenda:
    """Actions in the order of their times, in seconds since the beginning."""

    def __init__(self) -> None:
        self.now = 0.0
        self._entries: list[tuple[float, int, Action]] = []
        self._numbers = count()

    def at(self, moment: float, action: Action) -> None:
        """Carry out an action at a moment; of the same moment those first that were entered first."""
        heappush(self._entries, (moment, next(self._numbers), action))

    def run(self, until: float) -> None:
        """Carry out everything before a moment."""
        while self._entries and self._entries[0][0] < until:
            self.now, _, action = heappop(self._entries)
            action()
        self.now = until


class CallingQueue(Generic[M]):
    """A queue that calls a function with one message at a time.

    `begin` begins a delivery: it gets the message and for how long that waited, and returns after how many seconds
    the delivery ends, and what happens then. The mapping allows `grown_to` deliveries at once in the beginning.
    """

    def __init__(
        self, agenda: Agenda, limit: int, begin: Callable[[M, float], tuple[float, Action]], grown_to: float = inf
    ) -> None:
        self.limit = limit
        self.peak = 0
        self.longest_wait = 0.0
        self._agenda = agenda
        self._begin = begin
        self._grown_to = grown_to
        self._grown_at = 0.0
        self._is_growing = False
        self._waiting: deque[tuple[float, M]] = deque()
        self._running = 0

    @property
    def backlog(self) -> int:
        """How many visible messages wait."""
        return len(self._waiting)

    def send(self, message: M, delay: float = 0.0) -> None:
        """Send a message."""
        self._agenda.at(self._agenda.now + delay, lambda: self._arrive(message))

    def _arrive(self, message: M) -> None:
        if not self._waiting:
            self._grown_at = self._agenda.now
        self._waiting.append((self._agenda.now, message))
        self._deliver()

    def _deliver(self) -> None:
        now = self._agenda.now
        while self._waiting and self._running < min(self.limit, self._grown_to):
            since, message = self._waiting.popleft()
            self.longest_wait = max(self.longest_wait, now - since)
            seconds, end = self._begin(message, now - since)
            self._running += 1
            self.peak = max(self.peak, self._running)
            self._agenda.at(now + seconds, lambda end=end: self._end(end))  # type: ignore[misc]
        if self._waiting and self._grown_to < self.limit and not self._is_growing:
            self._is_growing = True
            self._agenda.at(now + 1 / GROWTH_A_SECOND, self._grow)

    def _end(self, end: Action) -> None:
        end()
        self._running -= 1
        self._deliver()

    def _grow(self) -> None:
        self._is_growing = False
        if self._waiting:
            self._grown_to += GROWTH_A_SECOND * (self._agenda.now - self._grown_at)
            self._grown_at = self._agenda.now
            self._deliver()
