"""Conditions about the numbers themselves, on the slot and on sums."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kizami.alerts.numbers import Reading, is_full, judge_numbers, span_of, week_before
from kizami.alerts.rules.conditions import parse_condition
from kizami.backend.targets import KnownTarget
from kizami.backend.values import Bucket
from kizami.core.answers.numbers import total_of
from kizami.core.coverage import Span

NOW = datetime(2025, 12, 2, 10, 0, 30, tzinfo=UTC)
MINUTE = Span(NOW - timedelta(seconds=60), NOW, 5)


def judged(text: str, *counts: float, slots: int | None = None, before: tuple[float, ...] = ()) -> bool | None:
    start = NOW - timedelta(seconds=5 * (slots or len(counts)))
    reading = Reading(Span(start, NOW, 5), bucket(counts), bucket(before))
    return judge_numbers(parse_condition(text, "when"), reading).holds


def bucket(counts: tuple[float, ...]) -> Bucket | None:
    if not counts:
        return None
    return Bucket(NOW, len(counts), min(counts), max(counts), total_of(counts))


@pytest.mark.parametrize(
    ("text", "counts", "holds"),
    [
        ("above 10", (3, 11, 4), True),
        ("above 10", (3, 10, 4), False),
        ("above 0.5", (0.75,), True),
        ("below 4", (3, 11), True),
        ("below 3", (3, 11), False),
        ("zero for 15s", (0, 0, 0), True),
        ("zero for 15s", (0, 1, 0), False),
        ("no change for 15s", (7, 7, 7), True),
        ("no change for 15s", (7, 8, 7), False),
        ("sum of 15s above 20", (10, 5, 6), True),
        ("sum of 15s above 21", (10, 5, 6), False),
        ("sum of 15s below 22", (10, 5, 6), True),
    ],
)
def test_what_is_whole_is_judged(text: str, counts: tuple[float, ...], holds: bool) -> None:
    assert judged(text, *counts) is holds


@pytest.mark.parametrize(
    ("text", "counts", "holds"),
    [
        ("above 10", (11, 3), True),
        ("above 10", (3, 4), None),
        ("below 4", (3, 11), True),
        ("below 2", (3, 11), None),
        ("sum of 15s above 10", (9, 2), True),
        ("sum of 15s above 10", (-9, 30), None),
        ("sum of 15s below 100", (9, 2), None),
        ("zero for 15s", (0, 0), None),
        ("no change for 15s", (5, 5), None),
    ],
)
def test_of_what_lacks_records_only_what_is_sure_is_said(
    text: str, counts: tuple[float, ...], holds: bool | None
) -> None:
    assert judged(text, *counts, slots=3) is holds


@pytest.mark.parametrize(
    ("now", "then", "holds"),
    [(150, 100, False), (151, 100, True), (49, 100, True), (50, 100, False), (1, 0, True), (0, 0, False)],
)
def test_a_week_ago_is_compared_in_percent(now: int, then: int, holds: bool) -> None:
    assert judged("differs by 50% from the same time last week", now, before=(then,)) is holds


def test_without_last_week_nothing_is_said() -> None:
    assert judged("differs by 50% from the same time last week", 5) is None
    assert judged("sum of 10s differs by 50% from the same time last week", 5, 5, before=(1,)) is None


def test_the_slots_that_a_condition_is_about() -> None:
    target = KnownTarget("calls", 5, 5, NOW - timedelta(days=30))
    spans = {
        text: span_of(parse_condition(text, "when"), target, NOW, 60)
        for text in ("above 5", "sum of 10m above 5", "zero for 2s", "differs by 5% from the same time last week")
    }
    assert [span.expected for span in spans.values()] == [12, 120, 1, 1]
    assert {span.end for span in spans.values()} == {target.settled(NOW).end}
    assert week_before(MINUTE).start == MINUTE.start - timedelta(days=7)


def test_a_new_target_is_judged_when_it_has_enough_slots() -> None:
    condition = parse_condition("zero for 10m", "when")
    young = KnownTarget("calls", 5, 5, NOW - timedelta(minutes=5))
    assert not is_full(condition, young, span_of(condition, young, NOW, 60))
    old = KnownTarget("calls", 5, 5, NOW - timedelta(minutes=50))
    assert is_full(condition, old, span_of(condition, old, NOW, 60))
