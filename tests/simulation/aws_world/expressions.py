"""DynamoDB's expressions: conditions, updates, ranges of keys and projections, as far as our functions write them.

A text is parsed once; evaluating it takes a `Scope`. What DynamoDB refuses as invalid is Refused here too.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal, DecimalException
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Typed = dict[str, Any]  # a value with its type
Item = dict[str, Typed]
Place = tuple[str, ...]  # of an attribute within an item

INVALID, CONDITION_FAILED = "ValidationException", "ConditionalCheckFailedException"


class Refused(Exception):
    """An operation that is answered with an error; `code` is the service's own name for it."""

    def __init__(self, code: str, status: int = 400, words: str = "simulated", item: Item | None = None) -> None:
        super().__init__(f"{code}: {words}")
        self.code = code
        self.status = status
        self.words = words
        self.item = item


@dataclass(frozen=True, slots=True)
class Scope:
    """What an expression is about: an item (empty if there is none), and what its `#names` and `:values` mean."""

    item: Item
    names: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Typed] = field(default_factory=dict)

    def find(self, path: Place) -> Typed | None:
        """Return the value at a path, None if it is absent."""
        inside: Item | None = self.item
        found: Typed | None = None
        for name in self.resolve(path):
            found = None if inside is None else inside.get(name)
            inside = None if found is None else found.get("M")
        return found

    def resolve(self, path: Place) -> Place:
        return tuple(_meaning(name, self.names) for name in path)

    def value(self, token: str) -> Typed:
        found: Typed = _meaning(token, self.values)
        return found


Condition = Callable[[Scope], bool]
Read = Callable[[Scope], "Typed | None"]
Action = tuple[str, Place, Read]

_TOKEN = re.compile(r"\s*([:#]?\w+|<=|>=|<>|[=<>(),+.-])")
_DIGITS = Context(prec=80)
_MOST_DIGITS = 38
_LAST = "\U0010ffff"


def _meaning(token: str, meanings: Mapping[str, Any]) -> Any:
    if token[0] in "#:" and token not in meanings:
        raise Refused(INVALID, words=f"{token} is not defined")
    return meanings.get(token, token)


def invalid(condition: bool, words: str) -> None:
    """Refuse an operation if this holds."""
    if condition:
        raise Refused(INVALID, words=words)


def named(text: str, names: Mapping[str, str]) -> str:
    """Replace `#names` by what they stand for."""
    return re.sub(r"#\w+", lambda match: str(_meaning(match[0], names)), text)


def require_used(request: Mapping[str, Any]) -> None:
    """Refuse names and values that no expression of a request mentions, as DynamoDB does."""
    text = " ".join(value for name, value in request.items() if name.endswith("Expression"))
    mentioned = set(re.findall(r"[:#]\w+", text))
    for name in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        invalid(name in request and not request[name], f"{name} is empty")
        unused = request.get(name, {}).keys() - mentioned
        invalid(bool(unused), f"unused in expressions: {sorted(unused)}")


# Values


def number_of(text: str) -> Decimal:
    try:
        found = Decimal(text)
    except DecimalException:
        raise Refused(INVALID, words=f"{text} is no number") from None
    invalid(not found.is_finite() or len(found.normalize(_DIGITS).as_tuple().digits) > _MOST_DIGITS, text)
    return found


def number_text(number: Decimal) -> str:
    """Write a number as DynamoDB does: no exponent, no zeros at its end."""
    return f"{number.normalize(_DIGITS) + 0:f}"


def compared(typed: Typed) -> Any:
    """Return what a value compares as with others of its type."""
    kind, value = next(iter(typed.items()))
    match kind:
        case "N":
            return number_of(value)
        case "B":
            return base64.b64decode(value)
        case "NS":
            return frozenset(map(number_of, value))
        case "SS" | "BS":
            return frozenset(value)
        case "M":
            return {name: (next(iter(each)), compared(each)) for name, each in value.items()}
        case "L":
            return [(next(iter(each)), compared(each)) for each in value]
    return value


