"""DynamoDB's expressions, as far as our functions write them: conditions, ranges of keys, updates."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

Item = dict[str, dict[str, Any]]  # attributes, each with its type
Values = dict[str, dict[str, Any]]
Condition = Callable[[Item, Values], bool]
Read = Callable[[Item, Values], Any]

_TOKEN = re.compile(r"\s*([:#]?\w+|<=|>=|<>|[=<>(),+])")
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda left, right: bool(left == right),
    "<>": lambda left, right: bool(left != right),
    "<": lambda left, right: bool(left < right),
    "<=": lambda left, right: bool(left <= right),
    ">": lambda left, right: bool(left > right),
    ">=": lambda left, right: bool(left >= right),
}


def plain(typed: dict[str, Any] | None) -> Any:
    """What a typed value compares as; None for an attribute that is not there."""
    if typed is None:
        return None
    kind, value = next(iter(typed.items()))
    return float(value) if kind == "N" else value


@lru_cache(maxsize=256)
def condition(text: str) -> Condition:
    """What a condition says of an item; one that is not there has no attributes."""
    parser = _Parser(text)
    found = parser.either()
    parser.expect_end()
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._place = 0

    def either(self) -> Condition:
        parts = [self._all()]
        while self._take("OR"):
            parts.append(self._all())
        return lambda item, values: any(part(item, values) for part in parts)

    def expect_end(self) -> None:
        assert self._place == len(self._tokens), self._tokens[self._place :]

    def _all(self) -> Condition:
        parts = [self._one()]
        while self._take("AND"):
            parts.append(self._one())
        return lambda item, values: all(part(item, values) for part in parts)

    def _one(self) -> Condition:
        if self._take("("):
            inner = self.either()
            assert self._take(")")
            return inner
        if self._take("attribute_not_exists"):
            name = self._argument()
            return lambda item, values: name not in item
        if self._take("attribute_exists"):
            name = self._argument()
            return lambda item, values: name in item
        return self._comparison()

    def _comparison(self) -> Condition:
        left, compare, right = self._operand(), _COMPARED[self._next()], self._operand()

        def holds(item: Item, values: Values) -> bool:
            one, other = left(item, values), right(item, values)
            return one is not None and other is not None and compare(one, other)

        return holds

    def _operand(self) -> Read:
        token = self._next()
        if token.startswith(":"):
            return lambda item, values: plain(values[token])
        return lambda item, values: plain(item.get(token))

    def _argument(self) -> str:
        assert self._take("(")
        name = self._next()
        assert self._take(")")
        return name

    def _take(self, token: str) -> bool:
        if self._place < len(self._tokens) and self._tokens[self._place] == token:
            self._place += 1
            return True
        return False

    def _next(self) -> str:
        self._place += 1
        return str(self._tokens[self._place - 1])


_KEYS = re.compile(r"(?P<partition>\w+) = (?P<value>:\w+)(?: AND (?P<range>.+))?")
_BETWEEN = re.compile(r"\w+ BETWEEN (:\w+) AND (:\w+)")
_BEGINS = re.compile(r"begins_with\(\w+, (:\w+)\)")
_SIDE = re.compile(r"\w+ (=|<|<=|>=) (:\w+)")
_LAST = "\U0010ffff"


def key_range(text: str, values: Values) -> tuple[str, str, str]:
    """The partition, and from which sort key on up to, but not, which."""
    match = _KEYS.fullmatch(text)
    assert match, text
    partition, rest = plain(values[match["value"]]), match["range"]
    if rest is None:
        return partition, "", _LAST
    if found := _BETWEEN.fullmatch(rest):
        return partition, plain(values[found[1]]), plain(values[found[2]]) + "\0"
    if found := _BEGINS.fullmatch(rest):
        return partition, plain(values[found[1]]), plain(values[found[1]]) + _LAST
    found = _SIDE.fullmatch(rest)
    assert found, text
    bound = plain(values[found[2]])
    if found[1] == ">=":
        return partition, bound, _LAST
    return partition, bound if found[1] == "=" else "", bound if found[1] == "<" else bound + "\0"


def update(text: str, item: Item, values: Values) -> Item:
    """The item as the clauses change it, each of which sees it as it was."""
    changed = dict(item)
    for clause in re.split(r" (?=ADD |REMOVE )", text):
        changed |= _changes(clause, item, values)
        for name in _removed(clause, item, values):
            changed.pop(name, None)
    return changed


def _changes(text: str, item: Item, values: Values) -> Item:
    clause, _, rest = text.partition(" ")
    if clause == "SET":
        parts = (assignment.partition(" = ") for assignment in re.split(r", (?![^(]*\))", rest))
        return {name: _assigned(expression, item, values) for name, _, expression in parts}
    if clause == "ADD":
        name, value = rest.split(" ")
        return {name: _sum(item.get(name, {"N": "0"}), values[value])}
    if clause == "DELETE":
        name, value = rest.split(" ")
        left = _without(item, name, values[value]["NS"])
        return {name: {"NS": left}} if left else {}
    assert clause == "REMOVE", text
    return {}


def _removed(text: str, item: Item, values: Values) -> list[str]:
    clause, _, rest = text.partition(" ")
    if clause == "REMOVE":
        return rest.split(", ")
    if clause == "DELETE":  # a set that lost its last member is no attribute any more
        name, value = rest.split(" ")
        return [] if _without(item, name, values[value]["NS"]) else [name]
    return []


def _without(item: Item, name: str, gone: list[str]) -> list[str]:
    return [each for each in item.get(name, {}).get("NS", []) if each not in gone]


def _sum(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {"N": str(int(one["N"]) + int(other["N"]))}


_UNLESS_THERE = re.compile(r"if_not_exists\((\w+), (:\w+)\)(?: \+ (:\w+))?")


def _assigned(expression: str, item: Item, values: Values) -> dict[str, Any]:
    found = _UNLESS_THERE.fullmatch(expression)
    if found is None:
        return values[expression]
    before = item.get(found[1], values[found[2]])
    return before if found[3] is None else _sum(before, values[found[3]])


def named(text: str, names: dict[str, str]) -> str:
    """An expression with the names that its `#words` stand for."""
    return re.sub(r"#\w+", lambda match: names[match[0]], text)
