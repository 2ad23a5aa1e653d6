"""The views of the question about slots against a plain search of what was stored, asked for and given up."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from kizami.backend.slots import Buckets, Each, Edges, Newest, Records, Runs, SlotBucket, SlotRun, State
from kizami.core.answers.numbers import Number, to_number, to_total
from kizami.core.epoch import from_seconds
from kizami.core.slots import slots_between
from kizami.core.targets.target import Target
from samples.installation import CALLS, ORDERS, PRICE, START, Ability, Installation, Kind
from samples.installations import KINDS, Layout, layouts_of, on_kinds, opened
from samples.old_answers import OverSlots, old_answers
from samples.one_machine import OneMachine

TIME = timedelta(hours=2)
SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class Contents:
    """What is known of a target's slots, in units of its decimals, and what else became of them."""

    target: Target
    stored: Mapping[datetime, int]
    dead: frozenset[datetime] = frozenset()
    pending: frozenset[datetime] = frozenset()
    layout: Layout = field(default=Layout.OPEN)

    @property
    def name(self) -> str:
        return self.target.name

    def state(self, slot: datetime) -> State:
        if slot in self.stored:
            return State.STORED
        if slot in self.dead:
            return State.DEAD
        return State.PENDING if slot in self.pending else State.MISSING

    def value(self, slot: datetime) -> Number:
        return to_number(self.stored[slot], self.target.answer.decimals)

    def within(self, state: State, start: datetime, end: datetime) -> list[datetime]:
        return [slot for slot in self.slots(start, end) if self.state(slot) is state]

    def slots(self, start: datetime, end: datetime) -> list[datetime]:
        return list(slots_between(start, end, self.target.interval_seconds))

    def fill(self, installation: Installation) -> None:
        self.layout.fill(installation, [(self.name, slot, self.value(slot)) for slot in self.stored])
        for slot in self.dead:
            installation.kill(self.name, slot)
        if self.pending:
            installation.ask(self.name, self.pending)


@st.composite
def contents_of(draw: st.DrawFn, kind: Kind) -> Contents:
    """Runs of slots of the first two hours, stored by one rule of values, and single ones in other states."""
    target = draw(st.sampled_from([each for each in (CALLS, ORDERS, PRICE) if each in kind.targets]))
    slots = list(slots_between(START, START + TIME, target.interval_seconds))
    numbers = st.integers(0, len(slots) - 1)
    runs = draw(st.lists(st.tuples(numbers, st.integers(1, 60), st.sampled_from([1, 1, 2, 7])), max_size=4))
    factor, least = draw(st.integers(0, 10**9)), -(10**6) if target is PRICE else 0
    stored = {
        slots[number]: least + factor * (number + 1) % (3 * 10**6)
        for first, length, stride in runs
        for number in range(first, min(first + length * stride, len(slots)), stride)
    }
    gone = [slot for slot in slots if slot not in stored]
    able = gone and {Ability.KILL, Ability.ASK} <= kind.abilities
    others = draw(st.lists(st.sampled_from(gone), max_size=8, unique=True)) if able else []
    dead = draw(st.integers(0, len(others)))
    layout = draw(st.sampled_from(layouts_of(kind)))
    return Contents(target, stored, frozenset(others[:dead]), frozenset(others[dead:]), layout)


moments = st.one_of(
    st.integers(-100, 7300).map(lambda second: START + second * SECOND),
    st.integers(0, 12).map(lambda part: START + part * TIME / 12),
    st.floats(0, 7200).map(lambda second: START + second * SECOND),
)
some_edges = st.lists(moments, min_size=2, max_size=7).map(sorted)


@contextmanager
def filled(kind: Kind, contents: Contents) -> Iterator[Installation]:
    with opened(kind) as installation:
        contents.fill(installation)
        yield installation


