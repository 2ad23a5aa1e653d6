"""The Sender's plan, for any moment at which it may be triggered."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from kizami.core.sender import plan_minute
from kizami.core.slots import floor_to_minute, floor_to_slot, shift, slots_between
from kizami.core.targets.target import SEED_TARGET, Target
from samples.strategies import inner_instants, instants, targets


# **Feature: data-collection-scheduler, Property 1: The Sender produces the correct delay sequence**
@given(triggered_at=instants)
@settings(max_examples=200)
def test_property_1_delay_sequence(triggered_at: datetime) -> None:
    plan = plan_minute(triggered_at, SEED_TARGET)
    assert [entry.delay_seconds for entry in plan] == [0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55]


# **Feature: data-collection-scheduler, Property 2: The Sender's time windows are correct**
@given(minute=instants.map(floor_to_minute))
@settings(max_examples=200)
def test_property_2_time_windows(minute: datetime) -> None:
    windows = [entry.message.window for entry in plan_minute(minute, SEED_TARGET)]
    assert all(window.start < window.end and window.seconds == 5 for window in windows)
    assert all(window.end == following.start for window, following in pairwise(windows))
    assert (windows[0].start, windows[-1].end) == (minute, shift(minute, 60))


@st.composite
def triggers(draw: st.DrawFn) -> tuple[datetime, Target]:
    """A target and a moment, often some minutes before one of its ticks: a day has few of a long interval."""
    target, moment = draw(targets()), draw(inner_instants)
    if draw(st.booleans()):
        moment = shift(floor_to_slot(moment, target.interval_seconds), -60 * draw(st.integers(0, 4)))
    return moment, target


# **Feature: data-collection-scheduler, Property 11: The windows of consecutive minutes tile time**
@given(trigger=triggers(), minutes=st.integers(1, 5))
@settings(max_examples=200)
def test_property_11_windows_tile_time(trigger: tuple[datetime, Target], minutes: int) -> None:
    triggered_at, target = trigger
    plans = [plan_minute(shift(triggered_at, 60 * number), target) for number in range(minutes)]
    windows = [entry.message.window for plan in plans for entry in plan]
    start = shift(floor_to_minute(triggered_at), -target.lag_seconds)
    assert [window.start for window in windows] == list(
        slots_between(start, shift(start, 60 * minutes), target.interval_seconds)
    )
    assert all(window.end == following.start for window, following in pairwise(windows))
    assert {window.seconds for window in windows} <= {target.interval_seconds}
    if target.interval_seconds <= 60:
        assert (windows[0].start, windows[-1].end) == (start, shift(start, 60 * minutes))
