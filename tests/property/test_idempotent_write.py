"""Property 9: however often and with whatever counts a slot is written, its first record is the one that stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aws_here.local_aws import create_metrics_table, lead_to
from fakes.ports import ReadableStore
from fakes.sqlite_records import SqliteRecords
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.core.messages import MAX_COUNT, MetricRecord
from kizami.core.ports import PutOutcome
from kizami.core.slots import floor_to_slot
from samples.strategies import metrics

instants = st.datetimes(max_value=datetime.fromisoformat("9999-12-31"), timezones=st.just(UTC))
writes = st.lists(st.tuples(st.integers(0, MAX_COUNT), instants), min_size=2, max_size=6)


@pytest.fixture(scope="module", params=["sqlite", "dynamodb"])
def new_store(
    request: pytest.FixtureRequest, moto_endpoint: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], ReadableStore]]:
    """Makes an empty store for each example."""
    empty = tmp_path_factory.mktemp("empty") / "kizami.db"
    SqliteRecords(empty, create=True).close()
    with pytest.MonkeyPatch.context() as patch:
        lead_to(moto_endpoint, patch)
        stores: dict[str, Callable[[], ReadableStore]] = {
            "sqlite": lambda: SqliteRecords(Path(copy(empty, tmp_path_factory.mktemp("records")))),
            "dynamodb": lambda: DynamoDbMetricStore(create_metrics_table(moto_endpoint)),
        }
        yield stores[request.param]


# **Feature: data-collection-scheduler, Property 9: Idempotent DynamoDB writes**
@given(metric=metrics, instant=instants, writes=writes)
@settings(max_examples=100)
def test_a_slot_written_again_and_again_has_exactly_one_record_the_first(
    new_store: Callable[[], ReadableStore], metric: str, instant: datetime, writes: list[tuple[int, datetime]]
) -> None:
    store, slot = new_store(), floor_to_slot(instant)
    records = [MetricRecord(metric, slot, count, at.replace(microsecond=0)) for count, at in writes]
    outcomes = [store.put_if_absent(record) for record in records]
    assert outcomes == [PutOutcome.STORED] + [PutOutcome.DUPLICATE] * (len(records) - 1)
    assert list(store.query(metric, slot, slot + timedelta(seconds=5))) == records[:1]
