"""Past slots gathered by bundles: every wanted slot is in one message, and messages are as few as they can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from kizami.core.bundles import Bundle, BundleMember
from kizami.core.epoch import to_seconds
from kizami.core.past_slots import PastSlots
from kizami.core.recovery import MOST_SLOTS
from kizami.core.slots import slots_between

MEMBERS = tuple(BundleMember(name, 0, (name,)) for name in "abcd")
START = 1_764_633_600  # a midnight


def bundle_of(interval: int, number: int = 0) -> Bundle:
    return Bundle(f"0a1b2c3d.{number}", interval, interval, True, 0, MEMBERS)


FIVE, MINUTE, DAY = (bundle_of(interval, number) for number, interval in enumerate((5, 60, 86_400)))
Names = set[tuple[str, int, int]]  # bundle, slot, place


def gathered(wanted: Iterable[tuple[Bundle, int, int]]) -> PastSlots:
    found = PastSlots()
    for bundle, slot, place in wanted:
        found.add(bundle, slot, place)
    return found


def named(slots: PastSlots) -> list[tuple[str, int, int]]:
    return [
        (bundle.name, to_seconds(slot), place)
        for bundle, about in slots.messages()
        for slot in slots_between(about.start, about.end, bundle.interval_seconds)
        for place in about.places
    ]


WANTED = st.lists(
    st.tuples(st.sampled_from([FIVE, MINUTE]), st.integers(-3, 2000), st.integers(0, 3)).map(
        lambda each: (each[0], START + each[0].interval_seconds * each[1], each[2])
    ),
    max_size=200,
)


@given(wanted=WANTED)
def test_every_wanted_slot_is_in_one_message_of_a_minute(wanted: list[tuple[Bundle, int, int]]) -> None:
    slots = gathered(wanted)
    names = {(bundle.name, slot, place) for bundle, slot, place in wanted}
    assert Counter(named(slots)) == Counter(names)
    assert slots.values() == len(names)
    assert slots.size == len({(name, slot) for name, slot, _ in names})
    for bundle, about in slots.messages():
        first, end = to_seconds(about.start), to_seconds(about.end)
        assert end - first <= MOST_SLOTS * bundle.interval_seconds
        assert end - first == bundle.interval_seconds or first // 60 == (end - 1) // 60


@given(wanted=WANTED, runs=st.lists(st.tuples(st.integers(-5, 2000), st.integers(1, 900), st.integers(0, 15))))
def test_what_does_not_lie_in_runs_is_dropped(
    wanted: list[tuple[Bundle, int, int]], runs: list[tuple[int, int, int]]
) -> None:
    slots = gathered(wanted)
    kept = [(START + 5 * first, START + 5 * (first + length), bits) for first, length, bits in runs]
    slots.keep(FIVE, kept)
    expected = {
        (bundle.name, slot, place)
        for bundle, slot, place in wanted
        if bundle is not FIVE or any(start <= slot < end and bits >> place & 1 for start, end, bits in kept)
    }
    assert set(named(slots)) == expected
    assert slots.size == len({(name, slot) for name, slot, _ in expected})


def test_a_message_is_about_all_members_that_want_the_same_slots() -> None:
    metric_by_metric = [(FIVE, START + 5 * number, place) for place, number in product(range(4), range(30))]
    found = [(len(about.places), about.start, about.end) for _, about in gathered(metric_by_metric).messages()]
    assert [(size, to_seconds(start) - START, to_seconds(end) - START) for size, start, end in found] == [
        (4, 0, 60),
        (4, 60, 120),
        (4, 120, 150),
    ]


def test_a_slot_of_a_day_is_a_message() -> None:
    slots = gathered((DAY, START + 86_400 * number, 1) for number in (0, 1, 9))
    assert len(list(slots.messages())) == 3
    (wanted,) = slots.ranges()
    assert wanted == (DAY, START, START + 10 * 86_400, 0b10)


def test_ranges_reach_from_the_first_slot_to_the_last_one_and_spans_have_those_of_theirs() -> None:
    slots = gathered([(FIVE, START + 3600, 0), (FIVE, START + 5, 2), (MINUTE, START, 1)])
    assert slots.ranges() == [(FIVE, START + 5, START + 3605, 0b101), (MINUTE, START, START + 60, 0b10)]
    spans = {(span.bundle.name, span.start): span.slots for span in slots.spans()}
    assert spans[FIVE.name, START] == {START + 5: 0b100}
    slots.keep(FIVE, [])
    assert [each.bundle for each in slots.ranges()] == [MINUTE]
    assert PastSlots().ranges() == []