def plain_bucket(contents: Contents, start: datetime, end: datetime) -> SlotBucket:
    stored, dead, pending = (
        contents.within(state, start, end) for state in (State.STORED, State.DEAD, State.PENDING)
    )
    if not stored:
        return SlotBucket(start, 0, len(pending), len(dead))
    units, decimals = [contents.stored[slot] for slot in stored], contents.target.answer.decimals
    values = to_number(min(units), decimals), to_number(max(units), decimals), to_total(sum(units), decimals)
    return SlotBucket(start, len(stored), len(pending), len(dead), *values)


def plain_runs(contents: Contents, edges: Edges, of: frozenset[State]) -> Iterator[SlotRun]:
    def run_of(slot: datetime) -> tuple[State, int]:
        return contents.state(slot), bisect_right(edges, slot)

    step = timedelta(seconds=contents.target.interval_seconds)
    for (state, _), group in groupby(contents.slots(edges[0], edges[-1]), run_of):
        if state in of:
            slots = list(group)
            yield SlotRun(slots[0], slots[-1] + step, len(slots), state)


@on_kinds()
# **Feature: data-collection-scheduler, Property 76: Buckets equal a plain count, for any edges**
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_buckets_equal_a_plain_count(kind: Kind, data: st.DataObject) -> None:
    contents = data.draw(contents_of(kind))
    with filled(kind, contents) as installation:
        for _ in range(3):
            edges = data.draw(some_edges)
            found = installation.slots({contents.name: edges}, Buckets(states=True, values=True))
            assert found == {contents.name: [plain_bucket(contents, *stretch) for stretch in pairwise(edges)]}


@on_kinds()
# **Feature: data-collection-scheduler, Property 77: Runs equal a search slot by slot**
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_runs_equal_a_search_slot_by_slot(kind: Kind, data: st.DataObject) -> None:
    contents = data.draw(contents_of(kind))
    with filled(kind, contents) as installation:
        for _ in range(3):
            edges, of = data.draw(some_edges), data.draw(st.frozensets(st.sampled_from(State)))
            expected = list(plain_runs(contents, edges, of))
            found = installation.slots({contents.name: edges}, Runs(of))
            assert found == ({contents.name: expected} if expected else {})


@on_kinds()
# **Feature: data-collection-scheduler, Property 78: Each slot, record and newest slot is listed as it was stored**
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_slots_are_listed_as_they_were_stored(kind: Kind, data: st.DataObject) -> None:
    contents = data.draw(contents_of(kind))
    name, decimals = contents.name, contents.target.answer.decimals
    with filled(kind, contents) as installation:
        for _ in range(3):
            asked = {name: data.draw(some_edges)}
            start, end = asked[name][0], asked[name][-1]
            known = [slot for slot in contents.slots(start, end) if contents.state(slot) is not State.MISSING]
            stored = {slot: contents.value(slot) for slot in contents.within(State.STORED, start, end)}
            found = installation.slots(asked, Each()).get(name, [])
            assert [(each.slot, each.state) for each in found] == [(slot, contents.state(slot)) for slot in known]
            assert {each.slot: each.value for each in found if each.state is State.STORED} == stored
            pieces = list(installation.slots(asked, Records()))
            assert {piece.metric for piece in pieces} <= {name}
            records = [
                (from_seconds(slot), to_number(units, decimals))
                for piece in pieces
                for slot, units in zip(piece.slots, piece.units, strict=True)
            ]
            assert records == list(stored.items())
            newest = installation.slots(asked, Newest())
            assert [(each.slot, each.value) for each in newest.values()] == records[-1:]


# **Feature: data-collection-scheduler, Property 79: Old questions have the same answers over the one about slots**
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_old_questions_have_the_same_answers(data: st.DataObject) -> None:
    contents = data.draw(contents_of(KINDS[0]))
    with filled(KINDS[0], contents) as installation:
        assert isinstance(installation, OneMachine)
        targets = installation.backend.targets(data.draw(st.permutations([contents.name, "orders", "usage/cost"])))
        for _ in range(3):
            start, *_, end = data.draw(some_edges)
            expected = old_answers(installation.backend, targets, start, end)
            assert old_answers(OverSlots(installation.backend), targets, start, end) == expected
