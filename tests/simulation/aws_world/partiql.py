"""PartiQL statements as far as our functions write them, as the operations that they stand for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from simulation.aws_world.expressions import Item, Typed, invalid

_INSERT = re.compile(r'INSERT INTO "(.+?)" VALUE \{(.+)\}')
_DELETE = re.compile(r'DELETE FROM "(.+?)" WHERE (.+)')
_UPDATE = re.compile(r'UPDATE "(.+?)" (SET .+?|REMOVE .+?) WHERE (.+)')
_SELECT = re.compile(r'SELECT \* FROM "(.+?)" WHERE (.+)')
_EQUALS = re.compile(r"([#\w]+) ?= ?(:\w+)")


@dataclass(frozen=True)
class Statement:
    """A statement about one item: of its `key`, or the `item` that is inserted."""

    kind: str
    table: str
    item: Item = field(default_factory=dict)
    key: Item = field(default_factory=dict)
    condition: str = ""
    update: str = ""
    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, Typed] = field(default_factory=dict)


def read_statement(text: str, parameters: list[Typed], keys: dict[str, tuple[str, str | None]]) -> Statement:
    """Read a statement; `keys` are those of each table."""
    invalid(text.count("?") != len(parameters), "the number of parameters is not that of the statement")
    if match := _INSERT.fullmatch(text):
        names = re.findall(r"'(\w+)': \?", match[2])
        return Statement("INSERT", match[1], item=dict(zip(names, parameters, strict=True)))
    for kind, pattern in (("DELETE", _DELETE), ("UPDATE", _UPDATE), ("SELECT", _SELECT)):
        if match := pattern.fullmatch(text):
            where, change = match[match.re.groups], match[2] if kind == "UPDATE" else ""
            return _read_where(kind, match[1], change, where, parameters, keys[match[1]])
    raise AssertionError(f"not simulated: {text}")


def _read_where(
    kind: str, table: str, change: str, where: str, parameters: list[Typed], keys: tuple[str, str | None]
) -> Statement:
    names: dict[str, str] = {}
    values = {f":p{number}": typed for number, typed in enumerate(parameters)}
    numbers = iter(values)

    def replace(match: re.Match[str]) -> str:
        if match[0] == "?":
            return next(numbers)
        names[f"#{match[1]}"] = match[1]
        return f"#{match[1]}"

    change, where = (re.sub(r'\?|"(\w+)"', replace, text) for text in (change, where))
    key: dict[str, Any] = {}
    rest = []
    for part in where.split(" AND "):
        found = _EQUALS.fullmatch(part.strip())
        name = names.get(found[1], found[1]) if found else ""
        if found and name in keys and name not in key:
            key[name] = values[found[2]]
        else:
            rest.append(part)
    invalid(key.keys() != set(filter(None, keys)), "the WHERE clause must name the whole key")
    first, *others = re.split(r"\bSET ", change)[1:] or [""]
    update = "".join([f"SET {first}" if first else change, *(f", {other}" for other in others)])
    return Statement(kind, table, {}, key, " AND ".join(rest), update, names, values)
