"""The DynamoDB adapter beyond the store's contract: what stands in the table, paging, and its errors."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aws_here.local_aws import create_metrics_table, dynamodb_at, lead_to
from fakes.fault_server import FaultServer, raw, refused_url
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.core.errors import StoreError
from kizami.core.messages import MetricRecord
from kizami.core.ports import PutOutcome

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


def test_a_bare_item_of_the_seeds_is_read_and_respected(endpoint: str, table: str) -> None:
    put_item(endpoint, table, {**KEY, "count": {"N": "3"}})
    assert DynamoDbMetricStore(table).put_if_absent(RECORD) is PutOutcome.DUPLICATE
    assert read_all(table) == [MetricRecord("ai_response_count", SLOT, 3, SLOT)]


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


@pytest.mark.parametrize("count", [{"N": "-1"}, {"N": "1.5"}, {"S": "7"}, {"NULL": True}, {"M": {}}])
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
    with pytest.raises(StoreError, match=r"PutItem: Unreachable: .*Connection refused"):
        DynamoDbMetricStore("AiResponseMetrics").put_if_absent(RECORD)
