"""DynamoDB: tables of items, the operations that our functions call, each all at once or not at all."""

from __future__ import annotations

import random
import re
from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from simulation.aws_world.expressions import Item, condition, key_range, named, update

Fields = dict[str, Any]
OnChange = Callable[[str, Item | None, Item | None], None]

_INSERT = re.compile(r'INSERT INTO "(.+?)" VALUE \{(.+)\}')


class Refused(Exception):
    """An operation that is answered with an error; `code` is the service's own name for it."""

    def __init__(self, code: str, status: int = 400) -> None:
        super().__init__(code)
        self.code = code
        self.status = status


@dataclass
class Table:
    """Items by their keys; sort keys of a partition in their order."""

    partition: str
    sort: str | None = None
    items: dict[tuple[str, str], Item] = field(default_factory=dict)
    order: dict[str, list[str]] = field(default_factory=dict)

    def key_of(self, item: Item) -> tuple[str, str]:
        return item[self.partition]["S"], item[self.sort]["S"] if self.sort else ""

    def put(self, item: Item) -> None:
        key = self.key_of(item)
        if key not in self.items:
            insort(self.order.setdefault(key[0], []), key[1])
        self.items[key] = item

    def delete(self, key: tuple[str, str]) -> None:
        if self.items.pop(key, None) is not None:
            self.order[key[0]].remove(key[1])

    def between(self, partition: str, first: str, end: str) -> list[str]:
        order = self.order.get(partition, [])
        return order[bisect_left(order, first) : bisect_left(order, end)]


