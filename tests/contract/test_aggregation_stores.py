"""The contracts of the lock store and the point store, held by every implementation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from aws_here.local_aws import create_company_table, create_points_table, lead_to
from fakes.aggregation import MemoryLockStore, MemoryPointStore
from kizami.aggregation.lock import Lock
from kizami.aggregation.points import GrantOutcome, PointDay, UserPoints
from kizami.aggregation.stores.company_table import DynamoDbLockStore
from kizami.aggregation.stores.points_table import DynamoDbPointStore
from kizami.aggregation.stores.sqlite import SqliteLockStore, SqlitePointStore
from kizami.core.ports import LockStore, PointStore
from kizami.local.store.database import open_database
from samples.aggregation_machine import AggregationMachine

NOW = datetime(2025, 12, 2, 3, 0, 0, tzinfo=UTC)
MINE, OTHER = Lock(NOW, "m1", "r1"), Lock(NOW, "m2", "r2")
DAY = PointDay(start=1764601200, now=1764644400, month="202512")
NEXT_DAY = PointDay(start=DAY.start + 86_400, now=DAY.now + 86_400, month="202512")
NEXT_MONTH = PointDay(start=DAY.start + 31 * 86_400, now=DAY.now + 31 * 86_400, month="202601")
GRANTED, ALREADY = GrantOutcome.GRANTED, GrantOutcome.ALREADY_GRANTED


@dataclass(frozen=True)
class Stores:
    """The stores of one implementation; `again` gives others on the same data, for another thread."""

    locks: LockStore
    points: PointStore
    again: Callable[[], Stores]
    machine_examples: int


@pytest.fixture(params=["memory", "sqlite", "moto", "dynamodb-local"])
def stores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Stores]:
    """Empty stores."""
    yield from _make(request, monkeypatch, tmp_path)


@pytest.fixture(params=["memory", "sqlite", "dynamodb-local"])
def racing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Stores]:
    """Empty stores for several threads at once; moto looks at a condition and writes in two steps."""
    yield from _make(request, monkeypatch, tmp_path)


def _make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Stores]:
    if request.param == "memory":
        yield _memory()
    elif request.param == "sqlite":
        yield from _sqlite(tmp_path / "kizami.db")
    else:
        endpoint = request.getfixturevalue(request.param.replace("-", "_") + "_endpoint")
        lead_to(endpoint, monkeypatch)
        yield _dynamodb(endpoint)


def _memory() -> Stores:
    made = Stores(MemoryLockStore(), MemoryPointStore(), lambda: made, 30)
    return made


def _sqlite(path: Path) -> Iterator[Stores]:
    connections: list[Any] = []

    def connect() -> Stores:
        connections.append(connection := open_database(path, create=True))
        return Stores(SqliteLockStore(connection, path), SqlitePointStore(connection, path), connect, 30)

    yield connect()
    for connection in connections:
        connection.close()


def _dynamodb(endpoint: str) -> Stores:
    locks = DynamoDbLockStore(create_company_table(endpoint))
    made = Stores(locks, DynamoDbPointStore(create_points_table(endpoint)), lambda: made, 5)
    return made


@pytest.fixture
def company() -> str:
    return f"株式会社-{uuid4().hex[:8]}"


def race(stores: Stores, work: Callable[[Stores, int], Any], racers: int = 8) -> list[Any]:
    """What `work` answers in threads that start together, each on stores of its own."""
    answers: list[Any] = [None] * racers
    start = threading.Barrier(racers)

    def run(number: int) -> None:
        own = stores.again()
        start.wait(120)
        answers[number] = work(own, number)

    threads = [threading.Thread(target=run, args=[number]) for number in range(racers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return answers


def points_of(stores: Stores, company: str, month: str = "202512") -> dict[str, int]:
    return {item.user_number: item.points for item in stores.points.points(company, month)}


# The lock


def test_a_company_that_nobody_knows_is_free(stores: Stores, company: str) -> None:
    assert stores.locks.read(company) is None


def test_a_free_company_is_locked_and_read_back(stores: Stores, company: str) -> None:
    assert stores.locks.acquire(company, None, MINE) == MINE
    assert stores.locks.read(company) == MINE
    assert stores.locks.read(company + "x") is None


def test_a_lock_that_was_not_seen_is_not_written_over(stores: Stores, company: str) -> None:
    stores.locks.acquire(company, None, OTHER)
    assert stores.locks.acquire(company, None, MINE) == OTHER
    assert stores.locks.read(company) == OTHER


def test_the_lock_that_was_seen_is_taken_over(stores: Stores, company: str) -> None:
    stores.locks.acquire(company, None, OTHER)
    assert stores.locks.acquire(company, OTHER, MINE) == MINE
    assert stores.locks.read(company) == MINE


@pytest.mark.parametrize(
    "seen",
    [
        Lock(NOW - timedelta(seconds=1), "m2", "r2"),
        Lock(NOW, "m3", "r2"),
        Lock(NOW, "m2", "r3"),
        Lock(NOW, None, None),
    ],
)
def test_a_lock_that_differs_in_anything_from_the_seen_one_is_not_taken_over(
    stores: Stores, company: str, seen: Lock
) -> None:
    stores.locks.acquire(company, None, OTHER)
    assert stores.locks.acquire(company, seen, MINE) == OTHER


def test_a_lock_that_was_seen_and_is_gone_is_not_taken_over(stores: Stores, company: str) -> None:
    assert stores.locks.acquire(company, OTHER, MINE) is None
    assert stores.locks.read(company) is None


def test_acquiring_again_with_the_same_arguments_finds_ones_own_lock(stores: Stores, company: str) -> None:
    stores.locks.acquire(company, None, MINE)
    assert stores.locks.acquire(company, None, MINE) == MINE


def test_one_of_many_racers_gets_the_lock_and_all_see_the_same_holder(racing: Stores, company: str) -> None:
    locks = [Lock(NOW, f"m{number}", f"r{number}") for number in range(8)]
    standing = race(racing, lambda own, number: own.locks.acquire(company, None, locks[number]))
    assert len(set(standing)) == 1
    assert standing[0] in locks
    assert racing.locks.read(company) == standing[0]


def test_one_of_many_racers_takes_an_expired_lock_over(racing: Stores, company: str) -> None:
    racing.locks.acquire(company, None, OTHER)
    later = NOW + timedelta(hours=3)
    locks = [Lock(later, f"m{number}", f"r{number}") for number in range(10, 18)]
    standing = race(racing, lambda own, number: own.locks.acquire(company, OTHER, locks[number]))
    assert len(set(standing)) == 1
    assert standing[0] in locks


def test_a_released_company_is_free_again(stores: Stores, company: str) -> None:
    stores.locks.acquire(company, None, MINE)
    assert stores.locks.release(company, MINE) is None
    assert stores.locks.read(company) is None
    assert stores.locks.acquire(company, None, OTHER) == OTHER


def test_releasing_again_finds_the_company_free(stores: Stores, company: str) -> None:
    stores.locks.acquire(company, None, MINE)
    stores.locks.release(company, MINE)
    assert stores.locks.release(company, MINE) is None
    assert stores.locks.release("unknown-" + company, MINE) is None


@pytest.mark.parametrize("successor", [OTHER, Lock(NOW, "m1", "r9")], ids=["another message", "same message"])
def test_a_lock_is_released_by_the_run_that_holds_it_only(stores: Stores, company: str, successor: Lock) -> None:
    stores.locks.acquire(company, None, MINE)
    stores.locks.acquire(company, MINE, successor)
    assert stores.locks.release(company, MINE) == successor
    assert stores.locks.read(company) == successor


# The points


def test_a_first_grant_makes_the_item(stores: Stores, company: str) -> None:
    assert list(stores.points.grant(company, ["u1"], DAY)) == [GRANTED]
    assert list(stores.points.points(company, "202512")) == [UserPoints("u1", "202512", 1, DAY.now)]


def test_a_second_grant_on_the_same_day_changes_nothing(stores: Stores, company: str) -> None:
    stores.points.grant(company, ["u1"], DAY)
    later = PointDay(DAY.start, DAY.now + 600, DAY.month)
    assert list(stores.points.grant(company, ["u1"], later)) == [ALREADY]
    assert list(stores.points.points(company, "202512")) == [UserPoints("u1", "202512", 1, DAY.now)]


def test_a_grant_of_the_days_first_second_counts_for_that_day(stores: Stores, company: str) -> None:
    stores.points.grant(company, ["u1"], PointDay(DAY.start, DAY.start, DAY.month))
    assert list(stores.points.grant(company, ["u1"], DAY)) == [ALREADY]


def test_a_grant_of_the_last_second_before_the_day_does_not(stores: Stores, company: str) -> None:
    stores.points.grant(company, ["u1"], PointDay(DAY.start - 86_400, DAY.start - 1, DAY.month))
    assert list(stores.points.grant(company, ["u1"], DAY)) == [GRANTED]


def test_the_next_day_adds_a_point(stores: Stores, company: str) -> None:
    stores.points.grant(company, ["u1"], DAY)
    assert list(stores.points.grant(company, ["u1"], NEXT_DAY)) == [GRANTED]
    assert list(stores.points.points(company, "202512")) == [UserPoints("u1", "202512", 2, NEXT_DAY.now)]


def test_a_new_month_starts_a_new_item(stores: Stores, company: str) -> None:
    stores.points.grant(company, ["u1"], DAY)
    stores.points.grant(company, ["u1"], NEXT_MONTH)
    assert points_of(stores, company) == {"u1": 1}
    assert points_of(stores, company, "202601") == {"u1": 1}


def test_a_day_that_is_granted_after_a_later_one_is_refused(stores: Stores, company: str) -> None:
    stores.points.grant(company, ["u1"], NEXT_DAY)
    assert list(stores.points.grant(company, ["u1"], DAY)) == [ALREADY]
    assert points_of(stores, company) == {"u1": 1}


def test_many_users_are_answered_in_the_order_given(stores: Stores, company: str) -> None:
    stores.points.grant(company, [f"u{number}" for number in range(0, 120, 2)], DAY)
    outcomes = list(stores.points.grant(company, [f"u{number}" for number in range(120)], DAY))
    assert outcomes == [ALREADY, GRANTED] * 60
    assert points_of(stores, company) == {f"u{number}": 1 for number in range(120)}


def test_no_users_are_no_work(stores: Stores, company: str) -> None:
    assert list(stores.points.grant(company, [], DAY)) == []


def test_a_user_who_is_named_twice_gets_one_point(racing: Stores, company: str) -> None:
    assert sorted(racing.points.grant(company, ["u1", "u1"], DAY), key=str) == [ALREADY, GRANTED]
    assert points_of(racing, company) == {"u1": 1}


def test_racers_grant_each_user_one_point(racing: Stores, company: str) -> None:
    users = [f"u{number}" for number in range(20)]
    answers = race(racing, lambda own, number: list(own.points.grant(company, users, DAY)))
    for outcomes in zip(*answers, strict=True):
        assert sorted(outcomes, key=str) == [ALREADY] * 7 + [GRANTED]
    assert points_of(racing, company) == dict.fromkeys(users, 1)


def test_user_numbers_of_any_shape_stay_apart(stores: Stores, company: str) -> None:
    users = ["u", "u#", "u#202512", "U", "ユーザー", "'", "a/b?c=d&e", "0", "00"]
    assert list(stores.points.grant(company, users, DAY)) == [GRANTED] * len(users)
    assert points_of(stores, company) == dict.fromkeys(users, 1)


def test_companies_stay_apart(stores: Stores, company: str) -> None:
    stores.points.grant(company, ["u1"], DAY)
    assert list(stores.points.grant(company + "x", ["u1"], DAY)) == [GRANTED]
    assert points_of(stores, company) == {"u1": 1}


# Both, under the batch


# **Feature: aggregation-batch, Property A5: never two holders, never two points a day, monthly points = granted
# days, and no lock is lost, whatever crashes, is repeated or runs at the same time**
def test_the_promises_hold_on_every_store(stores: Stores) -> None:
    run_state_machine_as_test(
        lambda: AggregationMachine(stores.locks, stores.points),  # type: ignore[arg-type]
        settings=settings(max_examples=stores.machine_examples, stateful_step_count=30, deadline=None),
    )
