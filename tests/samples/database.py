"""Databases with a known content, for tests of what reads them; slots of 5 s are numbered from T0 on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kizami.core.epoch import to_ms, to_seconds
from kizami.core.sender import message_for_slot
from kizami.core.targets.target import Target
from kizami.local.store import statements
from kizami.local.store.backfill_queue import BackfillQueue
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import register_targets
from kizami.local.store.rows import FailedRow

T0 = datetime(2025, 12, 2, 9, 0, tzinfo=UTC)
INTERVAL_SECONDS = 5
LATE_MS = 7


def at(number: int, start: datetime = T0) -> datetime:
    """The slot of that number."""
    return start + timedelta(seconds=INTERVAL_SECONDS * number)


class FixedClock:
    """A clock that stands still."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment

    def milliseconds(self) -> int:
        return to_ms(self.moment)


def make_database(path: Path, stored: Mapping[str, Iterable[int]], start: datetime = T0, counts: int = 11) -> Path:
    """A database in which each metric was first polled at `start` and has the slots of these numbers."""
    targets = [Target(name=name, lag_seconds=INTERVAL_SECONDS) for name in stored]
    connection = open_database(path, create=True)
    with transaction(connection):
        known = register_targets(connection, targets, start)
        for name, numbers in stored.items():
            rows = [_row(known[name].id, number, start, counts) for number in numbers]
            connection.execute(_INSERT, (json.dumps(rows),))
    connection.close()
    return path


_INSERT = """
INSERT INTO slots SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, 1, 0 FROM json_each(?)
"""


def _row(metric_id: int, number: int, start: datetime, counts: int) -> list[int]:
    slot = to_seconds(at(number, start))
    return [slot, metric_id, number % counts, (slot + INTERVAL_SECONDS) * 1000 + 123, LATE_MS]


def queue_slots(path: Path, metric: str, numbers: Iterable[int], now: datetime, tried: int = 0) -> None:
    """Put past slots on the queue; they were `tried` before."""
    queue = BackfillQueue(path, FixedClock(now))
    queue.send_backfill(message_for_slot(at(number), Target(name=metric)) for number in numbers)
    queue.close()
    if tried:
        connection = open_database(path)
        with transaction(connection):
            connection.execute("UPDATE messages SET receives = ?, held = 1, visible_ms = ?", (tried, to_ms(now)))
        connection.close()


def bury_slots(path: Path, metric: str, numbers: Iterable[int], reason: str, died_at: datetime) -> None:
    """Make slots dead letters that were tried five times."""
    numbers = list(numbers)
    queue_slots(path, metric, numbers, died_at - timedelta(minutes=1))
    connection = open_database(path)
    with transaction(connection):
        identity = connection.execute("SELECT id FROM metrics WHERE name = ?", (metric,)).get
        rows = [FailedRow(to_seconds(at(number)), identity, 0, 5, reason) for number in numbers]
        statements.fail(connection, rows)
        statements.bury(connection, rows, to_ms(died_at))
    connection.close()