def is_same(one: Typed, other: Typed) -> bool:
    """Return True if both are of one type and equal."""
    return one.keys() == other.keys() and bool(compared(one) == compared(other))


def _compare(operator: str, one: Typed | None, other: Typed | None) -> bool:
    if one is None or other is None:
        return operator == "<>"
    if operator in ("=", "<>"):
        return is_same(one, other) is (operator == "=")
    if one.keys() != other.keys() or not one.keys() <= {"S", "N", "B"}:
        return False
    left, right = compared(one), compared(other)
    return bool({"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator])


def _size(typed: Typed) -> int:
    kind, value = next(iter(typed.items()))
    return len(base64.b64decode(value)) if kind == "B" else len(value)


# Parsing


@lru_cache(maxsize=1)
def _reserved_words() -> frozenset[str]:
    """DynamoDB's reserved words, as moto lists them."""
    spec = find_spec("moto")
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent / "dynamodb" / "parsing" / "reserved_keywords.txt"
    return frozenset(path.read_text().upper().split())


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[str] = _TOKEN.findall(text)
        invalid(re.sub(r"\s", "", text) != "".join(self._tokens), f"cannot be read: {text}")
        self._place = 0

    def condition(self) -> Condition:
        parts = [self._all()]
        while self._take("OR"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else lambda scope: any(part(scope) for part in parts)

    def update(self) -> tuple[Action, ...]:
        actions: list[Action] = []
        seen: set[str] = set()
        while self._place < len(self._tokens):
            clause = self._next().upper()
            invalid(clause in seen or clause not in ("SET", "ADD", "DELETE", "REMOVE"), f"the clause {clause}")
            seen.add(clause)
            actions.append(self._action(clause))
            while self._take(","):
                actions.append(self._action(clause))
        invalid(not actions, "an update without clauses")
        return tuple(actions)

    def expect_end(self) -> None:
        invalid(self._place != len(self._tokens), f"unexpected: {self._tokens[self._place :]}")

    def path(self) -> Place:
        names = [self._name()]
        while self._take("."):
            names.append(self._name())
        return tuple(names)

    def _action(self, clause: str) -> Action:
        path = self.path()
        if clause == "REMOVE":
            return clause, path, lambda scope: None
        if clause == "SET":
            self._expect("=")
            return clause, path, self._assigned()
        token = self._next()
        invalid(not token.startswith(":"), f"{clause} takes a value, not {token}")
        return clause, path, lambda scope: scope.value(token)

    def _assigned(self) -> Read:
        left = self._operand()
        if (sign := self._take("+") and 1) or (sign := self._take("-") and -1):
            right = self._operand()
            return lambda scope: _sum(_required(left(scope)), _required(right(scope)), sign)
        return lambda scope: _required(left(scope))

    def _all(self) -> Condition:
        parts = [self._one()]
        while self._take("AND"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else lambda scope: all(part(scope) for part in parts)

    def _one(self) -> Condition:
        if self._take("NOT"):
            inner = self._one()
            return lambda scope: not inner(scope)
        if self._take("("):
            inner = self.condition()
            self._expect(")")
            return inner
        for word, wanted in (("attribute_exists", True), ("attribute_not_exists", False)):
            if self._take(word):
                (path,) = self._arguments(self.path)
                return lambda scope, wanted=wanted: (scope.find(path) is not None) is wanted  # type: ignore[misc]
        for word, holds in (("begins_with", _begins_with), ("contains", _contains)):
            if self._take(word):
                left, right = self._arguments(self._operand, self._operand)
                return lambda scope, holds=holds: holds(left(scope), right(scope))  # type: ignore[misc]
        return self._comparison()

    def _comparison(self) -> Condition:
        left = self._operand()
        if self._take("BETWEEN"):
            first = self._operand()
            self._expect("AND")
            last = self._operand()
            return lambda scope: (
                _compare(">=", left(scope), first(scope)) and _compare("<=", left(scope), last(scope))
            )
        if self._take("IN"):
            self._expect("(")
            chosen = [self._operand()]
            while self._take(","):
                chosen.append(self._operand())
            self._expect(")")
            return lambda scope: any(_compare("=", left(scope), each(scope)) for each in chosen)
        if self._take("IS"):  # of PartiQL
            is_missing = not self._take("NOT")
            self._expect("MISSING")
            return lambda scope: (left(scope) is None) is is_missing
        operator = self._next()
        invalid(operator not in ("=", "<>", "<", "<=", ">", ">="), f"the operator {operator}")
        right = self._operand()
        return lambda scope: _compare(operator, left(scope), right(scope))

    def _operand(self) -> Read:
        if self._take("size"):
            (path,) = self._arguments(self.path)
            return lambda scope: None if (found := scope.find(path)) is None else {"N": str(_size(found))}
        if self._take("if_not_exists"):
            path, other = self._arguments(self.path, self._operand)
            return lambda scope: other(scope) if (found := scope.find(path)) is None else found
        if self._tokens[self._place : self._place + 1] and self._tokens[self._place].startswith(":"):
            token = self._next()
            return lambda scope: scope.value(token)
        path = self.path()
        return lambda scope: scope.find(path)

    def _arguments(self, *parse: Callable[[], Any]) -> list[Any]:
        self._expect("(")
        found = [parse[0]()]
        for each in parse[1:]:
            self._expect(",")
            found.append(each())
        self._expect(")")
        return found

    def _name(self) -> str:
        name = self._next()
        invalid(not re.fullmatch(r"#?\w+", name), f"{name} is no name")
        invalid(name.upper() in _reserved_words(), f"{name} is a reserved word")
        return name

    def _expect(self, token: str) -> None:
        invalid(not self._take(token), f"{token} is missing in {' '.join(self._tokens)}")

    def _take(self, token: str) -> bool:
        if self._place < len(self._tokens) and self._tokens[self._place].upper() == token.upper():
            self._place += 1
            return True
        return False

    def _next(self) -> str:
        invalid(self._place >= len(self._tokens), f"{' '.join(self._tokens)} ends too early")
        self._place += 1
        return self._tokens[self._place - 1]


def _begins_with(one: Typed | None, other: Typed | None) -> bool:
    if one is None or other is None or one.keys() != other.keys():
        return False
    return bool(compared(one).startswith(compared(other)))


def _contains(one: Typed | None, other: Typed | None) -> bool:
    if one is None or other is None:
        return False
    kind = next(iter(one))
    return (kind == "S" or kind == next(iter(other)) + "S") and compared(other) in compared(one)


@lru_cache(maxsize=512)
def condition(text: str) -> Condition:
    """Parse a condition; it is evaluated on a scope."""
    parser = _Parser(text)
    found = parser.condition()
    parser.expect_end()
    return found


@lru_cache(maxsize=512)
def _update(text: str) -> tuple[Action, ...]:
    return _Parser(text).update()


@lru_cache(maxsize=128)
def paths(text: str) -> tuple[Place, ...]:
    """Parse a projection."""
    return tuple(_Parser(each).path() for each in text.split(","))


# Ranges of keys

_KEYS = re.compile(r"(?P<name>\w+) = (?P<value>:\w+)(?: AND (?P<range>.+))?")
_BETWEEN = re.compile(r"(\w+) BETWEEN (:\w+) AND (:\w+)")
_BEGINS = re.compile(r"begins_with\((\w+), ?(:\w+)\)")
_SIDE = re.compile(r"(\w+) (=|<|<=|>=|>) (:\w+)")


def key_range(text: str, values: Mapping[str, Typed], keys: Sequence[str | None]) -> tuple[str, str, str]:
    """Return the partition, the first sort key, and the one before which the range ends."""
    match = _KEYS.fullmatch(text)
    assert match, f"not simulated: {text}"
    partition, rest = _text(values, match["value"]), match["range"]
    found = None if rest is None else _BETWEEN.fullmatch(rest) or _BEGINS.fullmatch(rest) or _SIDE.fullmatch(rest)
    invalid(match["name"] != keys[0] or (found is not None and found[1] != keys[1]), f"not the keys: {text}")
    if rest is None:
        return partition, "", _LAST
    assert found, f"not simulated: {text}"
    if found.re is _BETWEEN:
        first, last = _text(values, found[2]), _text(values, found[3])
        invalid(first > last, "BETWEEN requires the upper bound to be at least the lower one")
        return partition, first, last + "\0"
    bound = _text(values, found[found.re.groups])
    match found[2] if found.re is _SIDE else "begins":
        case "begins":
            return partition, bound, bound + _LAST
        case "=":
            return partition, bound, bound + "\0"
        case ">=":
            return partition, bound, _LAST
        case ">":
            return partition, bound + "\0", _LAST
        case "<":
            return partition, "", bound
    return partition, "", bound + "\0"


def _text(values: Mapping[str, Typed], token: str) -> str:
    typed = _meaning(token, values)
    invalid("S" not in typed, f"{token} is not of the type of the key")
    return str(typed["S"])


# Updates


def update(text: str, scope: Scope) -> Item:
    """Return the item as the clauses change it; each of them sees the item as it was."""
    actions = [(clause, scope.resolve(path), read) for clause, path, read in _update(text)]
    _require_apart([path for _, path, _ in actions])
    changed = scope.item
    for clause, path, read in actions:
        changed = _placed(changed, path, _outcome(clause, scope.find(path), read(scope)))
    return changed


def require_update(text: str, scope: Scope) -> None:
    """Refuse an update that no item could take, before any condition is looked at."""
    _require_apart([scope.resolve(path) for _, path, _ in _update(text)])
    for clause, _, read in _update(text):
        kinds = {"ADD": {"N", "NS", "SS", "BS"}, "DELETE": {"NS", "SS", "BS"}}.get(clause)
        if kinds is not None and (given := read(scope)) is not None:
            invalid(not given.keys() <= kinds, f"{clause} of {next(iter(given))}")


def _require_apart(places: list[Place]) -> None:
    for number, one in enumerate(ordered := sorted(places)):
        following = ordered[number + 1 : number + 2]
        invalid(any(other[: len(one)] == one for other in following), f"two paths overlap: {'.'.join(one)}")


def _outcome(clause: str, before: Typed | None, value: Typed | None) -> Typed | None:
    """Return what becomes of an attribute; None removes it."""
    if clause in ("SET", "REMOVE"):
        return value
    assert value is not None
    kind, given = next(iter(value.items()))
    invalid(
        kind not in (("N", "NS", "SS", "BS") if clause == "ADD" else ("NS", "SS", "BS")), f"{clause} of {kind}"
    )
    invalid(before is not None and kind not in before, f"{clause} of {kind} to another type")
    if kind == "N":
        return _sum(before or {"N": "0"}, value, 1)
    held = [] if before is None else before[kind]
    members = [*held, *(each for each in given if each not in held)]
    if clause == "DELETE":
        members = [each for each in held if each not in given]
    return {kind: members} if members else None


def _placed(inside: Item, path: Place, value: Typed | None) -> Item:
    name, *rest = path
    changed = dict(inside)
    if rest:
        inner = inside.get(name, {})
        invalid("M" not in inner, "the document path is invalid for update")
        changed[name] = {"M": _placed(inner["M"], tuple(rest), value)}
    elif value is None:
        changed.pop(name, None)
    else:
        changed[name] = value
    return changed


def _required(typed: Typed | None) -> Typed:
    if typed is None:
        raise Refused(INVALID, words="the expression refers to an attribute that does not exist in the item")
    return typed


def _sum(one: Typed, other: Typed, sign: int) -> Typed:
    invalid("N" not in one or "N" not in other, "a sum of something that is no number")
    total = _DIGITS.add(number_of(one["N"]), sign * number_of(other["N"]))
    return {"N": number_text(number_of(str(total)))}
