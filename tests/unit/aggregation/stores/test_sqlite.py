"""The batch's stores in the file: a lock has one holder, a user one point a day."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kizami.aggregation.lock import Lock
from kizami.aggregation.points import GrantOutcome, PointDay
from kizami.aggregation.stores.sqlite import SqliteLockStore, SqlitePointStore
from kizami.local.store.database import open_database

NOW = datetime(2025, 12, 2, 10, tzinfo=UTC)
ONE, OTHER = Lock(NOW, "message 1", "run 1"), Lock(NOW, "message 2", "run 2")


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[SqliteLockStore, SqlitePointStore]]:
    path = tmp_path / "kizami.db"
    connection = open_database(path, create=True)
    yield SqliteLockStore(connection, path), SqlitePointStore(connection, path)
    connection.close()


def test_a_lock_is_written_where_the_one_that_was_seen_still_stands(
    stores: tuple[SqliteLockStore, SqlitePointStore],
) -> None:
    locks, _ = stores
    assert locks.acquire("c", None, ONE) == ONE
    assert locks.acquire("c", None, OTHER) == ONE
    assert locks.acquire("c", ONE, OTHER) == OTHER


def test_a_lock_is_released_by_its_own_run_only(stores: tuple[SqliteLockStore, SqlitePointStore]) -> None:
    locks, _ = stores
    locks.acquire("c", None, ONE)
    assert locks.release("c", OTHER) == ONE
    assert locks.release("c", ONE) is None
    assert locks.read("c") is None


def test_a_user_gets_one_point_a_day(stores: tuple[SqliteLockStore, SqlitePointStore]) -> None:
    _, points = stores
    today, tomorrow = PointDay(1000, 1500, "202512"), PointDay(2000, 2500, "202512")
    assert points.grant("c", ["1", "1"], today) == [GrantOutcome.GRANTED, GrantOutcome.ALREADY_GRANTED]
    assert points.grant("c", ["1"], today) == [GrantOutcome.ALREADY_GRANTED]
    assert points.grant("c", ["1"], tomorrow) == [GrantOutcome.GRANTED]
    assert [(each.user_number, each.points) for each in points.points("c", "202512")] == [("1", 2)]
