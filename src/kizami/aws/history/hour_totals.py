"""The totals of hours: an item a metric and hour in the metric table, in partitions that no metric can have.

An item is only ever replaced by one that is made of more records, so that making it twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from math import inf

from kizami.aws.client.json_client import Fields
from kizami.aws.dynamodb import change_item, read_pages
from kizami.aws.invocation import TimeLeft
from kizami.backend.values import Bucket
from kizami.core.answers.numbers import plain_text, read_exact, to_number, to_total
from kizami.core.slots import format_instant, parse_instant, shift

PARTITIONS = "#hours/"  # and the name of the metric

_KNOWS_MORE = "attribute_not_exists(#stored) OR #stored < :stored"  # which is one of DynamoDB's own words
_NEWEST = "metricName = :metric"
_HOURS_IN_RANGE = "metricName = :metric AND slotTime BETWEEN :first AND :last"


class HourTotals:
    """The totals in a table. StoreError."""

    def __init__(self, table: str, time_left: TimeLeft = lambda: inf) -> None:
        self._table = table
        self._time_left = time_left

    def put(self, metric: str, hour: Bucket, expires_at: int | None) -> None:
        """Keep the totals of an hour, unless those that are there are of as many records."""
        figures = {"stored": hour.stored, "lowest": hour.lowest, "highest": hour.highest, "total": hour.total}
        item = {
            "metricName": {"S": PARTITIONS + metric},
            "slotTime": {"S": format_instant(hour.start)},
            **{name: {"N": plain_text(value)} for name, value in figures.items()},
            **({} if expires_at is None else {"expiresAt": {"N": str(expires_at)}}),
        }
        request = {
            "TableName": self._table,
            "Item": item,
            "ConditionExpression": _KNOWS_MORE,
            "ExpressionAttributeNames": {"#stored": "stored"},
            "ExpressionAttributeValues": {":stored": item["stored"]},
        }
        change_item(self._time_left, "PutItem", request)

    def until(self, metric: str) -> datetime | None:
        """Up to when there are totals, None if there are none."""
        request = {"KeyConditionExpression": _NEWEST, "ScanIndexForward": False, "Limit": 1}
        page = next(self._pages(request, {":metric": PARTITIONS + metric}))
        newest = next(map(_read, page.get("Items", ())), None)
        return shift(newest.start, 3600) if newest else None

    def between(self, metric: str, start: datetime, end: datetime, now: datetime) -> list[Bucket]:
        """The totals of the hours that begin in [start, end) and are kept, oldest first."""
        if start >= end:
            return []
        bounds = {":first": format_instant(start), ":last": format_instant(shift(end, -1))}
        pages = self._pages(
            {"KeyConditionExpression": _HOURS_IN_RANGE}, {":metric": PARTITIONS + metric, **bounds}
        )
        items = (item for page in pages for item in page.get("Items", ()))
        return [_read(item) for item in items if _expiry(item) > now.timestamp()]

    def _pages(self, request: Fields, values: dict[str, str]) -> Iterator[Fields]:
        typed = {name: {"S": value} for name, value in values.items()}
        whole = {"TableName": self._table, "ExpressionAttributeValues": typed, **request}
        return read_pages(self._time_left, "Query", whole)


def _expiry(item: Fields) -> float:
    return float(item["expiresAt"]["N"]) if "expiresAt" in item else inf


def _read(item: Fields) -> Bucket:
    lowest, highest, total = (_exact(item[name]["N"]) for name in ("lowest", "highest", "total"))
    hour = parse_instant(item["slotTime"]["S"], "slotTime")
    return Bucket(hour, int(item["stored"]["N"]), to_number(*lowest), to_number(*highest), to_total(*total))


def _exact(text: str) -> tuple[int, int]:
    exact = read_exact(text)
    assert exact is not None
    return exact
