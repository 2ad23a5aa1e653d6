"""The Company and Points tables beyond the stores' contracts: what stands in them, what survives, and errors."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from aws_here.local_aws import create_company_table, create_points_table, dynamodb_at
from kizami.aggregation.lock import Lock
from kizami.aggregation.points import GrantOutcome, PointDay
from kizami.aggregation.stores import company_table, points_table
from kizami.aggregation.stores.company_table import DynamoDbLockStore, list_companies
from kizami.aggregation.stores.points_table import DynamoDbPointStore
from kizami.aws import dynamodb
from kizami.aws.client.json_client import AwsError
from kizami.core.errors import StoreError

NOW = datetime(2025, 12, 2, 3, 0, 0, tzinfo=UTC)
LOCK = Lock(NOW, "m1", "r1")
DAY = PointDay(start=1764601200, now=1764644400, month="202512")
ACME = {"CompanyId": {"S": "acme"}}
OURS = {"UpdateAt": {"S": "2025-12-02T03:00:00Z"}, "LockOwner": {"S": "m1"}, "LockRun": {"S": "r1"}}
THEIRS: dict[str, Any] = {
    "Name": {"S": "Acme Corp."},
    "ApiKeyRef": {"S": "secretsmanager:acme/key"},
    "Plan": {"M": {"seats": {"N": "100000"}}},
}


@pytest.fixture
def companies(endpoint: str) -> str:
    return create_company_table(endpoint)


@pytest.fixture
def points(endpoint: str) -> str:
    return create_points_table(endpoint)


def item_of(endpoint: str, table: str, key: dict[str, Any]) -> dict[str, Any]:
    return dynamodb_at(endpoint).get_item(TableName=table, Key=key, ConsistentRead=True).get("Item", {})


def put(endpoint: str, table: str, item: dict[str, Any]) -> None:
    dynamodb_at(endpoint).put_item(TableName=table, Item=item)


def test_the_companys_other_attributes_survive_lock_and_release(endpoint: str, companies: str) -> None:
    put(endpoint, companies, {**ACME, **THEIRS})
    locks = DynamoDbLockStore(companies)
    locks.acquire("acme", None, LOCK)
    assert item_of(endpoint, companies, ACME) == {**ACME, **THEIRS, **OURS}
    locks.release("acme", LOCK)
    assert item_of(endpoint, companies, ACME) == {**ACME, **THEIRS}


def test_the_lock_is_read_consistently_and_nothing_else_of_the_company(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def call_dynamodb(*call: Any) -> dict[str, Any]:
        asked.append(call[1:])
        return {}

    monkeypatch.setattr(company_table, "call_dynamodb", call_dynamodb)
    assert DynamoDbLockStore("Company").read("acme") is None
    attributes = "UpdateAt, LockOwner, LockRun"
    whole = {"TableName": "Company", "Key": ACME, "ConsistentRead": True, "ProjectionExpression": attributes}
    assert asked == [("GetItem", whole)]


def test_releasing_a_company_that_is_not_there_does_not_make_one(endpoint: str, companies: str) -> None:
    DynamoDbLockStore(companies).release("acme", LOCK)
    assert item_of(endpoint, companies, ACME) == {}


def test_a_bare_lock_of_the_specification_is_seen_and_taken_over(endpoint: str, companies: str) -> None:
    put(endpoint, companies, {**ACME, "UpdateAt": {"S": "2025-12-01T00:00:00Z"}})
    locks = DynamoDbLockStore(companies)
    seen = locks.read("acme")
    assert seen == Lock(datetime(2025, 12, 1, tzinfo=UTC), None, None)
    assert locks.acquire("acme", seen, LOCK) == LOCK
    assert item_of(endpoint, companies, ACME) == {**ACME, **OURS}


@pytest.mark.parametrize("update_at", [{"N": "1764644400"}, {"S": "yesterday"}, {"NULL": True}])
def test_an_update_at_of_another_kind_is_a_store_error(
    endpoint: str, companies: str, update_at: dict[str, Any]
) -> None:
    put(endpoint, companies, {**ACME, "UpdateAt": update_at})
    with pytest.raises(StoreError, match="not as the batch writes it: UpdateAt"):
        DynamoDbLockStore(companies).read("acme")


def test_a_point_item_is_as_the_specification_names_it(endpoint: str, points: str) -> None:
    DynamoDbPointStore(points).grant("acme", ["u1"], DAY)
    key = {**ACME, "UserMonth": {"S": "u1#202512"}}
    assert item_of(endpoint, points, key) == {**key, "Points": {"N": "1"}, "UpdateTimestamp": {"N": "1764644400"}}


def test_those_who_have_their_point_are_read_and_not_written_again(
    points: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DynamoDbPointStore(points)
    store.grant("acme", [f"u{number}" for number in range(30)], DAY)
    operations = record_calls(monkeypatch)
    outcomes = DynamoDbPointStore(points).grant("acme", [f"u{number}" for number in range(31)], DAY)
    assert list(outcomes) == [GrantOutcome.ALREADY_GRANTED] * 30 + [GrantOutcome.GRANTED]
    assert operations == ["BatchGetItem", "UpdateItem"]


def test_points_are_granted_also_where_they_cannot_be_read_ahead(
    endpoint: str, points: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    DynamoDbPointStore(points).grant("acme", ["u1"], PointDay(DAY.start, now=DAY.start, month=DAY.month))
    record_calls(monkeypatch, refuse="BatchGetItem")
    outcomes = DynamoDbPointStore(points).grant("acme", ["u1", "u2"], DAY)
    assert list(outcomes) == [GrantOutcome.ALREADY_GRANTED, GrantOutcome.GRANTED]


def test_a_strangers_item_in_the_points_table_stops_nobody_else(endpoint: str, points: str) -> None:
    put(endpoint, points, {**ACME, "UserMonth": {"S": "u1#202512"}, "UpdateTimestamp": {"S": "soon"}})
    outcomes = DynamoDbPointStore(points).grant("acme", ["u1", "u2"], DAY)
    assert outcomes[1] is GrantOutcome.GRANTED
    with pytest.raises(StoreError, match="u1#202512 of the Points table"):
        list(DynamoDbPointStore(points).points("acme", "202512"))


def record_calls(monkeypatch: pytest.MonkeyPatch, refuse: str = "") -> list[str]:
    """What is called from now on; `refuse` is answered as IAM would."""
    operations = []

    def call(left: Any, operation: str, parameters: Any) -> Any:
        operations.append(operation)
        if operation == refuse:
            raise AwsError(operation, "AccessDeniedException", "not authorized")
        return dynamodb.call_dynamodb(left, operation, parameters)

    monkeypatch.setattr(points_table, "call_dynamodb", call)
    return operations


def test_companies_are_listed_through_all_pages(endpoint: str, companies: str) -> None:
    """Five items of 390 kB are more than two of the megabytes that DynamoDB gives at once."""
    for number in range(5):
        item = {"CompanyId": {"S": f"c{number}"}, "Note": {"S": "x" * 390_000}}
        reference = {"ApiKeyRef": {"S": f"secretsmanager:c{number}"}} if number else {}
        put(endpoint, companies, item | reference)
    found = dict(list_companies(companies))
    assert found == {"c0": None, **{f"c{number}": f"secretsmanager:c{number}" for number in range(1, 5)}}


@pytest.mark.usefixtures("endpoint")
def test_a_missing_table_is_a_store_error() -> None:
    locks, points = DynamoDbLockStore("NoSuchTable"), DynamoDbPointStore("NoSuchTable")
    with pytest.raises(StoreError, match="GetItem: ResourceNotFoundException"):
        locks.read("acme")
    with pytest.raises(StoreError, match="UpdateItem: ResourceNotFoundException"):
        locks.acquire("acme", None, LOCK)
    with pytest.raises(StoreError, match="UpdateItem: ResourceNotFoundException"):
        locks.release("acme", LOCK)
    with pytest.raises(StoreError, match="Query: ResourceNotFoundException"):
        list(points.points("acme", "202512"))
    with pytest.raises(StoreError, match="Scan: ResourceNotFoundException"):
        list(list_companies("NoSuchTable"))
    (outcome,) = points.grant("acme", ["u1"], DAY)
    assert isinstance(outcome, StoreError)
