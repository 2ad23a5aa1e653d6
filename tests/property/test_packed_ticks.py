"""Bundles and packed ticks: any targets, any answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from kizami.core.answers.answer import Answer
from kizami.core.answers.values import Expression
from kizami.core.bundles import (
    MOST_VALUES,
    Bundle,
    BundleMember,
    BundlePlan,
    Period,
    make_plan,
    owned_ranges,
    read_member,
    write_member,
)
from kizami.core.slots import shift
from kizami.core.targets.target import Target
from kizami.core.ticks import Answered, read_first, read_late, write_first, write_late

MINUTE = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
UNITS = st.integers(-(2**53) + 1, 2**53 - 1)


def bundle_of(widths: list[int], name: str = "0a1b2c3d.0") -> Bundle:
    members = (
        BundleMember(f"t{place}", place % 10, tuple(f"t{place}/{number}" for number in range(width)))
        for place, width in enumerate(widths)
    )
    return Bundle(name, 5, 5, True, 0, tuple(members))


@st.composite
def answers(draw: st.DrawFn) -> tuple[Bundle, dict[int, Answered]]:
    bundle = bundle_of(draw(st.lists(st.integers(1, 4), min_size=1, max_size=25)))
    places = draw(st.sets(st.integers(0, len(bundle.members) - 1)))
    found = {}
    for place in places:
        width = bundle.widths[place]
        values = draw(st.lists(UNITS, min_size=width, max_size=width))
        found[place] = Answered(tuple(values), bundle.members[place].decimals, draw(st.integers(-200, 10**7)))
    return bundle, found


# **Feature: data-collection-scheduler, Property 65: First answers that are packed read back**
@given(packed=answers(), late_ms=st.integers(-2000, 10**9))
@settings(max_examples=200)
def test_first_answers_read_back(packed: tuple[Bundle, dict[int, Answered]], late_ms: int) -> None:
    bundle, found = packed
    assert read_first(write_first(late_ms, bundle, found), bundle) == (late_ms, found)


# **Feature: data-collection-scheduler, Property 66: A later answer reads back with its decimals and attempts**
@given(
    values=st.lists(UNITS, min_size=1, max_size=5),
    decimals=st.integers(0, 9),
    steps=st.integers(-200, 10**8),
    attempts=st.integers(0, 99_999),
    backfill=st.booleans(),
)
@settings(max_examples=200)
def test_a_later_answer_reads_back(
    values: list[int], decimals: int, steps: int, attempts: int, backfill: bool
) -> None:
    answer = Answered(tuple(values), decimals, steps, attempts, backfill)
    assert read_late(write_late(answer)) == answer


def test_a_hundred_values_of_nine_digits_with_their_times_fit_one_write_unit() -> None:
    bundle = bundle_of([1] * 100)

    def size(value: int, steps: int) -> int:
        full = {place: Answered((value - place,), place % 10, steps + place) for place in range(100)}
        return len(write_first(400, bundle, full))

    assert size(1234, 6) < 375
    assert size(10**9 - 1, 60) < 750, "of 1,024 with the keys and the states"
    assert size(2**53 - 1, 60) < 1100, "two"


@st.composite
def targets(draw: st.DrawFn) -> list[Target]:
    kinds = st.tuples(st.sampled_from((5, 10, 60)), st.integers(0, 12), st.booleans())
    chosen = draw(st.lists(kinds, min_size=1, max_size=150))
    return [
        Target(
            name=f"t{number}",
            interval_seconds=interval,
            lag_seconds=interval,
            backfill=backfill,
            answer=Answer(values=tuple((f"v{place}", Expression((f"v{place}",))) for place in range(values))),
        )
        for number, (interval, values, backfill) in enumerate(chosen)
    ]


# **Feature: data-collection-scheduler, Property 67: Each target is in one bundle, and none has too many values**
@given(chosen=targets(), order=st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_each_target_is_in_one_bundle(chosen: list[Target], order: object) -> None:
    plan = make_plan(chosen)
    found = sorted(member.name for bundle in plan.bundles for member in bundle.members)
    assert found == sorted(target.name for target in chosen)
    for bundle in plan.bundles:
        assert sum(bundle.widths) <= MOST_VALUES
        assert 0 <= bundle.offset_seconds < bundle.interval_seconds
    shuffled = chosen[:]
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert make_plan(shuffled) == plan
    for bundle in plan.bundles:
        assert tuple(read_member(write_member(member)) for member in bundle.members) == bundle.members


def test_a_thousand_targets_of_one_value_make_ten_bundles() -> None:
    plan = make_plan(Target(name=f"t{number}", lag_seconds=5) for number in range(1000))
    assert [len(bundle.members) for bundle in plan.bundles] == [100] * 10
    assert [bundle.offset_seconds for bundle in plan.bundles] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_another_plan_has_another_name() -> None:
    names = {
        make_plan([Target(name="a", lag_seconds=5)]).name,
        make_plan([Target(name="b", lag_seconds=5)]).name,
        make_plan([Target(name="a", lag_seconds=10)]).name,
        make_plan([Target(name="a", lag_seconds=5, answer=Answer(decimals=2))]).name,
        make_plan([Target(name="a", lag_seconds=5), Target(name="b", lag_seconds=5)]).name,
    }
    assert len(names) == 5


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Period, BundlePlan]]:
    """Periods one after the other, in which a metric is polled with some lag, or not at all."""
    steps = draw(st.lists(st.tuples(st.integers(1, 5), st.none() | st.integers(0, 40)), min_size=1, max_size=6))
    found, start = [], MINUTE
    for number, (minutes, lag) in enumerate(steps):
        end = start + timedelta(minutes=minutes) if number < len(steps) - 1 else None
        bundle = Bundle(f"{number:08x}.0", 5, 5 * (lag or 0), True, 0, (BundleMember("calls", 0, ("calls",)),))
        bundles = () if lag is None else (bundle,)
        found.append((Period(f"{number:08x}", start, end), BundlePlan(f"{number:08x}", bundles)))
        start = end or start
    return found


# **Feature: data-collection-scheduler, Property 68: A slot is held by one bundle, the first that could ask it**
@given(history=histories())
@settings(max_examples=200)
def test_a_slot_is_held_by_one_bundle(history: list[tuple[Period, BundlePlan]]) -> None:
    ranges = owned_ranges("calls", history)
    for before, after in pairwise(ranges):
        assert before.end == after.start
    for period, plan in history:
        for bundle in plan.bundles:
            minute = period.start
            while period.end is not None and minute < period.end:
                live = shift(minute, -bundle.lag_seconds)
                (owner,) = [each for each in ranges if each.owns(live)]
                assert owner.bundle.name <= bundle.name, "an earlier period may hold it, a later one never"
                minute += timedelta(minutes=1)
