"""Coverage: which slots are due, which runs of them have no record, and the one state of each."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from kizami.core.coverage import Completeness, Gap, Span, due_span, find_gaps
from kizami.core.errors import InvalidInput
from kizami.core.slots import shift
from kizami.core.targets.target import Target

START = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def at(seconds: float) -> datetime:
    return shift(START, seconds)


def gaps(stored: Iterable[float], end: int = 30) -> list[tuple[float, float, int]]:
    """The gaps of the five-second slots in [0, end), in seconds after START."""
    found = find_gaps(Span(START, at(end), 5), map(at, stored))
    return [((gap.start - START).seconds, (gap.end - START).seconds, gap.slots) for gap in found]


class TestDueSpan:
    @pytest.mark.parametrize(("now", "expected"), [(-1, 0), (0, 1), (4.999, 1), (5, 2), (59, 12), (60, 13)])
    def test_without_a_lag_a_slot_is_due_at_its_start(self, now: float, expected: int) -> None:
        assert due_span(Target(), START, at(now)).expected == expected

    @pytest.mark.parametrize(("now", "expected"), [(0, 0), (9.999, 0), (10, 1), (14.9, 1), (15, 2)])
    def test_with_a_lag_a_slot_is_due_that_much_later(self, now: float, expected: int) -> None:
        assert due_span(Target(lag_seconds=10), START, at(now)).expected == expected

    @pytest.mark.parametrize(("now", "expected"), [(9.9, 0), (10, 0), (12.4, 0), (12.5, 1), (17.5, 2)])
    def test_a_grace_leaves_out_the_slots_still_on_their_way(self, now: float, expected: int) -> None:
        assert due_span(Target(lag_seconds=10), START, at(now), grace_seconds=2.5).expected == expected

    def test_a_start_between_slots_is_rounded_up_so_that_no_slot_is_claimed_that_began_before(self) -> None:
        assert due_span(Target(), at(1), at(20)).start == at(5)
        assert due_span(Target(), at(5), at(20)).start == at(5)

    def test_a_span_that_begins_after_now_is_empty(self) -> None:
        span = due_span(Target(lag_seconds=60), at(0), at(-600))
        assert (span.expected, list(span.slots()), list(find_gaps(span, []))) == (0, [], [])

    def test_instants_of_other_zones_give_the_same_span(self) -> None:
        target = Target(lag_seconds=3600)
        now = datetime(2025, 3, 30, 1, 0, tzinfo=UTC)  # Berlin's clocks jump from 2 to 3 at this moment
        local = due_span(target, shift(now, -7200).astimezone(BERLIN), now.astimezone(BERLIN))
        assert local == due_span(target, shift(now, -7200), now)
        assert local.expected == 721

    def test_naive_instants_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match="has no time zone"):
            due_span(Target(), START.replace(tzinfo=None), START)
        with pytest.raises(InvalidInput, match="has no time zone"):
            due_span(Target(), START, START.replace(tzinfo=None))


class TestSpan:
    def test_its_slots_are_as_many_as_it_says(self) -> None:
        span = Span(START, at(20), 5)
        assert list(span.slots()) == [at(0), at(5), at(10), at(15)]
        assert span.expected == 4

    @pytest.mark.parametrize(("start", "end", "named"), [(3, 20, "start"), (0, 7, "end"), (0.5, 20, "start")])
    def test_edges_that_cut_a_slot_are_refused(self, start: float, end: float, named: str) -> None:
        with pytest.raises(InvalidInput, match=f"^{named}: .* is not on a 5-second boundary$"):
            Span(at(start), at(end), 5)

    def test_its_length_is_elapsed_time_where_the_wall_clock_jumps(self) -> None:
        span = Span(datetime(2025, 3, 30, tzinfo=BERLIN), datetime(2025, 3, 31, tzinfo=BERLIN), 60)
        assert span.expected == 23 * 60 == len(list(span.slots()))


class TestGaps:
    def test_nothing_stored_is_one_gap(self) -> None:
        assert gaps([]) == [(0, 30, 6)]

    def test_everything_stored_is_none(self) -> None:
        assert gaps(range(0, 30, 5)) == []

    def test_gaps_at_the_start_in_the_middle_and_at_the_end(self) -> None:
        assert gaps([5, 10, 20]) == [(0, 5, 1), (15, 20, 1), (25, 30, 1)]

    def test_neighbours_make_one_gap(self) -> None:
        assert gaps([0, 25]) == [(5, 25, 4)]

    def test_what_is_stored_outside_is_passed_over(self) -> None:
        assert gaps([-10, -5, 0, 5, 10, 15, 20, 30, 35]) == [(25, 30, 1)]
        assert gaps([-10]) == gaps([30]) == gaps([35]) == [(0, 30, 6)]

    def test_a_slot_twice_counts_once(self) -> None:
        assert gaps([0, 0, 5, 5, 15, 15]) == [(10, 15, 1), (20, 30, 2)]

    @pytest.mark.parametrize("odd", [[4], [1, 2, 3, 4], [4, 8, 12, 16], [0.5], [29]])
    def test_slots_of_a_former_interval_fill_no_gap_and_make_none(self, odd: list[float]) -> None:
        assert gaps(odd) == [(0, 30, 6)]
        assert gaps(sorted([*range(0, 30, 5), *odd])) == []

    def test_they_are_found_one_by_one_as_the_store_is_read(self) -> None:
        def stored() -> Iterable[datetime]:
            yield at(10)
            pytest.fail("the first gap was known before the second record was read")

        assert next(find_gaps(Span(START, at(30), 5), stored())) == Gap(at(0), at(10), 2)

    def test_the_last_slots_of_the_calendar(self) -> None:
        start, end = datetime(9999, 12, 31, 23, 59, 45, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 55, tzinfo=UTC)
        assert list(find_gaps(Span(start, end, 5), [start])) == [Gap(shift(start, 5), end, 1)]


class TestCompleteness:
    def test_it_is_the_stored_share_of_the_expected(self) -> None:
        assert Completeness(9, 12).ratio == 0.75
        assert str(Completeness(9, 12)) == "9/12"

    def test_where_nothing_was_expected_nothing_is_missing(self) -> None:
        assert Completeness(0, 0).ratio == 1.0
