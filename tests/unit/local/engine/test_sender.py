"""The planner: every tick of every target once, ahead of time and a few at a time; and the spread."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.core.epoch import to_ms, to_seconds
from kizami.core.sender import plan_minute
from kizami.core.targets.target import Target
from kizami.local.engine.active_targets import ActiveTarget, offset_ms
from kizami.local.engine.sender import Sender
from kizami.local.http.handle import RequestProfile
from kizami.local.http.target_access import TargetAccess
from kizami.local.store.metrics import ID_SPACE, metric_id
from kizami.local.store.rows import SentRow

START = datetime(2025, 12, 2, 10, 23, 31, 250_000, tzinfo=UTC)
START_MS = to_ms(START)


def polled(ordinal: int, interval_seconds: int = 5, lag_seconds: int | None = None) -> ActiveTarget:
    lag = interval_seconds if lag_seconds is None else lag_seconds
    target = Target(name=f"t{ordinal}", interval_seconds=interval_seconds, lag_seconds=lag)
    number = metric_id(ordinal)
    access = TargetAccess(target, RequestProfile(1, (), direct=True))
    return ActiveTarget(target, number, offset_ms(target, number), "host", access)


def rows_until(planner: Sender, until_ms: float, step_ms: int = 100) -> list[tuple[float, SentRow]]:
    """What the planner gives when it is asked every `step_ms`, with the moment it gave it."""
    rows: list[tuple[float, SentRow]] = []
    for now_ms in range(START_MS, int(until_ms), step_ms):
        while found := planner.next_rows(now_ms):
            rows += [(now_ms, row) for row in found]
    return rows


def test_every_tick_after_the_start_is_planned_once_as_the_sender_plans_it() -> None:
    targets = [polled(n) for n in range(50)]
    rows = [row for _, row in rows_until(Sender(targets, START_MS), START_MS + 150_000)]
    found = {(row.slot, row.metric_id) for row in rows}
    assert len(found) == len(rows)
    for each in targets:
        for minute in range(3):
            for entry in plan_minute(datetime(2025, 12, 2, 10, 23 + minute, tzinfo=UTC), each.target):
                tick_ms = to_ms(datetime(2025, 12, 2, 10, 23 + minute, tzinfo=UTC)) + entry.delay_seconds * 1000
                expected = tick_ms > START_MS
                assert ((to_seconds(entry.message.window.start), each.metric_id) in found) is expected


def test_a_message_is_due_at_its_tick_and_its_place_within_the_interval() -> None:
    each = polled(1)
    rows = [row for _, row in rows_until(Sender([each], START_MS), START_MS + 60_000)]
    assert each.offset_ms == 2500
    for row in rows:
        assert row.seconds == 5
        assert row.due_ms == (row.slot + each.target.lag_seconds) * 1000 + 2500


def test_messages_are_on_the_queue_well_before_they_are_due_once_it_runs() -> None:
    targets = [polled(n) for n in range(1000)]
    rows = rows_until(Sender(targets, START_MS), START_MS + 150_000)
    minute_after_start = START_MS - START_MS % 60_000 + 60_000
    assert all(row.due_ms - now >= 10_000 for now, row in rows if row.due_ms >= minute_after_start + 60_000)


def test_planning_is_spread_and_never_a_burst() -> None:
    planner = Sender([polled(n) for n in range(1000)], START_MS)
    while found := planner.next_rows(START_MS):
        assert len(found) <= 32 * 12
    # From here on it plans the minutes ahead, some tens of targets in each tenth of a second.
    for now_ms in range(START_MS, START_MS + 120_000, 100):
        assert len(planner.next_rows(now_ms)) <= 32 * 12
    assert not planner.has_more(START_MS + 119_900)


def test_the_tick_of_the_start_itself_is_left_to_catch_up() -> None:
    tick_ms = START_MS - START_MS % 5000
    rows = Sender([polled(0)], tick_ms).next_rows(tick_ms)
    assert min(row.due_ms for row in rows) == tick_ms + 5000


def test_a_planner_that_slept_through_a_minute_is_behind() -> None:
    planner = Sender([polled(0)], START_MS)
    rows_until(planner, START_MS + 1000)
    assert not planner.is_behind(START_MS + 1000)
    assert planner.is_behind(START_MS + 180_000)
    assert not Sender([], START_MS).is_behind(START_MS + 180_000)


@given(st.integers(1, 2000), st.sampled_from([1, 2, 5, 10, 60]))
def test_any_number_of_targets_is_spread_evenly_over_the_interval(count: int, interval: int) -> None:
    offsets = sorted(polled(n, interval_seconds=interval).offset_ms for n in range(count))
    assert offsets[0] >= 0
    assert offsets[-1] < interval * 1000
    for part in range(4):
        within = sum(part * interval * 250 <= each < (part + 1) * interval * 250 for each in offsets)
        # A quarter of them, give or take what the quantum and the sequence's ends allow.
        assert abs(within - count / 4) <= 2 + count * 20 / (interval * 250)


@pytest.mark.parametrize("lag", [5, 10, 60])
def test_a_window_that_has_ended_may_wait_for_its_place(lag: int) -> None:
    assert polled(1, lag_seconds=lag).offset_ms == 2500


def test_a_window_that_has_not_ended_is_asked_for_exactly_at_its_tick() -> None:
    assert polled(1, lag_seconds=0).offset_ms == 0


def test_ids_are_all_different_and_within_their_space() -> None:
    ids = {metric_id(ordinal) for ordinal in range(20_000)}
    assert len(ids) == 20_000
    assert min(ids) == 0
    assert max(ids) < ID_SPACE
