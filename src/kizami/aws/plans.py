"""Plans of bundles in DynamoDB: the members of each bundle, and which plan may send which minute.

    (`#plan <plan>`, number)  a bundle's timing and members, written before the plan's first minute, then kept
    (`#plans`, `now`)         the present plan, `g`; its first minute, `s`; the last minute that it sent, `m`
    (`#plans`, first minute)  a former period: its plan `g`; it ends where the next one begins

A deployment with other bundles begins a new period. Two versions of the Sender may run at once during a
deployment; the update of `now` decides which of them sends a minute, so that no slot is held by bundles of two
plans.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from math import inf

from kizami.aws.client.json_client import Fields
from kizami.aws.dynamodb import change_item, change_or_read, get_items, put_items, read_items
from kizami.aws.invocation import TimeLeft
from kizami.core.bundles import Bundle, BundlePlan, Period, read_member, write_member
from kizami.core.errors import StoreError
from kizami.core.slots import format_instant, parse_instant

PLANS, PLAN_PREFIX, NOW = "#plans", "#plan ", "now"

_TRIES = 3


class Plans:
    """The plans of a table. StoreError."""

    def __init__(self, table: str, time_left: TimeLeft = lambda: inf) -> None:
        self._table = table
        self._time_left = time_left

    def claim(self, plan: BundlePlan, minute: datetime) -> bool:
        """Return True if this plan may send the minute; its bundles are registered before its first one.

        A minute that was claimed before may be sent again by the same plan: conditional writes absorb that.
        """
        for _ in range(_TRIES):
            found = self._go_on(plan.name, minute)
            if found is None:
                return True
            if found and found["g"]["S"] == plan.name:
                return minute >= _time(found["s"])
            if found and minute <= _time(found["m"]):
                return False
            self.register(plan)
            if found:
                self._keep_period(found)
                seen = {":was": found["g"], ":last": found["m"]}
                began = self._begin(plan.name, minute, "g = :was AND m = :last", seen)
            else:
                began = self._begin(plan.name, minute, "attribute_not_exists(metricName)", {})
            if began:
                return True
        raise StoreError("two deployments claim the same minutes; the next minute decides")

    def register(self, plan: BundlePlan) -> None:
        """Write the members of all bundles of a plan; doing it again changes nothing."""
        put_items(self._time_left, self._table, [_bundle_item(bundle) for bundle in plan.bundles])

    def periods(self) -> list[Period]:
        """Return all periods, oldest first; the last one has no end."""
        items = list(read_items(self._time_left, self._query(PLANS)))
        now = next((item for item in items if item["slotTime"]["S"] == NOW), None)
        if now is None:
            return []
        present = read_present(now)
        begun = {_time(item["slotTime"]): item["g"]["S"] for item in items if item is not now}
        starts = sorted(begun.keys() | {present.start})
        past = [Period(begun[start], start, end) for start, end in pairwise(starts)]
        return [*past, present]

    @property
    def present_key(self) -> Fields:
        """The key of the item that says which plan sends now, for readers that keep former periods in memory."""
        return _key(PLANS, NOW)

    def bundle(self, name: str) -> Bundle | None:
        """Return the bundle of that name, None if it was never registered."""
        plan, _, number = name.partition(".")
        found = get_items(self._time_left, self._table, [_key(PLAN_PREFIX + plan, _number(number))])
        return _read_bundle(found[0]) if found else None

    def plan(self, name: str) -> BundlePlan:
        """Return a plan with all its bundles."""
        items = read_items(self._time_left, self._query(PLAN_PREFIX + name))
        return BundlePlan(name, tuple(map(_read_bundle, items)))

    def _go_on(self, plan: str, minute: datetime) -> Fields | None:
        request = {
            "TableName": self._table,
            "Key": _key(PLANS, NOW),
            "UpdateExpression": "SET m = :minute",
            "ConditionExpression": "g = :plan AND m < :minute",
            "ExpressionAttributeValues": {":plan": {"S": plan}, ":minute": _text(minute)},
        }
        return change_or_read(self._time_left, "UpdateItem", request)

    def _begin(self, plan: str, minute: datetime, condition: str, values: Fields) -> bool:
        item = {**_key(PLANS, NOW), "g": {"S": plan}, "s": _text(minute), "m": _text(minute)}
        request = {"TableName": self._table, "Item": item, "ConditionExpression": condition}
        whole = {**request, "ExpressionAttributeValues": values} if values else request
        return change_item(self._time_left, "PutItem", whole)

    def _keep_period(self, found: Fields) -> None:
        """Write down the period that `now` stands for, before `now` changes; a crash between them is harmless.

        When it ends is not said: a write that arrives late would say it wrong.
        """
        put_items(self._time_left, self._table, [{**_key(PLANS, found["s"]["S"]), "g": found["g"]}])

    def _query(self, partition: str) -> Fields:
        return {
            "TableName": self._table,
            "KeyConditionExpression": "metricName = :partition",
            "ExpressionAttributeValues": {":partition": {"S": partition}},
            "ConsistentRead": True,
        }


def read_present(item: Fields) -> Period:
    """Read the item of `Plans.present_key`."""
    return Period(item["g"]["S"], _time(item["s"]))


def _bundle_item(bundle: Bundle) -> Fields:
    plan, _, number = bundle.name.partition(".")
    members = json.dumps([write_member(member) for member in bundle.members], ensure_ascii=False)
    return {
        **_key(PLAN_PREFIX + plan, _number(number)),
        "i": {"N": str(bundle.interval_seconds)},
        "l": {"N": str(bundle.lag_seconds)},
        "f": {"BOOL": bundle.backfill},
        "s": {"N": str(bundle.offset_seconds)},
        "m": {"B": base64.b64encode(zlib.compress(members.encode())).decode()},
    }


def _read_bundle(item: Fields) -> Bundle:
    rows: Sequence[Sequence[object]] = json.loads(zlib.decompress(base64.b64decode(item["m"]["B"])))
    name = f"{item['metricName']['S'].removeprefix(PLAN_PREFIX)}.{int(item['slotTime']['S'])}"
    timing = int(item["i"]["N"]), int(item["l"]["N"]), bool(item["f"]["BOOL"]), int(item["s"]["N"])
    return Bundle(name, *timing, tuple(map(read_member, rows)))


def _number(number: str) -> str:
    """As a sort key, so that bundles come in their order."""
    return number.zfill(5)


def _key(partition: str, sort: str) -> Fields:
    return {"metricName": {"S": partition}, "slotTime": {"S": sort}}


def _text(minute: datetime) -> Fields:
    return {"S": format_instant(minute)}


def _time(value: Fields) -> datetime:
    return parse_instant(value["S"], "slotTime")
