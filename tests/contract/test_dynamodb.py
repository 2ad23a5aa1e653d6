"""The DynamoDB adapter beyond the store's contract: what stands in the table, paging, and its errors."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from aws_here.local_aws import create_metrics_table, dynamodb_at, lead_to
from fakes.fault_server import FaultServer, raw, refused_url
from kizami.aws.history.hour_totals import HourTotals
from kizami.aws.history.keeping import expiring
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.backend.values import Bucket
from kizami.core.errors import StoreError
from kizami.core.messages import MetricRecord
from kizami.core.ports import PutOutcome
from kizami.core.targets.target import Target

SLOT = datetime(2025, 12, 2, 10, 23, 5, tzinfo=UTC)
RECORD = MetricRecord("ai_response_count", SLOT, 7, SLOT + timedelta(seconds=1, microseconds=250_000))
KEY = {"metricName": {"S": "ai_response_count"}, "slotTime": {"S": "2025-12-02T10:23:05Z"}}


@pytest.fixture
def table(endpoint: str) -> str:
    return create_metrics_table(endpoint)


def put_item(endpoint: str, table: str, item: dict[str, Any]) -> None:
    dynamodb_at(endpoint).put_item(TableName=table, Item=item)


def read_all(table: str) -> list[MetricRecord]:
    return list(DynamoDbMetricStore(table).query("ai_response_count", SLOT, SLOT + timedelta(days=1)))


def test_the_item_is_the_seeds_record_with_our_time_of_collection(endpoint: str, table: str) -> None:
    DynamoDbMetricStore(table).put_if_absent(RECORD)
    item = dynamodb_at(endpoint).get_item(TableName=table, Key=KEY)["Item"]
    assert item == {**KEY, "count": {"N": "7"}, "collectedAt": {"S": "2025-12-02T10:23:06Z"}}


def test_a_record_that_is_not_kept_for_ever_says_when_it_goes_and_is_read_as_any_other(
    endpoint: str, table: str
) -> None:
    (record,) = expiring([RECORD], Target(keep_seconds=90 * 86_400))
    DynamoDbMetricStore(table).put_if_absent(record)
    item = dynamodb_at(endpoint).get_item(TableName=table, Key=KEY)["Item"]
    closed = SLOT.replace(minute=0, second=0) + timedelta(hours=1, days=90)  # its hour is kept as a whole
    assert item["expiresAt"] == {"N": str(int((closed + timedelta(days=3)).timestamp()))}
    assert [(each.count, each.expires_at) for each in read_all(table)] == [(7, record.expires_at)]


def test_the_first_record_that_is_kept_is_found_behind_those_that_have_expired(endpoint: str, table: str) -> None:
    store, target = DynamoDbMetricStore(table), Target(keep_seconds=86_400)
    day = [replace(RECORD, slot=SLOT + timedelta(minutes=10 * number)) for number in range(200)]
    for record in expiring(day, target):
        store.put_if_absent(record)
    kept = SLOT.replace(minute=0, second=0) + timedelta(hours=20)
    now = kept + timedelta(days=4, minutes=1)
    found = store.first_kept(RECORD.metric, now)
    assert found is not None
    assert found.slot == next(record.slot for record in day if record.slot >= kept)
    assert store.first_kept(RECORD.metric, now + timedelta(days=90)) is None
    later = store.first_kept(RECORD.metric, now, kept + timedelta(hours=5))
    assert later is not None
    assert later.slot == next(record.slot for record in day if record.slot >= kept + timedelta(hours=5))


def test_totals_of_hours_are_read_as_they_were_written_and_only_more_records_replace_them(
    endpoint: str, table: str
) -> None:
    totals, now = HourTotals(table), SLOT + timedelta(days=1)
    hours = [SLOT.replace(minute=0, second=0) + timedelta(hours=number) for number in range(3)]
    whole = Bucket(hours[0], 720, -1.5, 2**53 - 1, Decimal("6485183463413519720.25"))
    assert (totals.until("calls"), totals.between("calls", hours[0], hours[2], now)) == (None, [])
    totals.put("calls", whole, None)
    totals.put("calls", replace(whole, stored=719, total=5), None)
    totals.put("calls", Bucket(hours[1], 1, 4, 4, 4), int(now.timestamp()))  # which is over by now
    assert totals.between("calls", hours[0], hours[2], now) == [whole]
    assert totals.between("other", hours[0], hours[2], now) == []
    assert totals.until("calls") == hours[2]
    totals.put("calls", replace(whole, stored=721), None)
    assert [hour.stored for hour in totals.between("calls", hours[0], hours[1], now)] == [721]


def test_a_bare_item_of_the_seeds_is_read_and_respected(endpoint: str, table: str) -> None:
    put_item(endpoint, table, {**KEY, "count": {"N": "3"}})
    assert DynamoDbMetricStore(table).put_if_absent(RECORD) is PutOutcome.DUPLICATE
    assert read_all(table) == [MetricRecord("ai_response_count", SLOT, 3, SLOT)]


@pytest.mark.parametrize("count", [0.1, -12.25, 1e-09, 999_999.123456789])
def test_decimal_places_are_numbers_in_the_table(endpoint: str, table: str, count: float) -> None:
    DynamoDbMetricStore(table).put_if_absent(replace(RECORD, count=count))
    assert [record.count for record in read_all(table)] == [count]
    (item,) = dynamodb_at(endpoint).scan(TableName=table)["Items"]
    assert Decimal(item["count"]["N"]) == Decimal(repr(count))


def test_a_query_goes_on_through_all_pages(endpoint: str, table: str) -> None:
    """Five items of 390 kB are more than two of the megabytes that DynamoDB gives at once."""
    slots = [SLOT + timedelta(seconds=5 * number) for number in range(5)]
    for number, slot in enumerate(slots):
        key = {**KEY, "slotTime": {"S": slot.strftime("%Y-%m-%dT%H:%M:%SZ")}}
        put_item(endpoint, table, {**key, "count": {"N": str(number)}, "note": {"S": "x" * 390_000}})
    first_page = dynamodb_at(endpoint).query(
        TableName=table,
        KeyConditionExpression="metricName = :m",
        ExpressionAttributeValues={":m": KEY["metricName"]},
    )
    assert "LastEvaluatedKey" in first_page, "the test must make more than one page"
    assert [(record.slot, record.count) for record in read_all(table)] == list(zip(slots, range(5), strict=True))


def test_a_query_is_consistent_and_names_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was just acknowledged must show; no local DynamoDB can tell the difference."""
    with FaultServer(raw(b'{"Items": []}')) as server:
        lead_to(server.url, monkeypatch)
        assert read_all("AiResponseMetrics") == []
        asked = json.loads(server.requests[0].body)
    assert asked["ConsistentRead"] is True
    assert asked["ExpressionAttributeValues"] == {
        ":metric": {"S": "ai_response_count"},
        ":first": {"S": "2025-12-02T10:23:05Z"},
        ":last": {"S": "2025-12-03T10:23:04Z"},
    }


@pytest.mark.parametrize("count", [{"N": "9007199254740992"}, {"S": "7"}, {"NULL": True}, {"M": {}}])
def test_an_item_that_is_no_record_is_named_as_such(endpoint: str, table: str, count: dict[str, Any]) -> None:
    put_item(endpoint, table, {**KEY, "count": count})
    with pytest.raises(StoreError, match=r"^the item .*2025-12-02T10:23:05Z.* is not a metric record: count"):
        read_all(table)


def test_a_missing_table_is_a_store_error(endpoint: str) -> None:
    store = DynamoDbMetricStore("NoSuchTable")
    with pytest.raises(StoreError, match="PutItem: ResourceNotFoundException"):
        store.put_if_absent(RECORD)
    with pytest.raises(StoreError, match="Query: ResourceNotFoundException"):
        read_all("NoSuchTable")


def test_an_endpoint_that_nobody_listens_on_is_a_store_error(monkeypatch: pytest.MonkeyPatch) -> None:
    lead_to(refused_url(), monkeypatch)
    with pytest.raises(StoreError, match=r"PutItem: Unreachable: .*connection refused by "):
        DynamoDbMetricStore("AiResponseMetrics").put_if_absent(RECORD)
