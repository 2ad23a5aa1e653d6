"""The Sender's plan: the messages of a minute, their delays and their windows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from kizami.core.errors import InvalidInput
from kizami.core.messages import ScheduleMessage, write_message
from kizami.core.sender import PlannedMessage, message_for_slot, plan_all, plan_bundles, plan_minute
from kizami.core.slots import INTERVALS, Window, shift
from kizami.core.targets.bundles import NamedBundle
from kizami.core.targets.target import SEED_TARGET, Target

MINUTE = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
DELAYS = [0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55]


def windows(plan: tuple[PlannedMessage, ...]) -> list[Window]:
    return [entry.message.window for entry in plan]


def test_requirement_1_2_a_minute_has_twelve_messages_with_delays_from_0_to_55() -> None:
    plan = plan_minute(MINUTE, SEED_TARGET)
    assert [entry.delay_seconds for entry in plan] == DELAYS
    assert write_message(plan[0].message) == '{"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z"}'
    assert write_message(plan[11].message) == '{"from": "2025-12-02T10:23:55Z", "to": "2025-12-02T10:24:00Z"}'


def test_requirement_1_3_the_windows_of_a_minute_follow_each_other_in_steps_of_five_seconds() -> None:
    plan = windows(plan_minute(MINUTE, SEED_TARGET))
    assert [window.start for window in plan] == [shift(MINUTE, delay) for delay in DELAYS]
    assert all(window.seconds == 5 for window in plan)
    assert all(window.end == following.start for window, following in pairwise(plan))


@pytest.mark.parametrize(
    "late", [timedelta(0), timedelta(microseconds=1), timedelta(seconds=37), timedelta(seconds=59.999)]
)
def test_requirement_1_1_a_trigger_at_any_second_and_a_second_one_plan_the_same_minute(late: timedelta) -> None:
    assert plan_minute(MINUTE + late, SEED_TARGET) == plan_minute(MINUTE, SEED_TARGET)


def test_the_next_minute_starts_where_this_one_ends() -> None:
    this, following = plan_minute(MINUTE, SEED_TARGET), plan_minute(shift(MINUTE, 60), SEED_TARGET)
    assert windows(this)[-1].end == windows(following)[0].start


@pytest.mark.parametrize("interval", [interval for interval in INTERVALS if interval <= 60])
def test_every_interval_has_its_number_of_messages(interval: int) -> None:
    plan = plan_minute(MINUTE, Target(interval_seconds=interval))
    assert [entry.delay_seconds for entry in plan] == list(range(0, 60, interval))
    assert [window.seconds for window in windows(plan)] == [interval] * (60 // interval)


@pytest.mark.parametrize(("interval", "tick"), [(300, "10:25"), (3600, "11:00"), (86_400, "00:00")])
@pytest.mark.parametrize("lags", [0, 1, 31])
def test_an_interval_above_a_minute_has_a_message_at_its_ticks_alone(interval: int, tick: str, lags: int) -> None:
    target = Target(interval_seconds=interval, lag_seconds=lags * interval, catch_up_seconds=0)
    day = [shift(MINUTE.replace(hour=0, minute=0), 60 * minute) for minute in range(1440)]
    planned = {minute: plan_minute(shift(minute, 37), target) for minute in day}
    ticks = [minute for minute, plan in planned.items() if plan]
    assert len(ticks) == 86_400 // interval
    assert tick in {f"{minute:%H:%M}" for minute in ticks}
    assert all(
        [(entry.delay_seconds, entry.message.window.start) for entry in planned[minute]]
        == [(0, shift(minute, -target.lag_seconds))]
        for minute in ticks
    )


def test_with_a_lag_each_tick_asks_for_the_window_that_ended_then() -> None:
    target = Target(lag_seconds=5)
    plan = plan_minute(MINUTE, target)
    assert [entry.delay_seconds for entry in plan] == DELAYS
    assert [window.end for window in windows(plan)] == [shift(MINUTE, delay) for delay in DELAYS]


def test_a_trigger_in_another_zone_plans_the_utc_minute() -> None:
    kathmandu = MINUTE.astimezone(ZoneInfo("Asia/Kathmandu"))  # +05:45
    assert plan_minute(kathmandu, SEED_TARGET) == plan_minute(MINUTE, SEED_TARGET)


def test_a_naive_trigger_is_refused() -> None:
    with pytest.raises(InvalidInput, match="has no time zone"):
        plan_minute(MINUTE.replace(tzinfo=None), SEED_TARGET)


@pytest.mark.parametrize(
    ("minute", "target"),
    [
        (datetime(1, 1, 1, tzinfo=UTC), Target(lag_seconds=5)),
        (datetime(9999, 12, 31, 23, 59, tzinfo=UTC), SEED_TARGET),
    ],
    ids=["before-the-first-year", "after-the-last-year"],
)
def test_a_minute_whose_windows_leave_the_calendar_is_refused(minute: datetime, target: Target) -> None:
    with pytest.raises(InvalidInput, match="outside years 0001 to 9999"):
        plan_minute(minute, target)


def test_all_targets_are_planned_together_soonest_first_and_disabled_ones_left_out() -> None:
    targets = [Target(name="a", interval_seconds=30), Target(name="b", interval_seconds=20)]
    plan = plan_all(MINUTE, [*targets, Target(name="off", enabled=False)])
    assert [(entry.delay_seconds, entry.message.metric) for entry in plan] == [
        (0, "a"),
        (0, "b"),
        (20, "b"),
        (30, "a"),
        (40, "b"),
    ]


@pytest.mark.parametrize(("late", "ahead"), [(0, 60), (0.2, 60), (37, 23), (37.5, 23), (59.9, 1), (130, 0)])
def test_what_can_only_be_asked_live_is_planned_for_the_minute_to_come_to_the_second(
    late: float, ahead: int
) -> None:
    """Wherever in its minute the trigger comes, each message is due at its tick."""
    target = Target(lag_seconds=5, backfill=False)
    plan = plan_all(MINUTE, [target], shift(MINUTE, late))
    if late < 60:
        assert [entry.delay_seconds for entry in plan] == [ahead + delay for delay in DELAYS]
    else:
        assert plan[0].delay_seconds == 0
    assert [window.end for window in windows(plan)] == [shift(MINUTE, 60 + delay) for delay in DELAYS]


def test_a_message_for_one_slot_is_the_one_that_its_minute_had() -> None:
    plan = plan_minute(MINUTE, SEED_TARGET)
    assert message_for_slot(shift(MINUTE, 10), SEED_TARGET) == plan[2].message
    assert plan[2].message == ScheduleMessage(Window(shift(MINUTE, 10), shift(MINUTE, 15)))


def test_a_message_for_what_is_no_slot_is_refused() -> None:
    with pytest.raises(InvalidInput, match="is not on a 5-second boundary"):
        message_for_slot(shift(MINUTE, 3), SEED_TARGET)


def test_bundles_are_sent_at_their_places_within_the_interval() -> None:
    bundles = [NamedBundle(f"b{place}", 30, 30, True, place, ("a",)) for place in (0, 7)]
    plan = plan_bundles(MINUTE, bundles)
    assert [(entry.delay_seconds, entry.message.window.start) for entry in plan] == [
        (delay + place, shift(MINUTE, delay - 30)) for delay in (0, 30) for place in (0, 7)
    ]
