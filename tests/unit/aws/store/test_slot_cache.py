"""What the dashboard remembers of the table on AWS: read once, read on from the first missing slot, and right."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.aws.store.slot_cache import QUICK_SECONDS, SLOW_SECONDS, SlotCache
from kizami.core.coverage import Span
from kizami.core.epoch import to_seconds
from kizami.core.messages import MetricRecord
from kizami.core.slots import floor_to_slot

START = datetime(2025, 12, 2, 9, 0, tzinfo=UTC)
NOW = START + timedelta(hours=8)
GRACE = 960.0


class Table:
    """Records that can be read, and what was asked for."""

    def __init__(self, interval: int = 5) -> None:
        self.records: dict[datetime, float] = {}
        self.interval = interval
        self.asked: list[tuple[datetime, datetime]] = []

    def fill(self, hours: int, without: set[int] = frozenset()) -> None:  # type: ignore[assignment]
        for number in range(hours * 3600 // self.interval):
            if number not in without:
                self.records[self.slot(number)] = number % 11

    def slot(self, number: int) -> datetime:
        return START + timedelta(seconds=number * self.interval)

    def read(self, metric: str, start: datetime, end: datetime) -> Iterator[MetricRecord]:
        self.asked.append((start, end))
        for slot, count in sorted(self.records.items()):
            if start <= slot < end:
                yield MetricRecord(metric, slot, count, slot + timedelta(seconds=3))


@pytest.fixture(scope="module")
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def span(hours: float, interval: int = 5) -> Span:
    return Span(START, START + timedelta(hours=hours), interval)


def test_a_whole_hour_is_read_once_however_often_it_is_looked_at(threads: ThreadPoolExecutor) -> None:
    table = Table()
    table.fill(3)
    slots = SlotCache(table.read, threads, GRACE, 100)
    for later in range(0, 3600, 60):
        slots.look({"calls": span(3)}, NOW + timedelta(seconds=later))
    assert table.asked == [(START, START + timedelta(hours=3))]
    assert slots.count("calls", span(3)) == 3 * 720


def test_a_count_may_be_negative_or_have_decimal_places(threads: ThreadPoolExecutor) -> None:
    table = Table()
    table.records = {table.slot(number): count for number, count in enumerate((-1, 0.1, 0.2, 2**53 - 1))}
    slots = SlotCache(table.read, threads, GRACE, 100)
    slots.look({"calls": span(1)}, NOW)
    assert [each.count for each in slots.known("calls", span(1))] == [-1, 0.1, 0.2, 2**53 - 1]
    assert slots.count("calls", span(1)) == 4
    (bucket, _) = slots.buckets("calls", span(1), 15)
    assert (bucket.lowest, bucket.highest, bucket.total) == (-1, 0.2, Decimal("-0.7"))


def test_a_hole_is_looked_at_again_from_where_it_begins_and_seldom(threads: ThreadPoolExecutor) -> None:
    table = Table()
    table.fill(3, without={800, 801})
    slots = SlotCache(table.read, threads, GRACE, 100)
    slots.look({"calls": span(3)}, NOW)
    slots.look({"calls": span(3)}, NOW + timedelta(seconds=SLOW_SECONDS - 1))
    assert len(table.asked) == 1
    table.fill(3)
    slots.look({"calls": span(3)}, NOW + timedelta(seconds=SLOW_SECONDS))
    assert table.asked[1:] == [(table.slot(800), START + timedelta(hours=2))]
    assert slots.count("calls", span(3)) == 3 * 720


def test_slots_that_are_on_their_way_are_looked_for_often(threads: ThreadPoolExecutor) -> None:
    table = Table()
    table.fill(3, without={800})
    slots = SlotCache(table.read, threads, GRACE, 100)
    slots.look({"calls": span(3)}, NOW)
    slots.await_slots("calls", [to_seconds(table.slot(800))], 5, (NOW + timedelta(seconds=60)).timestamp())
    slots.look({"calls": span(3)}, NOW + timedelta(seconds=QUICK_SECONDS))
    assert len(table.asked) == 2


def test_the_hour_of_now_is_read_on_from_its_newest_slot(threads: ThreadPoolExecutor) -> None:
    table = Table()
    now = START + timedelta(minutes=30)
    for number in range(360):
        table.records[table.slot(number)] = 1
    slots = SlotCache(table.read, threads, GRACE, 100)
    slots.look({"calls": span(0.5)}, now)
    slots.look({"calls": span(0.5)}, now + timedelta(seconds=QUICK_SECONDS))
    assert table.asked[1][0] == table.slot(360)


def test_what_cannot_be_read_is_asked_for_again_at_once(threads: ThreadPoolExecutor) -> None:
    def refuse(*_: object) -> Iterator[MetricRecord]:
        raise OSError("on purpose")

    table = Table()
    table.fill(1)
    slots = SlotCache(refuse, threads, GRACE, 100)
    with pytest.raises(OSError, match="on purpose"):
        slots.look({"calls": span(1)}, NOW)
    slots._read = table.read
    slots.look({"calls": span(1)}, NOW)
    assert slots.count("calls", span(1)) == 720


def test_what_is_used_least_is_forgotten_and_read_again_when_it_is_wanted(threads: ThreadPoolExecutor) -> None:
    table = Table()
    table.fill(6)
    slots = SlotCache(table.read, threads, GRACE, 3)
    for hour in (0, 1, 2, 3, 0):
        part = Span(START + timedelta(hours=hour), START + timedelta(hours=hour + 1), 5)
        slots.look({"calls": part}, NOW)
        assert slots.count("calls", part) == 720
    assert len(table.asked) == 5


def test_records_of_a_former_interval_are_passed_over(threads: ThreadPoolExecutor) -> None:
    table = Table(interval=5)
    table.fill(1)
    slots = SlotCache(table.read, threads, GRACE, 100)
    slots.look({"calls": span(1, interval=10)}, NOW)
    assert slots.count("calls", span(1, interval=10)) == 360


@given(
    stored=st.sets(st.integers(0, 1439)),
    bounds=st.tuples(st.integers(0, 1440), st.integers(0, 1440)).map(sorted),
    seconds=st.sampled_from([5, 15, 60, 600, 1800, 3600, 7200]),
)
def test_every_answer_is_that_of_the_records_themselves(stored: set[int], bounds: list[int], seconds: int) -> None:
    table = Table()
    table.records = {table.slot(number): number % 11 for number in stored}
    with ThreadPoolExecutor(1) as threads:
        slots = SlotCache(table.read, threads, GRACE, 100)
        wanted = Span(table.slot(bounds[0]), table.slot(bounds[1]), 5)
        slots.look({"calls": wanted}, NOW)
    inside = [number for number in sorted(stored) if bounds[0] <= number < bounds[1]]
    assert slots.count("calls", wanted) == len(inside)
    assert [each.slot for each in slots.known("calls", wanted)] == [to_seconds(table.slot(n)) for n in inside]
    assert slots.newest("calls", wanted) == (table.slot(inside[-1]) if inside else None)
    buckets = slots.buckets("calls", wanted, seconds)
    assert sum(bucket.stored for bucket in buckets) == len(inside)
    assert sum(bucket.total for bucket in buckets) == sum(number % 11 for number in inside)
    for bucket in buckets:
        assert to_seconds(bucket.start) % seconds == 0
        of_it = [
            n % 11 for n in inside if bucket.start <= table.slot(n) < bucket.start + timedelta(seconds=seconds)
        ]
        assert (bucket.stored, bucket.lowest, bucket.highest) == (len(of_it), min(of_it), max(of_it))


@given(
    interval=st.sampled_from([240, 480, 3600, 5400, 86_400]),
    stored=st.sets(st.integers(0, 99)),
    bounds=st.tuples(st.integers(0, 100), st.integers(0, 100)).map(sorted),
    seconds=st.sampled_from([600, 7200, 86_400]),
)
def test_so_it_is_with_long_intervals(interval: int, stored: set[int], bounds: list[int], seconds: int) -> None:
    table = Table(interval)
    midnight = floor_to_slot(START, 86_400)
    slot_of = {number: midnight + timedelta(seconds=interval * number) for number in range(101)}
    table.records = {slot_of[number]: number % 11 for number in stored}
    wanted = Span(slot_of[bounds[0]], slot_of[bounds[1]], interval)
    with ThreadPoolExecutor(1) as threads:
        slots = SlotCache(table.read, threads, GRACE, 1000)
        slots.look({"calls": wanted}, NOW + timedelta(days=200))
    inside = [number for number in sorted(stored) if bounds[0] <= number < bounds[1]]
    assert slots.count("calls", wanted) == len(inside)
    assert [each.slot for each in slots.known("calls", wanted)] == [to_seconds(slot_of[n]) for n in inside]
    found = {bucket.start: bucket.total for bucket in slots.buckets("calls", wanted, seconds)}
    expected: dict[datetime, int] = {}
    for number in inside:
        start = floor_to_slot(slot_of[number], seconds)
        expected[start] = expected.get(start, 0) + number % 11
    assert found == expected
