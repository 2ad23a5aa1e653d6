"""DynamoDB: tables of items, and the operations that our functions call, each all at once or not at all.

It refuses what DynamoDB refuses, and counts the units that DynamoDB bills. Any number of threads may call it.
"""

from __future__ import annotations

import json
import random
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

from simulation.aws_world.capacity import BATCH_BYTES, ITEM_BYTES, PAGE_BYTES, Units, item_bytes, page_length
from simulation.aws_world.expressions import (
    CONDITION_FAILED,
    INVALID,
    Item,
    Place,
    Scope,
    Typed,
    condition,
    invalid,
    key_range,
    named,
    number_of,
    number_text,
    paths,
    require_update,
    require_used,
    update,
)
from simulation.aws_world.expressions import Refused as Refused
from simulation.aws_world.partiql import Statement, read_statement

Fields = dict[str, Any]
OnChange = Callable[[str, Item | None, Item | None], None]
Key = tuple[str, str]

_MOST_KEYS, _MOST_WRITES, _MOST_TOGETHER, _MOST_TEXT = 100, 25, 100, 4096
_KEY_BYTES = 2048, 1024


@dataclass
class Table:
    """Items by their keys; sort keys of a partition in their order."""

    partition: str
    sort: str | None = None
    items: dict[Key, Item] = field(default_factory=dict)
    order: dict[str, list[str]] = field(default_factory=dict)
    sizes: dict[Key, int] = field(default_factory=dict)

    def key_of(self, item: Item) -> Key:
        found: list[str] = []
        for name, most in zip((self.partition, self.sort), _KEY_BYTES, strict=True):
            if name is None:
                found.append("")
                continue
            text = item.get(name, {}).get("S", "")
            invalid(not 0 < len(text.encode()) <= most, f"the key {name} is absent, empty or too long")
            found.append(text)
        return found[0], found[1]

    def put(self, item: Item) -> None:
        key = self.key_of(item)
        if key not in self.items:
            insort(self.order.setdefault(key[0], []), key[1])
        self.items[key] = item
        self.sizes[key] = item_bytes(item)

    def delete(self, key: Key) -> None:
        if self.items.pop(key, None) is not None:
            order = self.order[key[0]]
            del order[bisect_left(order, key[1])]
            del self.sizes[key]

    def between(self, partition: str, first: str, end: str) -> list[str]:
        order = self.order.get(partition, [])
        return order[bisect_left(order, first) : bisect_left(order, end)]

    def size(self, key: Key) -> int:
        return self.sizes.get(key, 0)


def _nothing_noted(table: str, before: Item | None, after: Item | None) -> None:
    """Ignore a change."""


