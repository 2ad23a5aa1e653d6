"""The ledger of ticks on AWS: for each bundle and slot time one item, which says whose records are not there yet.

An item comes with the first delivery of its tick and never lacks more than before: members are only ever taken
off, as their records are seen to be stored, by whomever. So a delivery that comes twice changes nothing. A whole
tick lacks nobody, and no item means that nobody is known to have been collected. Items expire.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from math import inf

from kizami.aws.client.json_client import Fields
from kizami.aws.dynamodb import change_item, read_pages
from kizami.aws.invocation import TimeLeft
from kizami.core.coverage import Gap, Span
from kizami.core.epoch import to_seconds
from kizami.core.reconcile import find_gaps_by_counting
from kizami.core.slots import format_instant, parse_instant, shift

KEPT_SECONDS = 2 * 86_400
# Marks come after every slot time.
CHECKED = "checked"  # the records from before the bundle's first tick were seen to be complete
COMPARED = "compared"  # with a time: ticks before it that are short are so by the records too
TOTALLED = "totalled"  # and an hour: by then all totals were made

IS_NEW = "attribute_not_exists(tick)"
IS_THERE = "attribute_exists(tick)"
IS_WHOLE = "attribute_not_exists(lacking)"
IS_SHORT = "attribute_exists(lacking)"
_WHOM = "tick, lacking"
TICKS_IN_RANGE = "bundle = :bundle AND tick BETWEEN :first AND :last"


@dataclass(frozen=True, slots=True)
class LedgerTick:
    """A slot time of a bundle, and the places of those members whose record was not there yet."""

    slot: datetime
    lacking: frozenset[int] = frozenset()


class TickLedger:
    """The ledger of one table. StoreError."""

    def __init__(self, table: str, time_left: TimeLeft = lambda: inf) -> None:
        self._table = table
        self._time_left = time_left

    def note(self, bundle: str, members: int, slot: datetime, stored: Collection[int], now: datetime) -> None:
        """The members of these places are stored, of so many; it may be noted any number of times."""
        if not stored:
            return
        lacking = set(range(members)) - set(stored)
        is_live = len(lacking) < len(stored)  # what goes back alone finds that its tick has an item
        if is_live and self._begin(bundle, slot, lacking, now):
            return
        while not (self._reduce(bundle, slot, stored) or self._begin(bundle, slot, lacking, now)):
            pass  # somebody was quicker, or it has expired: then the other way is open

    def _begin(self, bundle: str, slot: datetime, lacking: Collection[int], now: datetime) -> bool:
        short = {"lacking": _set(lacking)} if lacking else {}
        item = {**_key(bundle, slot), "expiresAt": _expiry(now), **short}
        return self._change("PutItem", {"Item": item, "ConditionExpression": IS_NEW})

    def _reduce(self, bundle: str, slot: datetime, stored: Collection[int]) -> bool:
        change = {
            "Key": _key(bundle, slot),
            "UpdateExpression": "DELETE lacking :stored",
            "ConditionExpression": IS_THERE,
            "ExpressionAttributeValues": {":stored": _set(stored)},
        }
        return self._change("UpdateItem", change)

    def _change(self, operation: str, request: Fields) -> bool:
        return change_item(self._time_left, operation, {"TableName": self._table, **request})

    def count_whole(self, bundle: str, start: datetime, end: datetime) -> int:
        """How many ticks of [start, end) lack nobody; DynamoDB counts them and sends none."""
        pages = self._pages(bundle, start, end, FilterExpression=IS_WHOLE, Select="COUNT")
        return sum(page["Count"] for page in pages)

    def ticks(self, bundle: str, start: datetime, end: datetime) -> Iterator[LedgerTick]:
        """The ticks of [start, end) that have an item, oldest first."""
        for page in self._pages(bundle, start, end):
            yield from map(read_tick, page.get("Items", ()))

    def lacking(self, bundle: str, start: datetime, end: datetime) -> dict[int, int]:
        """Whom each tick of [start, end) lacks that has an item: by seconds since 1970, places as bits.

        A day of a bundle has 17,280 of them, so nothing else is sent or made.
        """
        pages = self._pages(bundle, start, end, ProjectionExpression=_WHOM)
        return dict(_places_lacked(item) for page in pages for item in page.get("Items", ()))

    def pick_short(self, bundle: str, start: datetime, end: datetime) -> tuple[int, dict[int, int]]:
        """How many ticks of [start, end) have an item, and whom those lack that lack somebody, as `lacking` tells.

        DynamoDB counts the others as it passes over them, and sends none.
        """
        ticks, short = 0, dict[int, int]()
        for page in self._pages(bundle, start, end, ProjectionExpression=_WHOM, FilterExpression=IS_SHORT):
            ticks += page["ScannedCount"]
            short.update(map(_places_lacked, page.get("Items", ())))
        return ticks, short

    def short_ticks(self, bundle: str, start: datetime, end: datetime) -> Iterator[LedgerTick]:
        """Those of them that lack somebody."""
        for page in self._pages(bundle, start, end, FilterExpression=IS_SHORT):
            yield from map(read_tick, page.get("Items", ()))

    def short(self, bundle: str, span: Span) -> tuple[list[Gap], dict[datetime, frozenset[int]]]:
        """Where the ticks of a span are not whole, and whom those of them lack that have an item; halves that are
        whole are not read."""
        gaps = list(
            find_gaps_by_counting(
                span,
                lambda start, end: self.count_whole(bundle, start, end),
                lambda start, end: (tick.slot for tick in self.ticks(bundle, start, end) if not tick.lacking),
            )
        )
        ticks = (tick for gap in gaps for tick in self.ticks(bundle, gap.start, gap.end))
        return gaps, {tick.slot: tick.lacking for tick in ticks}

    def items_since(self, bundle: str, start: datetime) -> Iterator[Fields]:
        """All that is noted of a bundle's ticks from `start` on, and of the bundle itself."""
        request = {
            "TableName": self._table,
            "KeyConditionExpression": "bundle = :bundle AND tick >= :first",
            "ExpressionAttributeValues": {":bundle": {"S": bundle}, ":first": {"S": format_instant(start)}},
        }
        for page in read_pages(self._time_left, "Query", request):
            yield from page.get("Items", ())

    def first_tick(self, bundle: str) -> LedgerTick | None:
        """The oldest tick that is known of a bundle."""
        return next(iter(self._at_edge(bundle, 1, forward=True)), None)

    def first(self, bundle: str) -> datetime | None:
        """The slot time of the oldest tick that is known of a bundle."""
        tick = self.first_tick(bundle)
        return tick.slot if tick else None

    def newest(self, bundle: str) -> datetime | None:
        """The newest tick that is known of a bundle."""
        return next((tick.slot for tick in self._at_edge(bundle, 1, forward=False)), None)

    def newest_ticks(self, bundle: str, limit: int) -> list[LedgerTick]:
        """Its newest ticks, up to so many, newest first."""
        return self._at_edge(bundle, limit, forward=False)

    def is_checked(self, bundle: str, mark: str = CHECKED) -> bool:
        """Whether the mark was set."""
        return self._mark(bundle, mark) is not None

    def check(self, bundle: str, now: datetime, mark: str = CHECKED) -> None:
        """Set the mark, for as long as a tick stays."""
        self._set_mark(bundle, mark, now, {})

    def compared_until(self, bundle: str) -> datetime | None:
        """The slot time up to which short ticks were compared with the records, if any were lately."""
        mark = self._mark(bundle, COMPARED)
        return None if mark is None else parse_instant(mark["until"]["S"], "until")

    def note_compared(self, bundle: str, until: datetime, now: datetime) -> None:
        """Short ticks were compared with the records up to that slot time."""
        self._set_mark(bundle, COMPARED, now, {"until": {"S": format_instant(until)}})

    def _mark(self, bundle: str, mark: str) -> Fields | None:
        request = {"TableName": self._table, **_one(bundle, mark)}
        return next(
            (item for page in read_pages(self._time_left, "Query", request) for item in page["Items"]), None
        )

    def _set_mark(self, bundle: str, mark: str, now: datetime, more: Fields) -> None:
        item = {"bundle": {"S": bundle}, "tick": {"S": mark}, "expiresAt": _expiry(now), **more}
        self._change("PutItem", {"Item": item})

    def _at_edge(self, bundle: str, limit: int, *, forward: bool) -> list[LedgerTick]:
        request = {
            "TableName": self._table,
            "KeyConditionExpression": "bundle = :bundle AND tick < :checked",
            "ExpressionAttributeValues": {":bundle": {"S": bundle}, ":checked": {"S": CHECKED}},
            "ScanIndexForward": forward,
            "Limit": limit,
        }
        page = next(read_pages(self._time_left, "Query", request))
        return list(map(read_tick, page.get("Items", ())))

    def _pages(self, bundle: str, start: datetime, end: datetime, **options: str) -> Iterator[Fields]:
        if start >= end:
            return
        values = {":bundle": bundle, ":first": format_instant(start), ":last": format_instant(shift(end, -1))}
        request = {
            "TableName": self._table,
            "KeyConditionExpression": TICKS_IN_RANGE,
            "ExpressionAttributeValues": {name: {"S": value} for name, value in values.items()},
            **options,
        }
        yield from read_pages(self._time_left, "Query", request)


