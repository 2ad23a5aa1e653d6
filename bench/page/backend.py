"""A backend of thousands of targets with days of history, for the benchmark of the page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import apsw

from kizami.core.epoch import to_seconds
from kizami.core.sealed_spans import SlotColumns
from kizami.core.slots import floor_to_slot
from kizami.core.targets.target import Target
from kizami.local.store import statements
from kizami.local.store.database import open_database, transaction
from kizami.local.store.history.sealed import NewSpan, insert_span, pack_span
from kizami.local.store.metrics import known_metrics, register_targets
from kizami.local.store.rows import StoredRow

GROUPS = ("ads", "auth", "billing", "chat", "checkout", "mail", "orders", "push", "search", "video")
INTERVAL, HOUR = 5, 3600


def target_names(count: int) -> list[str]:
    """Names in ten groups."""
    return [f"{GROUPS[number % 10]}/target-{number:05}" for number in range(count)]


def is_troubled(name: str) -> bool:
    """A third of them."""
    return int(name[-5:]) % 3 == 1


def build_backend(path: Path, count: int, hours: float, days: float, now: datetime) -> Path:
    """The last hours as rows and the days before them sealed; a third of the targets is in trouble.

    Those are silent for ten minutes, and lacked a minute every six hours; one group lacks one more, an hour ago.
    """
    targets = [Target(name=name, lag_seconds=INTERVAL) for name in target_names(count)]
    end = floor_to_slot(now, INTERVAL)
    first_row = floor_to_slot(end - timedelta(hours=hours), HOUR)
    start = floor_to_slot(first_row - timedelta(days=days), HOUR)
    connection = open_database(path, create=True)
    connection.execute("PRAGMA synchronous = OFF")
    with transaction(connection):
        known = register_targets(connection, targets, start)
    ids = sorted(metric.id for metric in known.values())
    troubled = {metric.id for name, metric in known.items() if is_troubled(name)}
    out = {known[target.name].id for target in targets if target.name.startswith("mail/")}
    for hour in range(to_seconds(start), to_seconds(first_row), HOUR):
        with transaction(connection):
            _seal_hour(connection, ids, hour, troubled)
    for minute in range(to_seconds(first_row), to_seconds(end), 60):
        slots = range(minute, min(minute + 60, to_seconds(end)), INTERVAL)
        rows = [
            _row(slot, number)
            for slot in slots
            for number in ids
            if not _is_lacking(number, to_seconds(end) - slot, troubled, out)
        ]
        with transaction(connection):
            statements.store(connection, rows)
    connection.close()
    return path


def _seal_hour(connection: apsw.Connection, ids: Sequence[int], hour: int, troubled: set[int]) -> None:
    """The same slots for all, so that days of thousands of targets are made in seconds."""
    holed = hour + 60 if hour % (6 * HOUR) == 0 else hour
    whole, short = (_span(range(first, hour + HOUR, INTERVAL), hour) for first in (hour, holed))
    for number in ids:
        span = short if number in troubled else whole
        insert_span(connection, NewSpan((number, *span.figures[1:]), span.packed))


def _span(slots: range, hour: int) -> NewSpan:
    rows = [_row(slot, 0) for slot in slots]
    columns = SlotColumns(
        list(slots),
        [row.value for row in rows],
        [row.collected_ms for row in rows],
        *([value] * len(rows) for value in (3, 1, 0)),
    )
    return pack_span(0, hour, HOUR, columns)


def _is_lacking(number: int, age: int, troubled: set[int], out: set[int]) -> bool:
    return (number in troubled and age < 600) or (number in out and 3000 <= age < 3060)


def count_of(slot: int, number: int) -> int:
    """The count of a slot: something that goes up and down."""
    return (slot // INTERVAL * 31 + number * 7 + slot // 60 * 13) % 97


def _row(slot: int, number: int) -> StoredRow:
    return StoredRow(slot, number, count_of(slot, number), (slot + INTERVAL) * 1000 + 3, 3, 1, False)


def answering_ids(path: Path) -> list[int]:
    """The metrics of those that are not in trouble."""
    connection = open_database(path)
    known = known_metrics(connection)
    connection.close()
    return sorted(metric.id for name, metric in known.items() if not is_troubled(name))


def write_second(path: Path, second: int, ids: list[int]) -> None:
    """The records of one second of a running collector: a fifth of the targets that answer."""
    connection = open_database(path)
    slot = second - second % INTERVAL - INTERVAL
    rows = [_row(slot, number) for place, number in enumerate(ids) if place % INTERVAL == second % INTERVAL]
    with transaction(connection):
        statements.store(connection, rows)
    connection.close()
