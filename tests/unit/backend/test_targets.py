"""A target's slots: which are due, which are settled, and which may still be on their way."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kizami.backend.targets import KnownTarget, Pace, Polling
from kizami.core.coverage import Span

NOW = datetime(2025, 12, 2, 10, 0, 20, tzinfo=UTC)
FIRST = datetime(2025, 12, 2, 9, 0, tzinfo=UTC)
BEGINNING, END = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
MINUTELY = KnownTarget("minutely", 60, 60, FIRST)


def minutes(start: int, end: int) -> Span:
    return Span(FIRST + timedelta(minutes=start), FIRST + timedelta(minutes=end), 60)


@pytest.mark.parametrize(("interval", "settling", "grace"), [(5, 5, 10), (60, 5, 65), (60, 75, 135)])
def test_the_grace_is_the_interval_and_what_the_backend_needs(interval: int, settling: int, grace: int) -> None:
    assert KnownTarget("calls", interval, 0, FIRST, pace=Pace(settling, 1000)).grace_seconds == grace


def test_every_due_slot_is_either_settled_or_settling() -> None:
    assert MINUTELY.due(NOW) == minutes(0, 60)
    assert MINUTELY.settled(NOW) == minutes(0, 59)
    assert MINUTELY.settling(NOW) == minutes(59, 60)


def test_a_range_holds_the_settled_slots_that_begin_in_it() -> None:
    assert MINUTELY.within(BEGINNING, END, NOW) == MINUTELY.settled(NOW)
    part = FIRST + timedelta(minutes=9, seconds=1), FIRST + timedelta(minutes=12, seconds=1)
    assert MINUTELY.within(*part, NOW) == minutes(10, 13)
    assert MINUTELY.within(BEGINNING, FIRST, NOW).expected == MINUTELY.within(NOW, END, NOW).expected == 0


def test_the_whole_of_a_range_reaches_back_before_the_first_slot_and_has_no_grace() -> None:
    assert MINUTELY.whole(FIRST - timedelta(hours=1), END, NOW) == minutes(-60, 60)
    assert MINUTELY.whole(FIRST - timedelta(minutes=9), FIRST, NOW) == minutes(-9, 0)


def test_after_its_pause_a_target_has_no_slots_that_anybody_expects() -> None:
    paused = replace(MINUTELY, polling=Polling.PAUSED, expected_until=FIRST + timedelta(minutes=30, seconds=59))
    assert paused.settled(NOW) == paused.due(NOW) == paused.within(BEGINNING, END, NOW) == minutes(0, 30)
    assert paused.settling(NOW).expected == 0
    assert paused.whole(FIRST, END, NOW) == minutes(0, 60)