class SimulatedDynamoDb:
    """`on_change` is called with every item before it changes; a page has at most `page_items`."""

    def __init__(
        self,
        chance: random.Random | None = None,
        on_change: OnChange = _nothing_noted,
        page_items: int = 1_000_000,
    ) -> None:
        self._chance = chance or random.Random(0)
        self._on_change = on_change
        self._page_items = page_items
        self._lock = RLock()
        self.tables: dict[str, Table] = {}
        self.units = Units()
        self.calls: Counter[str] = Counter()
        self.refused_share = 0.0  # of the statements, keys and writes of a batch

    def perform(self, operation: str, request: Fields) -> Fields:
        """Return the operation's answer, else Refused."""
        found = getattr(self, f"_{operation}", None)
        assert found is not None, f"{operation} is not simulated"
        with self._lock:
            self.calls[operation] += 1
            read, written = self.units.read, self.units.written
            require_used(request)
            answer: Fields = found(request)
            if request.get("ReturnConsumedCapacity") == "TOTAL":
                units = self.units.read - read + self.units.written - written
                answer["ConsumedCapacity"] = {"TableName": request["TableName"], "CapacityUnits": units}
            return answer

    def expire(self, now: int, chance: random.Random) -> None:
        """Remove some of what has expired; DynamoDB takes its time for that."""
        for name, table in self.tables.items():
            for key, item in list(table.items.items()):
                if int(item.get("expiresAt", {}).get("N", now + 1)) <= now and chance.random() < 0.5:
                    self._on_change(name, item, None)
                    table.delete(key)

    # Single items

    def _PutItem(self, request: Fields) -> Fields:
        return self._put(request)

    def _put(self, request: Fields, factor: int = 1) -> Fields:
        table = self._table(request["TableName"])
        item = _checked(request["Item"])
        before = table.items.get(table.key_of(item))
        self._require(request, table.key_of(item))
        self._write(request["TableName"], item, factor)
        return {"Attributes": before} if before and request.get("ReturnValues") == "ALL_OLD" else {}

    def _DeleteItem(self, request: Fields) -> Fields:
        return self._delete(request)

    def _delete(self, request: Fields, factor: int = 1) -> Fields:
        table = self._table(request["TableName"])
        key = self._key(request)
        before = table.items.get(key)
        self._require(request, key)
        self.units.note_write(table.size(key), factor=factor)
        if before is not None:
            self._on_change(request["TableName"], before, None)
            table.delete(key)
        return {"Attributes": before} if before and request.get("ReturnValues") == "ALL_OLD" else {}

    def _UpdateItem(self, request: Fields) -> Fields:
        return self._update(request)

    def _update(self, request: Fields, factor: int = 1) -> Fields:
        table = self._table(request["TableName"])
        key = self._key(request)
        before = table.items.get(key)
        text = request.get("UpdateExpression")
        if text is not None:
            invalid(len(text.encode()) > _MOST_TEXT, "the expression is longer than 4 KB")
            require_update(text, _scope({}, request))
        self._require(request, key)
        item = before or request["Key"]
        changed = item if text is None else update(text, _scope(item, request))
        invalid(any(changed.get(name) != item[name] for name in request["Key"]), "an update of a key")
        self._write(request["TableName"], _checked(changed), factor)
        return _returned(request.get("ReturnValues"), before, changed)

    def _GetItem(self, request: Fields) -> Fields:
        table = self._table(request["TableName"])
        key = self._key(request)
        self.units.note_read(table.size(key), request.get("ConsistentRead", False))
        return {"Item": _projected(table.items[key], request)} if key in table.items else {}

    # Several at once

    def _TransactWriteItems(self, request: Fields) -> Fields:
        invalid(not 0 < len(request["TransactItems"]) <= _MOST_TOGETHER, "too many items")
        writes = [next(iter(each.items())) for each in request["TransactItems"]]
        keys = [(each["TableName"], self._key_of_write(each)) for _, each in writes]
        invalid(len(set(keys)) < len(keys), "a transaction names an item twice")
        for _, each in writes:
            require_used(each)
        try:
            for (_, each), (_, key) in zip(writes, keys, strict=True):
                self._require(each, key)
        except Refused as refused:
            raise Refused("TransactionCanceledException", words=refused.words) from None
        perform = {"Put": self._put, "Update": self._update, "Delete": self._delete}
        for kind, each in writes:
            if kind != "ConditionCheck":
                perform[kind](each, 2)
        return {}

    def _BatchGetItem(self, request: Fields) -> Fields:
        invalid(not 0 < sum(len(each["Keys"]) for each in request["RequestItems"].values()) <= _MOST_KEYS, "keys")
        found: dict[str, list[Item]] = {}
        left: Fields = {}
        size = 0
        for name, asked in request["RequestItems"].items():
            table, consistent = self._table(name), asked.get("ConsistentRead", False)
            keys = [table.key_of(key) for key in asked["Keys"]]
            invalid(len(set(keys)) < len(keys), "a key is asked for twice")
            found[name] = []
            for key, typed in zip(keys, asked["Keys"], strict=True):
                if size + table.size(key) > BATCH_BYTES or self._is_refused():
                    left.setdefault(name, {**asked, "Keys": []})["Keys"].append(typed)
                    continue
                size += table.size(key)
                self.units.note_read(table.size(key), consistent)
                if key in table.items:
                    found[name].append(_projected(table.items[key], asked))
            self._chance.shuffle(found[name])
        return {"Responses": found, "UnprocessedKeys": left}

    def _BatchWriteItem(self, request: Fields) -> Fields:
        writes = [(name, each) for name, several in request["RequestItems"].items() for each in several]
        invalid(not 0 < len(writes) <= _MOST_WRITES, "more writes than one call takes")
        requests = [{"TableName": name, **next(iter(each.values()))} for name, each in writes]
        keys = [(each["TableName"], self._key_of_write(each)) for each in requests]
        invalid(len(set(keys)) < len(keys), "a batch names an item twice")
        left: Fields = {}
        for (name, each), whole in zip(writes, requests, strict=True):
            if self._is_refused():
                left.setdefault(name, []).append(each)
            elif "Item" in whole:
                self._put(whole)
            else:
                self._delete(whole)
        return {"UnprocessedItems": left}

    def _BatchExecuteStatement(self, request: Fields) -> Fields:
        several = request["Statements"]
        invalid(not 0 < len(several) <= _MOST_WRITES, "more statements than one call takes")
        keys = {name: (table.partition, table.sort) for name, table in self.tables.items()}
        read = [(each, read_statement(each["Statement"], each.get("Parameters", []), keys)) for each in several]
        kinds = {statement.kind == "SELECT" for _, statement in read}
        invalid(len(kinds) > 1, "a batch of statements reads or writes, not both")
        return {"Responses": [self._execute(each, statement) for each, statement in read]}

    def _execute(self, asked: Fields, statement: Statement) -> Fields:
        if self._is_refused():
            return {"Error": {"Code": "ThrottlingError", "Message": "simulated"}}
        whole = {"TableName": statement.table, "Key": statement.key, "Item": statement.item}
        whole |= {"ExpressionAttributeNames": statement.names, "ExpressionAttributeValues": statement.values}
        whole |= {"ConsistentRead": asked.get("ConsistentRead", False)}
        if kept := asked.get("ReturnValuesOnConditionCheckFailure"):
            whole["ReturnValuesOnConditionCheckFailure"] = kept
        if statement.condition:
            whole["ConditionExpression"] = statement.condition
        answer: Fields = {"TableName": statement.table}
        try:
            match statement.kind:
                case "INSERT":
                    self._insert(whole)
                case "DELETE":
                    with suppress(_Absent):
                        self._require_present(whole)
                        self._delete(whole)
                case "UPDATE":
                    self._require_present(whole, CONDITION_FAILED)
                    self._update({**whole, "UpdateExpression": statement.update})
                case "SELECT":
                    found = self._GetItem(whole)
                    answer |= found
        except Refused as refused:
            code = {CONDITION_FAILED: "ConditionalCheckFailed", INVALID: "ValidationError"}
            item = {} if refused.item is None else {"Item": refused.item}
            error = {"Code": code.get(refused.code, refused.code), "Message": refused.words, **item}
            return {**answer, "Error": error}
        return answer

    def _insert(self, request: Fields) -> None:
        table = self._table(request["TableName"])
        key = table.key_of(request["Item"])
        if key in table.items:
            self.units.note_write(table.size(key))
            raise Refused("DuplicateItem", words="Duplicate primary key exists in table")
        self._write(request["TableName"], _checked(request["Item"]))

    def _require_present(self, request: Fields, code: str = "") -> None:
        if self._key(request) not in self._table(request["TableName"]).items:
            raise Refused(code) if code else _Absent

    # Ranges

    def _Scan(self, request: Fields) -> Fields:
        table = self._table(request["TableName"])
        after = request.get("ExclusiveStartKey")
        keys = sorted(key for key in table.items if after is None or key > table.key_of(after))
        return self._page(table, keys, request)

    def _Query(self, request: Fields) -> Fields:
        table, values = self._table(request["TableName"]), request["ExpressionAttributeValues"]
        text = named(request["KeyConditionExpression"], request.get("ExpressionAttributeNames", {}))
        partition, first, end = key_range(text, values, (table.partition, table.sort))
        sorts = table.between(partition, first, end)
        is_forward = request.get("ScanIndexForward", True)
        if start := request.get("ExclusiveStartKey"):
            place = table.key_of(start)[1]
            sorts = sorts[bisect_right(sorts, place) :] if is_forward else sorts[: bisect_left(sorts, place)]
        keys = [(partition, sort) for sort in (sorts if is_forward else reversed(sorts))]
        return self._page(table, keys, request)

    def _page(self, table: Table, keys: list[Key], request: Fields) -> Fields:
        """Return the first page of these items; what is filtered out counts for its size."""
        most = min(self._page_items, request.get("Limit", self._page_items))
        invalid(most < 1, "a Limit below 1")
        page = keys[: page_length(map(table.size, keys), most, PAGE_BYTES)]
        self.units.note_read(sum(map(table.size, page)), request.get("ConsistentRead", False))
        items = [table.items[key] for key in page]
        if (text := request.get("FilterExpression")) is not None:
            holds = condition(text)
            items = [item for item in items if holds(_scope(item, request))]
        answer: Fields = {"Count": len(items), "ScannedCount": len(page)}
        if request.get("Select") != "COUNT":
            answer["Items"] = [_projected(item, request) for item in items]
        if page and (len(page) == most or len(page) < len(keys)):  # also if nothing comes after it
            answer["LastEvaluatedKey"] = _key_item(table, page[-1])
        return answer

    # Parts

    def _table(self, name: str) -> Table:
        if name not in self.tables:
            raise Refused("ResourceNotFoundException")
        return self.tables[name]

    def _key(self, request: Fields) -> Key:
        table = self._table(request["TableName"])
        invalid(request["Key"].keys() != set(filter(None, (table.partition, table.sort))), "not the whole key")
        return table.key_of(request["Key"])

    def _key_of_write(self, request: Fields) -> Key:
        table = self._table(request["TableName"])
        return table.key_of(request["Item"]) if "Item" in request else self._key(request)

    def _is_refused(self) -> bool:
        return self.refused_share > 0 and self._chance.random() < self.refused_share

    def _require(self, request: Fields, key: Key) -> None:
        if (text := request.get("ConditionExpression")) is None:
            return
        table = self._table(request["TableName"])
        item = table.items.get(key)
        if not condition(text)(_scope(item or {}, request)):
            self.units.note_write(table.size(key))  # billed though nothing is written
            is_returned = request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD"
            raise Refused(CONDITION_FAILED, item=item if is_returned else None)

    def _write(self, name: str, item: Item, factor: int = 1) -> None:
        table = self.tables[name]
        key, size = table.key_of(item), item_bytes(item)
        invalid(size > ITEM_BYTES, "the item is larger than 400 KB")
        self.units.note_write(size, table.size(key), factor=factor)
        self._on_change(name, table.items.get(key), item)
        table.put(item)


