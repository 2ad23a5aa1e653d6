"""States of targets in DynamoDB: an item for each that is slow, held or was held, in the metric table.

    key        (`#blocks`, "<16 letters of the name's hash> <target>"), the order in which bundles are cut
    `slow`, `quick`                                      asked on the retry lane only; quick answers in a row
    `since`, `askedAt`, `reason`, `failures`, `lasting`  failures in a row
    `nextProbe`, `probes`, `target`                      it is held: when it is probed, and its fingerprint
    `keptFrom`, `keptIn`, `answeredAt`                   slots that were kept, and when it answered again
    `version`                                            another one with every write

The states of a bundle's members are read by one Query over a short range, which costs half a read unit as long as
few targets are in trouble. Every write is on the condition that the item is as it was read, because Collectors
write side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from math import inf
from types import EllipsisType

from kizami.aws.client import machine
from kizami.aws.client.json_client import Fields
from kizami.aws.dynamodb import change_or_read, get_items, read_items
from kizami.aws.invocation import TimeLeft
from kizami.core.blocking import Trouble
from kizami.core.errors import InvalidInput, StoreError
from kizami.core.holding import TargetState
from kizami.core.slots import format_second, parse_instant

BLOCKS = "#blocks"

_IS_NEW = "attribute_not_exists(metricName)"
_IS_AS_READ = "version = :version"
_HASH_LETTERS, _VERSION_LETTERS = 16, 12
_TRIES = 5

Change = Callable[[TargetState | None], TargetState | None]


class Blocks:
    """The states of a table's targets. StoreError."""

    def __init__(self, table: str, time_left: TimeLeft = lambda: inf) -> None:
        self._table = table
        self._time_left = time_left

    def all(self) -> dict[str, TargetState]:
        """Return the states of all targets that have one, by name."""
        return dict(self._query("metricName = :partition", {}))

    def of(self, names: Collection[str]) -> dict[str, TargetState]:
        """Return the states of some neighbouring targets, by name; eventually consistent."""
        places = sorted(map(_place, names))
        bounds = {":first": {"S": places[0]}, ":last": {"S": places[-1]}}
        found = self._query("metricName = :partition AND slotTime BETWEEN :first AND :last", bounds)
        wanted = frozenset(names)
        return {name: state for name, state in found if name in wanted}

    def get(self, name: str) -> TargetState | None:
        """Return the state of one target as it is now."""
        found = get_items(self._time_left, self._table, [_key(name)])
        return _read(found[0]) if found else None

    def save(self, name: str, state: TargetState) -> TargetState | None:
        """Write a changed state; return it as it is kept, or None if another writer was quicker."""
        kept, _ = self._put(name, state)
        return kept

    def update(
        self, name: str, change: Change, seen: TargetState | EllipsisType | None = ...
    ) -> TargetState | None:
        """Change the state of a target, which begins as `seen` says; return the state that it has then.

        `change` returns None if there is nothing to write. It is called again if another writer was quicker.
        """
        state = self.get(name) if seen is ... else seen
        for _ in range(_TRIES):
            changed = change(state)
            if changed is None or changed == state:
                return state
            kept, state = self._put(name, changed)
            if kept is not None:
                return kept
        raise StoreError(f"{name}: its state is written by too many at once")

    def forget(self, name: str, state: TargetState) -> bool:
        """Delete a state that is as it was read; return False if it has changed since."""
        request = {"TableName": self._table, "Key": _key(name), **_as_read(state)}
        return not change_or_read(self._time_left, "DeleteItem", request)

    def _put(self, name: str, state: TargetState) -> tuple[TargetState | None, TargetState | None]:
        """Return the state as it was written, else None and the state that is there."""
        # Random, so that no two writes have the same version, not even those of an item that was forgotten.
        kept = replace(state, version=int(machine.new_id()[:_VERSION_LETTERS], 16) + 1)
        item = {**_key(name), **_write(kept)}
        request = {"TableName": self._table, "Item": item, **_as_read(state)}
        found = change_or_read(self._time_left, "PutItem", request)
        if found is None or found == item:  # the latter if the answer to a first try was lost
            return kept, kept
        return None, _read(found) if found else None

    def _query(self, condition: str, values: Fields) -> Iterator[tuple[str, TargetState]]:
        request = {
            "TableName": self._table,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": {":partition": {"S": BLOCKS}, **values},
        }
        for item in read_items(self._time_left, request):
            yield item["slotTime"]["S"][_HASH_LETTERS + 1 :], _read(item)


@lru_cache(maxsize=4096)
def _place(name: str) -> str:
    return f"{sha256(name.encode()).hexdigest()[:_HASH_LETTERS]} {name}"


def _key(name: str) -> Fields:
    return {"metricName": {"S": BLOCKS}, "slotTime": {"S": _place(name)}}


def _as_read(state: TargetState) -> Fields:
    if not state.version:
        return {"ConditionExpression": _IS_NEW}
    version = {":version": {"N": str(state.version)}}
    return {"ConditionExpression": _IS_AS_READ, "ExpressionAttributeValues": version}


def _write(state: TargetState) -> Fields:
    trouble = state.trouble
    moments = {"keptFrom": state.kept_from, "answeredAt": state.answered_at}
    texts = {"keptIn": state.kept_in, "target": state.fingerprint}
    numbers = {"quick": state.quick, "lasting": state.lasting, "version": state.version}
    if trouble is not None:
        moments |= {"since": trouble.since, "askedAt": trouble.asked_at, "nextProbe": trouble.next_probe}
        numbers |= {"failures": trouble.failures, "probes": trouble.probes}
        texts["reason"] = trouble.reason
    texts |= {name: format_second(moment) for name, moment in moments.items() if moment is not None}
    return {
        **{name: {"S": text} for name, text in texts.items() if text},
        **{name: {"N": str(number)} for name, number in numbers.items() if number},
        **({"slow": {"BOOL": True}} if state.slow else {}),
    }


def _read(item: Fields) -> TargetState:
    def moment(name: str) -> datetime | None:
        return parse_instant(item[name]["S"], name) if name in item else None

    def number(name: str) -> int:
        return int(item[name]["N"]) if name in item else 0

    def text(name: str) -> str:
        return str(item[name]["S"]) if name in item else ""

    try:
        since, asked_at, trouble = moment("since"), moment("askedAt"), None
        if since is not None and asked_at is not None:
            counts = number("failures"), number("probes")
            trouble = Trouble(since, text("reason"), asked_at, *counts, moment("nextProbe"))
        return TargetState(
            trouble,
            number("lasting"),
            "slow" in item,
            number("quick"),
            moment("keptFrom"),
            text("keptIn"),
            moment("answeredAt"),
            text("target"),
            number("version"),
        )
    except (KeyError, ValueError, InvalidInput) as error:
        raise StoreError(f"the state {item.get('slotTime', {}).get('S')} cannot be read: {error}") from None
