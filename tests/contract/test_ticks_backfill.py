"""Backfills over ticks and rows on AWS: interrupted, repeated, collected, and seen by other processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from aws_here.collecting_here import Collecting, collecting, targets
from aws_here.stack_here import (
    NOW,
    SLOTS,
    QueuesHere,
    StackHere,
    at,
    contents,
    counts,
    messages,
    no_fault,
    span,
    stack_here,
)
from kizami.aws.blocks import Blocks
from kizami.aws.marks import Marks
from kizami.aws.plans import Plans
from kizami.aws.ticks_backend import TicksBackend
from kizami.backend.grid import CellState, cells_between
from kizami.backend.port import Backend
from kizami.backend.repair import carry_out, plan_repair
from kizami.backend.values import SlotCounts
from kizami.core.blocking import Trouble
from kizami.core.coverage import Gap, Span
from kizami.core.errors import QueueError
from kizami.core.holding import TargetState
from kizami.core.messages import BACKFILL, read_bundle, write_message
from kizami.core.sender import message_for_slot
from kizami.core.slots import Window, floor_to_minute, slots_between
from samples.installation import BRIEF, CALLS, GAUGE, START, TARGETS, USAGE

SPAN = {"calls": Span(at(0), at(SLOTS), 5)}
HORIZON_SECONDS = 960
COST, REQUESTS = "usage/cost", "usage/requests"
TWINS = [replace(CALLS, name=f"twin-{number}") for number in range(3)]
NAMES = ["calls", *(twin.name for twin in TWINS)]


@pytest.fixture
def stack() -> Iterator[StackHere]:
    with stack_here([*TARGETS, *TWINS]) as found:
        found.fill()
        yield found


@pytest.fixture
def rows() -> Iterator[StackHere]:
    with stack_here([CALLS], CALLS) as found:
        found.fill()
        yield found


@pytest.fixture(params=["stack", "rows"])
def either(request: pytest.FixtureRequest) -> StackHere:
    found: StackHere = request.getfixturevalue(request.param)
    return found


def gaps(backend: Backend, name: str = "calls") -> list[Gap]:
    return backend.missing({name: SPAN["calls"]}).get(name, [])


@pytest.fixture(params=["before", "after"])
def crash(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A call of AWS fails once, before or after it is carried out, and is not repeated."""
    monkeypatch.setattr("kizami.aws.client.json_client.PAUSES_SECONDS", ())
    return str(request.param)


