"""Seals what is old enough, and gives up what is older than is kept: on a thread of its own, in short steps.

It rests nine times as long as it works, so that of the hour that is over for thousands of targets at once a little
is sealed now and then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from kizami.core.errors import StoreError
from kizami.core.ports import WallClock
from kizami.local.engine.machine import Machine
from kizami.local.store.database import open_database, sqlite_errors
from kizami.local.store.history.expiry import expire
from kizami.local.store.history.free_space import give_back
from kizami.local.store.history.sealing import seal_closed

_LOOK_SECONDS = 600.0  # how often it looks for spans that are over by now, and for slots that came late
_FIRST_LOOK_SECONDS = 1.0
_REST = 9.0
_LEAST_REST_SECONDS = 0.02
_CLOSE_SECONDS = 0.3  # a step that takes longer ends with the process, and is then as if it had not begun

logger = logging.getLogger(__name__)


class Sealer:
    """Seals the spans that were over `after_seconds` ago."""

    def __init__(self, path: Path, clock: WallClock, machine: Machine, after_seconds: int) -> None:
        self._path = path
        self._clock = clock
        self._machine = machine
        self._after_seconds = after_seconds
        self._condition = machine.condition()
        self._stopping = False
        self._thread = machine.thread(self._run, "sealer")

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop after the step that is under way; the rest is found again next time."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        if self._thread.ident is not None:
            self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        wait = min(_FIRST_LOOK_SECONDS, _LOOK_SECONDS)
        while not self._rest(wait):
            wait = _LOOK_SECONDS
            try:
                self._look()
            except (StoreError, ValueError) as error:
                logger.warning("cannot seal yet", extra={"event": "sealing.postponed", "reason": str(error)})

    def _look(self) -> None:
        now = int(self._clock.milliseconds()) // 1000
        with sqlite_errors(StoreError, self._path):
            connection = open_database(self._path)
            try:
                if sealed := self._work(seal_closed(connection, now, self._after_seconds)):
                    logger.info("old slots are sealed", extra={"event": "slots.sealed", "slots": sealed})
                if expired := self._work(expire(connection, now)):
                    logger.info(
                        "slots are given up that were kept for long enough",
                        extra={"event": "slots.expired", "spans": expired},
                    )
                self._work(give_back(connection))
            finally:
                connection.close()

    def _work(self, steps: Iterator[int]) -> int:
        """Take one step after the other until there are no more, or it is to stop; what they tell, in all."""
        done, began = 0, self._machine.monotonic()
        for told in steps if not self._stopping else ():
            done += told
            if self._rest(max(_LEAST_REST_SECONDS, _REST * (self._machine.monotonic() - began))):
                break
            began = self._machine.monotonic()
        return done

    def _rest(self, seconds: float) -> bool:
        """Wait for so long; whether it is to stop."""
        with self._condition:
            self._condition.wait_for(lambda: self._stopping, timeout=seconds)
        return self._stopping
