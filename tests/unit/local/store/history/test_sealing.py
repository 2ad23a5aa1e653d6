"""Sealing: rows become spans and nothing else changes, whatever comes in between."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from kizami.core.epoch import to_seconds
from kizami.core.sealed_spans import COLUMNS, SlotColumns
from kizami.core.targets.target import Target
from kizami.local.store import statements
from kizami.local.store.database import open_database, transaction
from kizami.local.store.history import sealed, sealing
from kizami.local.store.history.sealing import seal_closed
from kizami.local.store.history.stored_slots import stored_slots
from kizami.local.store.metrics import KnownMetric, register_targets
from kizami.local.store.rows import SentRow, StoredRow
from kizami.local.store.statements import BACKFILL

HOUR = 3600
START = to_seconds(datetime(2025, 12, 2, 10, tzinfo=UTC))
TARGET = Target(name="calls", interval_seconds=5, lag_seconds=600)
NOW = START + 3 * HOUR


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = open_database(tmp_path / "kizami.db", create=True)
    yield connection
    connection.close()


@pytest.fixture
def metric(connection: apsw.Connection) -> KnownMetric:
    with transaction(connection):
        return register_targets(connection, [TARGET], datetime(2025, 12, 1, tzinfo=UTC))["calls"]


def row(slot: int, metric: KnownMetric, count: int | None = None) -> StoredRow:
    return StoredRow(slot, metric.id, slot % 97 if count is None else count, 1000 * slot + 7, 3, 1, False)


def store(connection: apsw.Connection, metric: KnownMetric, slots: Any) -> None:
    with transaction(connection):
        statements.store(connection, [row(slot, metric) for slot in slots])


def read(
    connection: apsw.Connection, metric: KnownMetric, first: int = 0, end: int = 2**40
) -> list[tuple[int, int]]:
    pieces = stored_slots(connection, metric, first, end, ("slot", "count"))
    return [pair for columns in pieces for pair in zip(*columns, strict=True)]


def unsealed(connection: apsw.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM slots").get)


def expected(slots: Any) -> list[tuple[int, int]]:
    return [(slot, slot % 97) for slot in slots]


def test_what_is_sealed_reads_as_before_and_is_no_row_any_more(
    connection: apsw.Connection, metric: KnownMetric
) -> None:
    slots = range(START, START + 2 * HOUR, 5)
    store(connection, metric, slots)
    assert sum(seal_closed(connection, NOW, HOUR // 2)) == 2 * 720
    assert unsealed(connection) == 0
    assert read(connection, metric) == expected(slots)
    assert connection.execute("SELECT count(*) FROM tallies").get == 0


@pytest.mark.parametrize(("now", "left"), [(HOUR + 600 + 1800 - 1, 720), (HOUR + 600 + 1800, 0)])
def test_a_span_is_sealed_once_its_last_slot_has_been_due_for_long_enough(
    connection: apsw.Connection, metric: KnownMetric, now: int, left: int
) -> None:
    store(connection, metric, range(START, START + HOUR, 5))
    list(seal_closed(connection, START + now, 1800))
    assert unsealed(connection) == left


def test_slots_that_come_late_are_read_in_their_place_and_sealed_with_the_others(
    connection: apsw.Connection, metric: KnownMetric
) -> None:
    slots = range(START, START + HOUR, 5)
    store(connection, metric, slots[::2])
    list(seal_closed(connection, NOW, 1800))
    store(connection, metric, slots[1::2])
    assert read(connection, metric) == expected(slots)
    assert sum(seal_closed(connection, NOW, 1800)) == 360
    assert unsealed(connection) == 0
    assert read(connection, metric) == expected(slots)
    assert connection.execute("SELECT count(*) FROM sealed_spans").get == 1
    assert connection.execute("SELECT count(*) FROM sealed_slots").get == 1


@pytest.mark.parametrize(
    ("first", "end"), [(1000, 2000), (0, 1), (3599, 3700), (-50, 10), (3600, 3605), (5, 7200)]
)
def test_a_range_has_its_own_slots_sealed_or_not(
    connection: apsw.Connection, metric: KnownMetric, first: int, end: int
) -> None:
    slots = range(START, START + 2 * HOUR, 5)
    store(connection, metric, slots[:720])
    list(seal_closed(connection, START + HOUR + 3000, 1800))
    store(connection, metric, slots[720:])
    assert unsealed(connection) == 720
    within = [slot for slot in slots if START + first <= slot < START + end]
    assert read(connection, metric, START + first, START + end) == expected(within)


def test_a_sealed_slot_is_neither_stored_nor_sent_again(connection: apsw.Connection, metric: KnownMetric) -> None:
    store(connection, metric, range(START, START + HOUR, 5))
    list(seal_closed(connection, NOW, 1800))
    with transaction(connection):
        statements.store(connection, [row(START, metric, 12345)])
        assert statements.send(connection, [SentRow(START, metric.id, 5, 0)], BACKFILL, 0) == 0
    assert unsealed(connection) == 0
    assert read(connection, metric, START, START + 5) == expected([START])


def test_what_came_in_while_a_span_was_packed_is_left_for_the_next_time(
    connection: apsw.Connection, metric: KnownMetric, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = range(START, START + HOUR, 5)
    store(connection, metric, slots[:-1])
    pack = sealing._pack

    def pack_and_store(*arguments: Any) -> Any:
        packed = pack(*arguments)
        store(connection, metric, slots[-1:])
        return packed

    monkeypatch.setattr(sealing, "_pack", pack_and_store)
    assert sum(seal_closed(connection, NOW, 1800)) == 0
    assert read(connection, metric) == expected(slots)
    assert unsealed(connection) == 720


def test_rows_off_the_grid_are_never_removed(
    connection: apsw.Connection, metric: KnownMetric, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(connection, metric, range(START, START + HOUR, 5))
    monkeypatch.setattr(
        sealing, "_DELETE_SLOTS", sealing._DELETE_SLOTS.replace(":start UNION", ":start + 5 UNION")
    )
    with pytest.raises(ValueError, match="all of them stay"):
        list(seal_closed(connection, NOW, 1800))
    assert unsealed(connection) == 720
    assert connection.execute("SELECT count(*) FROM sealed_spans").get == 0


def test_what_would_not_be_the_same_again_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = SlotColumns(*([n] for n in range(len(COLUMNS))))
    monkeypatch.setattr(
        sealed, "unpack_slots", lambda packed: SlotColumns(*([n + 1] for n in range(len(COLUMNS))))
    )
    with pytest.raises(ValueError, match="not the same"):
        sealed.pack_span(1, 0, 3600, columns)
