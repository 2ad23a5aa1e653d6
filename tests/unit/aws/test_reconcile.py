"""Runs of the reconciler over ticks: what is found, asked for again, given up and forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from aws_here.collecting_here import targets
from aws_here.recovering_here import START, TABLE, Recovering, all_answer, recovering
from kizami.aws.blocks import Blocks
from kizami.aws.marks import Marks
from kizami.aws.plans import Plans
from kizami.aws.reconcile import Recovery, RecoverySettings, shard_of
from kizami.aws.rows import RowTicks
from kizami.aws.settings import QueueUrls
from kizami.aws.ticks import TickFacts, Ticks
from kizami.core.blocking import Trouble
from kizami.core.bundles import row_bundle
from kizami.core.errors import StoreError
from kizami.core.holding import TargetState
from kizami.core.messages import read_bundle
from kizami.core.recovery import GIVEN_UP, GRACE_SECONDS, MOST_ROUNDS, LiveRange, seal_mark
from kizami.core.slots import Window, shift, slots_between
from kizami.core.targets.target import Target
from kizami.core.ticks import Answered

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


def place_of(world: Recovering, name: str) -> int:
    return world.bundle.places[name]


def without(*places: int) -> Any:
    """Live deliveries in which these members stay outstanding."""

    def facts(slot: datetime, every: frozenset[int]) -> TickFacts:
        answers = dict.fromkeys(every - set(places), Answered((7,), 0, 9))
        return TickFacts(answers, outstanding=frozenset(places))

    return facts


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
    world.poll(1, without(place_of(world, "b")))
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
        world.poll(1, without(place_of(world, "b")))
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
        assert tick.dead == {place_of(world, "b")}
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
        assert (run.missing, run.rounds) == ({0}, GIVEN_UP)
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


# Deployments


def test_a_hole_at_a_deployment_is_found(world: Recovering, tmp_path: Path) -> None:
    world.poll(20)
    world.pass_by(3)  # the Sender of the former plan is gone, and the next one is not there yet
    world.deploy(targets(*"abcd", interval="5s"), tmp_path / "next")
    former = world.named(Plans(TABLE).periods()[0].plan + ".0")
    world.poll(60)
    found = world.run()
    assert [each.bundle.name for each in found.bundles] == [former.name, world.bundle.name]
    old, new = found.bundles
    assert old.live == [LiveRange(shift(START, -5), shift(START, 23 * 60 - 5))]
    assert new.live == [LiveRange(shift(START, 23 * 60 - 5))]
    assert old.mark.seen_until == old.live[0].end
    assert {message.bundle for message in world.asked} == {former.name}
    world.deliver()
    assert world.lacking(former).keys() == set(slots_between(shift(START, 23 * 60 - 5), shift(world.now, -5), 5))
    world.run()
    assert Marks(TABLE).all().of(former.name).runs == ()


def test_slots_between_a_longer_and_a_shorter_lag_are_asked_for(tmp_path: Path) -> None:
    with recovering(targets("a", interval="5s", lag="60s"), tmp_path) as world:
        world.poll(30)
        world.deploy(targets("a", "b", interval="5s", lag="5s"), tmp_path / "next")
        world.poll(30)
        world.run()
        (message,) = world.asked
        deployed = shift(START, 30 * 60)
        assert (message.bundle, message.metrics) == (world.bundle.name, ("a",))
        assert message.window == Window(shift(deployed, -60), shift(deployed, -5))
        world.deliver()
        world.run()
        assert world.mark.runs == ()


def test_marks_of_a_finished_plan_are_forgotten_and_begin_again(world: Recovering, tmp_path: Path) -> None:
    world.poll(20)
    former, first = world.bundle, world.settings
    world.deploy(targets(*"abcd", interval="5s"), tmp_path / "next")
    world.poll(40)
    world.run()
    marks = Marks(TABLE)
    mark = marks.all().of(former.name)
    assert mark.seen_until == shift(START, 20 * 60 - 5)
    world.run()
    assert former.name in marks.all().marks, "it is not sealed"
    marks.save(seal_mark(mark, mark.seen_until))
    world.run()
    assert marks.all().finished == {former.plan: shift(START, 21 * 60)}
    world.run()
    known = marks.all()
    assert former.name not in known.marks
    assert known.of(former.name).sealed_until == shift(START, 21 * 60)
    assert [each.bundle.name for each in world.run().bundles] == [world.bundle.name]
    marks.note_late(former.name, START, world.now)
    assert {each.bundle.name for each in world.run().bundles} == {former.name, world.bundle.name}
    assert list(marks.all().of(former.name).late_days) == [START.date()]

    again = world.now
    world.plan, world.settings = replace(world.plan, name=former.plan, bundles=(former,)), first
    world.poll(40)
    world.run()
    mark = marks.all().of(former.name)
    assert mark.version
    assert mark.sealed_until == shift(again, -5), "what it sent before is sealed"


# Targets that were held


def held(kept_from: datetime, **changes: Any) -> TargetState:
    trouble = Trouble(kept_from, "status 503", kept_from, 3, 1, shift(kept_from, 60))
    return replace(TargetState(trouble, kept_from=kept_from), **changes)


def holding(place: int) -> Any:
    """Live deliveries that leave a member out because its target is held."""

    def facts(slot: datetime, every: frozenset[int]) -> TickFacts:
        return TickFacts(dict.fromkeys(every - {place}, Answered((7,), 0, 9)), held=frozenset({place}))

    return facts


def test_slots_of_a_held_target_are_asked_for_when_it_answers_again(world: Recovering) -> None:
    place, blocks = place_of(world, "b"), Blocks(TABLE)
    world.poll(10)
    since = shift(world.now, -5)
    blocks.save("b", held(since))
    world.poll(40, holding(place))
    found = world.run_one()
    assert (world.asked, found.missing) == ([], 0)
    assert found.mark.complete_until == found.mark.seen_until, "a held target holds nothing up"
    assert [(run.held, run.missing) for run in found.mark.runs] == [({place}, frozenset())]

    blocks.update("b", lambda state: replace(state, trouble=None, answered_at=world.now) if state else None)
    world.poll(20)
    found = world.run_one()
    assert {message.metrics for message in world.asked} == {("b",)}
    assert world.windows()[0].start == since
    assert blocks.all() == {}, "its state is over"
    for _ in range(6):
        world.deliver()
        world.poll(5)
        found = world.run_one()
    assert world.lacking() == {}
    assert found.mark.runs == ()


def test_slots_that_were_sealed_while_the_target_was_held_are_asked_for(world: Recovering) -> None:
    place, blocks = place_of(world, "b"), Blocks(TABLE)
    since = shift(START, -5)
    blocks.save("b", held(since))
    world.poll(60, holding(place))
    world.run()
    mark = Marks(TABLE).save(seal_mark(world.mark, shift(START, 1800)))
    assert mark is not None
    sealed = list(Ticks(TABLE).items(world.bundle, since, shift(START, 1800)))
    for start in range(0, len(sealed), 25):
        Ticks(TABLE).delete(sealed[start : start + 25])
    blocks.update("b", lambda state: replace(state, trouble=None, answered_at=world.now) if state else None)
    asked: list[datetime] = []
    for _ in range(8):
        world.poll(5)
        found = world.run_one()
        assert {message.metrics for message in world.asked} <= {("b",)}
        for window in world.windows():
            asked += slots_between(window.start, window.end, 5)
        world.deliver()
    assert asked == list(slots_between(since, shift(START, 3600 - 5), 5)), "each once, the oldest first"
    assert found.mark.runs == ()
    assert list(found.mark.late_days) == [START.date()]


def test_a_hold_is_released_in_bundles_of_former_plans_too(world: Recovering, tmp_path: Path) -> None:
    blocks, former = Blocks(TABLE), world.bundle
    since = shift(START, -5)
    blocks.save("b", held(since))
    world.poll(20, holding(place_of(world, "b")))
    world.deploy(targets(*"abcd", interval="5s"), tmp_path / "next")
    world.poll(40, holding(place_of(world, "b")))
    world.run()
    blocks.update("b", lambda state: replace(state, trouble=None, answered_at=world.now) if state else None)
    world.run()
    assert {message.bundle for message in world.asked} == {former.name, world.bundle.name}
    assert {message.metrics for message in world.asked} == {("b",)}
    for _ in range(4):
        world.deliver()
        world.poll(5)
        world.run()
    assert [slot for slot in world.lacking(former) if slot < shift(START, 20 * 60 - 5)] == []
    assert blocks.all() == {}


def test_a_state_stays_until_the_marks_of_all_its_bundles_are_written(world: Recovering) -> None:
    blocks = Blocks(TABLE)
    world.poll(30, holding(place_of(world, "b")))
    blocks.save("b", held(shift(START, -5), trouble=None, answered_at=world.now))
    with patch.object(Marks, "begin", side_effect=StoreError("it is throttled")), pytest.raises(StoreError):
        world.run()
    assert "b" in blocks.all()
    world.run()
    assert blocks.all() == {}
    assert world.asked


def test_states_of_targets_that_are_gone_are_forgotten(world: Recovering) -> None:
    blocks = Blocks(TABLE)
    world.poll(20)
    for name in ("a", "gone"):
        blocks.save(name, held(START))
    world.run()
    assert list(blocks.all()) == ["a"]


# Slots that are kept no more


def test_slots_that_are_kept_no_more_are_not_asked_for(tmp_path: Path) -> None:
    with recovering(targets("a", interval="60s", keep="2d"), tmp_path) as world:
        world.poll(1)
        world.pass_by(4 * 1440)
        world.run()
        assert min(world.windows()).start >= shift(world.now, -49 * 3600)
        assert world.mark.runs[0].start >= shift(world.now, -49 * 3600)


# The original target


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
        assert (run.missing, run.rounds) == ({0}, GIVEN_UP)


def test_read_bundle_reads_what_rows_send() -> None:
    assert read_bundle('{"from": "2025-12-02T10:33:00Z", "to": "2025-12-02T10:33:05Z"}').bundle == ""
