"""Records of many metrics written 25 a call: what was throttled is written again, and a stored one stays."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import fakes.fault_server as faults
from aws_here.local_aws import create_metrics_table, dynamodb_at, lead_to
from fakes.fault_server import Exchange, FaultServer
from kizami.aws.store.record_batches import RecordBatches
from kizami.core.errors import StoreError
from kizami.core.messages import MetricRecord
from kizami.core.ports import PutOutcome

SLOT = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
STORED, DUPLICATE = PutOutcome.STORED, PutOutcome.DUPLICATE


def records(number: int, count: int = 1) -> list[MetricRecord]:
    return [MetricRecord(f"m{each}", SLOT, count, SLOT) for each in range(number)]


def test_new_records_are_stored_and_those_that_are_there_stay_as_they_are(
    dynamodb_local_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead_to(dynamodb_local_endpoint, monkeypatch)
    table = create_metrics_table(dynamodb_local_endpoint)
    batches = RecordBatches(table, lambda: 30.0)
    # On a busy machine a call may be repeated, and then it meets its own records.
    assert set(batches.put(records(30))) <= {STORED, DUPLICATE}
    later = [*records(30, count=9), MetricRecord("m0", SLOT + timedelta(seconds=5), 2.5, SLOT)]
    assert batches.put(later)[:30] == [DUPLICATE] * 30
    items = dynamodb_at(dynamodb_local_endpoint).scan(TableName=table)["Items"]
    assert sorted(item["count"]["N"] for item in items) == ["1"] * 30 + ["2.5"]
    assert all(item.keys() == {"metricName", "slotTime", "count", "collectedAt"} for item in items)


class Table:
    """A DynamoDB that answers each statement as it is told to, the first time and the next times."""

    def __init__(self, *ways: Callable[[int], dict[str, Any]]) -> None:
        self.ways = list(ways)
        self.calls: list[int] = []

    def __call__(self, exchange: Exchange) -> None:
        statements = json.loads(exchange.request.body)["Statements"]
        self.calls.append(len(statements))
        way = self.ways.pop(0) if len(self.ways) > 1 else self.ways[0]
        body = json.dumps({"Responses": [way(number) for number in range(len(statements))]}).encode()
        exchange.write(faults.head(len(body)) + body)


def refused(code: str) -> dict[str, Any]:
    return {"Error": {"Code": code, "Message": "told to"}}


def put(table: Table, number: int, monkeypatch: pytest.MonkeyPatch, seconds: float = 30) -> list[object]:
    monkeypatch.setattr("kizami.aws.client.machine.sleep", lambda _: None)
    with FaultServer(table) as server:
        lead_to(server.url, monkeypatch)
        return list(RecordBatches("Metrics", lambda: seconds).put(records(number)))


def test_what_was_throttled_is_written_again_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def throttled(number: int) -> dict[str, Any]:
        return refused("ProvisionedThroughputExceeded") if number % 5 == 0 else {"TableName": "t"}

    table = Table(throttled, lambda _: {"TableName": "t"})
    assert put(table, 25, monkeypatch) == [STORED] * 25
    assert table.calls == [25, 5]


def test_what_stays_throttled_or_is_refused_for_good_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def way(number: int) -> dict[str, Any]:
        return refused({0: "ThrottlingError", 1: "AccessDenied"}[number]) if number < 2 else {"TableName": "t"}

    table = Table(way)
    outcomes = put(table, 5, monkeypatch)
    assert outcomes[2:] == [STORED] * 3
    assert all(isinstance(outcome, StoreError) for outcome in outcomes[:2])
    assert "AccessDenied: told to" in str(outcomes[1])


def test_with_little_time_left_nothing_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(lambda _: refused("ThrottlingError"))
    outcomes = put(table, 3, monkeypatch, seconds=0.2)
    assert table.calls == [3]
    assert all(isinstance(outcome, StoreError) for outcome in outcomes)


def test_a_call_that_fails_fails_all_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer(faults.status(400)) as server:
        lead_to(server.url, monkeypatch)
        outcomes = RecordBatches("Metrics", lambda: 5.0).put(records(30))
    assert len(outcomes) == 30
    assert all(isinstance(outcome, StoreError) for outcome in outcomes)
