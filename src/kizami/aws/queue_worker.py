"""Who works off the backfill queue of a deployed system: the Collector function, of which only the queue tells."""

from __future__ import annotations

from collections.abc import Mapping

from kizami.aws.store.sqs_queue import SqsQueue
from kizami.core.coverage import Span

_EMPTY_LOOKS = 3  # SQS counts approximately: a queue is empty when it has looked so a few times


class CollectorFunction:
    """`QueueWorker` on AWS."""

    words = "the Collector function collects them"
    look_seconds = 3.0

    def __init__(self, queue: SqsQueue) -> None:
        self._queue = queue
        self._empty_looks = 0

    def check(self) -> None:
        """Its failures are in its log."""

    def left(self, spans: Mapping[str, Span]) -> int:
        """All that is on the queue; SQS does not tell which slots it has."""
        waiting = self._queue.waiting()
        self._empty_looks = 0 if waiting else self._empty_looks + 1
        return waiting or int(self._empty_looks < _EMPTY_LOOKS)
