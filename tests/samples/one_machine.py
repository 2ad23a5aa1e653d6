"""The installation on one machine: a database file, filled through the statements of the daemon."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import apsw

from kizami.backend.slots import Answer, Asked, SlotView
from kizami.core.answers.numbers import Number, exact_of, to_units
from kizami.core.config import Config
from kizami.core.epoch import to_ms, to_seconds
from kizami.core.sender import message_for_slot
from kizami.core.slots import shift
from kizami.core.targets.target import Target
from kizami.local.backend import LocalBackend
from kizami.local.store import statements
from kizami.local.store.database import open_database, transaction
from kizami.local.store.history.expiry import expire
from kizami.local.store.history.sealing import seal_closed
from kizami.local.store.metrics import known_metrics, register_targets
from kizami.local.store.rows import FailedRow, SentRow, StoredRow
from kizami.local.store.statements import BACKFILL
from kizami.platform.config_file import LoadedConfig
from samples.installation import START, TARGETS

ATTEMPTS = 5  # after which a slot is given up


class OneMachine:
    """An `Installation` on one machine."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "kizami.db"
        self._now = START
        self._reads = 0
        self._targets: dict[str, Target] = {}
        self._connection = open_database(self._path, create=True)
        self._connection.execute("PRAGMA synchronous = OFF")
        self.reconfigure(*TARGETS)
        self.backend = LocalBackend(self._path, self._configured, clock=self)
        self.backend._connection.trace_v2(apsw.SQLITE_TRACE_STMT, self._count)

    def now(self) -> datetime:
        return self._now

    def milliseconds(self) -> int:
        return to_ms(self._now)

    def move_to(self, moment: datetime) -> None:
        assert moment >= self._now
        self._now = moment

    def store(
        self,
        name: str,
        slot: datetime,
        *values: Number,
        at: datetime | None = None,
        late_ms: int = 0,
        attempts: int = 1,
        backfill: bool = False,
    ) -> None:
        known = known_metrics(self._connection)
        metrics = self._targets[name].metrics if name in self._targets else (name,)
        collected = to_ms(at or shift(slot, known[name].lag_seconds + late_ms / 1000))
        rows = [
            StoredRow(
                to_seconds(slot),
                known[metric].id,
                to_units(exact_of(value), known[metric].decimals),
                collected,
                late_ms,
                attempts,
                backfill,
            )
            for metric, value in zip(metrics, values, strict=True)
        ]
        with transaction(self._connection):
            statements.store(self._connection, rows)
            statements.acknowledge(self._connection, [row._replace(metric_id=known[name].id) for row in rows])

    def kill(self, name: str, slot: datetime, reason: str = "status 500") -> None:
        metric = known_metrics(self._connection)[name]
        due_ms = to_ms(shift(slot, metric.lag_seconds))
        failed = FailedRow(to_seconds(slot), metric.id, 0, ATTEMPTS, reason)
        with transaction(self._connection):
            row = SentRow(failed.slot, metric.id, metric.interval_seconds, due_ms)
            statements.send(self._connection, [row], BACKFILL, due_ms)
            statements.fail(self._connection, [failed])
            statements.bury(self._connection, [failed], to_ms(self._now))

    def ask(self, name: str, slots: Iterable[datetime]) -> None:
        target = self._targets[name]
        self.backend.backfill(message_for_slot(slot, target) for slot in slots)

    def seal(self) -> None:
        for _ in seal_closed(self._connection, to_seconds(self._now), 0):
            pass

    def expire(self) -> None:
        for _ in expire(self._connection, to_seconds(self._now)):
            pass

    def reconfigure(self, *targets: Target) -> None:
        self._targets = {target.name: target for target in targets}
        with transaction(self._connection):
            register_targets(self._connection, targets, self._now)

    def reads(self) -> int:
        return self._reads

    def slots(self, asked: Asked, view: SlotView[Answer]) -> Answer:
        return self.backend.slots(asked, view)

    def close(self) -> None:
        """Give the file back."""
        self.backend.close()
        self._connection.close()

    def _configured(self) -> LoadedConfig:
        return LoadedConfig(Config(targets=tuple(self._targets.values())), self._path)

    def _count(self, event: object) -> None:
        self._reads += 1


@contextmanager
def one_machine(folder: Path) -> Iterator[OneMachine]:
    """Provide an empty installation in a folder."""
    installation = OneMachine(folder)
    try:
        yield installation
    finally:
        installation.close()