class SimulatedDynamoDb:
    """`on_change` is told of every item before it changes; a page has at most `page_items`."""

    def __init__(self, chance: random.Random, on_change: OnChange, page_items: int) -> None:
        self._chance = chance
        self._on_change = on_change
        self._page_items = page_items
        self.tables: dict[str, Table] = {}
        self.refused_share = 0.0  # of the statements of a batch

    def perform(self, operation: str, request: Fields) -> Fields:
        """The operation's answer, else Refused."""
        found = getattr(self, f"_{operation}", None)
        assert found is not None, f"{operation} is not simulated"
        answer: Fields = found(request)
        return answer

    def expire(self, now: int, chance: random.Random) -> None:
        """Remove some of what has expired; DynamoDB takes its time for that."""
        for name, table in self.tables.items():
            for key, item in list(table.items.items()):
                if int(item.get("expiresAt", {}).get("N", now + 1)) <= now and chance.random() < 0.5:
                    self._on_change(name, item, None)
                    table.delete(key)

    def _PutItem(self, request: Fields) -> Fields:
        table = self.tables[request["TableName"]]
        self._require(request, table.items.get(table.key_of(request["Item"])))
        self._write(request["TableName"], request["Item"])
        return {}

    def _DeleteItem(self, request: Fields) -> Fields:
        table = self.tables[request["TableName"]]
        key = table.key_of(request["Key"])
        before = table.items.get(key)
        self._require(request, before)
        if before is not None:
            self._on_change(request["TableName"], before, None)
            table.delete(key)
        return {}

    def _UpdateItem(self, request: Fields) -> Fields:
        table = self.tables[request["TableName"]]
        before = table.items.get(table.key_of(request["Key"]))
        self._require(request, before)
        text, values = _expression(request, "UpdateExpression"), request.get("ExpressionAttributeValues", {})
        changed = update(text or "", before or dict(request["Key"]), values)
        self._write(request["TableName"], changed)
        return {}

    def _TransactWriteItems(self, request: Fields) -> Fields:
        puts = [each["Put"] for each in request["TransactItems"]]
        try:
            for put in puts:
                table = self.tables[put["TableName"]]
                self._require(put, table.items.get(table.key_of(put["Item"])))
        except Refused:
            raise Refused("TransactionCanceledException") from None
        for put in puts:
            self._write(put["TableName"], put["Item"])
        return {}

    def _BatchExecuteStatement(self, request: Fields) -> Fields:
        return {"Responses": [self._insert(each) for each in request["Statements"]]}

    def _insert(self, statement: Fields) -> Fields:
        match = _INSERT.fullmatch(statement["Statement"])
        assert match, statement
        names = re.findall(r"'(\w+)': \?", match[2])
        item, table = dict(zip(names, statement["Parameters"], strict=True)), self.tables[match[1]]
        if self._chance.random() < self.refused_share:
            return {"Error": {"Code": "ThrottlingError", "Message": "simulated"}}
        if table.key_of(item) in table.items:
            return {"Error": {"Code": "DuplicateItem", "Message": "simulated"}}
        self._write(match[1], item)
        return {}

    def _GetItem(self, request: Fields) -> Fields:
        table = self.tables[request["TableName"]]
        item = table.items.get(table.key_of(request["Key"]))
        return {"Item": _projected(item, request)} if item else {}

    def _BatchGetItem(self, request: Fields) -> Fields:
        found = {}
        for name, asked in request["RequestItems"].items():
            table = self.tables[name]
            keys = [table.key_of(key) for key in asked["Keys"]]
            assert len(set(keys)) == len(keys), "DynamoDB refuses a key that is asked for twice"
            found[name] = [_projected(table.items[key], asked) for key in keys if key in table.items]
        return {"Responses": found}

    def _Scan(self, request: Fields) -> Fields:
        table = self.tables[request["TableName"]]
        after = request.get("ExclusiveStartKey")
        keys = sorted(key for key in table.items if after is None or key > table.key_of(after))
        page = keys[: self._page_items]
        last = {"LastEvaluatedKey": _key_item(table, page[-1])} if len(page) < len(keys) else {}
        return {"Items": [_projected(table.items[key], request) for key in page], **last}

    def _Query(self, request: Fields) -> Fields:
        table, values = self.tables[request["TableName"]], request["ExpressionAttributeValues"]
        partition, first, end = key_range(request["KeyConditionExpression"], values)
        keys = table.between(partition, first, end)
        if not request.get("ScanIndexForward", True):
            keys.reverse()
        if start := request.get("ExclusiveStartKey"):
            keys = keys[keys.index(table.key_of(start)[1]) + 1 :]
        most = min(self._page_items, request.get("Limit", self._page_items))
        page = keys[:most]
        items = [table.items[partition, key] for key in page]
        if (text := _expression(request, "FilterExpression")) is not None:
            holds = condition(text)
            items = [item for item in items if holds(item, values)]
        answer: Fields = {"Count": len(items), "ScannedCount": len(page)}
        if request.get("Select") != "COUNT":
            answer["Items"] = [_projected(item, request) for item in items]
        if len(page) == most:  # also if nothing comes after it
            answer["LastEvaluatedKey"] = _key_item(table, (partition, page[-1]))
        return answer

    def _require(self, request: Fields, item: Item | None) -> None:
        if (text := _expression(request, "ConditionExpression")) is None:
            return
        if not condition(text)(item or {}, request.get("ExpressionAttributeValues", {})):
            raise Refused("ConditionalCheckFailedException")

    def _write(self, name: str, item: Item) -> None:
        table = self.tables[name]
        self._on_change(name, table.items.get(table.key_of(item)), item)
        table.put(item)


def _expression(request: Fields, name: str) -> str | None:
    text = request.get(name)
    return None if text is None else named(text, request.get("ExpressionAttributeNames", {}))


def _projected(item: Item, request: Fields) -> Item:
    wanted = _expression(request, "ProjectionExpression")
    return item if wanted is None else {name: item[name] for name in wanted.split(", ") if name in item}


def _key_item(table: Table, key: tuple[str, str]) -> Item:
    return {table.partition: {"S": key[0]}, **({table.sort: {"S": key[1]}} if table.sort else {})}
