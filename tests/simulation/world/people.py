"""What people do meanwhile, from processes of their own: verbs, and readers that take their time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress

import apsw

from kizami.backend.causes import FoundGap
from kizami.backend.port import Backend
from kizami.backend.repair import carry_out, plan_gap_repair
from kizami.backend.snapshot import read_health
from kizami.core.config import Config
from kizami.core.coverage import Span, due_span
from kizami.core.errors import KizamiError
from kizami.local.copies.backup import make_backup
from kizami.local.store.database import open_database
from simulation.world.plan import Event
from simulation.world.process import Surroundings
from simulation.world.trace import Trace

BY_HAND = "kizami-20000101T000000Z.db"  # among the daemon's, and older than all of them


class People:
    """Each method is a verb; that a full disk or a locked file refuses it is an answer."""

    def __init__(self, around: Callable[[], Surroundings], config: Callable[[], Config], trace: Trace) -> None:
        self._around = around
        self._config = config
        self._trace = trace

    def _order(self, verb: Callable[[Backend], object]) -> None:
        with suppress(KizamiError, apsw.Error), closing(self._around().open_backend(self._config)) as backend:
            verb(backend)

    def pause(self, event: Event) -> None:
        name = event.pick.choice([target.name for target in self._config().targets])
        self._order(lambda backend: backend.pause(name))
        self._trace.add("paused", name)

    def resume(self) -> None:
        self._order(self._resume_all)

    def _resume_all(self, backend: Backend) -> None:
        for target in self._config().targets:
            backend.resume(target.name)

    def backfill(self) -> None:
        self._order(lambda backend: self._trace.add("backfilled", self._backfill_gaps(backend)))

    def _backfill_gaps(self, backend: Backend) -> int:
        targets, now = backend.targets(), self._around().clock.now()
        spans: dict[str, Span] = {
            each.name: due_span(each, each.first_slot, now) for each in targets if each.is_on
        }
        intervals = {each.name: each.interval_seconds for each in targets}
        gaps = [
            FoundGap(name, intervals[name], gap) for name, found in backend.missing(spans).items() for gap in found
        ]
        return carry_out(backend, plan_gap_repair(targets, gaps))[0]

    def redrive(self) -> None:
        self._order(lambda backend: self._trace.add("redriven", backend.redrive(backend.dead_letters())))

    def purge(self) -> None:
        self._order(lambda backend: self._trace.add("purged", backend.purge(backend.dead_letters(limit=20))))

    def status(self) -> None:
        self._order(self._look)

    def _look(self, backend: Backend) -> None:
        overview = read_health(backend, self._around().clock.now()).overview
        self._trace.add("status", overview.last_minute, overview.queue.dead)

    def back_up(self) -> None:
        path = self._around().disk.path
        with suppress(KizamiError):
            backups = path.parent / "backups"
            backups.mkdir(exist_ok=True)
            self._trace.add("backed up", make_backup(path, backups / BY_HAND, replace=True).records)

    def read_for(self, later: Callable[[Callable[[], None]], None]) -> None:
        """A program reads from one moment on until `later`: the log cannot be carried over meanwhile."""
        with suppress(KizamiError):
            connection = open_database(self._around().disk.path)
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM slots").fetchall()
            later(connection.close)
