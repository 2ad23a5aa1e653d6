"""Why requests fail, as functions note it for the reconciler: an item for each target that fails.

A note says what the last error was, and how many slots have died since the failures began; an hour without one
ends that. Those of bundles stand in the ledger, beside their ticks: thousands must not meet in one partition.
Others stand in a partition of the metric table that no metric can have. Notes expire; a lost one costs a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from math import inf

from kizami.aws.client import machine
from kizami.aws.client.json_client import Fields
from kizami.aws.dynamodb import change_item, read_pages
from kizami.aws.invocation import TimeLeft
from kizami.core.slots import floor_to_second, format_instant, parse_instant, shift

FAILURES_PARTITION = "#failures"
METRIC_KEYS, LEDGER_KEYS = ("metricName", "slotTime"), ("bundle", "tick")
PREFIX = "failed/"  # sorts behind every tick
NOTE_SECONDS = 2.0  # nobody waits longer for it
SPELL_SECONDS, KEPT_SECONDS = 3600, 2 * 86_400
QUIET_SECONDS = 60.0  # so often a container notes the failures of one target


@dataclass(frozen=True, slots=True)
class FailureNote:
    """The last error, and the slots that have died since the failures began."""

    reason: str
    failed_at: datetime
    dead: int = 0
    first_dead: datetime | None = None
    died_at: datetime | None = None


class FailureNotes:
    """The notes of a table. StoreError."""

    def __init__(self, table: str, keys: tuple[str, str] = METRIC_KEYS, time_left: TimeLeft = lambda: inf) -> None:
        self._table = table
        self._keys = keys
        self._time_left = time_left

    def note(
        self, partition: str, name: str, reason: str, now: datetime, dead_slot: datetime | None = None
    ) -> None:
        """It has failed, and with that lost a slot if one is named."""
        if dead_slot is None and not _is_news(self._table, name):
            return
        at = _text(now)
        if not self._go_on(partition, name, reason, now, dead_slot):
            fresh = {"reason": {"S": reason}, "failedAt": {"S": at}, "expiresAt": _expiry(now)}
            if dead_slot is not None:
                fresh |= {"dead": {"N": "1"}, "firstDead": {"S": _text(dead_slot)}, "diedAt": {"S": at}}
            self._change("PutItem", {"Item": {**self._key(partition, name), **fresh}})

    def _go_on(self, partition: str, name: str, reason: str, now: datetime, dead_slot: datetime | None) -> bool:
        """Add to the note of the failures that have not ended; whether there is one."""
        change = "SET reason = :reason, failedAt = :now, expiresAt = :expiry"
        values = {":reason": {"S": reason}, ":now": {"S": _text(now)}, ":expiry": _expiry(now)}
        values[":spell"] = {"S": _text(shift(now, -SPELL_SECONDS))}
        if dead_slot is not None:
            change += ", diedAt = :now, firstDead = if_not_exists(firstDead, :slot) ADD dead :one"
            values |= {":slot": {"S": _text(dead_slot)}, ":one": {"N": "1"}}
        request = {
            "Key": self._key(partition, name),
            "UpdateExpression": change,
            "ConditionExpression": "failedAt > :spell",
            "ExpressionAttributeValues": values,
        }
        return self._change("UpdateItem", request)

    def forget(self, partition: str, name: str) -> None:
        """It is well."""
        noted_at(self._table).pop(name, None)
        self._change("DeleteItem", {"Key": self._key(partition, name)})

    def all(self, partition: str) -> dict[str, FailureNote]:
        """Those of a partition, by name."""
        request = {
            "TableName": self._table,
            "KeyConditionExpression": f"{self._keys[0]} = :partition AND begins_with({self._keys[1]}, :prefix)",
            "ExpressionAttributeValues": {":partition": {"S": partition}, ":prefix": {"S": PREFIX}},
        }
        pages = read_pages(self._time_left, "Query", request)
        return dict(each for page in pages for each in read_notes(page.get("Items", ()), self._keys[1]))

    def _key(self, partition: str, name: str) -> Fields:
        return {self._keys[0]: {"S": partition}, self._keys[1]: {"S": f"{PREFIX}{name}"}}

    def _change(self, operation: str, request: Fields) -> bool:
        within = min(NOTE_SECONDS, self._time_left())
        return change_item(lambda: within, operation, {"TableName": self._table, **request})


def read_notes(items: Iterator[Fields], sort_key: str) -> Iterator[tuple[str, FailureNote]]:
    """Those among items of a table, by name."""
    for item in items:
        if item[sort_key]["S"].startswith(PREFIX):
            yield item[sort_key]["S"].removeprefix(PREFIX), _read(item)


@lru_cache(maxsize=1)
def noted_at(table: str) -> dict[str, float]:
    """When this container has noted the failures of each target."""
    return {}


def _is_news(table: str, name: str) -> bool:
    noted, now = noted_at(table), machine.monotonic()
    if now - noted.get(name, -inf) < QUIET_SECONDS:
        return False
    noted[name] = now
    return True


def _expiry(now: datetime) -> Fields:
    return {"N": str(int(shift(now, KEPT_SECONDS).timestamp()))}


def _text(instant: datetime) -> str:
    return format_instant(floor_to_second(instant))


def _read(item: Fields) -> FailureNote:
    def moment(name: str) -> datetime | None:
        return parse_instant(item[name]["S"], name) if name in item else None

    failed_at = parse_instant(item["failedAt"]["S"], "failedAt")
    dead = int(item.get("dead", {}).get("N", "0"))
    return FailureNote(item["reason"]["S"], failed_at, dead, moment("firstDead"), moment("diedAt"))
