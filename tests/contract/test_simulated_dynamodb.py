"""The simulator's DynamoDB answers as others do to all that the functions ask: what is shown on it counts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from aws_here.local_aws import create_metrics_table
from kizami.aggregation.stores.company_table import _still
from kizami.aggregation.stores.points_table import NOT_GRANTED_TODAY, ONE_MORE_POINT
from kizami.aws.client.json_client import AwsError
from kizami.aws.dynamodb import dynamodb_client
from kizami.aws.store.block_items import _IS_AS_READ, _IS_NEW
from kizami.aws.store.metric_table import SLOT_IS_FREE, SLOTS_IN_RANGE, SLOTS_UNTIL
from kizami.aws.store.record_batches import _insert as _insert_statement
from simulation.aws_world.dynamodb import Refused, SimulatedDynamoDb, Table

Fields = dict[str, Any]

_CONDITIONS: tuple[Fields, ...] = (
    {},
    {"ConditionExpression": SLOT_IS_FREE},
    {"ConditionExpression": _IS_NEW},
    {"ConditionExpression": _IS_AS_READ, "ExpressionAttributeValues": {":version": {"N": "1"}}},
    {"ConditionExpression": _still(None)[0]},
    {"ConditionExpression": "attribute_exists(lacking)"},
)
_UPDATES: tuple[Fields, ...] = (
    {
        "UpdateExpression": "SET #0 = :0, #1 = :1",
        "ExpressionAttributeNames": {"#0": "LockOwner", "#1": "version"},
        "ExpressionAttributeValues": {":0": {"S": "trouble"}, ":1": {"N": "1"}},
    },
    {"UpdateExpression": "REMOVE LockOwner, version"},
    {
        "UpdateExpression": "DELETE lacking :stored",
        "ConditionExpression": "attribute_exists(slotTime)",
        "ExpressionAttributeValues": {":stored": {"NS": ["1", "3"]}},
    },
    {
        "UpdateExpression": ONE_MORE_POINT,
        "ConditionExpression": NOT_GRANTED_TODAY.replace("CompanyId", "metricName"),
        "ExpressionAttributeValues": {name: {"N": n} for name, n in zip((":zero", ":one"), "01", strict=True)}
        | {":now": {"N": "7"}, ":day_start": {"N": "7"}},
    },
)
_RANGES = ("metricName = :metric", SLOTS_IN_RANGE, SLOTS_UNTIL, "metricName = :metric AND slotTime = :first")
_OTHER_RANGES = (
    "metricName = :metric AND slotTime < :last",
    "metricName = :metric AND begins_with(slotTime, :first)",
)
_OPTIONS: tuple[Fields, ...] = (
    {},
    {"Select": "COUNT"},
    {"FilterExpression": "attribute_exists(lacking)"},
    {"FilterExpression": "attribute_not_exists(lacking)", "Select": "COUNT"},
    {"ScanIndexForward": False},
    {"ScanIndexForward": False, "Limit": 1},
)


@pytest.mark.parametrize("endpoint", ["dynamodb-local"], indirect=True)  # the others fail at some of it
def test_the_simulated_dynamodb_answers_as_others_do(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create_metrics_table(endpoint)
    simulated = SimulatedDynamoDb(random.Random(0), lambda *_: None, 1000)
    simulated.tables[table] = Table("metricName", "slotTime")
    for operation, request in _operations(random.Random(7), table):
        assert _answer(simulated, operation, request) == _answer(None, operation, request), (operation, request)


def _answer(simulated: SimulatedDynamoDb | None, operation: str, request: Fields) -> object:
    try:
        if simulated is None:
            found = dynamodb_client().call(operation, request, 60.0)
        else:
            found = simulated.perform(operation, request)
    except (AwsError, Refused) as refused:
        return refused.code
    responses = [each.get("Error", {}).get("Code") for each in found.get("Responses", ())]
    items = [_ordered(item) for item in (*found.get("Items", ()), *filter(None, [found.get("Item")]))]
    return items, found.get("Count"), "LastEvaluatedKey" in found, responses


def _ordered(item: Fields) -> Fields:
    return {
        name: {kind: sorted(v) if kind == "NS" else v for kind, v in typed.items()} for name, typed in item.items()
    }


def _operations(chance: random.Random, table: str) -> Iterator[tuple[str, Fields]]:
    """Some of every kind that the functions use, about few keys."""
    makers = (_put, _put, _update, _update, _delete, _query, _query, _together, _insert, _get)
    for _ in range(250):
        yield chance.choice(makers)(chance, table)


def _key(chance: random.Random) -> Fields:
    return {
        "metricName": {"S": chance.choice("ab")},
        "slotTime": {"S": f"2025-12-02T10:23:0{chance.randrange(6)}Z"},
    }


def _item(chance: random.Random) -> Fields:
    lacking = {"lacking": {"NS": ["1", "2", "3"]}} if chance.random() < 0.4 else {}
    version = {"version": {"N": "1"}} if chance.random() < 0.5 else {}
    return {**_key(chance), **lacking, **version, "count": {"N": str(chance.randrange(9))}}


def _put(chance: random.Random, table: str) -> tuple[str, Fields]:
    return "PutItem", {"TableName": table, "Item": _item(chance), **chance.choice(_CONDITIONS)}


def _update(chance: random.Random, table: str) -> tuple[str, Fields]:
    return "UpdateItem", {"TableName": table, "Key": _key(chance), **chance.choice(_UPDATES)}


def _delete(chance: random.Random, table: str) -> tuple[str, Fields]:
    return "DeleteItem", {"TableName": table, "Key": _key(chance), **chance.choice(_CONDITIONS)}


def _get(chance: random.Random, table: str) -> tuple[str, Fields]:
    return "GetItem", {"TableName": table, "Key": _key(chance), "ProjectionExpression": "lacking, version"}


def _together(chance: random.Random, table: str) -> tuple[str, Fields]:
    items = {str(_key_of(item)): item for item in (_item(chance), _item(chance))}.values()
    puts = [{"Put": {"TableName": table, "Item": item, "ConditionExpression": SLOT_IS_FREE}} for item in items]
    return "TransactWriteItems", {"TransactItems": puts}


def _insert(chance: random.Random, table: str) -> tuple[str, Fields]:
    items = {str(_key_of(item)): item for item in (_item(chance), _item(chance))}.values()
    for item in items:
        item.pop("lacking", None)  # moto takes no sets here, and no record has one
    statements = [_insert_statement(table, item) for item in items]
    return "BatchExecuteStatement", {"Statements": statements}


def _key_of(item: Fields) -> tuple[str, str]:
    return item["metricName"]["S"], item["slotTime"]["S"]


def _query(chance: random.Random, table: str) -> tuple[str, Fields]:
    condition, options = chance.choice((*_RANGES, *_OTHER_RANGES)), chance.choice(_OPTIONS)
    values = {":metric": "a", ":first": "2025-12-02T10:23:01Z", ":last": "2025-12-02T10:23:04Z"}
    typed = {name: {"S": value} for name, value in values.items() if name in condition}
    request = {"KeyConditionExpression": condition, "ExpressionAttributeValues": typed, "ConsistentRead": True}
    return "Query", {"TableName": table, **request, **options}
