"""Marks of bundles in DynamoDB: how far each was looked at and sealed, and which days were written to late.

    key          (`#marks`, bundle)
    `s`, `z`     seen until, sealed until; absent as long as the mark has not begun
    `r`          runs of ticks that are not perfect, as JSON; absent without any
    `e`          version: how often `s`, `z` and `r` were written
    `l20251202`  a late day: when a tick of that day was last written again; `n` counts such writes

    key          (`#marks`, plan)
    `z`          the bundles of the plan are sealed up to here, and their marks are forgotten

A late day is noted before the tick is written and may be the first thing that is known of a bundle; `begin` adds
the rest. Of two runs that change one mark at the same time the slower one learns that its change was not made.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from math import inf
from typing import Any

from kizami.aws.client.json_client import Fields
from kizami.aws.dynamodb import change_item, put_items, read_items
from kizami.aws.invocation import TimeLeft
from kizami.core.bundles import Bundle
from kizami.core.epoch import EPOCH, from_seconds, to_seconds
from kizami.core.errors import StoreError
from kizami.core.recovery import Mark, TickRun
from kizami.core.slots import format_instant, parse_instant, shift
from kizami.core.ticks import places_of

MARKS = "#marks"
LATE_SECONDS = 6300  # a slot this long after its tick may be sealed soon, so a write to it is noted before
LATE_SPARE_SECONDS = 900  # a late write follows its note within this time, whatever becomes of its delivery
NOTED_SECONDS = 60  # for which a note of this process also covers other slots of the day

_DAY = "l%Y%m%d"


@dataclass(frozen=True, slots=True)
class KnownMarks:
    """The marks of a table at one moment."""

    marks: Mapping[str, Mark] = field(default_factory=dict)  # by bundle; some have not begun, see `Mark`
    finished: Mapping[str, datetime] = field(default_factory=dict)  # plans: up to where all is sealed

    def of(self, bundle: str) -> Mark:
        """Return the mark of a bundle; of one without a mark, and of a finished plan, one that has not begun.

        Before `sealed_until` all slots of the bundle are sealed; of a bundle that nothing is known of, none are.
        """
        until = self.finished.get(bundle.partition(".")[0], EPOCH)
        mark = self.marks.get(bundle, Mark(bundle, EPOCH, EPOCH))
        return mark if mark.version else replace(mark, seen_until=until, sealed_until=until)


class Marks:
    """The marks of a table. StoreError."""

    def __init__(self, table: str, time_left: TimeLeft = lambda: inf) -> None:
        self._table = table
        self._time_left = time_left
        self._noted: dict[tuple[str, date], datetime] = {}

    def all(self) -> KnownMarks:
        """Read all marks."""
        request: Fields = {
            "TableName": self._table,
            "KeyConditionExpression": "metricName = :marks",
            "ExpressionAttributeValues": {":marks": {"S": MARKS}},
            "ConsistentRead": True,
        }
        return read_marks(read_items(self._time_left, request))

    def begin(self, mark: Mark) -> Mark | None:
        """Write the mark of a bundle that has none; return it as it is kept, None if it has one."""
        return self._write(mark, "attribute_not_exists(s)", {})

    def save(self, mark: Mark) -> Mark | None:
        """Write how far a bundle was seen and sealed, and its runs; late days stay as they are.

        Return the mark as it is kept, None if another run has written it since it was read.
        """
        return self._write(mark, "e = :seen", {":seen": {"N": str(mark.version)}})

    def note_if_late(self, bundle: Bundle, slot: datetime, now: datetime, *, is_backfill: bool = False) -> None:
        """Note the day of a slot, if need be, before its tick is begun or its row is written.

        A slot of a backfill may lie before the first live one of its bundle, where the mark begins.
        """
        if is_backfill or now > shift(bundle.due(slot), LATE_SECONDS):
            self.note_late(bundle.name, slot, now)

    def note_late(self, bundle: str, slot: datetime, now: datetime) -> None:
        """Note, before a tick is written long after its slot, that its day is to be sealed again."""
        day = slot.date()
        noted = self._noted.get((bundle, day))
        if noted is not None and noted <= now < shift(noted, NOTED_SECONDS):
            return
        request: Fields = {
            "TableName": self._table,
            "Key": mark_key(bundle),
            "UpdateExpression": "SET #day = :now ADD n :one",
            "ExpressionAttributeNames": {"#day": day.strftime(_DAY)},
            "ExpressionAttributeValues": {":now": _seconds(now), ":one": {"N": "1"}},
        }
        change_item(self._time_left, "UpdateItem", request)
        self._noted[bundle, day] = now

    def end_late(self, mark: Mark, day: date, now: datetime) -> bool:
        """Note that a late day of the mark is sealed again; read its ticks after the mark.

        Return False if that must wait: it was noted less than 15 minutes ago, or again since the mark was read.
        """
        noted = mark.late_days[day]
        if now < shift(noted, LATE_SPARE_SECONDS):
            return False
        request: Fields = {
            "TableName": self._table,
            "Key": mark_key(mark.bundle),
            "UpdateExpression": "REMOVE #day",
            "ConditionExpression": "#day = :seen",
            "ExpressionAttributeNames": {"#day": day.strftime(_DAY)},
            "ExpressionAttributeValues": {":seen": _seconds(noted)},
        }
        return change_item(self._time_left, "UpdateItem", request)

    def finish(self, plan: str, until: datetime) -> None:
        """Write down that the bundles of a plan are sealed up to there, before `forget` removes their marks."""
        item = {**mark_key(plan), "z": {"S": format_instant(until)}}
        put_items(self._time_left, self._table, [item])

    def forget(self, mark: Mark) -> bool:
        """Remove a mark without late days; return False if it has any by now, or has changed since it was read."""
        if mark.late_days:
            return False
        conditions, values = [], {}
        for name, number in (("e", mark.version), ("n", mark.late_notes)):
            conditions.append(f"{name} = :{name}" if number else f"attribute_not_exists({name})")
            if number:
                values[f":{name}"] = {"N": str(number)}
        request: Fields = {
            "TableName": self._table,
            "Key": mark_key(mark.bundle),
            "ConditionExpression": " AND ".join(conditions),
            **({"ExpressionAttributeValues": values} if values else {}),
        }
        return change_item(self._time_left, "DeleteItem", request)

    def _write(self, mark: Mark, condition: str, seen: Fields) -> Mark | None:
        kept = replace(mark, version=mark.version + 1)
        values = {
            ":s": {"S": format_instant(mark.seen_until)},
            ":z": {"S": format_instant(mark.sealed_until)},
            ":e": {"N": str(kept.version)},
        }
        if mark.runs:
            values[":r"] = {"S": json.dumps([_write_run(run) for run in mark.runs], separators=(",", ":"))}
        request: Fields = {
            "TableName": self._table,
            "Key": mark_key(mark.bundle),
            "UpdateExpression": "SET s = :s, z = :z, e = :e" + (", r = :r" if mark.runs else " REMOVE r"),
            "ConditionExpression": condition,
            "ExpressionAttributeValues": values | seen,
        }
        return kept if change_item(self._time_left, "UpdateItem", request) else None


def mark_keys(bundles: Iterable[str]) -> list[Fields]:
    """Return the keys of the items that tell of these bundles, for readers that ask for other items, too."""
    names = list(bundles)
    return [mark_key(name) for name in dict.fromkeys([*names, *(name.partition(".")[0] for name in names)])]


def mark_key(name: str) -> Fields:
    """Return the key of the mark of a bundle or plan."""
    return {"metricName": {"S": MARKS}, "slotTime": {"S": name}}


def read_marks(items: Iterable[Fields]) -> KnownMarks:
    """Read the items of marks. StoreError."""
    marks, finished = {}, {}
    for item in items:
        name = item["slotTime"]["S"]
        try:
            if "." in name:
                marks[name] = _read_mark(name, item)
            else:
                finished[name] = _time(item["z"])
        except (KeyError, ValueError, TypeError) as error:
            raise StoreError(f"the mark of {name} cannot be read: {error}") from None
    return KnownMarks(marks, finished)


def _read_mark(name: str, item: Fields) -> Mark:
    begun = "s" in item
    days = {
        datetime.strptime(name, _DAY).replace(tzinfo=UTC).date(): from_seconds(int(noted["N"]))
        for name, noted in item.items()
        if name[0] == "l"
    }
    return Mark(
        name,
        _time(item["s"]) if begun else EPOCH,
        _time(item["z"]) if begun else EPOCH,
        tuple(map(_read_run, json.loads(item["r"]["S"]))) if "r" in item else (),
        days,
        int(item["e"]["N"]) if begun else 0,
        int(item["n"]["N"]) if "n" in item else 0,
    )


def _write_run(run: TickRun) -> list[Any]:
    """Write a run: start and length in seconds, three sets as hexadecimal bitmaps, how it was asked for."""
    sets = (f"{sum(1 << place for place in places):x}" for places in (run.missing, run.dead, run.held))
    start, asked_at = to_seconds(run.start), to_seconds(run.asked_at) if run.asked_at else 0
    return [start, to_seconds(run.end) - start, *sets, run.rounds, asked_at, int(run.is_mixed)]


def _read_run(row: list[Any]) -> TickRun:
    start, length, missing, dead, held, rounds, asked_at, is_mixed = row
    sets = [frozenset(places_of(int(each, 16))) for each in (missing, dead, held)]
    asked = from_seconds(asked_at) if asked_at else None
    first, end = from_seconds(start), from_seconds(start + length)
    return TickRun(first, end, sets[0], sets[1], sets[2], rounds, asked, bool(is_mixed))


def _time(value: Fields) -> datetime:
    return parse_instant(value["S"], "slotTime")


def _seconds(moment: datetime) -> Fields:
    """In whole seconds, rounded up: a note never looks older than it is."""
    return {"N": str(to_seconds(moment))}
