"""What is sealed comes back as it was, whatever it was."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kizami.core.packing import pack, unpack
from kizami.core.sealed_spans import (
    COLUMNS,
    SPANS,
    PackedSlots,
    SlotColumns,
    pack_slots,
    span_seconds,
    span_start,
    unpack_slots,
)

_WORDS = st.integers(-(2**63), 2**63 - 1)
_SECONDS = st.integers(-62_135_596_800, 253_402_300_799)  # years 1 to 9999
_COLUMNS = st.one_of(
    st.lists(st.integers(), min_size=1, max_size=60),  # of any size
    st.lists(st.integers(-3, 300), min_size=1, max_size=900),
    st.builds(
        lambda first, step, count: [first + step * each for each in range(count)], _WORDS, _WORDS, st.just(40)
    ),
    st.builds(lambda value, count: [value] * count, _WORDS, st.integers(1, 4000)),
)


@st.composite
def slot_columns(draw: st.DrawFn) -> SlotColumns:
    """Slots of any pattern, each with anything that a row can hold."""
    slots = sorted(draw(st.sets(_SECONDS, min_size=1, max_size=50)))
    values = st.one_of(_WORDS, st.integers(0, 20))
    others = [draw(st.lists(values, min_size=len(slots), max_size=len(slots))) for _ in COLUMNS[1:]]
    return SlotColumns(slots, *others)


# **Feature: data-collection-scheduler, Property 61: Numbers that are packed are the same when they are unpacked**
@given(_COLUMNS)
@settings(max_examples=150)
def test_numbers_that_are_packed_are_the_same_when_they_are_unpacked(values: list[int]) -> None:
    assert list(unpack(pack(values), len(values))) == values


# **Feature: data-collection-scheduler, Property 62: All that is known of a slot survives its sealing**
@given(slot_columns(), st.sets(st.sampled_from(COLUMNS[1:])))
@settings(max_examples=150)
def test_all_that_is_known_of_a_slot_survives_its_sealing(columns: SlotColumns, some: set[str]) -> None:
    packed = pack_slots(columns)
    assert [list(each) for each in unpack_slots(packed)] == [list(each) for each in columns]
    names = ("slot", *sorted(some))
    found = PackedSlots(packed).columns(names)
    assert [list(each) for each in found] == [list(columns[COLUMNS.index(name)]) for name in names]


# **Feature: data-collection-scheduler, Property 63: A slot lies in one span, and finer steps have spans within**
@given(_SECONDS, st.integers(1, 86_400), st.integers(1, 86_400))
@settings(max_examples=150)
def test_a_slot_lies_in_one_span_and_finer_steps_have_spans_within(slot: int, step: int, other: int) -> None:
    fine, coarse = sorted((step, other))
    seconds, longer = span_seconds(fine), span_seconds(coarse)
    assert seconds in SPANS
    assert seconds <= longer
    start, outer = span_start(slot, seconds), span_start(slot, longer)
    assert start <= slot < start + seconds
    assert outer <= start
    assert start + seconds <= outer + longer
