"""The original target is looked after as a bundle of one, whose ticks are rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from aws_here.collecting_here import targets
from aws_here.recovering_here import START, TABLE, Recovering, recovering
from kizami.aws.marks import Marks
from kizami.aws.reconcile import RecoverySettings
from kizami.aws.rows import RowTicks
from kizami.aws.ticks import TickFacts
from kizami.core.bundles import row_bundle
from kizami.core.recovery import GIVEN_UP, GRACE_SECONDS, MOST_ROUNDS
from kizami.core.slots import shift, slots_between
from kizami.core.targets.target import Target
from kizami.core.ticks import Answered

ABC = targets(*"abc", interval="5s")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Recovering]:
    with recovering(ABC, tmp_path) as world:
        yield world


@contextmanager
def original(world: Recovering, target: Target | None = None) -> Iterator[RowTicks]:
    settings = RecoverySettings(TABLE, world.settings.urls, rows=target or Target())
    world.settings = settings
    yield RowTicks(TABLE)


def put_rows(rows: RowTicks, target: Target, start: datetime, end: datetime, late: float = 0.2) -> None:
    bundle = row_bundle(target)
    for slot in slots_between(start, end, target.interval_seconds):
        rows.record(bundle, slot, TickFacts({0: Answered((7,), 0, round(late * 100))}))


def test_rows_of_the_original_target_are_asked_for_one_by_one(world: Recovering) -> None:
    target = Target()
    with original(world, target) as rows:
        put_rows(rows, target, START, shift(START, 600))
        put_rows(rows, target, shift(START, 630), shift(START, 3600))
        world.pass_by(60)
        found = world.run()
        assert [message.body for message in world.aws.queues["backfill"]][:1] == [
            '{"from": "2025-12-02T10:33:00Z", "to": "2025-12-02T10:33:05Z"}'
        ]
        assert len(world.aws.queues["backfill"]) == 6
        assert (found.missing, found.asked, found.completeness.missing) == (6, 6, 6)
        put_rows(rows, target, shift(START, 600), shift(START, 630))
        assert world.run().missing == 0
        assert Marks(TABLE).all().of(row_bundle(target).name).runs == ()


def test_the_original_target_that_never_worked_lacks_all_of_the_look_back(world: Recovering) -> None:
    with original(world):
        world.pass_by(600)
        found = world.run()
        assert found.completeness.stored == 0
        assert found.completeness.expected >= 1900
        assert len(world.aws.queues["backfill"]) == 1, "as long as it gives no answer one slot is asked for"


def test_rows_are_asked_for_when_their_target_answers_again(world: Recovering) -> None:
    target = Target()
    with original(world, target) as rows:
        put_rows(rows, target, START, shift(START, 600))
        world.pass_by(60)
        world.run()
        (only,) = world.asked
        put_rows(rows, target, only.window.start, only.window.end, late=GRACE_SECONDS)
        world.run()
        assert len(world.asked) == 239, "what still waits on the queue counts"
        assert world.windows() == sorted(world.windows())


def test_rows_are_given_up_without_a_note_in_the_table(world: Recovering) -> None:
    target = Target(interval_seconds=60)
    with original(world, target) as rows:
        put_rows(rows, target, START, shift(START, 60))
        put_rows(rows, target, shift(START, 120), shift(START, 3 * 86_400))
        asked = 0
        for _ in range(30 * 4):
            world.pass_by(15)
            world.run()
            asked += len(world.asked)
            world.lose()
        assert asked == MOST_ROUNDS
        (run,) = Marks(TABLE).all().of(row_bundle(target).name).runs
        assert (run.missing, run.rounds) == (frozenset({0}), GIVEN_UP)


def test_days_of_rows_that_are_asked_for_late_are_noted(world: Recovering) -> None:
    target = Target()
    with original(world, target) as rows:
        put_rows(rows, target, START, shift(START, 600))
        put_rows(rows, target, shift(START, 630), shift(START, 7200))
        world.pass_by(60)
        world.run()
        assert Marks(TABLE).all().of(row_bundle(target).name).late_days == {}
        world.lose()
        world.pass_by(61)
        put_rows(rows, target, shift(START, 7200), world.now)
        world.run()
        assert len(world.asked) == 6
        assert list(Marks(TABLE).all().of(row_bundle(target).name).late_days) == [START.date()]
