"""The views of slots on AWS against a plain model, after any history and while hours are sealed in between."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kizami.aws.client.json_client import Fields
from kizami.backend.slots import (
    AnswersSlots,
    Buckets,
    Each,
    Edges,
    Newest,
    Records,
    Runs,
    SlotBucket,
    SlotRun,
    State,
)
from kizami.core.answers.answer import Answer, parse_values
from kizami.core.answers.numbers import Number, to_number, to_total
from kizami.core.epoch import from_seconds
from kizami.core.slots import floor_to_slot, shift, slots_between
from kizami.core.targets.target import Target
from samples.aws_installation import AwsInstallation, aws_installation
from samples.installation import START

HOUR = timedelta(hours=1)
LAST = START + 3 * HOUR  # of the slots that something becomes of
END = START + 60 * HOUR
HORIZON = timedelta(seconds=960)

CALLS = Target(name="calls", interval_seconds=15, lag_seconds=15)
PAIR = Target(
    name="pair",
    interval_seconds=15,
    lag_seconds=15,
    answer=Answer(decimals=2, minimum=-(10**12), values=parse_values({"a": "/a", "b": "/b"})),
)
SLOW = Target(name="slow", interval_seconds=60, lag_seconds=60)
SECOND_PLAN = (
    replace(CALLS, interval_seconds=20, lag_seconds=40),
    PAIR,
    SLOW,
    Target(name="new", interval_seconds=15, lag_seconds=15),
)


@dataclass
class Model:
    """What was done to each slot of each target, in plain dictionaries."""

    targets: dict[str, Target]
    stored: dict[str, dict[datetime, tuple[int, ...]]] = field(default_factory=dict)
    dead: set[tuple[str, datetime]] = field(default_factory=set)
    asked: dict[tuple[str, datetime], datetime] = field(default_factory=dict)
    changed: datetime | None = None  # the minute from which the second plan is polled

    def owner(self, name: str, slot: datetime) -> Target | None:
        """The target as it is polled for a slot: the first plan that could send it live has it."""
        first = {target.name: target for target in (CALLS, PAIR, SLOW)}.get(name)
        second = {target.name: target for target in SECOND_PLAN}.get(name)
        if self.changed is None:
            return first
        is_first = first is not None and shift(slot, first.lag_seconds) < self.changed
        return first if is_first else second

    def state(self, name: str, slot: datetime, now: datetime) -> State:
        """The state of a slot, also of one that no target has."""
        target = self.owner(name, slot)
        if target is None or floor_to_slot(slot, target.interval_seconds) != slot:
            return State.MISSING
        if slot in self.stored.get(name, {}):
            return State.STORED
        if (name, slot) in self.dead:
            return State.DEAD
        due = shift(slot, target.lag_seconds)
        asked = [at for each in self.beside(name, slot) if (at := self.asked.get((each, slot))) is not None]
        is_asked = (name, slot) in self.asked and now < max(asked) + HORIZON
        is_first = target in (CALLS, PAIR, SLOW) and (self.changed is None or due < self.changed)
        is_live = due >= (START if is_first or self.changed is None else self.changed)
        return State.PENDING if is_asked or (is_live and due <= now < due + HORIZON) else State.MISSING

    def beside(self, name: str, slot: datetime) -> Iterator[str]:
        """The targets of the same tick: when it was last asked for is noted once."""
        mine = self.owner(name, slot)
        for target in (CALLS, PAIR, SLOW, *SECOND_PLAN):
            other = self.owner(target.name, slot)
            if (
                mine
                and other
                and (mine.interval_seconds, mine.lag_seconds) == (other.interval_seconds, other.lag_seconds)
            ):
                yield target.name

    def slots(self, name: str, start: datetime, end: datetime) -> list[datetime]:
        """All slots of [start, end), each on the interval that its owner has."""
        found = []
        for interval in (15, 20, 60):
            for slot in slots_between(start, end, interval):
                target = self.owner(name, slot)
                if target is not None and target.interval_seconds == interval:
                    found.append(slot)
        return sorted(found)


@dataclass
class World:
    """An installation, its model, and the metrics that are asked about."""

    installation: AwsInstallation
    model: Model = field(default_factory=lambda: Model({each.name: each for each in (CALLS, PAIR, SLOW)}))

    def number(self, metric: str, slot: datetime) -> tuple[int, int]:
        """The units of a stored slot, and the decimals of its target."""
        name, _, value = metric.partition("/")
        units = self.model.stored[name][slot]
        return units[" ab".index(value) - 1 if value else 0], 2 if value else 0

    def metrics(self) -> dict[str, str]:
        """The metrics, each with its target."""
        found = {"calls": "calls", "pair/a": "pair", "pair/b": "pair", "slow": "slow"}
        return found | ({"new": "new"} if self.model.changed else {})

    # Operations

    def store(self, name: str, first: int, count: int, stride: int, factor: int, is_backfill: bool) -> None:
        """Store some slots; one that is stored keeps its value."""
        for slot in self.due_slots(name, first, count, stride):
            known = self.model.stored.setdefault(name, {})
            units = tuple(factor * (slot.minute + 7 * each + slot.second) - each * 10**9 for each in range(2))
            units = units if name == "pair" else (abs(units[0]),)
            numbers = [to_number(each, 2 if name == "pair" else 0) for each in units]
            self.installation.store(name, slot, *numbers, backfill=is_backfill, attempts=1 + is_backfill)
            known.setdefault(slot, units)

    def due_slots(self, name: str, first: int, count: int, stride: int) -> list[datetime]:
        now = self.installation.now()
        known = ((slot, self.model.owner(name, slot)) for slot in self.model.slots(name, START - HOUR, LAST))
        due = [slot for slot, owner in known if owner and shift(slot, owner.lag_seconds) <= now]
        return due[first % max(len(due), 1) :: stride][:count]

    def kill(self, name: str, first: int, count: int) -> None:
        for slot in self.due_slots(name, first, count, 1):
            if slot not in self.model.stored.get(name, {}):
                self.installation.kill(name, slot)
                self.model.dead.add((name, slot))

    def ask(self, name: str, first: int, count: int) -> None:
        slots = [s for s in self.due_slots(name, first, count, 1) if s not in self.model.stored.get(name, {})]
        self.installation.ask(name, slots)
        for slot in slots:
            self.model.dead.discard((name, slot))
            self.model.asked[name, slot] = self.installation.now()

    def revive(self, name: str, first: int, count: int) -> None:
        """Ask for slots that were given up before they were sealed."""
        self.kill(name, first, count)
        self.seal(26)
        self.ask(name, first, count)

    def wait(self, minutes: int) -> None:
        self.installation.move_to(min(shift(self.installation.now(), 60 * minutes), END))

    def seal(self, hours: int) -> None:
        """Let hours pass, in which everything is sealed that was over before."""
        self.wait(60 * hours)
        self.installation.seal()

    def deploy(self) -> None:
        if self.model.changed is None:
            self.installation.reconfigure(*SECOND_PLAN)
            self.model.changed = shift(floor_to_slot(self.installation.now(), 60), 60)
            self.wait(2)


OPERATIONS = st.one_of(
    st.tuples(
        st.just("store"),
        st.sampled_from(["calls", "calls", "pair", "slow", "new"]),
        st.integers(0, 900),
        st.integers(1, 400),
        st.sampled_from([1, 1, 2, 7]),
        st.integers(-(10**9), 10**9),
        st.booleans(),
    ),
    st.tuples(
        st.sampled_from(["kill", "ask", "revive"]),
        st.sampled_from(["calls", "pair"]),
        st.integers(0, 900),
        st.integers(1, 9),
    ),
    st.tuples(st.just("wait"), st.integers(1, 90)),
    st.tuples(st.just("seal"), st.sampled_from([0, 3, 4, 26])),
    st.tuples(st.just("deploy")),
)
HISTORIES = st.lists(OPERATIONS, min_size=1, max_size=9)
EDGES = st.lists(
    st.one_of(
        st.integers(-7200, 14_400).map(lambda second: START + timedelta(seconds=second)),
        st.integers(-2, 5).map(lambda hour: START + hour * HOUR),
    ),
    min_size=2,
    max_size=6,
).map(sorted)


def run(world: World, history: Sequence[tuple[Any, ...]]) -> None:
    """Carry a history out; what is about a target that is not polled yet is left out."""
    world.wait(90)
    for name, *arguments in history:
        if not arguments or arguments[0] not in ("new",) or world.model.changed:
            getattr(world, name)(*arguments)


def run_and_fill(world: World, history: Sequence[tuple[Any, ...]], hours: int) -> None:
    """Carry a history out and store more; then hours go by, after which there is something to seal."""
    run(world, history)
    world.store("calls", 300, 900, 1, 3, False)
    world.store("pair", 200, 700, 2, 5, False)
    world.wait(60 * hours)


@contextmanager
def world() -> Iterator[World]:
    with aws_installation([CALLS, PAIR, SLOW]) as installation:
        yield World(installation)


# The answers of the model


def bucket(world: World, metric: str, name: str, start: datetime, end: datetime) -> SlotBucket:
    now = world.installation.now()
    slots = world.model.slots(name, start, end)
    states = [world.model.state(name, slot, now) for slot in slots]
    values = [
        world.number(metric, slot) for slot, state in zip(slots, states, strict=True) if state is State.STORED
    ]
    counts = len(values), states.count(State.PENDING), states.count(State.DEAD)
    if not values:
        return SlotBucket(start, *counts)
    units, decimals = [each for each, _ in values], values[0][1]
    figures = to_number(min(units), decimals), to_number(max(units), decimals), to_total(sum(units), decimals)
    return SlotBucket(start, *counts, *figures)


def runs(world: World, name: str, edges: Edges) -> list[SlotRun]:
    present = SECOND_PLAN if world.model.changed else (CALLS, PAIR, SLOW)
    interval = next(target.interval_seconds for target in present if target.name == name)
    now, step = world.installation.now(), timedelta(seconds=interval)
    slots = [(world.model.state(name, slot, now), slot) for slot in slots_between(edges[0], edges[-1], interval)]
    found = []
    for (state, _), group in groupby(slots, lambda each: (each[0], bisect_right(edges, each[1]))):
        several = [slot for _, slot in group]
        found.append(SlotRun(several[0], several[-1] + step, len(several), state))
    return found


def each_slot(world: World, metric: str, name: str, edges: Edges) -> list[tuple[datetime, State, Number | None]]:
    found: list[tuple[datetime, State, Number | None]] = []
    for slot in world.model.slots(name, edges[0], edges[-1]):
        state = world.model.state(name, slot, world.installation.now())
        if state is not State.MISSING:
            value = to_number(*world.number(metric, slot)) if state is State.STORED else None
            found.append((slot, state, value))
    return found


def check(world: World, asked: Mapping[str, Edges], ask: Callable[[Any, Any], Any]) -> None:
    """Compare every view with the model."""
    metrics = world.metrics()
    counted = ask(asked, Buckets(states=True, values=True))
    expected = {
        metric: [bucket(world, metric, metrics[metric], *stretch) for stretch in pairwise(edges)]
        for metric, edges in asked.items()
    }
    assert counted == expected
    assert {metric: [each.stored for each in found] for metric, found in ask(asked, Buckets()).items()} == {
        metric: [each.stored for each in found] for metric, found in expected.items()
    }
    found = ask(asked, Runs(frozenset(State)))
    assert found == {
        metric: each for metric, edges in asked.items() if (each := runs(world, metrics[metric], edges))
    }
    slots = {metric: each_slot(world, metric, metrics[metric], edges) for metric, edges in asked.items()}
    listed = ask(asked, Each())
    assert {
        metric: [(each.slot, each.state, each.value) for each in several] for metric, several in listed.items()
    } == {metric: several for metric, several in slots.items() if several}
    stored = {
        metric: [(slot, value) for slot, state, value in several if state is State.STORED]
        for metric, several in slots.items()
    }
    records: dict[str, list[tuple[datetime, Number]]] = {}
    for piece in ask(asked, Records()):
        rows = zip(piece.slots, piece.units, strict=True)
        records.setdefault(piece.metric, []).extend(
            (from_seconds(slot), to_number(units, piece.decimals)) for slot, units in rows
        )
    assert records == {metric: rows for metric, rows in stored.items() if rows}
    newest = ask(asked, Newest())
    assert {metric: (each.slot, each.value) for metric, each in newest.items()} == {
        metric: rows[-1] for metric, rows in stored.items() if rows
    }


# **Feature: data-collection-scheduler, Property 80: After any history every view on AWS equals a plain model**
@given(history=HISTORIES, edges=st.lists(EDGES, min_size=2, max_size=2))
@settings(max_examples=100, deadline=None)
def test_views_equal_a_plain_model(history: Sequence[tuple[Any, ...]], edges: Sequence[Edges]) -> None:
    with world() as there:
        run(there, history)
        asked = {metric: edges[number % 2] for number, metric in enumerate(there.metrics())}
        check(there, asked, there.installation.slots)


class SealingInBetween:
    """Asks questions, and has everything sealed before a request of one of them; a page has some items only."""

    def __init__(
        self, world: World, question: int, before: int, page_items: int, answers: AnswersSlots | None = None
    ) -> None:
        self._installation = world.installation
        self._answers = answers or world.installation
        self._question = question
        self._before = before
        self._left: int | None = None
        aws = world.installation.aws
        aws.dynamodb._page_items = page_items
        answer = aws.answer

        def answering(operation: str, request: Fields) -> Fields:
            if self._left is not None:
                self._left -= 1
                if self._left < 0:
                    self._left = None
                    self._installation.seal()
            return answer(operation, request)

        aws.answer = answering  # type: ignore[method-assign]

    def ask(self, asked: Any, view: Any) -> Any:
        self._question -= 1
        self._left = self._before if self._question < 0 else None
        found = self._answers.slots(asked, view)
        return list(found) if isinstance(view, Records) else found


# **Feature: data-collection-scheduler, Property 81: Sealing in the middle of a question changes no answer**
@given(
    history=HISTORIES,
    edges=EDGES,
    question=st.integers(0, 5),
    before=st.sampled_from([1, 1, 2, 2, 3, 5, 9]),
    hours=st.sampled_from([3, 4, 26]),
    page_items=st.sampled_from([60, 1000]),
)
@settings(max_examples=200, deadline=None)
def test_sealing_in_between_changes_no_answer(
    history: Sequence[tuple[Any, ...]], edges: Edges, question: int, before: int, hours: int, page_items: int
) -> None:
    with world() as there:
        run_and_fill(there, history, hours)
        check(
            there, dict.fromkeys(there.metrics(), edges), SealingInBetween(there, question, before, page_items).ask
        )


# **Feature: data-collection-scheduler, Property 83: Sealing in the middle of a look changes no answer**
@given(
    history=HISTORIES,
    less=EDGES,
    edges=EDGES,
    question=st.integers(0, 6),
    before=st.sampled_from([0, 1, 1, 2, 2, 3, 5]),
    hours=st.sampled_from([3, 4, 26]),
)
@settings(max_examples=100, deadline=None)
def test_sealing_in_the_middle_of_a_look_changes_no_answer(
    history: Sequence[tuple[Any, ...]], less: Edges, edges: Edges, question: int, before: int, hours: int
) -> None:
    with world() as there:
        run_and_fill(there, history, hours)
        look = SealingInBetween(there, question, before, 1000, there.installation.look())
        look.ask({"calls": less}, Buckets(states=True))
        check(there, dict.fromkeys(there.metrics(), edges), look.ask)
