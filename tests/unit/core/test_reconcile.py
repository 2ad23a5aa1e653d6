"""Reconciling, the pure part: what is missing beyond doubt, and what a run asks for again."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.core.coverage import Completeness, Gap, Span, find_gaps
from kizami.core.messages import MetricRecord, ScheduleMessage
from kizami.core.reconcile import (
    ReconcilePolicy,
    TargetFinding,
    find_gaps_by_counting,
    is_turn,
    overall,
    plan_run,
    report,
    since_first,
    span_to_check,
)
from kizami.core.slots import slots_between
from kizami.core.targets.target import Target

NOW = datetime(2025, 12, 2, 12, 0, 0, tzinfo=UTC)
POLICY = ReconcilePolicy(look_back_seconds=3600, grace_seconds=960, period_seconds=300, limit=100)
TARGET = Target()


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def stored(slots: Iterable[datetime], target: Target = TARGET) -> list[MetricRecord]:
    return [MetricRecord(target.name, slot, 1, slot + timedelta(seconds=1)) for slot in slots]


def examine(
    records: list[MetricRecord], target: Target = TARGET, policy: ReconcilePolicy = POLICY
) -> TargetFinding:
    slots = [record.slot for record in records]
    span = since_first(span_to_check(target, NOW, policy), slots[0] if slots else None)
    gaps = find_gaps_by_counting(
        span,
        lambda start, end: sum(start <= slot < end for slot in slots),
        lambda start, end: (slot for slot in slots if start <= slot < end),
    )
    return report(target, span, gaps, records[-1] if records else None, NOW, policy)


def asked(messages: list[ScheduleMessage]) -> list[datetime]:
    return [message.window.start for message in messages]


ALL = list(slots_between(ago(90), NOW, 5))


def test_a_slot_whose_message_may_still_be_on_its_way_is_not_missing() -> None:
    finding = examine(stored(slot for slot in ALL if slot < ago(15)))
    assert finding.missing == 0
    assert finding.completeness.ratio == 1.0


def test_a_skipped_minute_is_found_and_asked_for_oldest_first() -> None:
    skipped = [slot for slot in ALL if ago(18) <= slot < ago(17)]
    finding = examine(stored(slot for slot in ALL if slot not in skipped))
    assert finding.missing == 12
    assert asked(plan_run([finding], NOW, POLICY)) == skipped


def test_slots_before_the_targets_first_record_are_nobodys() -> None:
    born = ago(30)
    finding = examine(stored(slot for slot in ALL if slot >= born))
    assert finding.completeness == Completeness(finding.completeness.expected, finding.completeness.expected)
    assert finding.completeness.expected == 14 * 12 + 1  # from its birth to the last slot whose grace is over


def test_a_target_born_within_the_grace_expects_nothing_yet() -> None:
    assert examine(stored(slot for slot in ALL if slot >= ago(5))).completeness == Completeness(0, 0)


def test_a_target_that_never_had_a_record_is_not_complete_and_is_probed_with_one_slot() -> None:
    finding = examine([])
    assert finding.completeness.ratio == 0.0
    assert asked(plan_run([finding], NOW, POLICY)) == [ago(16)]  # the newest whose grace is over


def test_a_target_that_is_down_is_probed_with_one_slot_and_not_turned_into_dead_letters() -> None:
    finding = examine(stored(slot for slot in ALL if slot < ago(40)))
    assert finding.missing > 200
    assert not finding.answers
    assert len(plan_run([finding], NOW, POLICY)) == 1


def test_a_target_that_answers_again_gets_all_its_missing_slots_within_the_runs_of_one_turn() -> None:
    finding = examine(stored(slot for slot in ALL if slot < ago(40) or slot > ago(2)))
    assert finding.answers
    runs = [NOW + timedelta(seconds=300 * run) for run in range(4)]
    unbounded = ReconcilePolicy(3600, 960, 300, 9999)
    slots = [slot for run in runs for slot in asked(plan_run([finding], run, unbounded))]
    missing = [slot for gap in finding.gaps for slot in slots_between(gap.start, gap.end, 5)]
    assert sorted(slots) == missing


def test_a_run_is_bounded_and_what_still_waits_counts_towards_the_bound() -> None:
    finding = examine(stored(slot for slot in ALL if slot < ago(58) or slot > ago(2)))
    everything = asked(plan_run([finding], NOW, ReconcilePolicy(3600, 960, 300, 9999)))
    assert asked(plan_run([finding], NOW, POLICY)) == everything[:100]
    assert asked(plan_run([finding], NOW, POLICY, waiting=60)) == everything[:40]
    assert plan_run([finding], NOW, POLICY, waiting=500) == []


def test_several_targets_share_a_run_by_age_not_by_name() -> None:
    a, b = Target("a"), Target("b")
    findings = [
        examine(stored([slot for slot in ALL if not ago(18) <= slot < ago(17.5)], a), a),
        examine(stored([slot for slot in ALL if not ago(18) <= slot < ago(17.5)], b), b),
    ]
    messages = plan_run(findings, NOW, ReconcilePolicy(3600, 960, 300, 4))
    assert [message.metric for message in messages] == ["a", "b", "a", "b"]


def test_the_lag_of_a_target_moves_its_grace() -> None:
    late = Target("late", lag_seconds=600)
    finding = examine(stored([slot for slot in ALL if slot < ago(26)], late), late)
    assert finding.missing == 1  # only ago(26) itself: due 16 minutes ago, its grace just over


def test_coverage_of_all_targets_weighs_every_slot_the_same() -> None:
    findings = [
        TargetFinding(Target("a"), Completeness(90, 100)),
        TargetFinding(Target("b"), Completeness(900, 900)),
    ]
    assert overall(findings) == Completeness(990, 1000)


# Our own property: counting finds exactly what reading everything would, whatever is stored.
@given(
    hole=st.lists(st.tuples(st.integers(0, 719), st.integers(1, 200)), max_size=6),
    former=st.lists(st.integers(0, 3599), max_size=5),
)
def test_gaps_found_by_counting_are_those_found_by_reading(hole: list[tuple[int, int]], former: list[int]) -> None:
    span = Span(NOW, NOW + timedelta(hours=1), 5)
    lacking = {start + offset for start, length in hole for offset in range(length)}
    slots = {slot for number, slot in enumerate(span.slots()) if number not in lacking}
    slots |= {NOW + timedelta(seconds=second) for second in former}  # of another interval, before it was changed
    stored = sorted(slots)

    def read(start: datetime, end: datetime) -> list[datetime]:
        return [slot for slot in stored if start <= slot < end]

    def missing(gaps: Iterable[Gap]) -> list[datetime]:
        return [slot for gap in gaps for slot in slots_between(gap.start, gap.end, 5)]

    counted = find_gaps_by_counting(span, lambda start, end: len(read(start, end)), read)
    if not former:
        assert missing(counted) == missing(find_gaps(span, stored))
    else:  # a former interval's records can make a half look complete, never a stored slot missing
        assert set(missing(counted)) <= set(missing(find_gaps(span, stored)))


def test_one_hole_in_three_hours_is_found_with_few_records_read() -> None:
    span = Span(NOW, NOW + timedelta(hours=3), 5)
    stored = [slot for number, slot in enumerate(span.slots()) if number != 1000]
    reads: list[int] = []

    def read(start: datetime, end: datetime) -> list[datetime]:
        found = [slot for slot in stored if start <= slot < end]
        reads.append(len(found))
        return found

    (gap,) = find_gaps_by_counting(span, lambda start, end: sum(start <= slot < end for slot in stored), read)
    assert gap.start == NOW + timedelta(seconds=5000)
    assert sum(reads) <= 120


# Our own property: a missing slot is asked for at once when its grace is over, and then again, but never twice
# within the time that a message can live on the backfill queue.
@given(
    age=st.integers(0, 10_000),
    grace=st.integers(1, 2_000),
    period=st.sampled_from([60, 300, 600]),
)
def test_a_slot_is_never_asked_for_twice_within_a_grace(age: int, grace: int, period: int) -> None:
    policy = ReconcilePolicy(grace_seconds=grace, period_seconds=period)
    start = NOW + timedelta(seconds=grace + age % period)
    runs = [start + timedelta(seconds=period * number) for number in range(60)]
    turns = [run for run in runs if is_turn(NOW, run, policy)]
    assert turns[0] == start
    assert all((b - a).total_seconds() >= grace for a, b in pairwise(turns))
    assert len(turns) > 1


@pytest.mark.parametrize(
    ("interval", "lag", "newest"),
    [
        (3600, 3600, datetime(2025, 12, 2, 10, tzinfo=UTC)),
        (86_400, 86_400, datetime(2025, 12, 1, tzinfo=UTC)),
        (86_400, 31 * 86_400, datetime(2025, 11, 1, tzinfo=UTC)),
        (5, 31 * 86_400, datetime(2025, 11, 1, 11, 44, tzinfo=UTC)),
    ],
)
def test_a_long_interval_or_lag_has_its_newest_due_slot_looked_at(
    interval: int, lag: int, newest: datetime
) -> None:
    target = Target(interval_seconds=interval, lag_seconds=lag, catch_up_seconds=0)
    span = span_to_check(target, NOW, POLICY)
    assert span.end - timedelta(seconds=interval) == newest
    assert 1 <= span.expected <= 3600 // interval + 1


def test_a_first_record_of_a_former_interval_does_not_stop_the_run() -> None:
    target = Target(interval_seconds=300, lag_seconds=300)
    span = span_to_check(target, NOW, POLICY)
    kept = since_first(span, span.start + timedelta(seconds=5))
    assert kept.start == span.start + timedelta(seconds=300)


def test_a_daily_target_that_answered_yesterday_answers() -> None:
    target = Target(interval_seconds=86_400, lag_seconds=86_400, catch_up_seconds=0)
    span = span_to_check(target, NOW, POLICY)
    record = MetricRecord(target.name, NOW - timedelta(days=2), 1, NOW - timedelta(hours=30))
    assert report(target, span, [], record, NOW, POLICY).answers


def test_what_an_api_that_can_only_say_now_has_missed_is_found_and_not_asked_for() -> None:
    target = Target(backfill=False)
    finding = examine(stored(slots_between(ago(60), ago(30), 5)), target)
    assert finding.missing
    assert plan_run([finding], NOW, POLICY) == []
