"""A database for the dashboard's tests: an hour of two targets with one of everything in the last minutes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path

from kizami.core.epoch import to_ms, to_seconds
from kizami.core.slots import floor_to_slot
from kizami.core.targets.target import Target
from kizami.local.backend import LocalBackend
from kizami.local.daemon_lock import UP, sole_daemon
from kizami.local.store import statements
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import known_metrics, register_targets
from kizami.local.store.rows import SentRow, StoredRow
from kizami.local.store.statements import LIVE
from kizami.web.server import DashboardServer

INTERVAL = timedelta(seconds=5)
CALLS, ORDERS = "calls", "注文/数"
TARGETS = [Target(name=name, lag_seconds=5) for name in (CALLS, ORDERS)]
HOSTILE = '<script>alert(1)</script> & "quotes" \'</td>'
HOUR_SLOTS = 720


class FixedClock:
    """A clock that stands still, or is moved by hand."""

    def __init__(self, now: datetime) -> None:
        self.moment = now

    def now(self) -> datetime:
        return self.moment


class RunningClock(FixedClock):
    """Each look is a second after the last: there is always something to tell."""

    def now(self) -> datetime:
        self.moment += timedelta(seconds=1)
        return self.moment


def this_slot() -> datetime:
    """The slot that has just begun, by the machine's clock."""
    now = datetime.now(UTC).replace(microsecond=0)
    return now - timedelta(seconds=now.second % 5)


def slot_before(now: datetime, back: int) -> datetime:
    """The slot that is `back` slots before the newest one that is due."""
    return now - INTERVAL * (back + 1)


def build_backend(path: Path, now: datetime) -> Path:
    """`calls` lacks slots 60 to 65 before now, 70 is dead, 72 is pending and failed once, 74 was late, 75 retried,
    76 backfilled; `注文/数` is whole. `now` must stand on a slot."""
    connection = open_database(path, create=True)
    start = now - INTERVAL * HOUR_SLOTS
    with transaction(connection):
        known = register_targets(connection, TARGETS, start)
        for target in TARGETS:
            rows = [
                _varied_row(known[target.name].id, now, back)
                for back in range(HOUR_SLOTS)
                if target.name == ORDERS or back not in {*range(60, 66), 70, 72}
            ]
            statements.store(connection, rows)
        _bury(connection, known[CALLS].id, slot_before(now, 70))
        pending = SentRow(to_seconds(slot_before(now, 72)), known[CALLS].id, 5, to_ms(now))
        statements.send(connection, [pending], LIVE, to_ms(now))
    connection.close()
    return path


def build_targets(path: Path, now: datetime, lacking: Mapping[Target, Collection[int]], slots: int = 40) -> Path:
    """Targets that were first polled so many intervals ago and have every slot that was due by `now`, but those
    that are so far before the newest one."""
    connection = open_database(path, create=True)
    with transaction(connection):
        # Those of one pace at once: one by one, each would be looked for among all the others.
        for _, alike in groupby(lacking, lambda target: (target.interval_seconds, target.lag_seconds)):
            same = list(alike)
            newest = newest_due(same[0], now)
            first_tick = newest - (slots - 1) * _step(same[0]) + timedelta(seconds=same[0].lag_seconds)
            register_targets(connection, same, first_tick - _step(same[0]))
        known = known_metrics(connection)
        for target, gone in lacking.items():
            newest = newest_due(target, now)
            kept = (newest - back * _step(target) for back in range(slots) if back not in gone)
            statements.store(connection, [_row(known[target.name].id, target, slot) for slot in kept])
    connection.close()
    return path


def store_slots(path: Path, target: Target, slots: Iterable[datetime]) -> None:
    """As when they have just been collected, in time."""
    connection = open_database(path)
    with transaction(connection):
        metric = known_metrics(connection)[target.name]
        statements.store(connection, [_row(metric.id, target, slot) for slot in slots])
    connection.close()


def newest_due(target: Target, now: datetime) -> datetime:
    """The newest slot of a target whose tick has come."""
    return floor_to_slot(now - timedelta(seconds=target.lag_seconds), target.interval_seconds)


def _step(target: Target) -> timedelta:
    return timedelta(seconds=target.interval_seconds)


def _row(metric_id: int, target: Target, slot: datetime) -> StoredRow:
    late_ms, tick = 4, slot + timedelta(seconds=target.lag_seconds)
    return StoredRow(to_seconds(slot), metric_id, 7, to_ms(tick) + late_ms, late_ms, 1, False)


@contextmanager
def served(path: Path, now: datetime) -> Iterator[DashboardServer]:
    """The dashboard over the database, at a moment that stands still, as if a daemon were running on it."""
    with (
        sole_daemon(path, UP),
        DashboardServer(lambda: LocalBackend(path), port=0, clock=FixedClock(now)) as server,
    ):
        yield server


def _varied_row(metric_id: int, now: datetime, back: int) -> StoredRow:
    slot = slot_before(now, back)
    late, receives, backfilled = 4, 1, False
    if back == 74:
        late = 1500
    if back == 75:
        receives, late = 3, 9000
    if back == 76:
        backfilled, late = True, 400_000
    collected_ms = to_ms(slot + INTERVAL) + late
    return StoredRow(to_seconds(slot), metric_id, back % 11, collected_ms, late, receives, backfilled)


def _bury(connection: object, metric_id: int, slot: datetime) -> None:
    values = (
        to_seconds(slot),
        metric_id,
        5,
        0,
        to_ms(slot),
        to_ms(slot),
        to_ms(slot + timedelta(minutes=1)),
        5,
        HOSTILE,
    )
    connection.execute("INSERT INTO dead_letters VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)  # type: ignore[attr-defined]
