"""Faults of AWS before and after each call of a run, and crashes there: the next runs make up for them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from aws_here.collecting_here import Crash, targets
from aws_here.recovering_here import START, TABLE, Recovering, all_answer, holding, recovering, without
from kizami.aws.blocks import Blocks
from kizami.aws.client.json_client import AwsError, Fields
from kizami.aws.marks import Marks
from kizami.aws.ticks import TickFacts, Ticks
from kizami.core.errors import KizamiError
from kizami.core.holding import TargetState
from kizami.core.recovery import MOST_ROUNDS, TickRun, put_runs
from kizami.core.slots import floor_to_slot, shift

KINDS = ("crash before", "crash after", "fails before", "fails after")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Recovering]:
    """In one run: a hole, outstanding members, a held target that answers again, and slots to be given up."""
    with recovering(targets("a", "b", interval="60s"), tmp_path) as world:
        place, blocks = world.place("b"), Blocks(TABLE)
        world.poll(2, lambda slot, every: None)
        world.poll(30)
        world.poll(2, holding(place))
        world.run()
        lost = TickRun(shift(START, -60), START, frozenset({0, 1}), rounds=MOST_ROUNDS, asked_at=START)
        world.pass_by(60)
        assert Marks(TABLE).save(put_runs(world.mark, lost.start, lost.end, [lost]))
        world.poll(1, without(place))
        world.poll(1, lambda slot, every: None)
        world.poll(20)
        state = TargetState(kept_from=shift(START, 31 * 60), answered_at=shift(world.now, -120))
        assert blocks.save("b", state)
        world.lose()
        yield world


class Faulty:
    """AWS as it was, of which one call, by its number, ends the process or fails whenever it is repeated."""

    def __init__(self, world: Recovering, number: int, kind: str) -> None:
        self.calls: list[str] = []
        self._number, self._kind = number, kind
        self._failing: tuple[str, str] | None = None
        self._answer = world.aws.answer

    def answer(self, operation: str, request: Fields) -> Fields:
        self.calls.append(operation)
        call = operation, str(request)
        if len(self.calls) - 1 == self._number:
            self._failing = call
        is_failing = call == self._failing
        if is_failing and self._kind == "crash before":
            raise Crash
        if is_failing and self._kind == "fails before":
            raise AwsError(operation, "ThrottlingException", "")
        answer = self._answer(operation, request)
        if is_failing and self._kind == "crash after":
            raise Crash
        if is_failing and self._kind == "fails after":
            raise AwsError(operation, "InternalServerError", "", transient=True)
        return answer


def run_with(world: Recovering, faulty: Faulty) -> None:
    world.aws.answer = faulty.answer  # type: ignore[method-assign]
    try:
        world.run()
    except (KizamiError, Crash):
        pass
    finally:
        del world.aws.answer


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_goes_wrong_at_any_call_the_next_runs_make_up_for_it(world: Recovering, kind: str) -> None:
    before, now = copy.deepcopy((world.aws.dynamodb.tables, world.aws.queues)), world.now
    healthy = Faulty(world, -1, kind)
    run_with(world, healthy)
    assert {"BatchWriteItem"}.isdisjoint(healthy.calls)
    assert len(healthy.calls) >= 15
    for number in range(len(healthy.calls)):
        world.aws.dynamodb.tables, world.aws.queues = copy.deepcopy(before)
        world.now = now
        run_with(world, Faulty(world, number, kind))
        for _ in range(8):
            world.run()
            world.deliver()
            world.pass_by(5)
        require_healed(world, now)


def require_healed(world: Recovering, now: datetime) -> None:
    """All that was due then is stored, but for the slot that was given up, which has its dead letter."""
    given_up = shift(START, -60)
    settled = floor_to_slot(shift(now, -1080), 60)
    old = {slot: lacking for slot, lacking in world.lacking().items() if slot < settled}
    assert old == {given_up: frozenset({0, 1})}
    (tick,) = Ticks(TABLE).read(world.bundle, given_up, START)
    assert tick.dead == {0, 1}
    letters = world.queue("dead")
    assert letters
    assert {letter.window.start for letter in letters} == {given_up}
    assert Blocks(TABLE).all() == {}
    assert list(world.mark.late_days) == [given_up.date()]


def test_letters_that_cannot_be_sent_keep_slots_from_being_given_up(world: Recovering) -> None:
    urls = replace(world.settings.urls, dead_letters="https://sqs.test/1/dead")
    world.settings = replace(world.settings, urls=urls)
    world.aws.fault = lambda operation: "before" if operation == "SendMessageBatch" else None
    world.run()
    assert list(Ticks(TABLE).read(world.bundle, shift(START, -60), START)) == []
    assert any(run.rounds == MOST_ROUNDS for run in world.mark.open_runs)
    world.aws.fault = lambda operation: None
    world.run()
    assert len(world.queue("dead")) == 1


def test_without_a_queue_for_dead_letters_slots_are_just_given_up(world: Recovering) -> None:
    world.settings = replace(world.settings, urls=replace(world.settings.urls, dead_letters=None))
    world.run()
    assert world.queue("dead") == []
    (tick,) = Ticks(TABLE).read(world.bundle, shift(START, -60), START)
    assert tick.dead == {0, 1}


def test_a_member_that_has_answered_meanwhile_is_not_given_up(world: Recovering) -> None:
    slot = shift(START, -60)
    Ticks(TABLE).record(world.bundle, slot, TickFacts({0: all_answer(slot, frozenset({0})).answers[0]}))  # type: ignore[union-attr]
    world.run()
    (letter,) = world.queue("dead")
    assert letter.metrics == (world.bundle.members[1].name,)
