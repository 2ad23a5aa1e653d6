"""Dead letters on AWS as last seen: SQS hides what is looked at, so that is done rarely and let go at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from threading import Lock

from kizami.aws.store.dead_letters import SqsDeadLetters
from kizami.aws.store.sqs_queue import SqsQueue
from kizami.backend.values import DeadLetter

LOOK_SECONDS = 60.0
# Thousands of them take a while: a tenth of the time at most, however quickly they become more.
REST_FOR_WORK = 9


class DeadLetterCache:
    """The dead letters as they were last seen: looked at again when their number changes, or after a minute.

    For several threads. A stack without a dead-letter queue has an empty one.
    `unreadable` counts those that are no schedule messages: they are let alone.
    """

    def __init__(self, url: str | None) -> None:
        self.unreadable = 0
        self._url = url
        self._guard = Lock()
        self._letters: list[DeadLetter] = []
        self._seen: tuple[int, float] | None = None
        self._rest_until = 0.0

    def all(self, count: int) -> list[DeadLetter]:
        """All of them, where the queue says that there are `count`."""
        with self._guard:
            if self._is_stale(count, began := time.monotonic()):
                self._letters = self._look() if count else []
                ended = time.monotonic()
                self._seen, self._rest_until = (count, ended), ended + REST_FOR_WORK * (ended - began)
            return self._letters

    def _is_stale(self, count: int, now: float) -> bool:
        if self._seen is None or not count:
            return True
        is_as_before = self._seen[0] == count and now - self._seen[1] < LOOK_SECONDS
        return not is_as_before and now >= self._rest_until

    def redrive(self, letters: Iterable[DeadLetter], queue: SqsQueue) -> int:
        """Send them to `queue` and delete them; how many were still there."""
        return self._settle(letters, lambda held, found: held.redrive(found, queue))

    def purge(self, letters: Iterable[DeadLetter]) -> int:
        """Delete them; how many were still there."""
        return self._settle(letters, lambda held, found: held.purge(found))

    def _settle(
        self, letters: Iterable[DeadLetter], settle: Callable[[SqsDeadLetters, list[DeadLetter]], int]
    ) -> int:
        wanted = {(letter.metric, letter.slot) for letter in letters}
        if not wanted or self._url is None:
            return 0
        with self._guard:
            self._seen = None
            held = SqsDeadLetters(self._url)
            try:
                return settle(held, [each for each in held.all() if (each.metric, each.slot) in wanted])
            finally:
                held.release()

    def _look(self) -> list[DeadLetter]:
        if self._url is None:
            return []
        held = SqsDeadLetters(self._url)
        try:
            # Each look counts as a receive: how often it was tried is what the first one said.
            before = {(letter.message, letter.sent_at): letter for letter in self._letters}
            found = [before.get((letter.message, letter.sent_at), letter) for letter in held.all()]
            self.unreadable = held.unreadable
            return found
        finally:
            held.release()
