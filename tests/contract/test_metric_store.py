"""What every metric store keeps to; the implementations are in conftest.py."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from threading import Barrier

import pytest

from fakes.ports import ReadableStore
from kizami.core.messages import MAX_COUNT, MetricRecord
from kizami.core.ports import PutOutcome

METRIC = "ai_response_count"
SLOT = datetime(2025, 12, 2, 10, 23, 5, tzinfo=UTC)
COLLECTED = datetime(2025, 12, 2, 10, 23, 6, tzinfo=UTC)
FIVE_SECONDS = timedelta(seconds=5)
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def record(slot: datetime = SLOT, count: int = 7, metric: str = METRIC) -> MetricRecord:
    return MetricRecord(metric, slot, count, COLLECTED)


def put(store: ReadableStore, records: Iterable[MetricRecord]) -> None:
    for entry in records:
        assert store.put_if_absent(entry) is PutOutcome.STORED


def everything(store: ReadableStore, metric: str = METRIC) -> list[MetricRecord]:
    return list(store.query(metric, FIRST, LAST))


def test_a_record_comes_back_as_it_was_put(store: ReadableStore) -> None:
    assert store.put_if_absent(record()) is PutOutcome.STORED
    assert everything(store) == [record()]


def test_requirement_3_4_a_second_write_is_a_duplicate_and_never_changes_the_row(store: ReadableStore) -> None:
    put(store, [record()])
    later = replace(record(count=99), collected_at=COLLECTED + timedelta(hours=1))
    assert store.put_if_absent(later) is PutOutcome.DUPLICATE
    assert store.put_if_absent(record()) is PutOutcome.DUPLICATE
    assert everything(store) == [record()]


def test_the_same_slot_of_another_metric_is_another_record(store: ReadableStore) -> None:
    put(store, [record(), record(metric="other", count=1)])
    assert everything(store) == [record()]
    assert everything(store, "other") == [record(metric="other", count=1)]


def test_the_same_instant_in_another_zone_is_the_same_slot(store: ReadableStore) -> None:
    put(store, [record()])
    tokyo = SLOT.astimezone(timezone(timedelta(hours=9)))
    assert store.put_if_absent(record(slot=tokyo, count=1)) is PutOutcome.DUPLICATE
    assert list(store.query(METRIC, tokyo, tokyo + FIVE_SECONDS)) == [record()]


@pytest.mark.parametrize("writers", [2, 16])
def test_writers_racing_for_one_slot_store_exactly_one_record(racing_store: ReadableStore, writers: int) -> None:
    start = Barrier(writers)

    def write(count: int) -> PutOutcome:
        start.wait()
        return racing_store.put_if_absent(record(count=count))

    with ThreadPoolExecutor(writers) as pool:
        outcomes = list(pool.map(write, range(writers)))
    assert outcomes.count(PutOutcome.STORED) == 1
    assert outcomes.count(PutOutcome.DUPLICATE) == writers - 1
    assert everything(racing_store) == [record(count=outcomes.index(PutOutcome.STORED))]


def test_a_query_is_in_order_of_time_whatever_the_order_of_writing(store: ReadableStore) -> None:
    slots = [SLOT + number * FIVE_SECONDS for number in (3, 0, 2, 4, 1)]
    put(store, map(record, slots))
    assert [entry.slot for entry in everything(store)] == sorted(slots)


def test_a_query_takes_its_start_in_and_leaves_its_end_out(store: ReadableStore) -> None:
    slots = [SLOT + number * FIVE_SECONDS for number in range(4)]
    put(store, map(record, slots))
    assert [entry.slot for entry in store.query(METRIC, slots[1], slots[3])] == slots[1:3]


def test_a_query_between_fractions_of_a_second_keeps_to_its_bounds(store: ReadableStore) -> None:
    slots = [SLOT, SLOT + FIVE_SECONDS]
    put(store, map(record, slots))
    moment = timedelta(microseconds=1)
    assert [entry.slot for entry in store.query(METRIC, SLOT + moment, slots[1] + moment)] == [slots[1]]
    assert [entry.slot for entry in store.query(METRIC, SLOT, slots[1] - moment)] == [SLOT]
    assert list(store.query(METRIC, SLOT + moment, SLOT + 2 * moment)) == []


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (SLOT, SLOT),
        (SLOT + FIVE_SECONDS, SLOT),
        (FIRST, FIRST),
        (LAST, LAST),
        (FIRST, SLOT),
        (SLOT + FIVE_SECONDS, LAST),
    ],
)
def test_a_query_of_an_empty_range_gives_nothing(store: ReadableStore, start: datetime, end: datetime) -> None:
    put(store, [record()])
    assert list(store.query(METRIC, start, end)) == []


def test_a_query_of_an_unknown_metric_gives_nothing(store: ReadableStore) -> None:
    assert everything(store, "nobody_counts_this") == []


def test_the_edges_of_the_calendar_are_slots_like_any_other(store: ReadableStore) -> None:
    first, last = FIRST.replace(microsecond=0), datetime(9999, 12, 31, 23, 59, 55, tzinfo=UTC)
    put(store, [record(last), record(first)])
    assert [entry.slot for entry in everything(store)] == [first, last]


@pytest.mark.parametrize("count", [0, 1, MAX_COUNT - 1, MAX_COUNT, -1, -MAX_COUNT])
def test_every_digit_of_a_count_is_kept(store: ReadableStore, count: int) -> None:
    put(store, [record(count=count)])
    assert [entry.count for entry in everything(store)] == [count]


def test_the_records_of_one_answer_are_stored_together_and_never_change_one_that_is_there(
    store: ReadableStore, request: pytest.FixtureRequest
) -> None:
    if "dynalite" in request.node.callspec.id:
        pytest.skip("dynalite knows no transactions")
    values = [record(metric="usage/requests", count=3), record(metric="usage/errors", count=1)]
    assert store.put_all_if_absent(values) == [PutOutcome.STORED] * 2
    more = [record(metric="usage/requests", count=9), record(metric="usage/cost", count=5)]
    assert store.put_all_if_absent(more) == [PutOutcome.DUPLICATE, PutOutcome.STORED]
    assert store.put_all_if_absent(more) == [PutOutcome.DUPLICATE] * 2
    names = ("usage/requests", "usage/errors", "usage/cost")
    assert [each.count for name in names for each in everything(store, name)] == [3, 1, 5]


@pytest.mark.parametrize("metric", ["応答数", "números/día", "a.b:c/d-e_f", "x" * 128, "Ω" * 128])
def test_metric_names_of_any_script_are_kept(store: ReadableStore, metric: str) -> None:
    put(store, [record(metric=metric)])
    assert everything(store, metric) == [record(metric=metric)]
