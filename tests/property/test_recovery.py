"""Recovery: any history of ticks, any crash, any faults of AWS."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from aws_here.collecting_here import Crash, targets
from aws_here.memory_aws import led_to, memory_aws
from aws_here.recovering_here import START, TABLE, Recovering, recovering
from kizami.aws.client.json_client import AwsError, Fields
from kizami.aws.marks import Marks
from kizami.aws.ticks import TickFacts, Ticks
from kizami.core.bundles import Bundle, BundleMember
from kizami.core.coverage import Span
from kizami.core.errors import KizamiError
from kizami.core.recovery import (
    MOST_ROUNDS,
    MOST_RUNS,
    Mark,
    TickRun,
    find_runs,
    fit_runs,
    read_again,
)
from kizami.core.slots import shift, slots_between
from kizami.core.ticks import Answered, Tick

T0 = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
ANSWER = Answered((7,), 0, 9)
MEMBERS = 4
BUNDLE = Bundle("0a1b2c3d.0", 5, 5, True, 0, tuple(BundleMember(name, 0, (name,)) for name in "abcd"))
EVERY = frozenset(range(MEMBERS))

places = st.frozensets(st.integers(0, MEMBERS - 1))
few_sets = st.sampled_from([EVERY, EVERY, frozenset({0, 1, 2}), frozenset({3}), frozenset()])


def at(slot: int) -> datetime:
    return shift(T0, 5 * slot)


@st.composite
def histories(draw: st.DrawFn) -> list[Tick | None]:
    """Slot by slot, what is kept: nothing, or a tick."""
    ticks = st.builds(
        lambda answers, dead, held, outstanding: (answers, dead, held, outstanding),
        few_sets,
        places,
        places,
        places,
    )
    found = draw(st.lists(st.none() | ticks, min_size=1, max_size=40))
    return [
        None if each is None else Tick(at(slot), dict.fromkeys(each[0], ANSWER), 0, each[3], each[1], each[2])
        for slot, each in enumerate(found)
    ]


def lacks(tick: Tick | None, slot: datetime, held_from: dict[int, datetime]) -> tuple[frozenset[int], ...]:
    """What a slot lacks, by the definition: missing, dead, held."""
    if tick is None:
        return EVERY, frozenset(), frozenset()
    left = EVERY - tick.answers.keys()
    dead = left & tick.dead
    held = frozenset(
        place for place in left - dead if place in tick.held and held_from.get(place, at(999)) <= slot
    )
    return left - dead - held, dead, held


# **Feature: data-collection-scheduler, Property 69: Runs found in ticks are those of a slot-by-slot search**
@given(
    history=histories(),
    held=st.dictionaries(st.integers(0, MEMBERS - 1), st.integers(0, 40)),
    later=st.lists(places, min_size=40, max_size=40),
)
@settings(max_examples=300)
def test_runs_are_those_of_a_slot_by_slot_search(
    history: list[Tick | None], held: dict[int, int], later: list[frozenset[int]]
) -> None:
    held_from = {place: at(slot) for place, slot in held.items()}
    span = Span(T0, at(len(history)), 5)
    runs = find_runs(span, BUNDLE, filter(None, history), held_from)
    wanted = [lacks(tick, at(slot), held_from) for slot, tick in enumerate(history)]
    assert found_by_slot(runs, len(history)) == wanted
    for run, after in pairwise(runs):
        assert run.end <= after.start
        assert run.end < after.start or sets_of(run) != sets_of(after), "runs are as long as they can be"

    for slot, answered in enumerate(later[: len(history)]):
        tick = history[slot] or (Tick(at(slot), is_partial=True) if answered else None)
        history[slot] = tick and Tick(
            tick.slot,
            {**tick.answers, **dict.fromkeys(answered, ANSWER)},
            0,
            tick.outstanding,
            tick.dead,
            tick.held,
        )
    again: list[TickRun] = []
    for run in runs:
        inside = [tick for tick in history if tick is not None and run.start <= tick.slot < run.end]
        again += read_again(run, BUNDLE, inside, held_from)
    wanted = [lacks(tick, at(slot), held_from) for slot, tick in enumerate(history)]
    assert found_by_slot(again, len(history)) == wanted


def sets_of(run: TickRun) -> tuple[frozenset[int], ...]:
    return run.missing, run.dead, run.held


def found_by_slot(runs: Any, slots: int) -> list[tuple[frozenset[int], ...]]:
    nothing: tuple[frozenset[int], ...] = (frozenset(),) * 3
    return [
        next((sets_of(run) for run in runs if run.start <= at(slot) < run.end), nothing) for slot in range(slots)
    ]


Fate = Callable[[int, str], str | None]  # of a call, by its number and operation


def going_wrong(kind: str, number: int, operation: str) -> Fate:
    """One call that ends the process, or all calls of an operation that fail."""
    if kind.startswith("crash"):
        return lambda count, called: kind if count == number else None
    return lambda count, called: kind if called == operation else None


OPERATIONS = ("Query", "UpdateItem", "PutItem", "SendMessageBatch", "GetQueueAttributes", "BatchGetItem")
fates = st.none() | st.builds(
    going_wrong,
    st.sampled_from(["crash before", "crash after", "fails before", "fails after"]),
    st.integers(0, 25),
    st.sampled_from(OPERATIONS),
)


def outcome(kind: str, some: frozenset[int]) -> Callable[[datetime, frozenset[int]], TickFacts | None]:
    """What deliveries find out."""

    def facts(slot: datetime, every: frozenset[int]) -> TickFacts | None:
        answers = dict.fromkeys(every - some, ANSWER)
        found = {
            "answer": TickFacts(dict.fromkeys(every, ANSWER)),
            "outstanding": TickFacts(answers, outstanding=every & some),
            "dead": TickFacts(answers, dead=every & some),
        }
        return found.get(kind)

    return facts


outcomes = st.builds(outcome, st.sampled_from(["answer", "answer", "nothing", "outstanding", "dead"]), places)


# **Feature: data-collection-scheduler, Property 70: No mark passes a slot that lacks members, whatever crashes**
@given(
    steps=st.lists(st.tuples(st.lists(outcomes, min_size=1, max_size=5), fates, outcomes), min_size=3, max_size=12)
)
@settings(max_examples=100, deadline=None)
def test_no_mark_passes_a_slot_that_lacks_members(steps: list[tuple[list[Any], Fate | None, Any]]) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        recovering(targets(*"abcd", interval="60s"), Path(folder)) as world,
    ):
        world.poll(16)
        for live, fate, late in steps:
            for facts in live:
                world.poll(1, facts)
            run_into(world, fate)
            require_true_mark(world)
            world.deliver(late)
            require_true_mark(world)
        world.poll(16)
        for _ in range(4 * MOST_ROUNDS):
            world.run()
            world.deliver()
            if not world.mark.open_runs:
                break
            world.poll(61)
        dead = {tick.slot: tick.dead for tick in Ticks(TABLE).read(world.bundle, shift(START, -3600), world.now)}
        for slot, lacking in world.lacking().items():
            assert slot >= world.mark.seen_until or lacking <= dead.get(slot, frozenset())


def run_into(world: Recovering, fate: Fate | None) -> None:
    """A run in which calls fare as the fate says."""
    count, answer = 0, world.aws.answer

    def fare(operation: str, request: Fields) -> Fields:
        nonlocal count
        kind = fate(count, operation) if fate else None
        count += 1
        if kind == "crash before":
            raise Crash
        if kind == "fails before":
            raise AwsError(operation, "ThrottlingException", "")
        answered = answer(operation, request)
        if kind == "crash after":
            raise Crash
        if kind == "fails after":
            raise AwsError(operation, "InternalServerError", "", transient=True)
        return answered

    world.aws.answer = fare  # type: ignore[method-assign]
    try:
        world.run()
    except (KizamiError, Crash):
        pass  # the next run makes up for it
    finally:
        world.aws.answer = answer  # type: ignore[method-assign]


def require_true_mark(world: Recovering) -> None:
    """Whatever a slot before the mark lacks, the mark says so; only what is given up counts as complete."""
    mark, every = world.mark, frozenset(range(len(world.bundle.members)))
    assert len(mark.runs) <= MOST_RUNS
    if not mark.version:
        return
    start = shift(START, -60)
    ticks = {tick.slot: tick for tick in Ticks(TABLE).read(world.bundle, start, mark.seen_until)}
    for slot in slots_between(start, mark.seen_until, 60):
        tick = ticks.get(slot, Tick(slot))
        missing = every - tick.answers.keys() - tick.dead
        run = next((run for run in mark.runs if run.start <= slot < run.end), None)
        if missing:
            assert run is not None
            assert missing <= run.missing
            assert slot >= mark.complete_until
            assert not mark.may_delete(slot)
        elif every - tick.answers.keys():
            assert run is not None


@st.composite
def marks(draw: st.DrawFn) -> Mark:
    """Any runs, in any number."""
    steps = draw(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9), few_sets, places, places), max_size=90))
    runs, end = [], 0
    for number, (gap, length, missing, dead, held) in enumerate(steps):
        start, end = end + gap, end + gap + length
        rounds = draw(st.integers(0, MOST_ROUNDS + 1)) if missing and number % 4 == 0 else 0
        asked_at = at(1000 + 12 * rounds) if rounds else None
        run = TickRun(at(start), at(end), missing, dead - missing, held - missing - dead, rounds, asked_at)
        if run.missing | run.dead | run.held:
            runs.append(run)
    return Mark("0a1b2c3d.0", at(end), at(draw(st.integers(0, end))), tuple(runs))


# **Feature: data-collection-scheduler, Property 71: A mark that is kept says no less than it did**
@given(mark=marks())
@settings(max_examples=200, deadline=None)
def test_a_mark_that_is_kept_says_no_less(mark: Mark) -> None:
    fitted = fit_runs(mark)
    assert len(fitted.runs) <= MOST_RUNS
    for run in mark.runs:
        for slot in slots_between(run.start, run.end, 5):
            if slot < mark.sealed_until and not run.is_open:
                continue
            (kept,) = [each for each in fitted.runs if each.start <= slot < each.end]
            assert all(mine <= whole for mine, whole in zip(sets_of(run), sets_of(kept), strict=True))
            assert kept.is_mixed or sets_of(kept) == sets_of(run)
            if run.is_open:
                assert kept.is_open
                assert kept.rounds <= run.rounds, "nothing is given up early"
    with led_to(memory_aws()):
        kept_mark = Marks(TABLE).begin(fitted)
        assert kept_mark is not None
        assert Marks(TABLE).all().of(mark.bundle) == kept_mark
