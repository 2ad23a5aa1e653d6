"""The records of one answer: one call for all, and one after the other where a slot has its record already."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kizami.aws import dynamodb
from kizami.aws.client.json_client import AwsError
from kizami.aws.store import metric_table
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.core.errors import StoreError
from kizami.core.messages import MetricRecord
from kizami.core.ports import PutOutcome

SLOT = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
RECORDS = [MetricRecord(name, SLOT, 7, SLOT) for name in ("usage/requests", "usage/cost")]


class Calls:
    """DynamoDB, as far as it says yes or why not."""

    def __init__(self, **refusals: str) -> None:
        self.made: list[str] = []
        self._refusals = refusals

    def __call__(self, time_left: object, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self.made.append(operation)
        if code := self._refusals.get(operation):
            raise AwsError(operation, code, "refused")
        return {}


def test_several_are_one_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls()
    for module in (dynamodb, metric_table):
        monkeypatch.setattr(module, "call_dynamodb", calls)
    assert DynamoDbMetricStore("t").put_all_if_absent(RECORDS) == [PutOutcome.STORED] * 2
    assert calls.made == ["TransactWriteItems"]


def test_where_one_is_there_each_is_written_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(TransactWriteItems="TransactionCanceledException", PutItem="ConditionalCheckFailedException")
    for module in (dynamodb, metric_table):
        monkeypatch.setattr(module, "call_dynamodb", calls)
    assert DynamoDbMetricStore("t").put_all_if_absent(RECORDS) == [PutOutcome.DUPLICATE] * 2
    assert calls.made == ["TransactWriteItems", "PutItem", "PutItem"]


class Throttled:
    """A table that has room for one key of each question, or for none."""

    def __init__(self, room: int) -> None:
        self._room = room

    def __call__(self, time_left: object, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        keys = parameters["RequestItems"]["t"]["Keys"]
        items = [{**key, "count": {"N": "7"}, "collectedAt": key["slotTime"]} for key in keys[: self._room]]
        rest = {"t": {"Keys": keys[self._room :]}} if keys[self._room :] else {}
        return {"Responses": {"t": items}, "UnprocessedKeys": rest}


def test_what_was_throttled_is_asked_for_again_after_ever_longer_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(dynamodb, "call_dynamodb", Throttled(room=1))
    monkeypatch.setattr("kizami.aws.client.machine.sleep", pauses.append)
    found = DynamoDbMetricStore("t").records_at({"calls": SLOT, "orders": SLOT, "users": SLOT})
    assert [record.metric for record in found] == ["calls", "orders", "users"]
    assert pauses == [0.0, *dynamodb.PAUSES_SECONDS[:2]]


def test_a_table_that_gives_nothing_is_an_error_and_no_endless_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamodb, "call_dynamodb", Throttled(room=0))
    monkeypatch.setattr("kizami.aws.client.machine.sleep", lambda seconds: None)
    with pytest.raises(StoreError, match="asked for more than it gives"):
        DynamoDbMetricStore("t").records_at({"calls": SLOT})
