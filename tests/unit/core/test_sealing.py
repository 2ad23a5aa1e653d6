"""Which span is sealed next, and which late days are merged."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from kizami.core.bundles import Bundle, BundleMember
from kizami.core.epoch import from_seconds
from kizami.core.recovery import LiveRange, Mark, TickRun, begin_mark, seal_mark
from kizami.core.sealing import is_settled, late_days_of, live_part, next_span, span_of
from kizami.core.ticks import Answered, Tick

START = datetime(2025, 12, 2, 10, 20, tzinfo=UTC)
BUNDLE = Bundle("0a1b2c3d.0", 5, 5, True, 0, (BundleMember("a", 0, ("a",)), BundleMember("b", 0, ("b",))))
LIVE = [LiveRange(START)]
BOTH = frozenset({0, 1})


def at(hour: int, minute: int = 0, second: int = 0, day: int = 2) -> datetime:
    return datetime(2025, 12, day, hour, minute, second, tzinfo=UTC)


def seen(until: datetime, *runs: TickRun) -> Mark:
    return replace(begin_mark(BUNDLE.name, START), seen_until=until, runs=runs)


def bounds(mark: Mark, now: datetime, live: list[LiveRange] | None = None, bundle: Bundle = BUNDLE) -> object:
    span = next_span(bundle, mark, LIVE if live is None else live, now)
    return span and (from_seconds(span.start), from_seconds(span.end))


class TestTheNextSpan:
    def test_a_complete_span_is_sealed_two_hours_after_its_last_tick(self) -> None:
        mark = seen(at(12, 40))
        assert bounds(mark, at(13, 0, 4)) is None
        assert bounds(mark, at(13, 0, 5)) == (at(10), at(11))

    def test_a_span_that_is_not_complete_waits_for_a_day(self) -> None:
        mark = seen(at(12, 40), TickRun(at(10, 50), at(10, 50, 5), frozenset({1})))
        assert bounds(mark, at(13, 0, 5)) is None
        assert bounds(replace(mark, seen_until=at(10, day=3)), at(11, 0, 4, day=3)) is None
        assert bounds(replace(mark, seen_until=at(10, day=3)), at(11, 0, 5, day=3)) == (at(10), at(11))

    def test_a_span_that_was_not_looked_at_waits_as_long_as_that_takes(self) -> None:
        assert bounds(seen(at(10, 59, 55)), at(11, day=5)) is None
        assert bounds(seen(at(11)), at(11, day=5)) == (at(10), at(11))

    def test_members_that_were_given_up_or_held_hold_nothing_back(self) -> None:
        run = TickRun(at(10, 50), at(10, 55), frozenset(), frozenset({0}), frozenset({1}))
        assert bounds(seen(at(12, 40), run), at(13, 1)) == (at(10), at(11))

    def test_spans_follow_one_another(self) -> None:
        mark, found = seen(at(13, 30)), []
        while span := next_span(BUNDLE, mark, LIVE, at(15, 1)):
            found.append(span)
            mark = seal_mark(mark, from_seconds(span.end))
        assert [from_seconds(span.start) for span in found] == [at(10), at(11), at(12)]

    def test_the_last_span_of_a_plan_is_complete_where_its_slots_end(self) -> None:
        live = [LiveRange(START, at(10, 40))]
        assert bounds(seen(at(10, 39, 55)), at(14), live) is None
        assert bounds(seen(at(10, 40)), at(14), live) == (at(10), at(11))
        assert bounds(replace(seen(at(10, 40)), sealed_until=at(11)), at(20), live) is None

    def test_nothing_is_sealed_between_two_periods_of_a_plan(self) -> None:
        live = [LiveRange(START, at(10, 40)), LiveRange(at(9, 30, day=4))]
        mark = replace(seen(at(12, day=4)), sealed_until=at(11))
        assert bounds(mark, at(14, day=4), live) == (at(9, day=4), at(10, day=4))

    @pytest.mark.parametrize(("interval", "hours"), [(5, 1), (15, 1), (20, 24), (300, 24), (600, 168)])
    def test_spans_are_as_long_as_on_one_machine(self, interval: int, hours: int) -> None:
        span = span_of(replace(BUNDLE, interval_seconds=interval), int(START.timestamp()))
        assert span.end - span.start == 3600 * hours

    def test_the_lag_of_a_bundle_delays_its_sealing(self) -> None:
        slow = replace(BUNDLE, lag_seconds=7200)
        assert bounds(seen(at(12, 40)), at(14, 59), bundle=slow) is None
        assert bounds(seen(at(12, 40)), at(15), bundle=slow) == (at(10), at(11))


def test_live_slots_of_a_span_reach_from_the_first_to_the_last() -> None:
    span = span_of(BUNDLE, int(START.timestamp()))
    live = [LiveRange(at(8), at(10, 10)), LiveRange(at(10, 50), at(10, 55)), LiveRange(at(12))]
    part = live_part(span, live)
    assert (from_seconds(part.start), from_seconds(part.end)) == (at(10), at(10, 55))
    assert live_part(span, [LiveRange(at(12))]) == (span.start, span.start)


class TestLateDays:
    def days(self, sealed_until: datetime, now: datetime, **noted: datetime) -> list[tuple[object, ...]]:
        days = {date(2025, 12, int(day[1:])): at for day, at in noted.items()}
        mark = replace(seen(now), sealed_until=sealed_until, late_days=days)
        return [
            (each.day.day, *map(from_seconds, each.part), each.is_whole)
            for each in late_days_of(BUNDLE, mark, now)
        ]

    def test_a_day_is_merged_once_it_is_quiet(self) -> None:
        now = at(12, day=4)
        assert self.days(at(10, day=4), now, d2=now - timedelta(seconds=899)) == []
        found = self.days(at(10, day=4), now, d2=now - timedelta(seconds=900))
        assert found == [(2, at(0), at(0, day=3), True)]

    def test_of_a_day_that_is_sealed_in_part_only_that_part_is_merged(self) -> None:
        now = at(12, day=4)
        found = self.days(at(10, day=4), now, d4=at(11, day=4), d3=at(11, day=4))
        assert found == [(3, at(0, day=3), at(0, day=4), True), (4, at(0, day=4), at(10, day=4), True)]

    def test_the_start_of_a_bundle_within_an_hour_belongs_to_that_hour(self) -> None:
        now = at(12, day=2)
        assert self.days(START, now, d2=at(11)) == [(2, at(0), at(10), False)]

    def test_a_day_of_which_nothing_is_sealed_waits(self) -> None:
        assert self.days(at(0, day=2), at(12, day=2), d2=at(11)) == []


class TestSettledTicks:
    ANSWER = Answered((1,), 0, 7)

    def test_a_tick_of_which_nothing_is_awaited_is_settled(self) -> None:
        mark = seen(at(11))
        assert is_settled(Tick(START, dead=BOTH), mark)
        assert is_settled(Tick(START, {0: self.ANSWER}, outstanding=frozenset({0}), held=frozenset({1})), mark)

    def test_a_tick_that_awaits_an_answer_or_was_not_looked_at_is_not(self) -> None:
        mark = seen(at(11), TickRun(at(10, 30), at(10, 31), frozenset({1})))
        assert not is_settled(Tick(START, {0: self.ANSWER}, outstanding=BOTH), mark)
        assert not is_settled(Tick(at(11), dead=BOTH), mark)
        assert not is_settled(Tick(at(10, 30, 55), {0: self.ANSWER}), mark)
