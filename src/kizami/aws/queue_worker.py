"""Who works off the backfill queue of a deployed system: the Collector function, of which only the queue tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kizami.core.coverage import Span

_EMPTY_LOOKS = 3  # what is waiting is counted approximately: none are when it has looked so a few times


class CollectorFunction:
    """`QueueWorker` on AWS."""

    words = "the Collector function collects them"
    look_seconds = 3.0

    def __init__(self, waiting: Callable[[Mapping[str, Span]], int]) -> None:
        self._waiting = waiting
        self._empty_looks = 0

    def check(self) -> None:
        """Its failures are in its log."""

    def left(self, spans: Mapping[str, Span]) -> int:
        """Return how many are waiting, which may be all that is on the queue: SQS does not tell its slots."""
        waiting = self._waiting(spans)
        self._empty_looks = 0 if waiting else self._empty_looks + 1
        return waiting or int(self._empty_looks < _EMPTY_LOOKS)
