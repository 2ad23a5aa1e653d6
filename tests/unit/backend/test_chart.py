"""The chart: few enough points, whole buckets, and a hole where a slot is missing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.backend.chart import MAX_POINTS, MAX_SLOTS_READ, RANGES, choose_grain, draw, floor_to_grain
from kizami.backend.targets import KnownTarget
from kizami.backend.values import Bucket
from kizami.core.slots import INTERVALS, Window

T0 = datetime(2025, 12, 2, 10, 0, tzinfo=UTC)
TARGET = KnownTarget("calls", 5, 5, T0)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


@pytest.mark.parametrize(
    ("name", "grain"),
    [("5m", 5), ("15m", 5), ("1h", 5), ("6h", 15), ("24h", 60), ("7d", 600), ("30d", 1800)],
)
def test_each_range_has_its_grain_at_five_seconds(name: str, grain: int) -> None:
    assert choose_grain(T0, T0 + seconds(RANGES[name]), 5) == grain


@given(st.sampled_from(INTERVALS), st.integers(1, 31 * 86_400))
def test_no_range_has_too_many_points_or_reads_too_many_slots(interval: int, length: int) -> None:
    grain = choose_grain(T0, T0 + seconds(length), interval)
    assert grain % interval == 0
    assert length / grain <= MAX_POINTS
    assert grain % 600 == 0 or length / interval <= MAX_SLOTS_READ


def test_a_stored_slot_is_a_point_and_a_missing_one_a_hole() -> None:
    buckets = [Bucket(T0, 1, 4, 4, 4), Bucket(T0 + seconds(10), 1, 6, 6, 6)]
    chart = draw(TARGET, Window(T0, T0 + seconds(20)), 5, buckets, T0 + timedelta(hours=1))
    assert [(point.lowest, point.highest, point.mean) for point in chart.points] == [
        (4, 4, 4.0),
        (None, None, None),
        (6, 6, 6.0),
        (None, None, None),
    ]
    assert [(point.stored, point.expected) for point in chart.points] == [(1, 1), (0, 1), (1, 1), (0, 1)]


def test_a_bucket_says_how_many_of_its_slots_it_lacks() -> None:
    chart = draw(TARGET, Window(T0, T0 + seconds(60)), 60, [Bucket(T0, 9, 0, 10, 45)], T0 + timedelta(hours=1))
    (point,) = chart.points
    assert (point.lowest, point.highest, point.mean, point.stored, point.expected) == (0, 10, 5.0, 9, 12)


def test_what_is_not_due_or_was_not_yet_known_is_not_expected() -> None:
    late_comer = KnownTarget("calls", 5, 5, T0 + seconds(10))
    now = T0 + seconds(40)
    chart = draw(late_comer, Window(T0, T0 + seconds(60)), 5, [Bucket(T0 + seconds(30), 1, 1, 1, 1)], now)
    expected = [point.expected for point in chart.points]
    # Due with time to arrive: 40 - lag 5 - grace 10 = 25; the stored one counts although it is so early.
    assert expected == [0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0]


def test_the_first_bucket_is_the_one_in_which_the_range_begins() -> None:
    chart = draw(TARGET, Window(T0 + seconds(7), T0 + seconds(130)), 60, [], T0)
    assert [point.start for point in chart.points] == [T0, T0 + seconds(60), T0 + seconds(120)]


@given(st.integers(0, 2**33), st.integers(0, 999_999), st.sampled_from([5, 60, 600]))
def test_buckets_are_counted_from_1970(second: int, microsecond: int, grain: int) -> None:
    instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second, microseconds=microsecond)
    start = floor_to_grain(instant, grain)
    assert start <= instant < start + seconds(grain)
    assert start.timestamp() % grain == 0