def _expiry(now: datetime) -> Fields:
    return {"N": str(int(shift(now, KEPT_SECONDS).timestamp()))}


def _one(bundle: str, tick: str) -> Fields:
    return {
        "KeyConditionExpression": "bundle = :bundle AND tick = :tick",
        "ExpressionAttributeValues": {":bundle": {"S": bundle}, ":tick": {"S": tick}},
    }


def _key(bundle: str, slot: datetime) -> Fields:
    return {"bundle": {"S": bundle}, "tick": {"S": format_instant(slot)}}


def _set(places: Collection[int]) -> Fields:
    return {"NS": [str(place) for place in sorted(places)]}


def _places_lacked(item: Fields) -> tuple[int, int]:
    return _second(item["tick"]["S"]), _bits(tuple(item["lacking"]["NS"])) if "lacking" in item else 0


@lru_cache(maxsize=1024)  # most ticks lack the same members
def _bits(places: tuple[str, ...]) -> int:
    return sum(1 << int(place) for place in places)


def _second(tick: str) -> int:
    return _minute(tick[:16]) + int(tick[17:19])


@lru_cache(maxsize=4096)  # the bundles have the same ones, of two days
def _minute(start: str) -> int:
    return to_seconds(parse_instant(f"{start}:00Z", "tick"))


def is_tick(item: Fields) -> bool:
    """Whether an item is about a slot time: marks, and notes of failures, come after every one."""
    return bool(item["tick"]["S"] < CHECKED)


def read_tick(item: Fields) -> LedgerTick:
    """The tick that an item is about."""
    places = item.get("lacking", {}).get("NS", ())
    return LedgerTick(parse_instant(item["tick"]["S"], "tick"), frozenset(map(int, places)))
