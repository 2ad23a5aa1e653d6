"""The simulator's DynamoDB answers as Amazon's own does: what is shown on it counts."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from math import inf
from typing import Any

import pytest

from aws_here.local_aws import create_metrics_table, lead_to
from aws_here.memory_aws import led_to, memory_aws
from kizami.aggregation.stores.company_table import _still
from kizami.aggregation.stores.points_table import NOT_GRANTED_TODAY, ONE_MORE_POINT
from kizami.aws.client.json_client import AwsError
from kizami.aws.dynamodb import dynamodb_client, read_items
from kizami.aws.plans import Plans
from kizami.aws.ticks import TickFacts, Ticks
from kizami.core.bundles import Bundle, BundleMember, BundlePlan
from kizami.core.slots import parse_instant, shift
from kizami.core.ticks import Answered
from simulation.aws_world.dynamodb import Refused, SimulatedDynamoDb, Table

Fields = dict[str, Any]
Maker = Callable[[random.Random, str], tuple[str, Fields]]

KEPT = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
N1, N2, SET, TEXT = {"N": "1"}, {"N": "2.5"}, {"NS": ["1", "3"]}, {"S": "trouble"}
BYTES = {"B": base64.b64encode(b"\0\1\2").decode()}
VALUES = {":one": N1, ":two": N2, ":set": SET, ":text": TEXT, ":bytes": BYTES, ":other": {"NS": ["1", "2", "7"]}}
VALUES |= {":map": {"M": {}}, ":yes": {"BOOL": True}}
NAMES = {"#0": "0", "#1": "1", "#v": "v"}

_CONDITIONS = (
    "",
    "attribute_not_exists(metricName)",
    "attribute_exists(v)",
    "attribute_exists(v.#0) OR attribute_not_exists(o)",
    "n = :one",
    "n <> :one",
    "n < :two AND attribute_exists(n)",
    "n >= :two OR (n <= :one AND NOT attribute_exists(o))",
    "n BETWEEN :one AND :two",
    "n IN (:one, :two)",
    "o = :set",
    "a = :bytes",
    "a > :bytes",
    "v = :map",
    "v.#0 = :bytes",
    "l.#1 = :two",
    "size(o) = :two",
    "size(a) > :two",
    "begins_with(s, :text)",
    "contains(o, :one)",
    "n > :text",
    "s = :text AND n < :two",
    "attribute_not_exists(v.#0) OR v.#0 < :bytes",
    _still(None)[0],
)
_UPDATES = (
    "SET v.#0 = if_not_exists(v.#0, :bytes), v.#1 = if_not_exists(v.#1, :one) ADD d :set, h :other DELETE o :set",
    "SET v.#0 = if_not_exists(v.#0, :bytes)",
    "SET n = n + :two, s = if_not_exists(s, :text)",
    "SET n = if_not_exists(n, :one) - :two",
    "SET n = o",
    "SET l.#1 = :two",
    "SET l = if_not_exists(l, :map)",
    "SET q = :one ADD o :set DELETE d :set",
    "SET q = :one ADD n :two REMOVE s",
    "ADD o :set DELETE o :set",
    "ADD n :two",
    "ADD s :one",
    "ADD o :other",
    "ADD s :set",
    "DELETE d :set",
    "DELETE o :set, d :set",
    "DELETE n :set",
    "DELETE o :one",
    "ADD a :text",
    "REMOVE o, n",
    "REMOVE v.#0",
    "SET v.#0 = :other",
    "REMOVE l.#1",
    "REMOVE l",
    "SET v.#0 = :one, v = :map",
    "SET v.#0 = :one, v.#0 = :two",
    "SET metricName = :text",
    "SET plan = :one",
    "SET n = :one SET s = :text",
    "SET n = :one,",
)
_RANGES = (
    "metricName = :metric",
    "metricName = :metric AND slotTime = :first",
    "metricName = :metric AND slotTime BETWEEN :first AND :last",
    "metricName = :metric AND slotTime BETWEEN :last AND :first",
    *(f"metricName = :metric AND slotTime {side} :last" for side in ("<", "<=", ">", ">=")),
    "metricName = :metric AND begins_with(slotTime, :start)",
    "slotTime = :first",
    "metricName = :metric AND n = :first",
)
_OPTIONS: tuple[Fields, ...] = (
    {},
    {"ConsistentRead": True},
    {"Select": "COUNT"},
    {"FilterExpression": "attribute_exists(o)"},
    {"FilterExpression": "attribute_not_exists(o) AND attribute_not_exists(p)", "Select": "COUNT"},
    {"FilterExpression": "attribute_exists(o)", "Limit": 2},
    {"ScanIndexForward": False},
    {"ScanIndexForward": False, "Limit": 1},
    {"Limit": 2, "ConsistentRead": True},
    {"ProjectionExpression": "slotTime, n, v.#0", "ExpressionAttributeNames": {"#0": "0"}},
)
_STATEMENTS = (
    ("DELETE FROM {} WHERE metricName = ? AND slotTime = ?", ()),
    ("DELETE FROM {} WHERE metricName = ? AND slotTime = ? AND a = ?", ("a",)),
    ("DELETE FROM {} WHERE metricName = ? AND slotTime = ? AND a = ? AND v = ?", ("a", "v")),
    ("DELETE FROM {} WHERE metricName = ? AND slotTime = ? AND a = ? AND o IS MISSING", ("a",)),
    ("DELETE FROM {} WHERE metricName = ? AND slotTime = ? AND n = ? AND attribute_not_exists(o)", ("n",)),
    ("UPDATE {} SET n = ? SET s = ? WHERE metricName = ? AND slotTime = ? AND n = ?", None),
    ("UPDATE {} SET n = ? REMOVE o WHERE metricName = ? AND slotTime = ?", None),
)


@pytest.mark.parametrize("seed", range(6))
def test_the_simulated_dynamodb_answers_as_amazons_does(
    seed: int, dynamodb_local_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead_to(dynamodb_local_endpoint, monkeypatch)
    table = create_metrics_table(dynamodb_local_endpoint)
    simulated = SimulatedDynamoDb()
    simulated.tables[table] = Table("metricName", "slotTime")
    for operation, request in _operations(random.Random(seed), table, 400):
        expected = _answer(None, operation, request)
        assert _answer(simulated, operation, request) == expected, (operation, request)


def _answer(simulated: SimulatedDynamoDb | None, operation: str, request: Fields) -> object:
    """Return what can be compared of an answer, with the items of all further pages."""
    try:
        found = page = _call(simulated, operation, request)
        rest: list[Fields] = []
        while "LastEvaluatedKey" in page:
            page = _call(simulated, operation, {**request, "ExclusiveStartKey": page["LastEvaluatedKey"]})
            rest += page.get("Items", ())
    except (AwsError, Refused) as refused:
        return refused.code, _ordered(refused.item or {})
    responses = [_response(each) for each in _listed(found.get("Responses", ()))]
    items = [*found.get("Items", ()), *filter(None, [found.get("Item"), found.get("Attributes")])]
    capacity = found.get("ConsumedCapacity", {}).get("CapacityUnits")
    if not found.get("ScannedCount", 1):
        capacity = None  # Amazon bills half a unit for a range without items, DynamoDB Local does not
    # A page that ends at its Limit has a LastEvaluatedKey, even if nothing follows (Query.Pagination in Amazon's
    # guide). DynamoDB Local leaves it out where the last item is also the bound of the range.
    goes_on = "LastEvaluatedKey" in found or found.get("ScannedCount") == request.get("Limit", -1)
    return list(map(_ordered, items + rest)), found.get("Count"), goes_on, responses, capacity


def _call(simulated: SimulatedDynamoDb | None, operation: str, request: Fields) -> Fields:
    if simulated is not None:
        return simulated.perform(operation, request)
    return dynamodb_client().call(operation, request, 60.0)


def _listed(responses: Any) -> list[Fields]:
    if isinstance(responses, dict):
        return sorted((_ordered(item) for each in responses.values() for item in each), key=str)
    return list(responses)


def _response(response: Fields) -> object:
    if "metricName" in response:
        return response
    return response.get("Error", {}).get("Code"), _ordered(response.get("Item", {}))


def _ordered(item: Fields) -> Fields:
    return {name: _comparable(typed) for name, typed in sorted(item.items())}


def _comparable(typed: Fields) -> Fields:
    """Return a value in one form: DynamoDB trims zeros at the end of numbers, DynamoDB Local not those of sums."""
    match next(iter(typed.items())):
        case "N", number:
            return {"N": Decimal(number)}
        case "NS", numbers:
            return {"NS": sorted(map(Decimal, numbers))}
        case "M", entries:
            return {"M": _ordered(entries)}
    return typed


def _operations(chance: random.Random, table: str, number: int) -> Iterator[tuple[str, Fields]]:
    """Some of every kind that the functions use, about few keys."""
    makers: tuple[Maker, ...] = (
        _put,
        _put,
        _update,
        _update,
        _update,
        _delete,
        _query,
        _query,
        _together,
        _insert,
        _get,
    )
    makers += (_get_several, _write_several, _state, _state)
    for _ in range(number):
        yield chance.choice(makers)(chance, table)


def _key(chance: random.Random) -> Fields:
    return {
        "metricName": {"S": chance.choice("ab")},
        "slotTime": {"S": f"2025-12-02T10:23:0{chance.randrange(6)}Z"},
    }


def _item(chance: random.Random) -> Fields:
    attributes: Fields = {
        "a": BYTES,
        "v": {"M": chance.choice(({}, {}, {"0": BYTES}))},
        "o": {"NS": ["1", "2", "3"][: chance.choice((1, 3))]},
        "d": SET,
        "n": chance.choice((N1, N2)),
        "s": TEXT,
        "l": {"M": {"1": N2}},
        "expiresAt": {
            "N": "1700000000"
        },  # long ago; nothing happens to the item until DynamoDB deletes it some day
        "x": {"B": base64.b64encode(bytes(chance.choice((1, 900, 2000, 5000)))).decode()},
    }
    return _key(chance) | {name: typed for name, typed in attributes.items() if chance.random() < 0.5}


def _request(table: str, about: Fields, **texts: str) -> Fields:
    """A request with the names and values that its expressions mention."""
    whole = " ".join(texts.values())
    names = {name: attribute for name, attribute in NAMES.items() if name in whole}
    values = {name: typed for name, typed in VALUES.items() if f"{name} " in f"{whole.translate(_SEPARATORS)} "}
    request: Fields = {"TableName": table, **about, **{name: text for name, text in texts.items() if text}}
    request |= {"ExpressionAttributeNames": names} if names else {}
    request |= {"ExpressionAttributeValues": values} if values else {}
    return request


_SEPARATORS = str.maketrans(dict.fromkeys("),", " "))


def _changing(chance: random.Random, table: str, about: Fields, **texts: str) -> Fields:
    request = _request(table, about, ConditionExpression=chance.choice(_CONDITIONS), **texts)
    return {**request, **chance.choice(({}, KEPT)), "ReturnConsumedCapacity": "TOTAL"}


def _put(chance: random.Random, table: str) -> tuple[str, Fields]:
    return "PutItem", _changing(chance, table, {"Item": _item(chance)})


def _update(chance: random.Random, table: str) -> tuple[str, Fields]:
    request = _changing(chance, table, {"Key": _key(chance)}, UpdateExpression=chance.choice(_UPDATES))
    return "UpdateItem", {**request, **chance.choice(({}, {"ReturnValues": "ALL_NEW"}))}


def _delete(chance: random.Random, table: str) -> tuple[str, Fields]:
    return "DeleteItem", _changing(chance, table, {"Key": _key(chance)})


def _get(chance: random.Random, table: str) -> tuple[str, Fields]:
    request = {"TableName": table, "Key": _key(chance), "ProjectionExpression": "o, n, v.x"}
    return "GetItem", {**request, "ReturnConsumedCapacity": "TOTAL", "ConsistentRead": chance.random() < 0.5}


def _get_several(chance: random.Random, table: str) -> tuple[str, Fields]:
    keys = [_key(chance) for _ in range(3)]
    return "BatchGetItem", {"RequestItems": {table: {"Keys": keys, "ConsistentRead": chance.random() < 0.5}}}


def _write_several(chance: random.Random, table: str) -> tuple[str, Fields]:
    writes: list[Fields] = [{"PutRequest": {"Item": _item(chance)}} for _ in range(2)]
    return "BatchWriteItem", {"RequestItems": {table: [*writes, {"DeleteRequest": {"Key": _key(chance)}}]}}


def _together(chance: random.Random, table: str) -> tuple[str, Fields]:
    condition = "attribute_not_exists(slotTime)"
    items = {str(_key_of(item)): item for item in (_item(chance), _item(chance))}.values()
    puts = [{"Put": {"TableName": table, "Item": item, "ConditionExpression": condition}} for item in items]
    return "TransactWriteItems", {"TransactItems": puts}


def _insert(chance: random.Random, table: str) -> tuple[str, Fields]:
    statements = []
    for item in {str(_key_of(item)): item for item in (_item(chance), _item(chance))}.values():
        names = ", ".join(f"'{name}': ?" for name in item)
        statements.append(
            {"Statement": f'INSERT INTO "{table}" VALUE {{{names}}}', "Parameters": list(item.values())}
        )
    return "BatchExecuteStatement", {"Statements": statements}


def _state(chance: random.Random, table: str) -> tuple[str, Fields]:
    statements = []
    for key in {str(_key_of(key)): key for key in (_key(chance), _key(chance))}.values():
        text, others = chance.choice(_STATEMENTS)
        item = _item(chance) | {"a": BYTES, "v": {"M": chance.choice(({}, {"0": BYTES}))}, "n": N1}
        parameters = [*key.values(), *(item[name] for name in others or ())]
        if others is None:
            first, last = ([N2, TEXT], [N1]) if "SET s" in text else ([N2], [])
            parameters = [*first, *key.values(), *last]
        statements.append({"Statement": text.format(f'"{table}"'), "Parameters": parameters, **KEPT})
    return "BatchExecuteStatement", {"Statements": statements}


def _key_of(item: Fields) -> tuple[str, str]:
    return item["metricName"]["S"], item["slotTime"]["S"]


def _query(chance: random.Random, table: str) -> tuple[str, Fields]:
    condition, options = chance.choice(_RANGES), chance.choice(_OPTIONS)
    bounds = {"first": "2025-12-02T10:23:01Z", "last": "2025-12-02T10:23:04Z", "start": "2025-12-02T10:23:01"}
    values = {f":{name}": {"S": value} for name, value in {"metric": "a", **bounds}.items()}
    typed = {name: value for name, value in values.items() if name in condition}
    request = {"KeyConditionExpression": condition, "ExpressionAttributeValues": typed}
    return "Query", {"TableName": table, "ReturnConsumedCapacity": "TOTAL", **request, **options}


@pytest.mark.parametrize("seed", range(3))
def test_ticks_and_plans_fare_alike(
    seed: int, dynamodb_local_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead_to(dynamodb_local_endpoint, monkeypatch)
    found = list(_ticks_and_plans(random.Random(seed), create_metrics_table(dynamodb_local_endpoint)))
    with led_to(memory_aws()):
        assert list(_ticks_and_plans(random.Random(seed), "Metrics")) == found


def _ticks_and_plans(chance: random.Random, table: str) -> Iterator[object]:
    """Do what functions do with ticks and plans; return what each of it gave, and all items in the end."""
    members = tuple(BundleMember(name, 0, (name,)) for name in "abcd")
    bundle, other = (Bundle(f"{plan}.0", 5, 0, True, 0, members) for plan in ("one", "other"))
    ticks, plans = Ticks(table), Plans(table)
    start = parse_instant("2025-12-02T10:23:00Z", "start")
    both = tuple(BundlePlan(each.plan, (each,)) for each in (bundle, other))
    for _ in range(150):
        slot = shift(start, 5 * chance.randrange(4))
        places = [frozenset(chance.sample(range(4), chance.randrange(1, 3))) for _ in range(4)]
        answers = {
            place: Answered((chance.randrange(-9, 999),), 0, 7, chance.randrange(1, 3)) for place in places[0]
        }
        facts = TickFacts(answers, *(each if chance.random() < 0.5 else frozenset() for each in places[1:]))
        items = list(ticks.items(bundle, slot, shift(start, 20)))[: chance.randrange(1, 4)]
        if items and chance.random() < 0.5:
            items[0] = {**items[0], "v": {"M": {}}}  # as if it had changed since it was read
        yield chance.choice(
            (
                lambda slot=slot, facts=facts: ticks.record(bundle, slot, facts, 12),
                lambda slot=slot, facts=facts: ticks.put(bundle, slot, facts),
                lambda slot=slot, facts=facts: ticks.add(bundle, slot, facts),
                lambda slot=slot, places=places: ticks.ask_again(bundle, slot, places[0], start),
                lambda slot=slot, places=places: ticks.forget_dead(bundle, slot, places[0]),
                lambda items=items: ticks.delete(items) if items else None,
                lambda slot=slot: plans.claim(chance.choice(both), slot),
                lambda: plans.periods(),
                lambda: (plans.bundle("one.0"), plans.bundle("one.1"), plans.plan("other")),
            )
        )()
        yield ticks.count_perfect(bundle, start, shift(start, 20)), ticks.newest(bundle, slot, 2)
        yield ticks.at([(bundle, slot), (other, slot)])
    for partition in ("#tick one.0", "#plans", "#plan one"):
        request = {"KeyConditionExpression": "metricName = :name", "ConsistentRead": True}
        values = {"ExpressionAttributeValues": {":name": {"S": partition}}}
        yield [_ordered(item) for item in read_items(lambda: inf, {"TableName": table, **request, **values})]


def test_points_are_granted_alike(dynamodb_local_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lead_to(dynamodb_local_endpoint, monkeypatch)
    table = create_metrics_table(dynamodb_local_endpoint)
    simulated = SimulatedDynamoDb()
    simulated.tables[table] = Table("metricName", "slotTime")
    for now in ("7", "7", "9"):
        request = {
            "TableName": table,
            "Key": {"metricName": {"S": "a"}, "slotTime": {"S": "user"}},
            "UpdateExpression": ONE_MORE_POINT,
            "ConditionExpression": NOT_GRANTED_TODAY.replace("CompanyId", "metricName"),
            "ExpressionAttributeValues": {":zero": {"N": "0"}, ":one": N1, ":now": {"N": now}}
            | {":day_start": {"N": now}},
            "ReturnValues": "ALL_NEW",
        }
        assert _answer(simulated, "UpdateItem", request) == _answer(None, "UpdateItem", request)
