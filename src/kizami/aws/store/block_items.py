"""Blocked targets on AWS: an item for each in the metric table, in a partition that no metric can have.

Many Collectors write it at once: each write is on the condition that the item is still the one that was read. They
stand in the order of their names' hashes, as the members of bundles do: a bundle's are read in one short range,
however many targets are blocked, and DynamoDB can cut a partition that is asked too much in the middle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from math import inf

from kizami.aws.client.json_client import Fields
from kizami.aws.dynamodb import change_item, read_pages
from kizami.aws.invocation import TimeLeft
from kizami.core.blocking import Trouble
from kizami.core.slots import floor_to_second, format_instant, parse_instant

PARTITION = "#blocks"

_IS_NEW = "attribute_not_exists(metricName)"
_IS_AS_READ = "version = :version"
_HASH_LETTERS = 16

Range = tuple[str, str]


@lru_cache(maxsize=4096)
def place_of(name: str) -> str:
    """Where a target's item stands."""
    return f"{sha256(name.encode()).hexdigest()[:_HASH_LETTERS]} {name}"


def range_of(names: Iterable[str]) -> Range:
    """From the first to the last place of some targets."""
    places = sorted(map(place_of, names))
    return places[0], places[-1]


@dataclass(frozen=True, slots=True)
class BlockItem:
    """What is known of a target that failed lastingly.

    No slot before `kept_from` was kept; that goes on as what was kept is asked for. One that answers again has
    no trouble, since `answered_at`. `target` tells one that was changed since.
    """

    trouble: Trouble | None = None
    kept_from: datetime | None = None
    answered_at: datetime | None = None
    target: str = ""
    version: int = 0

    @property
    def is_blocked(self) -> bool:
        return self.trouble is not None and self.trouble.is_blocked

    @property
    def keeps(self) -> bool:
        """Whether there are slots that were kept and are not asked for yet."""
        return self.kept_from is not None and (self.answered_at is None or self.kept_from <= self.answered_at)

    def keeping(self, slot: datetime) -> BlockItem:
        """With a slot that is kept too."""
        return replace(self, kept_from=min(self.kept_from or slot, slot))


class BlockItems:
    """The items of a table; reads are consistent. StoreError."""

    def __init__(self, table: str, time_left: TimeLeft = lambda: inf) -> None:
        self._table = table
        self._time_left = time_left

    def all(self) -> dict[str, BlockItem]:
        """Those of all targets, by their names."""
        return self._query("metricName = :partition", {})

    def between(self, places: Range) -> dict[str, BlockItem]:
        """Those of the targets in a range of places, by their names."""
        first, last = places
        values = {":first": {"S": first}, ":last": {"S": last}}
        return self._query("metricName = :partition AND slotTime BETWEEN :first AND :last", values)

    def get(self, name: str) -> BlockItem | None:
        """That of one target."""
        values = {":place": {"S": place_of(name)}}
        return self._query("metricName = :partition AND slotTime = :place", values).get(name)

    def save(self, name: str, item: BlockItem) -> bool:
        """Write it where it is still as it was read, a new one where there is none; whether it was."""
        written = {**_key(name), **_written(replace(item, version=item.version + 1))}
        return self._change("PutItem", {"Item": written}, item)

    def forget(self, name: str, item: BlockItem) -> bool:
        """Delete it where it is still as it was read; whether it was."""
        return self._change("DeleteItem", {"Key": _key(name)}, item)

    def _change(self, operation: str, request: Fields, seen: BlockItem) -> bool:
        condition: Fields = {"ConditionExpression": _IS_NEW}
        if seen.version:
            version = {":version": {"N": str(seen.version)}}
            condition = {"ConditionExpression": _IS_AS_READ, "ExpressionAttributeValues": version}
        return change_item(self._time_left, operation, {"TableName": self._table, **request, **condition})

    def _query(self, condition: str, values: Fields) -> dict[str, BlockItem]:
        return {item["slotTime"]["S"][_HASH_LETTERS + 1 :]: _read(item) for item in self._pages(condition, values)}

    def _pages(self, condition: str, values: Fields) -> Iterator[Fields]:
        request = {
            "TableName": self._table,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": {":partition": {"S": PARTITION}, **values},
            "ConsistentRead": True,
        }
        for page in read_pages(self._time_left, "Query", request):
            yield from page.get("Items", ())


def _key(name: str) -> Fields:
    return {"metricName": {"S": PARTITION}, "slotTime": {"S": place_of(name)}}


def _written(item: BlockItem) -> Fields:
    trouble = item.trouble
    moments = {"keptFrom": item.kept_from, "answeredAt": item.answered_at}
    texts = {"target": item.target}
    counts = {"version": item.version}
    if trouble is not None:
        moments |= {"since": trouble.since, "askedAt": trouble.asked_at, "nextProbe": trouble.next_probe}
        counts |= {"failures": trouble.failures, "probes": trouble.probes}
        texts["reason"] = trouble.reason
    texts |= {name: format_instant(floor_to_second(at)) for name, at in moments.items() if at is not None}
    return {name: {"S": text} for name, text in texts.items()} | {
        name: {"N": str(count)} for name, count in counts.items()
    }


def _read(item: Fields) -> BlockItem:
    def moment(name: str) -> datetime | None:
        return parse_instant(item[name]["S"], name) if name in item else None

    since, asked_at = moment("since"), moment("askedAt")
    trouble = None
    if since is not None and asked_at is not None:
        counts = int(item["failures"]["N"]), int(item["probes"]["N"])
        trouble = Trouble(since, item["reason"]["S"], asked_at, *counts, moment("nextProbe"))
    rest = item["target"]["S"], int(item["version"]["N"])
    return BlockItem(trouble, moment("keptFrom"), moment("answeredAt"), *rest)
