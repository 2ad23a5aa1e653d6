"""Packed ticks in DynamoDB: one item holds what all members of a bundle answered to one slot time.

    key    (`#tick <bundle>`, slot)
    `a`    the first answers, written once with the item
    `v`    later answers, one entry a member: the first one stays
    `o`    members that were asked and have not answered yet; `d` given up; `h` not asked, their target is held
    `p`    the item was begun by a message about some of its members only: absent members were never asked
    `q`    when a backfill last asked for outstanding members, in seconds since 1970

Two writes do everything. `put` creates the item; of two writers one wins and the other receives what is there.
`add` changes an item that exists, and never a value in it. So the first answer of a slot wins, and repeating
any write is safe. A value counts more than a state: `o`, `d` and `h` may name a member that has a value.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Protocol

from kizami.aws.client.json_client import Fields
from kizami.aws.dynamodb import change_item, change_or_read, execute_statements, get_items, read_items, read_pages
from kizami.aws.invocation import TimeLeft
from kizami.core.bundles import Bundle
from kizami.core.epoch import from_seconds
from kizami.core.errors import StoreError
from kizami.core.slots import format_instant, parse_instant, shift
from kizami.core.ticks import Answers, Tick, fits_first, numbers_of, read_first, read_late, write_first, write_late

PREFIX = "#tick "
PERFECT = " AND ".join(f"attribute_not_exists({name})" for name in "opdh")  # every member has answered

_IS_NEW = "attribute_not_exists(metricName)"
_EXISTS = "attribute_exists(v)"
_IN_RANGE = "metricName = :bundle AND slotTime BETWEEN :first AND :last"
_MOST_CHANGES = 50  # of one update: its expression stays below 4 KB
_TRIES = 3


@dataclass(frozen=True, slots=True)
class TickFacts:
    """What one delivery found out about a tick: answers, and members that are outstanding, given up or held."""

    answers: Answers = field(default_factory=dict)
    outstanding: frozenset[int] = frozenset()
    dead: frozenset[int] = frozenset()
    held: frozenset[int] = frozenset()

    @property
    def settled(self) -> frozenset[int]:
        """The members that are outstanding no more."""
        return frozenset(self.answers) | self.dead | self.held


class TickStore(Protocol):
    """Where ticks are: packed ones of bundles, or the rows of the original target. StoreError."""

    def record(self, bundle: Bundle, slot: datetime, facts: TickFacts, late_ms: int = 0) -> None:
        """Write what a delivery found out; the first answer of a slot stays."""

    def read(self, bundle: Bundle, start: datetime, end: datetime, *, consistent: bool = True) -> Iterator[Tick]:
        """Return the ticks of slots in [start, end), oldest first."""

    def count_perfect(self, bundle: Bundle, start: datetime, end: datetime) -> int:
        """Count the ticks of [start, end) that every member answered; some with a former state may be left out."""

    def at(self, slots: Iterable[tuple[Bundle, datetime]]) -> dict[tuple[str, datetime], Tick]:
        """Return single ticks of many bundles, by bundle and slot: those that exist."""

    def newest(self, bundle: Bundle, until: datetime, limit: int) -> list[Tick]:
        """Return the newest ticks whose slots begin by `until`, newest first."""


class Ticks:
    """The ticks of a table. StoreError."""

    def __init__(self, table: str, time_left: TimeLeft = lambda: inf) -> None:
        self._table = table
        self._time_left = time_left

    def record(self, bundle: Bundle, slot: datetime, facts: TickFacts, late_ms: int = 0) -> None:
        """Write what a delivery found out: create the tick, or add to the one that is there."""
        for _ in range(_TRIES):
            found = self.put(bundle, slot, facts, late_ms)
            if found is None or self.add(bundle, slot, without_values(facts, found)):
                return
        raise StoreError(f"the tick {format_instant(slot)} of bundle {bundle.name} is deleted again and again")

    def put(self, bundle: Bundle, slot: datetime, facts: TickFacts, late_ms: int = 0) -> Tick | None:
        """Create the tick; return None if it was created, else the tick that is there."""
        first = {place: each for place, each in facts.answers.items() if fits_first(each, bundle, place)}
        late = {place: each for place, each in facts.answers.items() if place not in first}
        named = facts.settled | facts.outstanding
        item = {
            **_key(bundle, slot),
            "a": _binary(write_first(late_ms, bundle, first)),
            "v": {"M": {str(place): _binary(write_late(each)) for place, each in late.items()}},
            **{name: _set(places) for name, places in _states(facts) if places},
            **({} if len(named) == len(bundle.members) else {"p": {"BOOL": True}}),
        }
        request = {"TableName": self._table, "Item": item, "ConditionExpression": _IS_NEW}
        found = change_or_read(self._time_left, "PutItem", request)
        return None if found is None else read_tick(found, bundle)

    def add(self, bundle: Bundle, slot: datetime, facts: TickFacts) -> bool:
        """Add to a tick what is not there yet; return False if there is no such tick."""
        for part in _parts(facts):
            if (request := _update(part)) is None:
                continue
            key = {"TableName": self._table, "Key": _key(bundle, slot)}
            if not change_item(self._time_left, "UpdateItem", {**key, **request}):
                return False
        return True

    def ask_again(
        self,
        bundle: Bundle,
        slot: datetime,
        places: Collection[int],
        now: datetime,
        before_new: Callable[[], object] = lambda: None,
    ) -> None:
        """Note that a backfill asks for these members: within the grace they are pending, and not dead.

        `before_new` is called before a tick is begun: its day may have to be noted as a late one.
        """
        asked, at = _set(frozenset(places)), {"N": str(int(now.timestamp()))}
        change: Fields = {
            "TableName": self._table,
            "Key": _key(bundle, slot),
            "UpdateExpression": "SET q = :now ADD o :asked DELETE d :asked",
            "ConditionExpression": _EXISTS,
            "ExpressionAttributeValues": {":asked": asked, ":now": at},
        }
        new = {**_empty(bundle, slot), "o": asked, "p": {"BOOL": True}, "q": at}
        put: Fields = {"TableName": self._table, "Item": new, "ConditionExpression": _IS_NEW}
        for _ in range(_TRIES):
            if change_item(self._time_left, "UpdateItem", change):
                return
            before_new()
            if change_item(self._time_left, "PutItem", put):
                return
        raise StoreError(f"the tick {format_instant(slot)} of bundle {bundle.name} is deleted again and again")

    def forget_dead(self, bundle: Bundle, slot: datetime, places: Collection[int]) -> None:
        """Note that these members are given up no more: somebody removed their dead letters."""
        change: Fields = {
            "TableName": self._table,
            "Key": _key(bundle, slot),
            "UpdateExpression": "DELETE d :places",
            "ConditionExpression": _EXISTS,
            "ExpressionAttributeValues": {":places": _set(frozenset(places))},
        }
        change_item(self._time_left, "UpdateItem", change)

    def read(self, bundle: Bundle, start: datetime, end: datetime, *, consistent: bool = True) -> Iterator[Tick]:
        """Return the ticks of slots in [start, end), oldest first."""
        for item in self.items(bundle, start, end, consistent=consistent):
            yield read_tick(item, bundle)

    def items(
        self, bundle: Bundle, start: datetime, end: datetime, *, consistent: bool = True
    ) -> Iterator[Fields]:
        """Return the items of slots in [start, end) as they are kept, oldest first."""
        if start < end:
            yield from read_items(self._time_left, self._query(bundle, start, end, ConsistentRead=consistent))

    def count_perfect(self, bundle: Bundle, start: datetime, end: datetime) -> int:
        """Count the ticks of [start, end) that every member answered; DynamoDB sends none of them.

        A tick that still names a state of a member does not count, even if the member has answered since.
        """
        if start >= end:
            return 0
        whole = self._query(bundle, start, end, Select="COUNT", FilterExpression=PERFECT)
        return sum(page["Count"] for page in read_pages(self._time_left, "Query", whole))

    def at(self, slots: Iterable[tuple[Bundle, datetime]]) -> dict[tuple[str, datetime], Tick]:
        """Return single ticks of many bundles, by bundle and slot: 100 a call, those that exist."""
        wanted = list(slots)
        bundles = {bundle.name: bundle for bundle, _ in wanted}
        keys = [_key(bundle, slot) for bundle, slot in wanted]
        found = {}
        for item in get_items(self._time_left, self._table, keys, consistent=False):
            name = item["metricName"]["S"].removeprefix(PREFIX)
            tick = read_tick(item, bundles[name])
            found[name, tick.slot] = tick
        return found

    def newest(self, bundle: Bundle, until: datetime, limit: int) -> list[Tick]:
        """Return the newest ticks whose slots begin by `until`, newest first."""
        request = {
            "TableName": self._table,
            "KeyConditionExpression": "metricName = :bundle AND slotTime <= :last",
            "ExpressionAttributeValues": {
                ":bundle": {"S": PREFIX + bundle.name},
                ":last": {"S": format_instant(until.replace(microsecond=0))},
            },
            "ScanIndexForward": False,
            "Limit": limit,
        }
        page = next(read_pages(self._time_left, "Query", request))
        return [read_tick(item, bundle) for item in page.get("Items", ())]

    def delete(self, items: Sequence[Fields]) -> list[bool]:
        """Delete these items as they were read; return False for each that has changed since, which stays."""
        compared = ("metricName", "slotTime", "a", "v", "o", "d", "h")
        statements = []
        for item in items:
            where = " AND ".join(f"{name} = ?" if name in item else f"{name} IS MISSING" for name in compared)
            values = [item[name] for name in compared if name in item]
            statements.append({"Statement": f'DELETE FROM "{self._table}" WHERE {where}', "Parameters": values})
        codes = execute_statements(self._time_left, statements)
        for code in codes:
            if code not in ("", "ConditionalCheckFailed"):
                raise StoreError(f"BatchExecuteStatement: {code}")
        return [not code for code in codes]

    def _query(self, bundle: Bundle, start: datetime, end: datetime, **options: object) -> Fields:
        bounds = {":first": format_instant(start), ":last": format_instant(shift(end, -1))}
        values = {":bundle": {"S": PREFIX + bundle.name}, **{name: {"S": text} for name, text in bounds.items()}}
        return {
            "TableName": self._table,
            "KeyConditionExpression": _IN_RANGE,
            "ExpressionAttributeValues": values,
            **options,
        }


def read_tick(item: Fields, bundle: Bundle) -> Tick:
    """Read an item; a first answer counts more than a later one of the same member. StoreError if unreadable."""
    try:
        late_ms, first = read_first(base64.b64decode(item["a"]["B"]), bundle)
        late = {int(place): read_late(base64.b64decode(each["B"])) for place, each in item["v"]["M"].items()}
        slot = parse_instant(item["slotTime"]["S"], "slotTime")
    except (KeyError, IndexError, ValueError) as error:
        place = item.get("slotTime", {}).get("S")
        raise StoreError(f"the tick {place} of bundle {bundle.name} cannot be read: {error}") from None
    outstanding, dead, held = (frozenset(map(int, item.get(name, {}).get("NS", ()))) for name in "odh")
    asked = from_seconds(int(item["q"]["N"])) if "q" in item else None
    return Tick(slot, late | first, late_ms, outstanding, dead, held, asked, "p" in item)


def without_values(facts: TickFacts, tick: Tick) -> TickFacts:
    """Leave out the answers that a tick has already; what they settle stays settled."""
    answers = {place: each for place, each in facts.answers.items() if place not in tick.answers}
    return TickFacts(answers, facts.outstanding & tick.outstanding, facts.dead, facts.held)


def _parts(facts: TickFacts) -> Iterator[TickFacts]:
    """Cut facts so that each part fits one update; most fit as they are."""
    places = sorted(facts.answers)
    for start in range(0, max(len(places), 1), _MOST_CHANGES):
        chosen = places[start : start + _MOST_CHANGES]
        part = {place: facts.answers[place] for place in chosen}
        yield TickFacts(part, frozenset(), *((frozenset(), frozenset()) if start else (facts.dead, facts.held)))


def _update(facts: TickFacts) -> Fields | None:
    """Write facts as an update; None if there is nothing to change."""
    clauses: list[str] = []
    names: dict[str, str] = {}
    values: dict[str, Mapping[str, object]] = {}
    if facts.answers:
        names = {f"#{place}": str(place) for place in facts.answers}
        values |= {f":{place}": _binary(write_late(each)) for place, each in facts.answers.items()}
        kept = (f"v.#{place} = if_not_exists(v.#{place}, :{place})" for place in facts.answers)
        clauses.append(f"SET {', '.join(kept)}")
    added = {name: places for name, places in (("d", facts.dead), ("h", facts.held)) if places}
    if added:
        values |= {f":{name}": _set(places) for name, places in added.items()}
        clauses.append("ADD " + ", ".join(f"{name} :{name}" for name in added))
    if facts.settled:
        values[":settled"] = _set(facts.settled)
        clauses.append("DELETE o :settled")
    if not clauses:
        return None
    request: Fields = {
        "UpdateExpression": " ".join(clauses),
        "ConditionExpression": _EXISTS,
        "ExpressionAttributeValues": values,
    }
    return {**request, "ExpressionAttributeNames": names} if names else request


def _states(facts: TickFacts) -> tuple[tuple[str, frozenset[int]], ...]:
    return ("o", facts.outstanding - facts.answers.keys()), ("d", facts.dead), ("h", facts.held)


def _key(bundle: Bundle, slot: datetime) -> Fields:
    return {"metricName": {"S": PREFIX + bundle.name}, "slotTime": {"S": format_instant(slot)}}


def _empty(bundle: Bundle, slot: datetime) -> Fields:
    """A tick without answers."""
    return {**_key(bundle, slot), "a": _binary(write_first(0, bundle, {})), "v": {"M": {}}}


def _binary(data: bytes) -> dict[str, object]:
    return {"B": base64.b64encode(data).decode()}


def _set(places: frozenset[int]) -> dict[str, object]:
    return {"NS": numbers_of(places)}
