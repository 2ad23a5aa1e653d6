"""Runs of the reconciler over ticks: what is found, asked for again, given up and forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from aws_here.collecting_here import targets
from aws_here.recovering_here import START, TABLE, Recovering, all_answer, recovering, without
from kizami.aws.marks import Marks
from kizami.aws.reconcile import Recovery, shard_of
from kizami.aws.settings import QueueUrls
from kizami.aws.ticks import TickFacts, Ticks
from kizami.core.errors import StoreError
from kizami.core.recovery import GIVEN_UP, GRACE_SECONDS, MOST_ROUNDS
from kizami.core.slots import Window, shift

ABC = targets(*"abc", interval="5s")
MINUTELY = targets("a", "b", interval="60s")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Recovering]:
    with recovering(ABC, tmp_path) as world:
        yield world


def calls_of(world: Recovering, times: int = 1) -> dict[str, int]:
    """The AWS calls of one run."""
    world.aws.calls.clear()
    world.run()
    return dict(world.aws.calls)


# Looking


def test_a_complete_bundle_costs_one_count_and_one_write(world: Recovering) -> None:
    world.poll(20)
    world.run()
    world.poll(5)
    # marks, periods and states; depth of the queue; the count; the mark
    assert calls_of(world) == {"Query": 4, "GetQueueAttributes": 1, "UpdateItem": 1}
    assert world.mark.seen_until == shift(START, 25 * 60 - GRACE_SECONDS)
    assert world.mark.runs == ()
    assert calls_of(world) == {"Query": 3, "GetQueueAttributes": 1}, "what is known to be complete is not read"


def test_missing_slots_are_found_once_their_grace_is_over(world: Recovering) -> None:
    world.poll(4)
    world.pass_by(2)
    world.poll(13)
    assert world.run_one().missing == 0
    world.poll(1)
    found = world.run_one()
    hole = Window(shift(START, 4 * 60 - 5), shift(START, 4 * 60))
    assert world.windows() == [hole]
    assert found.missing == 3
    world.poll(5)
    found = world.run_one()
    assert (found.missing, found.asked) == (3 * 24, 3 * 23)
    assert found.completeness_of(0).missing == 24
    assert found.completeness.missing == 3 * 24
    world.deliver()
    assert world.lacking() == {}
    found = world.run_one()
    assert (found.missing, found.asked, found.mark.runs) == (0, 0, ())


def test_members_that_are_outstanding_after_the_grace_are_asked_for(world: Recovering) -> None:
    world.poll(3)
    world.poll(1, without(world.place("b")))
    world.poll(20)
    found = world.run_one()
    assert [message.metrics for message in world.asked] == [("b",), ("b",)]
    assert found.lowest.missing == 12
    assert found.completeness.missing == 12
    world.deliver()
    world.run()
    assert world.mark.runs == ()


def test_members_that_were_given_up_are_not_asked_for(world: Recovering) -> None:
    world.poll(1, lambda slot, every: TickFacts(dead=every))
    world.poll(20)
    found = world.run_one()
    assert (world.asked, found.missing, found.lacking) == ([], 0, {0: 12, 1: 12, 2: 12})
    assert found.mark.complete_until == found.mark.seen_until


def test_of_a_long_range_only_what_falls_short_is_read(tmp_path: Path) -> None:
    with recovering(targets("a", interval="5s"), tmp_path) as world:
        world.poll(600, lambda slot, every: None if slot == shift(START, 3600) else all_answer(slot, every))
        world.pass_by((GRACE_SECONDS - 5) / 60)
        calls = calls_of(world)
        assert world.windows() == [Window(shift(START, 3600), shift(START, 3605))]
        assert calls["Query"] <= 3 + 14, "halves that are perfect are only counted"


def test_a_day_of_slots_is_looked_at_by_each_run(tmp_path: Path) -> None:
    with recovering(MINUTELY, tmp_path) as world:
        world.poll(1)
        world.pass_by(40 * 1440)
        first = world.run_one().mark.seen_until
        assert first == shift(START, 17_280 * 60 - 60)
        assert world.run_one().mark.seen_until > first


def test_an_outage_of_fifteen_hours_heals_by_itself(tmp_path: Path) -> None:
    with recovering(targets("a", "b", interval="5s"), tmp_path) as world:
        world.poll(30)
        world.run()
        world.pass_by(15 * 60)
        runs, most_asked = 0, 0
        for _ in range(200):
            world.poll(5)
            world.aws.calls.clear()
            found = world.run_one()
            requests = sum(world.aws.calls.values())
            slots = sum((window.end - window.start).seconds // 5 for window in world.windows())
            assert slots <= 240
            assert len(world.asked) <= 21
            assert requests <= 60
            assert world.windows() == sorted(world.windows()), "oldest first"
            runs, most_asked = runs + 1, max(most_asked, slots)
            world.deliver()
            if not found.missing and not world.asked:
                break
        assert most_asked == 240
        assert 10_800 / 240 <= runs <= 10_800 / 240 * 1.5
        world.run()
        grace = shift(world.now, -GRACE_SECONDS - 10)
        assert [slot for slot in world.lacking() if slot < grace] == []
        assert world.mark.runs == ()


def test_an_outage_of_a_week_heals_by_itself(tmp_path: Path) -> None:
    with recovering(MINUTELY, tmp_path) as world:
        world.poll(30)
        world.run()
        world.pass_by(7 * 1440)
        for runs in range(1, 800):
            world.poll(5)
            world.aws.calls.clear()
            found = world.run_one()
            assert len(world.asked) <= 20
            assert sum(world.aws.calls.values()) <= 60
            world.deliver()
            if not found.missing and runs > 1:
                break
        assert runs <= 10_080 / 20 * 1.5
        world.run()
        assert [slot for slot in world.lacking() if slot < shift(world.now, -GRACE_SECONDS - 120)] == []


# Asking again


def test_nothing_more_is_sent_than_the_queue_has_room_for(world: Recovering) -> None:
    world.poll(1)
    world.pass_by(120)
    world.run()
    assert len(world.asked) == 20
    world.pass_by(5)
    world.run()
    assert world.asked == [], "all of it still waits"
    world.deliver(most=15)
    world.run()
    assert len(world.asked) == 15


def test_a_lost_message_is_sent_again_after_an_hour(world: Recovering) -> None:
    world.poll(1)
    world.poll(1, lambda slot, every: None)
    world.poll(20)
    world.run()
    asked = world.asked
    world.lose()
    for _ in range(11):
        world.poll(5)
        world.run()
        assert world.asked == []
    world.poll(5)
    world.run()
    assert world.asked == asked


def test_a_slot_is_given_up_after_a_day_of_lost_messages(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with recovering(MINUTELY, tmp_path) as world:
        world.poll(1)
        world.poll(1, without(world.place("b")))
        world.poll(20)
        rounds = 0
        while not world.queue("dead"):
            world.run()
            rounds += len(world.asked)
            world.lose()
            world.poll(15)
        assert rounds == MOST_ROUNDS
        (letter,) = world.queue("dead")
        assert letter.metrics == ("b",)
        (tick,) = [tick for tick in Ticks(TABLE).read(world.bundle, START, world.now) if tick.dead]
        assert tick.dead == {world.place("b")}
        assert tick.slot == letter.window.start
        (run,) = world.mark.runs
        assert (run.missing, run.dead) == (frozenset(), tick.dead)
        assert list(world.mark.late_days) == [tick.slot.date()]
        assert "slots are given up" in caplog.text


def test_slots_that_cannot_be_asked_for_later_stay_missing(tmp_path: Path) -> None:
    with recovering(targets("a", interval="5s", backfill=False), tmp_path) as world:
        world.poll(2)
        world.pass_by(10)
        world.poll(20)
        found = world.run_one()
        assert world.asked == []
        (run,) = found.mark.runs
        assert (run.missing, run.rounds) == (frozenset({0}), GIVEN_UP)
        assert found.mark.complete_until == found.mark.seen_until
        assert found.missing == 0
        assert found.completeness.missing > 100


def test_messages_that_the_queue_refuses_are_sent_by_the_next_run(world: Recovering) -> None:
    world.poll(1)
    world.pass_by(30)
    world.aws.fault = lambda operation: "before" if operation == "SendMessageBatch" else None
    found = world.run_one()
    assert (found.asked, found.failed > 0) == (0, True)
    assert all(run.rounds == 0 for run in found.mark.runs)
    world.aws.fault = lambda operation: None
    found = world.run_one()
    assert found.asked > 0


def test_nothing_is_sent_to_a_queue_that_cannot_be_asked_how_full_it_is(world: Recovering) -> None:
    world.poll(1)
    world.pass_by(30)
    world.aws.fault = lambda operation: "before" if operation == "GetQueueAttributes" else None
    found = world.run_one()
    assert world.asked == []
    assert found.missing > 0
    assert found.mark.runs


def test_old_slots_that_share_the_live_queue_are_spread(tmp_path: Path) -> None:
    live = "https://sqs.test/1/backfill"
    with recovering(ABC, tmp_path, urls=QueueUrls(live, live, live), spread_seconds=300) as world:
        world.poll(1)
        world.pass_by(60)
        world.run()
        delays = [message.delay for message in world.aws.queues["backfill"]]
        assert len(delays) == 20
        assert delays == sorted(delays)
        assert 0 < delays[-1] < 20 / 4


# Several bundles


def test_one_bundle_that_fails_does_not_stop_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = targets("a", interval="5s") + targets("b", interval="10s")
    with recovering(text, tmp_path) as world:
        world.poll(20)
        broken, well = world.plan.bundles
        count = Ticks.count_perfect

        def fails(self: Ticks, bundle: Any, *span: datetime) -> int:
            if bundle == broken:
                raise StoreError("it is throttled")
            return count(self, bundle, *span)

        with patch.object(Ticks, "count_perfect", fails):
            found = world.run()
        assert {each.bundle.name: each.is_examined for each in found.bundles} == {
            broken.name: False,
            well.name: True,
        }
        assert Marks(TABLE).all().of(well.name).seen_until > START
        assert "bundles left to the next run" in caplog.text
        world.poll(5)
        throttled = patch.object(Ticks, "count_perfect", side_effect=StoreError("it is throttled"))
        with throttled, pytest.raises(StoreError):
            world.run()


def test_bundles_that_were_left_out_come_first_in_the_next_run(tmp_path: Path) -> None:
    text = "".join(
        targets(name, interval=interval) for name, interval in zip("abc", ("5s", "10s", "15s"), strict=True)
    )
    with recovering(text, tmp_path) as world:
        world.poll(30)
        seen: list[str] = []
        left = [120.0]

        def time_left() -> float:
            return left[0]

        look = Ticks.count_perfect

        def counted(self: Ticks, bundle: Any, *span: datetime) -> int:
            seen.append(bundle.name)
            left[0] = 10.0
            return look(self, bundle, *span)

        with patch.object(Ticks, "count_perfect", counted):
            for _ in range(3):
                left[0] = 120.0
                found = Recovery(world.settings, time_left).run(world.now)
                assert len(found.examined) == 1
        assert sorted(seen) == sorted(bundle.name for bundle in world.plan.bundles)


def test_shards_share_the_bundles(tmp_path: Path) -> None:
    text = "".join(targets(f"t{each}", interval=f"{each}s") for each in (1, 2, 3, 4, 5, 6, 10, 12))
    with recovering(text, tmp_path) as world:
        world.poll(20)
        shares = [{each.bundle.name for each in world.run(shard=shard, shards=3).bundles} for shard in range(3)]
        assert set.union(*shares) == {bundle.name for bundle in world.plan.bundles}
        assert sum(map(len, shares)) == 8


@pytest.mark.parametrize(
    ("event", "shard"),
    [
        ({}, (0, 1)),
        ({"shard": 2, "of": 4}, (2, 4)),
        ({"shard": 4, "of": 4}, (0, 1)),
        ({"source": "aws.events"}, (0, 1)),
    ],
)
def test_an_event_may_name_a_shard(event: dict[str, Any], shard: tuple[int, int]) -> None:
    assert shard_of(event) == shard


def test_of_two_runs_at_once_the_slower_one_changes_nothing(
    world: Recovering, caplog: pytest.LogCaptureFixture
) -> None:
    world.poll(25)
    world.run()
    world.poll(5)
    slower = world.now
    count = Ticks.count_perfect

    def overtaken(self: Ticks, bundle: Any, *span: datetime) -> int:
        if world.now == slower:
            world.poll(5)
            world.run()
        return count(self, bundle, *span)

    with patch.object(Ticks, "count_perfect", overtaken):
        found = Recovery(world.settings, lambda: 120.0).run(slower)
    assert world.mark.seen_until == shift(START, 35 * 60 - GRACE_SECONDS)
    assert "another run" in caplog.text
    assert found.bundles[0].mark.version < world.mark.version


# Slots that are kept no more


def test_slots_that_are_kept_no_more_are_not_asked_for(tmp_path: Path) -> None:
    with recovering(targets("a", interval="60s", keep="2d"), tmp_path) as world:
        world.poll(1)
        world.pass_by(4 * 1440)
        world.run()
        assert min(world.windows()).start >= shift(world.now, -49 * 3600)
        assert world.mark.runs[0].start >= shift(world.now, -49 * 3600)
