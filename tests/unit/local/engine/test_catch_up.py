"""What catching up looks for: how far back, of whom, and that a new search ends the one before."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fakes.ports import ManualClock
from kizami.core.blocking import Trouble
from kizami.core.epoch import to_seconds
from kizami.core.targets.target import Target
from kizami.local.engine.catch_up import CatchUp, missed
from kizami.local.engine.machine import Machine
from kizami.local.store.blocks import end_block, save_block
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import register_targets
from kizami.local.store.reader import Reader

NOW = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def target(name: str = "calls", **settings: Any) -> Target:
    given = {"interval_seconds": 5, "lag_seconds": 5, "catch_up_seconds": 3600} | settings
    return Target(name=name, **given)


class Known:
    """A database that has known targets for some time, and has no record."""

    def __init__(self, path: Path) -> None:
        self.path = path
        open_database(path, create=True).close()

    def know(self, each: Target, since: datetime) -> int:
        connection = open_database(self.path)
        with transaction(connection):
            number = register_targets(connection, [each], since)[each.name].id
        connection.close()
        return number

    def block(self, number: int, since: datetime, *, ended: bool) -> None:
        connection = open_database(self.path)
        with transaction(connection):
            trouble = Trouble(since, "status 401", since, 2, 0, since)
            save_block(connection, number, trouble, to_seconds(since))
            if ended:
                end_block(connection, number)
        connection.close()

    def missed(self, *targets: Target) -> dict[str, list[datetime]]:
        with Reader.opened(self.path) as reader:
            found: dict[str, list[datetime]] = {}
            for some in missed(reader, targets, reader.metrics(), NOW):
                found |= {name: [each.window.start for each in messages] for name, messages in some.items()}
            return found


@pytest.fixture
def known(tmp_path: Path) -> Known:
    return Known(tmp_path / "kizami.db")


@pytest.fixture
def catch_up(known: Known) -> Iterator[CatchUp]:
    clock: Any = ManualClock(NOW)
    catch_up = CatchUp(known.path, clock, Machine())
    yield catch_up
    catch_up.close()


def test_it_goes_back_as_far_as_the_target_says_or_is_known(known: Known) -> None:
    long, young = target(), target("young")
    known.know(long, NOW - 3 * 60 * MINUTE)
    known.know(young, NOW - MINUTE)
    found = known.missed(long, young)
    assert (len(found["calls"]), found["calls"][0]) == (720, NOW - 60 * MINUTE)
    # What is asked for first is what its first tick asked for.
    assert (len(found["young"]), found["young"][0]) == (12, NOW - MINUTE)


def test_of_one_that_can_only_say_now_the_slot_whose_time_is_not_over(known: Known) -> None:
    only_now = target(backfill=False)
    known.know(only_now, NOW - 60 * MINUTE)
    assert len(known.missed(only_now)["calls"]) <= 2


def test_of_one_that_is_blocked_there_is_nothing_to_ask_for(known: Known) -> None:
    each = target()
    known.block(known.know(each, NOW - 60 * MINUTE), NOW - 30 * MINUTE, ended=False)
    assert known.missed(each) == {}


def test_what_was_kept_while_it_was_blocked_is_looked_for_however_old(known: Known) -> None:
    each = target(catch_up_seconds=60)
    number = known.know(each, NOW - 3 * 60 * MINUTE)
    assert known.missed(each)["calls"][0] == NOW - MINUTE
    known.block(number, NOW - 120 * MINUTE, ended=True)
    assert known.missed(each)["calls"][0] == NOW - 120 * MINUTE


def test_one_that_is_not_to_catch_up_does_not(known: Known) -> None:
    each = target(catch_up_seconds=0)
    known.know(each, NOW - 60 * MINUTE)
    assert known.missed(each) == {}


def test_a_search_goes_on_until_there_is_another_or_a_stop(catch_up: CatchUp) -> None:
    assert catch_up._may_go_on()
    catch_up._job = ((), NOW)
    assert not catch_up._may_go_on()
    catch_up._job = None
    catch_up._stopping = True
    assert not catch_up._may_go_on()