class _Absent(Exception):
    """A statement deletes an item that is not there, which is no error."""


def _scope(item: Item, request: Fields) -> Scope:
    names, values = request.get("ExpressionAttributeNames", {}), request.get("ExpressionAttributeValues", {})
    return Scope(item, names, values)


def _returned(wanted: str | None, before: Item | None, after: Item) -> Fields:
    if wanted == "ALL_NEW":
        return {"Attributes": after}
    return {"Attributes": before} if wanted == "ALL_OLD" and before else {}


def _projected(item: Item, request: Fields) -> Item:
    wanted = request.get("ProjectionExpression")
    if wanted is None:
        return item
    scope = _scope(item, request)
    found: Item = {}
    for path in map(scope.resolve, paths(wanted)):
        if (typed := Scope(item).find(path)) is not None:
            _graft(found, path, typed)
    return found


def _graft(found: Item, path: Place, typed: Typed) -> None:
    for name in path[:-1]:
        found = found.setdefault(name, {"M": {}})["M"]
    found[path[-1]] = typed


def _key_item(table: Table, key: Key) -> Item:
    return {table.partition: {"S": key[0]}, **({table.sort: {"S": key[1]}} if table.sort else {})}


def _checked(item: Item) -> Item:
    """Return an item as it is stored, with its numbers in one form."""
    return {name: _checked_value(typed) for name, typed in item.items()}


def _checked_value(typed: Typed) -> Typed:
    invalid(len(typed) != 1, f"a value needs exactly one type: {json.dumps(typed)[:100]}")
    kind, value = next(iter(typed.items()))
    match kind:
        case "N":
            return {"N": number_text(number_of(value))}
        case "NS":
            value = [number_text(number_of(each)) for each in value]
        case "M":
            return {"M": _checked(value)}
        case "L":
            return {"L": list(map(_checked_value, value))}
    if kind in ("NS", "SS", "BS"):
        invalid(not value or len(set(value)) < len(value), "a set is empty or has an element twice")
    return {kind: value}
