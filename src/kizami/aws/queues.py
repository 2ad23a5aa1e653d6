"""The queues of a deployed stack together: how full they are, and how past slots are asked for again."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Protocol

from kizami.aws.client import machine
from kizami.aws.invocation import TimeLeft
from kizami.aws.store.sqs_queue import QueueEntry, SqsQueue
from kizami.backend.values import QueueDepth
from kizami.core.backfill import SPREAD_SECONDS
from kizami.core.errors import QueueError

DEPTH_SECONDS = 4.0  # for which a depth is good: a page looks every five seconds, and each look costs requests
A_SECOND = 4  # as many old slots come due where they share the queue of live ones


class QueuePlaces(Protocol):
    """Where the queues of a stack are; those of a small one are the same for several lanes."""

    @property
    def queue(self) -> str: ...

    @property
    def retry_queue(self) -> str: ...

    @property
    def backfill_queue(self) -> str: ...

    @property
    def dead_letter_queue(self) -> str | None: ...


class StackQueues:
    """The queues of a stack; each is looked up when it is needed. QueueError."""

    def __init__(self, places: QueuePlaces, time_left: TimeLeft = lambda: inf) -> None:
        self._places = places
        self._time_left = time_left
        self._depth: tuple[float, QueueDepth] | None = None

    @property
    def shares_backfill(self) -> bool:
        """Return True if old slots are on the queue of live ones."""
        return self._places.backfill_queue == self._places.queue

    def depth(self) -> QueueDepth:
        """Return how full all queues are together; SQS counts approximately, and does not tell ages."""
        moment = machine.monotonic()
        if self._depth is None or not 0 <= moment - self._depth[0] < DEPTH_SECONDS:
            self._depth = moment, self._read_depth()
        return self._depth[1]

    def forget_depth(self) -> None:
        """Read the depth again when it is asked for: something was sent or deleted."""
        self._depth = None

    def send_backfill(self, bodies: Sequence[str], before: int = 0) -> None:
        """Send messages about past slots, after so many others. QueueError if some are refused twice in a row.

        On a queue that live messages share they come due A_SECOND a second, so that no live one waits for them.
        """
        numbers = range(before, before + len(bodies))
        delays = [number // A_SECOND % SPREAD_SECONDS if self.shares_backfill else 0 for number in numbers]
        entries = [QueueEntry(body, delay) for body, delay in zip(bodies, delays, strict=True)]
        queue = SqsQueue(self._places.backfill_queue, self._time_left)
        self.forget_depth()
        failed = queue.send_entries(entries)
        if failed and (failed := queue.send_entries([entries[each.number] for each in failed])):
            raise QueueError(f"{len(failed)} messages were not taken: {failed[0].reason}; try again")

    def backfill_waiting(self) -> int:
        """Return about how many messages are on the backfill queue."""
        return SqsQueue(self._places.backfill_queue, self._time_left).waiting()

    def _read_depth(self) -> QueueDepth:
        places, dead = self._places, self._places.dead_letter_queue
        urls = list(dict.fromkeys((places.queue, places.retry_queue, places.backfill_queue)))
        asked = [*urls, dead] if dead else urls
        depths = list(machine.map_in_threads(self._depth_of, asked, len(asked)))
        waiting, delayed, in_flight = (sum(counts) for counts in zip(*depths[: len(urls)], strict=True))
        return QueueDepth(waiting, delayed, in_flight, sum(map(sum, depths[len(urls) :])), oldest_age_seconds=None)

    def _depth_of(self, url: str) -> tuple[int, int, int]:
        return SqsQueue(url, self._time_left).depth()