class TestBackfill:
    def test_slots_are_asked_for_and_pending(self, either: StackHere) -> None:
        backend = either.backend()
        assert backend.backfill(messages(200, 201)) == 2
        assert counts(backend, 198, 203) == SlotCounts(2, 2, 0)
        assert gaps(backend)[1] == Gap(at(202), at(210), 8)
        (target,) = backend.targets(["calls"])
        cells = cells_between(target, at(199), at(203), backend.slot_details("calls", at(199), at(203)), NOW)
        states = [CellState.STORED, CellState.PENDING, CellState.PENDING, CellState.MISSING]
        assert [cell.state for cell in cells] == states

    def test_a_message_is_about_all_members_of_a_bundle_and_up_to_a_minute(self, stack: StackHere) -> None:
        wanted = [message for each in (CALLS, *TWINS) for message in messages(*range(200, 230), target=each)]
        # `calls` has the slots from 210 on.
        assert stack.backend().backfill(wanted) == 10 + 3 * 30
        twins, sent = {*NAMES} - {"calls"}, stack.sent()
        assert contents(sent) == [
            *((200, 204, {*NAMES}), (204, 210, {*NAMES})),
            *((210, 216, twins), (216, 228, twins), (228, 230, twins)),
        ]
        assert {(each.bundle, each.lane) for each in sent} == {(stack.bundle_of("calls").name, BACKFILL)}

    def test_a_row_is_asked_for_by_the_message_of_the_seeds(self, rows: StackHere) -> None:
        rows.backend().backfill(messages(200, 99))
        assert sorted(rows.bodies()) == sorted(map(write_message, messages(99, 200)))

    def test_several_values_are_asked_for_together(self, stack: StackHere) -> None:
        backend = stack.backend()
        parts = USAGE.of_each_metric()
        wanted = [message for part in (*parts, USAGE) for message in messages(3, target=part)]
        assert backend.backfill(wanted) == 1
        assert [counts(backend, 3, 4, name) for name in (COST, REQUESTS)] == [SlotCounts(pending=1)] * 2
        assert [message.metrics for message in stack.sent()] == [("usage",)]

    def test_another_process_sees_it_and_asks_for_nothing_twice(self, stack: StackHere) -> None:
        assert stack.backend().backfill(messages(*range(195, 215))) == 10
        other = stack.backend()
        assert gaps(other) == [Gap(at(99), at(100), 1)]
        assert other.backfill(messages(*range(195, 215))) == 0
        listed = [each.slot for each in other.pending() if each.metric == "calls" and each.slot < at(SLOTS)]
        assert listed == [*map(at, range(200, 210))]

    def test_what_is_not_answered_is_missing_again_and_may_be_asked_for(self, stack: StackHere) -> None:
        stack.backend().backfill(messages(200, 201))
        stack.wait(HORIZON_SECONDS)
        backend = stack.backend()
        assert counts(backend, 200, 202) == SlotCounts()
        assert backend.backfill(messages(200, 201)) == 2

    def test_it_can_be_interrupted_at_any_call_and_repeated(self, stack: StackHere, crash: str) -> None:
        stack.interrupt(crash, lambda: stack.backend().backfill(messages(99, *range(200, 210))))
        assert gaps(stack.backend()) == []
        assert counts(stack.backend(), 0, SLOTS) == SlotCounts(229, 11, 0)

    def test_what_was_noted_but_not_sent_is_missing_after_a_while(self, stack: StackHere) -> None:
        backend = stack.backend()
        stack.aws.fault = {"SendMessageBatch": "before"}.get
        with pytest.raises(QueueError):
            backend.backfill(messages(200))
        stack.aws.fault = no_fault
        assert counts(stack.backend(), 200, 201) == SlotCounts(pending=1)
        stack.wait(HORIZON_SECONDS)
        assert stack.backend().backfill(messages(200)) == 1
        assert len(stack.sent()) == 1

    def test_millions_are_asked_for_in_parts(self, stack: StackHere, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.aws.backfill.MOST_HELD", 4)
        taken: list[int] = []

        def slots() -> Iterator[int]:
            for number in range(200, 210):
                taken.append(len(stack.bodies()))
                yield number

        wanted = (message for number in slots() for message in messages(number))
        assert stack.backend().backfill(wanted) == 10
        assert taken[4] > 0  # the first part was sent before the next one was asked for
        assert [sum(1 for _ in read_bundle(body).slots) for body in stack.bodies()] == [1] * 3

    def test_what_cannot_be_asked_for_is_passed_over(self, stack: StackHere) -> None:
        stack.move_to(START + timedelta(days=4))
        backend = stack.backend()
        unknown = replace(CALLS, name="nobody")
        assert backend.backfill(messages(3, target=GAUGE)) == 0  # backfill = false
        assert backend.backfill(messages(3, target=BRIEF)) == 0  # kept for two days
        assert backend.backfill(messages(3, target=unknown)) == 0
        stack.reconfigure(replace(CALLS, interval_seconds=1), *TARGETS[1:])
        stack.wait(120)
        finer = replace(CALLS, interval_seconds=1)
        moved = stack.backend([finer])
        assert moved.backfill(messages(1001, target=finer)) == 0  # between two slots of the time
        assert moved.backfill(messages(1000, target=finer)) == 1
        assert stack.sent()[-1].window == Window(at(200), at(201))
        assert stack.backend().backfill([]) == 0

    def test_slots_before_the_first_plan_are_asked_for_in_its_bundle(self, stack: StackHere) -> None:
        backend = stack.backend()
        assert backend.backfill(messages(-3, -2)) == 2
        backend.expect_from("calls", at(-3))
        assert counts(stack.backend(), -3, 0) == SlotCounts(0, 2, 0)
        (message,) = stack.sent()
        assert message.bundle == stack.bundle_of("calls").name
        assert Marks("Metrics").all().of(message.bundle).late_days

    def test_a_day_is_noted_before_a_tick_of_it_is_begun_again(self, either: StackHere) -> None:
        either.move_to(START + timedelta(days=3))
        either.seal()
        either.sent()
        either.wait(3600)
        either.backend().backfill(messages(200))
        name = "rows.calls" if either.is_original else either.bundle_of("calls").name
        assert Marks("Metrics").all().of(name).late_days[START.date()] == either.now()

    def test_a_held_target_is_probed_at_once(self, stack: StackHere) -> None:
        stack.backend()
        later = at(10_000_000)
        held = Trouble(at(0), "status 401", NOW, 2, 5, later)
        for name in ("usage", "orders"):
            Blocks("Metrics").save(name, TargetState(held, kept_from=at(0), kept_in="x"))
        backend = stack.backend()
        assert backend.troubles()[COST].next_probe == later
        backend.backfill(messages(3, target=USAGE.of_each_metric()[0]))
        assert backend.troubles()[COST].next_probe == stack.now()
        assert backend.troubles()["orders"].next_probe == later

    def test_on_a_queue_that_live_messages_share_old_slots_come_one_by_one(self, either: StackHere) -> None:
        either.share_queues()
        backend = either.backend()
        backend.backfill([*messages(99), *(each for number in range(200, 210, 2) for each in messages(number))])
        queued = either.aws.queues["live"]
        assert [message.delay for message in queued] == [0, 0, 0, 0, 1, 1]
        # What is pending says how far it is: on the queue there are others.
        with backend.worker(["calls"]) as worker:
            worker.check()
            assert worker.left(SPAN) == 6
            assert worker.left(span(0, 90)) == worker.left(span(0, 90)) == 1
            assert worker.left(span(0, 90)) == 0

    def test_a_queue_of_its_own_says_how_many_messages_wait(self, either: StackHere) -> None:
        backend = either.backend()
        backend.backfill(messages(99, 200))
        assert backend.queue_depth(NOW).waiting == 2
        with backend.worker(["calls"]) as worker:
            assert worker.left(SPAN) == 2
            either.sent()
            assert [worker.left(SPAN) for _ in range(3)] == [1, 1, 0]

    def test_a_repair_from_the_page_asks_for_the_missing_and_redrives_the_dead(self, stack: StackHere) -> None:
        stack.give_up(200, 201)
        backend = stack.backend()
        (target,) = backend.targets(["calls"])
        repair = plan_repair(backend, target, Window(at(198), at(204)), None, stack.now())
        assert carry_out(backend, repair) == (2, 2)
        assert counts(stack.backend(), 198, 204) == SlotCounts(2, 4, 0)


def test_what_is_asked_for_is_collected_and_what_died_is_redriven(tmp_path: Path) -> None:
    with collecting(targets("a", "b"), tmp_path) as world:
        Plans("Metrics").claim(world.plan, floor_to_minute(world.now()))
        known = [world.settings.targets.target(name) for name in world.names]
        bounds = world.slot(-600), world.slot(-588)  # what an API says of them tells nothing of today
        spans = dict.fromkeys(world.names, Span(*bounds, 5))
        wanted = [message_for_slot(slot, target) for target in known for slot in slots_between(*bounds, 5)]
        backend = TicksBackend(QueuesHere(), known, world)
        world.api.ways["b"] = 404
        assert backend.backfill(wanted) == 24
        assert set(backend.slot_counts(spans).values()) == {SlotCounts(pending=12)}
        work_off(world)
        assert backend.slot_counts(spans) == {"a": SlotCounts(12), "b": SlotCounts(dead=12)}
        letters = TicksBackend(QueuesHere(), known, world).dead_letters()
        assert {(each.metric, each.backfill, each.died_at is None) for each in letters} == {("b", True, False)}
        assert all("404" in each.reason for each in letters)
        world.api.ways["b"] = 200
        assert backend.redrive(letters) == 12
        work_off(world)
        assert set(TicksBackend(QueuesHere(), known, world).slot_counts(spans).values()) == {SlotCounts(12)}
        # A slot is asked for once.
        given = [len(answers) for answers in world.api.given.values()]
        assert given == [1] * 24


def work_off(world: Collecting) -> None:
    """Carry out what is on the backfill queue until it is empty."""
    while sent := world.sent("backfill"):
        for message, delay in sent:
            world.advance(delay)
            assert world.collect(message)
