"""Ticks read in bulk against ticks read one by one."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from kizami.core.bundles import Bundle, BundleMember
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.merging import columns_of
from kizami.core.tick_columns import PackedTick, TickColumns
from kizami.core.ticks import Answered, Tick, write_first, write_late

STEP, LAG = 5, 10
WIDTHS = (1, 3, 1, 2)
DECIMALS = (0, 2, 9, 0)
BUNDLE = Bundle(
    "3f9c2a41.0",
    STEP,
    LAG,
    True,
    0,
    tuple(
        BundleMember(f"m{place}", decimals, tuple(f"m{place}/v{number}" for number in range(width)))
        for place, (width, decimals) in enumerate(zip(WIDTHS, DECIMALS, strict=True))
    ),
)

numbers = st.integers(-(2**53), 2**53)


@st.composite
def ticks_of(draw: st.DrawFn) -> list[tuple[PackedTick, Tick]]:
    """Ticks with first answers, later ones with other decimals and attempts, and members in any state."""
    found = []
    for slot in sorted(draw(st.sets(st.integers(0, 2000), max_size=12))):
        first: dict[int, Answered] = {}
        later: dict[int, Answered] = {}
        for place, width in enumerate(WIDTHS):
            values = tuple(draw(st.lists(numbers, min_size=width, max_size=width)))
            steps = draw(st.integers(0, 10**6))
            kind = draw(st.sampled_from(["first", "first", "later", "none"]))
            if kind == "first":
                first[place] = Answered(values, DECIMALS[place], steps)
            elif kind == "later":
                decimals, attempts = draw(st.integers(0, 9)), draw(st.integers(1, 30))
                later[place] = Answered(values, decimals, steps, attempts, draw(st.booleans()))
        sets = [draw(st.sets(st.integers(0, 3))) for _ in range(3)]
        dead_bits, outstanding_bits, held_bits = (sum(1 << place for place in each) for each in sets)
        late_ms = draw(st.integers(0, 10**7))
        packed = PackedTick(
            slot * STEP,
            write_first(late_ms, BUNDLE, first),
            {place: write_late(each) for place, each in later.items()},
            dead_bits,
            outstanding_bits,
            held_bits,
        )
        dead, outstanding, held = map(frozenset, sets)
        tick = Tick(from_seconds(slot * STEP), later | first, late_ms, outstanding, dead, held)
        found.append((packed, tick))
    return found


# **Feature: data-collection-scheduler, Property 82: Ticks that are read in bulk tell what each of them tells**
@given(pairs=ticks_of())
@settings(max_examples=150, deadline=None)
def test_ticks_in_bulk_tell_what_each_tells(pairs: list[tuple[PackedTick, Tick]]) -> None:
    columns, ticks = TickColumns(BUNDLE, [packed for packed, _ in pairs]), [tick for _, tick in pairs]
    expected = columns_of(BUNDLE, ticks)
    for place, member in enumerate(BUNDLE.members):
        for number, metric in enumerate(member.metrics):
            found = columns.of(place, number)
            assert (metric in expected) is (found is not None)
            if found is not None:
                assert found.decimals == expected[metric].decimals
                assert [*map(list, found.columns)] == [*map(list, expected[metric].columns)]
            for tick in ticks:
                answer = tick.answers.get(place)
                exact = None if answer is None else (answer.values[number], answer.decimals)
                assert columns.value(to_seconds(tick.slot), place, number) == exact
    for tick, states in zip(ticks, columns.states, strict=True):
        sets = [tick.answers.keys(), tick.dead, tick.outstanding, tick.held]
        assert list(states[1:5]) == [sum(1 << place for place in each) for each in sets]
    live = {to_seconds(tick.slot): bits for tick in ticks if (bits := _live(tick.answers))}
    assert {slot: bits for slot, _, bits in columns.late_polls()} == live


def _live(answers: Mapping[int, Answered]) -> int:
    return sum(1 << place for place, answer in answers.items() if not answer.backfill)
