"""What `kizami up` says when it ends: how long it ran, what it stored, what is dead and what is missing."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from kizami.cli.terminal.printing import age_text
from kizami.core.coverage import count_slots
from kizami.core.errors import KizamiError
from kizami.local.backend import LocalBackend
from kizami.local.engine.loop import Engine
from kizami.platform.clock import SystemClock

_MOST_METRICS = 2000  # of more, who stops it would have to wait for the missing slots to be counted

logger = logging.getLogger(__name__)


class RunSummary:
    """What a run has come to, told at its end."""

    def __init__(self, database: Path, engine: Engine) -> None:
        self._database = database
        self._engine = engine
        self._began = SystemClock().now()
        self._began_seconds = time.monotonic()

    def tell(self) -> None:
        """One line in the log."""
        up = age_text(time.monotonic() - self._began_seconds)
        try:
            rest: Mapping[str, object] = self._left_over()
        except KizamiError as error:  # the file is gone
            rest = {"reason": str(error)}
        counts = {"up": up, "stored": self._engine.stored, "backfilled": self._engine.backfilled}
        logger.info("polling has ended", extra={"event": "daemon.stopped", **counts, **rest})

    def _left_over(self) -> dict[str, int]:
        """The dead letters that are there, and this run's slots that are neither stored nor queued nor dead."""
        metrics = [metric for target in self._engine.targets for metric in target.metrics]
        now = SystemClock().now()
        with closing(LocalBackend(self._database)) as backend:
            dead = {"dead_letters": backend.queue_depth(now).dead}
            if len(metrics) > _MOST_METRICS:
                return dead
            spans = {each.name: each.within(self._began, now, now) for each in backend.targets(metrics)}
            return dead | {"missing": sum(map(count_slots, backend.missing(spans).values()))}


@contextmanager
def run_summary(database: Path, engine: Engine) -> Iterator[None]:
    """The summary of what happens within, told at its end, but not of a start that failed."""
    summary = RunSummary(database, engine)
    yield
    summary.tell()
