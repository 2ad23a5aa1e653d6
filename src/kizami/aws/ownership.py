"""Ownership: which bundle holds which slots of a metric, and from which slot on a metric is expected.

Plans and former periods never change, so they stay in memory for the life of the process. The present period is
compared with the item `Plans.present_key`, which every question reads along with its marks: a deployment is seen
by the next question, and a question about recent slots reads no periods at all.

    (`#first`, metric)  `f`: the first expected slot, where a backfill went back before the first plan
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from math import inf

from kizami.aws.client import machine
from kizami.aws.client.json_client import Fields
from kizami.aws.dynamodb import MAX_KEYS, change_item, get_items, read_items
from kizami.aws.invocation import TimeLeft
from kizami.aws.plans import Plans, read_present
from kizami.aws.rows import RowTicks
from kizami.core.bundles import (
    MINUTE,
    Bundle,
    BundlePlan,
    OwnedRange,
    Period,
    make_plan,
    owned_ranges,
    row_bundle,
)
from kizami.core.coverage import next_slot
from kizami.core.epoch import EPOCH
from kizami.core.recovery import LiveRange, live_ranges
from kizami.core.slots import format_instant, parse_instant, shift
from kizami.core.targets.target import Target

FIRST = "#first"
AT_ONCE = 16  # requests side by side, as many as the client keeps connections

Owners = dict[str, list[OwnedRange]]


class Ownership:
    """The owners of the slots of a table. StoreError.

    `targets` are those of the configuration at hand: where it is the deployed one, its plan is not read. `rows` is
    the original target, if that is what is installed.
    """

    def __init__(
        self,
        table: str,
        targets: Iterable[Target] = (),
        rows: Target | None = None,
        time_left: TimeLeft = lambda: inf,
    ) -> None:
        self._table = table
        self._time_left = time_left
        self._stored = Plans(table, time_left)
        self._row_ticks = RowTicks(table, time_left)
        self._rows = None if rows is None else row_bundle(rows)
        self._expected = make_plan(target for target in targets if target.enabled)
        self._plans = {self._expected.name: self._expected}
        self._present: Period | None = None
        self._past: list[Period] | None = None  # None: not read since the present period began
        self._begun: dict[str, datetime] = {}  # the first live slot of a metric, once it has one

    @property
    def present_key(self) -> Fields | None:
        """The key of the item that `note_present` takes; None where rows are the only ticks."""
        return None if self._rows else self._stored.present_key

    @property
    def oldest(self) -> datetime | None:
        """The start of the oldest period that was read."""
        periods = [*(self._past or ()), *([self._present] if self._present else [])]
        return periods[0].start if periods else None

    @property
    def likely_plan(self) -> BundlePlan:
        """The plan that sends now, as far as that is known; else the one of the configuration at hand."""
        if self._rows:
            return BundlePlan(self._rows.plan, (self._rows,))
        return self.plan(self._present.plan) if self._present else self._expected

    def live(self, bundle: Bundle) -> list[LiveRange]:
        """Return the slots that a bundle polls live; of rows, and of a plan never sent, any may be."""
        periods = [*(self._past or ()), *([self._present] if self._present else [])]
        return live_ranges(bundle, periods) or [LiveRange(EPOCH)]

    def note_present(self, item: Fields | None) -> bool:
        """Take in the item of `present_key`; return True if it says something new."""
        present = None if item is None else read_present(item)
        if present == self._present:
            return False
        self._present, self._past = present, None
        return True

    def owners(self, metrics: Collection[str], start: datetime, end: datetime) -> Owners:
        """Return who holds the slots of [start, end), oldest range first; metrics without any are left out."""
        if self._rows:
            return {name: [_of_rows(self._rows)] for name in metrics if name in self._rows.places}
        periods = [each for each in self._periods(start) if _reaches(each, start)]
        certain = [each for each in periods if each.start <= end]
        self._load(each.plan for each in certain)
        found: Owners = {}
        remaining = set(metrics)
        for count in range(len(certain), len(periods) + 1):
            known = [(each, self.plan(each.plan)) for each in periods[:count]]
            for name in remaining:
                if ranges := owned_ranges(name, known):
                    found[name] = ranges
            remaining = {name for name in remaining if not _covers(found.get(name), end)}
            if not remaining:
                break
        within = {name: [each for each in ranges if _overlaps(each, start, end)] for name, ranges in found.items()}
        return {name: ranges for name, ranges in within.items() if ranges}

    def first_slots(self, metrics: Collection[str], now: datetime) -> dict[str, datetime]:
        """Return the first expected slot of each metric that was ever polled or backfilled."""
        if self._rows:
            first = self._row_ticks.first(self._rows, now) if self._rows.places.keys() & metrics else None
            return dict.fromkeys(self._rows.places.keys() & metrics, first) if first else {}
        moved = self._read_first(metrics)
        self._find_begun(metrics)
        found = {name: self._begun[name] for name in metrics if name in self._begun}
        return {name: min(moved.get(name, slot), slot) for name, slot in found.items()} | {
            name: slot for name, slot in moved.items() if name not in found
        }

    def expect_from(self, slots: Mapping[str, datetime]) -> None:
        """Move first slots back; one that is earlier already stays."""
        if self._rows:
            return  # their first slot is that of their first row
        known = self.first_slots(slots.keys(), machine.now())
        for name, slot in slots.items():
            if name not in known or slot < known[name]:
                request = {
                    "TableName": self._table,
                    "Key": _first_key(name),
                    "UpdateExpression": "SET f = :slot",
                    "ConditionExpression": "attribute_not_exists(f) OR f > :slot",
                    "ExpressionAttributeValues": {":slot": {"S": format_instant(slot)}},
                }
                change_item(self._time_left, "UpdateItem", request)

    def plan(self, name: str) -> BundlePlan:
        """Return a plan with all its bundles."""
        if name not in self._plans:
            self._plans[name] = self._stored.plan(name)
        return self._plans[name]

    def _periods(self, start: datetime) -> Sequence[Period]:
        """Return the periods that may hold slots from `start` on; former ones are read when they are asked for."""
        if self._present is None:
            return ()
        if start >= shift(self._present.start, MINUTE):
            return (self._present,)
        if self._past is None:
            periods = self._stored.periods()
            self._present = periods[-1] if periods else None
            self._past = periods[:-1]
        return (*self._past, self._present) if self._present else ()

    def _load(self, names: Iterable[str]) -> None:
        """Read several plans side by side."""
        missing = [name for name in dict.fromkeys(names) if name not in self._plans]
        for plan in machine.map_in_threads(self._stored.plan, missing, AT_ONCE) if missing else ():
            self._plans[plan.name] = plan

    def _read_first(self, metrics: Collection[str]) -> dict[str, datetime]:
        """Read the items of `#first` and, in the same call, which plan sends now."""
        keys = [self._stored.present_key, *map(_first_key, metrics)]
        if len(keys) <= MAX_KEYS:
            items = get_items(self._time_left, self._table, keys)
            firsts = [item for item in items if item["metricName"]["S"] == FIRST]
            self.note_present(next((item for item in items if item["metricName"]["S"] != FIRST), None))
        else:
            self.note_present(next(iter(get_items(self._time_left, self._table, keys[:1])), None))
            firsts = list(read_items(self._time_left, self._query_first()))
        found = {item["slotTime"]["S"]: parse_instant(item["f"]["S"], "f") for item in firsts}
        return {name: found[name] for name in metrics if name in found}

    def _query_first(self) -> Fields:
        return {
            "TableName": self._table,
            "KeyConditionExpression": "metricName = :partition",
            "ExpressionAttributeValues": {":partition": {"S": FIRST}},
            "ConsistentRead": True,
        }

    def _find_begun(self, metrics: Collection[str]) -> None:
        """Find the first period of each metric; of an old installation that is nearly always the first one."""
        remaining = {name for name in metrics if name not in self._begun}
        if not remaining or self._present is None:
            return
        for period in self._periods(shift(self._present.start, -1)):
            known = self.plan(period.plan).of_metric
            for name in remaining & known.keys():
                self._begun[name] = _first_live(known[name][0], period)
            remaining -= known.keys()
            if not remaining:
                return


def _first_live(bundle: Bundle, period: Period) -> datetime:
    """Return the first slot that a period sends live."""
    ahead = 0 if bundle.backfill else MINUTE  # sent a minute before its ticks
    return next_slot(shift(period.start, ahead - bundle.lag_seconds), bundle.interval_seconds)


def _reaches(period: Period, start: datetime) -> bool:
    """Return True if a period may have sent slots from `start` on; a lag only makes its slots earlier."""
    return period.end is None or shift(period.end, MINUTE) > start


def _covers(ranges: Sequence[OwnedRange] | None, end: datetime) -> bool:
    """Return True if later periods cannot hold slots before `end`."""
    if not ranges:
        return False
    last = ranges[-1].end
    return last is None or last >= end


def _overlaps(owned: OwnedRange, start: datetime, end: datetime) -> bool:
    return (owned.start is None or owned.start < end) and (owned.end is None or owned.end > start)


def _of_rows(bundle: Bundle) -> OwnedRange:
    return OwnedRange(None, None, bundle, 0)


def _first_key(metric: str) -> Fields:
    return {"metricName": {"S": FIRST}, "slotTime": {"S": metric}}
