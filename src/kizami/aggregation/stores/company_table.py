"""The `Company` table on AWS: each company's lock, kept beside its other attributes, and where its key is."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

from kizami.aggregation.lock import Lock, read_lock, write_lock
from kizami.aws.client.json_client import AwsError, Fields
from kizami.aws.dynamodb import call_dynamodb, change_item, read_pages
from kizami.aws.invocation import TimeLeft
from kizami.core.errors import InvalidInput, StoreError

LOCK_ATTRIBUTES = ("UpdateAt", "LockOwner", "LockRun")


class DynamoDbLockStore:
    """The LockStore port: a lock is three attributes of the company's item, and no other is touched or read."""

    def __init__(self, table: str, time_left: TimeLeft = lambda: inf) -> None:
        self._table = table
        self._time_left = time_left

    def read(self, company_id: str) -> Lock | None:
        """The lock that stands now; other attributes of the company, which may be secret, stay in the table."""
        attributes = ", ".join(LOCK_ATTRIBUTES)
        place = {"TableName": self._table, "Key": _key(company_id)}
        request = {**place, "ConsistentRead": True, "ProjectionExpression": attributes}
        try:
            item = call_dynamodb(self._time_left, "GetItem", request).get("Item", {})
            return read_lock({name: _content(item[name]) for name in LOCK_ATTRIBUTES if name in item})
        except AwsError as error:
            raise StoreError(str(error)) from None
        except InvalidInput as error:
            raise StoreError(f"the company's item is not as the batch writes it: {error}") from None

    def acquire(self, company_id: str, seen: Lock | None, lock: Lock) -> Lock | None:
        """Write `lock` where `seen` still stands."""
        condition, expected = _still(seen)
        written = {f":{name}": {"S": value} for name, value in write_lock(lock).items()}
        assignments = ", ".join(f"{name} = :{name}" for name in write_lock(lock))
        if self._update(company_id, f"SET {assignments}", condition, written | expected):
            return lock
        # Lost, unless an earlier attempt of this very call was carried out and only its answer got lost.
        return self.read(company_id)

    def release(self, company_id: str, lock: Lock) -> Lock | None:
        """Remove the lock of `lock.run` only."""
        removal = f"REMOVE {', '.join(LOCK_ATTRIBUTES)}"
        if self._update(company_id, removal, "LockRun = :run", {":run": {"S": lock.run}}):
            return None
        return self.read(company_id)

    def _update(self, company_id: str, change: str, condition: str, values: Fields) -> bool:
        """Whether the condition held, and so the change was made."""
        parameters = {
            "Key": _key(company_id),
            "UpdateExpression": change,
            "ConditionExpression": condition,
            "ExpressionAttributeValues": values,
        }
        return change_item(self._time_left, "UpdateItem", {"TableName": self._table, **parameters})


def list_companies(table: str, time_left: TimeLeft = lambda: inf) -> Iterator[tuple[Any, Any]]:
    """(CompanyId, ApiKeyRef) of each company, page by page; one without a key reference has None. StoreError."""
    request = {"TableName": table, "ProjectionExpression": "CompanyId, ApiKeyRef"}
    for page in read_pages(time_left, "Scan", request):
        for item in page.get("Items", ()):
            yield _content(item["CompanyId"]), _content(item["ApiKeyRef"]) if "ApiKeyRef" in item else None


def _still(seen: Lock | None) -> tuple[str, Fields]:
    """The condition that the item's lock is the one that was seen, attribute by attribute."""
    attributes = write_lock(seen) if seen else {}
    conditions = [
        f"{name} = :seen_{name}" if name in attributes else f"attribute_not_exists({name})"
        for name in (LOCK_ATTRIBUTES if seen else LOCK_ATTRIBUTES[:1])
    ]
    return " AND ".join(conditions), {f":seen_{name}": {"S": value} for name, value in attributes.items()}


def _key(company_id: str) -> Fields:
    return {"CompanyId": {"S": company_id}}


def _content(value: dict[str, Any]) -> Any:
    return next(iter(value.values()))
