"""Slots of targets that were held are asked for when they answer again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from aws_here.collecting_here import targets
from aws_here.recovering_here import START, TABLE, Recovering, holding, recovering
from kizami.aws.blocks import Blocks
from kizami.aws.marks import Marks
from kizami.aws.ticks import Ticks
from kizami.core.blocking import Trouble
from kizami.core.errors import StoreError
from kizami.core.holding import TargetState
from kizami.core.messages import BundleMessage
from kizami.core.slots import shift, slots_between

ABC = targets(*"abc", interval="5s")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Recovering]:
    with recovering(ABC, tmp_path) as world:
        yield world


def held(kept_from: datetime, **changes: Any) -> TargetState:
    trouble = Trouble(kept_from, "status 503", kept_from, 3, 1, shift(kept_from, 60))
    return replace(TargetState(trouble, kept_from=kept_from), **changes)


def test_slots_of_a_held_target_are_asked_for_when_it_answers_again(world: Recovering) -> None:
    place, blocks = world.place("b"), Blocks(TABLE)
    world.poll(10)
    since = shift(world.now, -5)
    blocks.save("b", held(since))
    world.poll(40, holding(place))
    found = world.run_one()
    assert (world.asked, found.missing) == ([], 0)
    assert found.mark.complete_until == found.mark.seen_until, "a held target holds nothing up"
    (run,) = found.mark.runs
    assert (run.held, run.missing) == (frozenset({place}), frozenset())

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
    place, blocks = world.place("b"), Blocks(TABLE)
    blocks.save("b", held(shift(START, -5)))
    world.poll(10, holding(place))
    world.poll(10)  # probes of old slots may be answered, too
    world.poll(40, holding(place))
    world.run()
    assert world.mark.open_runs == []
    world.seal(shift(START, 1800))
    blocks.update("b", lambda state: replace(state, trouble=None, answered_at=world.now) if state else None)
    asked: list[datetime] = []
    for _ in range(8):
        world.poll(5)
        found = world.run_one()
        assert {message.metrics for message in world.asked} <= {("b",)}
        for window in world.windows():
            asked += slots_between(window.start, window.end, 5)
        world.deliver()
    stored = set(slots_between(shift(START, 595), shift(START, 1195), 5))
    kept = [slot for slot in slots_between(shift(START, -5), shift(START, 3595), 5) if slot not in stored]
    assert asked == kept, "each once, the oldest first"
    assert found.mark.runs == ()
    assert list(found.mark.late_days) == [START.date()]


def test_a_hold_is_released_in_bundles_of_former_plans_too(world: Recovering, tmp_path: Path) -> None:
    blocks, former = Blocks(TABLE), world.bundle
    since = shift(START, -5)
    blocks.save("b", held(since))
    world.poll(20, holding(world.place("b")))
    world.deploy(targets(*"abcd", interval="5s"), tmp_path / "next")
    world.poll(40, holding(world.place("b")))
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
    world.poll(30, holding(world.place("b")))
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


def test_late_ticks_whose_message_was_lost_are_asked_for(world: Recovering) -> None:
    world.poll(80)
    world.run()
    world.seal(shift(START, 1800))
    slot, ticks, marks = shift(START, 600), Ticks(TABLE), Marks(TABLE)
    marks.note_late(world.bundle.name, slot, world.now)  # a user asks for the slot again, and the message is lost
    ticks.ask_again(world.bundle, slot, [1], world.now)
    asked: list[BundleMessage] = []
    for _ in range(13):
        world.poll(5)
        world.run()
        asked += world.asked
    assert [(message.window.start, len(message.metrics)) for message in asked] == [(slot, 1)]
    world.deliver()
    world.run()
    assert world.mark.runs == ()
