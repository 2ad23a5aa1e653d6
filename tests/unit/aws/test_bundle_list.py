"""Which bundles a run of the reconciler looks after, when deployments change the plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from aws_here.collecting_here import targets
from aws_here.recovering_here import START, TABLE, Facts, Recovering, recovering
from kizami.aws.marks import Marks
from kizami.aws.plans import Plans
from kizami.aws.sealed import SealedItems
from kizami.aws.sealing import BundleToSeal, Sealing
from kizami.aws.ticks import TickFacts, Ticks
from kizami.core.epoch import to_seconds
from kizami.core.recovery import LiveRange, TickRun, put_runs, seal_mark
from kizami.core.slots import Window, shift, slots_between
from kizami.core.ticks import Answered

ABC = targets(*"abc", interval="5s")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Recovering]:
    with recovering(ABC, tmp_path) as world:
        yield world


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


def test_what_a_plan_with_a_shorter_lag_has_sent_first_is_sealed_as_it_answered(tmp_path: Path) -> None:
    def told(count: int) -> Facts:
        return lambda slot, every: TickFacts({place: Answered((count,), 0, 9) for place in every})

    with recovering(targets("a", interval="5s", lag="5s"), tmp_path) as world:
        world.poll(30, told(1))
        world.deploy(targets("a", "b", interval="5s", lag="60s"), tmp_path / "next")
        deployed = shift(world.now, -5)
        world.poll(30 + 3 * 60, told(2))
        works = [BundleToSeal(each.bundle, each.mark, each.live) for each in world.run().bundles]
        assert [part.former for each in works for part in each.live] == [{}, {"a": deployed}]
        Sealing(TABLE, Marks(TABLE), {}).run(reversed(works), world.now)
        spans = SealedItems(TABLE).spans("a", 5, to_seconds(START), to_seconds(world.now))
        found = {
            slot: count for span in spans for slot, count in zip(*span.columns(("slot", "count")), strict=True)
        }
        assert {slot for slot, count in found.items() if count == 1} == {
            to_seconds(slot) for slot in slots_between(shift(START, -5), deployed, 5)
        }
        assert not list(Ticks(TABLE).read(world.bundle, START, shift(deployed, 60))), (
            "what came twice is deleted, too"
        )


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
    late = marks.all().of(former.name)
    assert list(late.late_days) == [START.date()]
    assert marks.end_late(late, START.date(), shift(world.now, 900))

    again, later = world.now, (world.plan, world.settings)
    world.plan, world.settings = replace(world.plan, name=former.plan, bundles=(former,)), first
    world.poll(40)
    world.run()
    mark = marks.all().of(former.name)
    assert mark.version
    assert mark.sealed_until == shift(again, -5), "what it sent before is sealed"
    world.plan, world.settings = later
    world.poll(40)
    for _ in range(3):
        found = world.run()
    assert former.name in {each.bundle.name for each in found.bundles}, "what it has sent since is not sealed"


def test_a_mark_is_not_forgotten_while_slots_are_asked_for(world: Recovering, tmp_path: Path) -> None:
    world.poll(20)
    former, marks = world.bundle, Marks(TABLE)
    world.deploy(targets(*"abcd", interval="5s"), tmp_path / "next")
    world.poll(40)
    world.run()
    mark = marks.save(seal_mark(marks.all().of(former.name), shift(START, 20 * 60 - 5)))
    assert mark is not None
    world.run()
    held = TickRun(START, shift(START, 5), frozenset({1}))
    Ticks(TABLE).delete(list(Ticks(TABLE).items(former, held.start, held.end)))
    assert marks.save(put_runs(mark, held.start, held.end, [held]))
    world.run()
    assert [message.bundle for message in world.asked] == [former.name]
    world.run()
    assert former.name in marks.all().marks
    world.deliver()
    world.run()
    world.run()
    assert marks.all().of(former.name).late_days, "its late days are for sealing"
    assert former.name in marks.all().marks
    (day,) = marks.all().of(former.name).late_days
    assert marks.end_late(marks.all().of(former.name), day, shift(world.now, 900))
    world.run()
    assert former.name not in marks.all().marks
