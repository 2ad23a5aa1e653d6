"""The metric store on AWS: one item a (metric, slot) in DynamoDB, written only where there is none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from math import inf
from typing import Any

from kizami.aws.client.json_client import AwsError, Fields
from kizami.aws.dynamodb import call_dynamodb, change_item, get_items, read_pages, store_error
from kizami.aws.history.keeping import first_not_expired, has_expired
from kizami.aws.invocation import TimeLeft
from kizami.core.answers.numbers import Number, plain_text, read_exact, to_number
from kizami.core.errors import InvalidInput, StoreError
from kizami.core.messages import MetricRecord, read_record, write_record
from kizami.core.ports import PutOutcome
from kizami.core.slots import floor_to_second, format_instant, format_second, shift, shorten, to_utc

SLOT_IS_FREE = "attribute_not_exists(slotTime)"  # Requirement 3.4
METRIC = "metricName = :metric"
SLOTS_IN_RANGE = f"{METRIC} AND slotTime BETWEEN :first AND :last"
SLOTS_SINCE = f"{METRIC} AND slotTime >= :first"
SLOTS_UNTIL = f"{METRIC} AND slotTime <= :last"


class DynamoDbMetricStore:
    """The RecordStore port on the table `AiResponseMetrics`, and its records read back; reads are consistent."""

    def __init__(self, table: str, time_left: TimeLeft = lambda: inf) -> None:
        self._table = table
        self._time_left = time_left

    def put_if_absent(self, record: MetricRecord) -> PutOutcome:
        """Store the record unless its slot has one."""
        is_free = change_item(self._time_left, "PutItem", self._put(record))
        return PutOutcome.STORED if is_free else PutOutcome.DUPLICATE

    def put_all_if_absent(self, records: Sequence[MetricRecord]) -> list[PutOutcome]:
        """Store the records of one answer in one transaction; where one is there already, one after the other."""
        if len(records) == 1 or not self._put_together(records):
            return [self.put_if_absent(record) for record in records]
        return [PutOutcome.STORED] * len(records)

    def _put_together(self, records: Sequence[MetricRecord]) -> bool:
        """All of them; none, and False, if a slot has its record already or others are writing it."""
        try:
            puts = [{"Put": self._put(record)} for record in records]
            call_dynamodb(self._time_left, "TransactWriteItems", {"TransactItems": puts})
        except AwsError as error:
            if error.code in ("TransactionCanceledException", "TransactionConflictException"):
                return False
            raise store_error(error) from None
        return True

    def _put(self, record: MetricRecord) -> Fields:
        return {
            "TableName": self._table,
            "Item": typed_record(record),
            "ConditionExpression": SLOT_IS_FREE,
        }

    def query(self, metric: str, start: datetime, end: datetime) -> Iterator[MetricRecord]:
        """The records of slots in [start, end), page by page as they are asked for."""
        for page in self._pages(metric, start, end):
            yield from map(_record, page.get("Items", ()))

    def count(self, metric: str, start: datetime, end: datetime) -> int:
        """How many records there are in [start, end); DynamoDB counts them and sends none."""
        return sum(page["Count"] for page in self._pages(metric, start, end, Select="COUNT"))

    def first_slot(self, metric: str) -> datetime | None:
        """The slot of the metric's first record, None if it has none."""
        first = self._one({"KeyConditionExpression": METRIC}, {":metric": metric})
        return None if first is None else first.slot

    def first_kept(self, metric: str, now: datetime, since: datetime | None = None) -> MetricRecord | None:
        """The record of the metric's first slot, from `since` on, that has not expired; None if it has none."""
        while True:
            bounds = METRIC if since is None else SLOTS_SINCE
            values = {":metric": metric} if since is None else {":metric": metric, ":first": format_instant(since)}
            found = self._one({"KeyConditionExpression": bounds}, values)
            if found is None or not has_expired(found, now):
                return found
            since = first_not_expired(found, now)

    def counts(self, metric: str, start: datetime, end: datetime, interval_seconds: int) -> list[Number]:
        """What the slots of [start, end) have counted, as it was a moment ago.

        Nothing else is read, and a record off the slots, of a former interval, is passed over.
        """
        options = {"ProjectionExpression": "slotTime, #count", "ExpressionAttributeNames": {"#count": "count"}}
        pages = self._pages(metric, start, end, **options, ConsistentRead=False)
        items = (item for page in pages for item in page.get("Items", ()))
        return [
            _number(item["count"]["N"])
            for item in items
            if not _second_of_day(item["slotTime"]["S"]) % interval_seconds
        ]

    def newest_slot(self, metric: str) -> datetime | None:
        """The slot of the metric's last record, None if it has none."""
        newest = self._one({"KeyConditionExpression": METRIC, "ScanIndexForward": False}, {":metric": metric})
        return None if newest is None else newest.slot

    def newest_until(self, metric: str, end: datetime) -> MetricRecord | None:
        """The record of the newest slot that begins by `end`, None if there is none."""
        values = {":metric": metric, ":last": format_second(end)}
        return self._one({"KeyConditionExpression": SLOTS_UNTIL, "ScanIndexForward": False}, values)

    def newest_records(self, metric: str, until: datetime, limit: int) -> list[MetricRecord]:
        """Return the records of the newest slots that begin by `until`, newest first."""
        request = {"KeyConditionExpression": SLOTS_UNTIL, "ScanIndexForward": False, "Limit": limit}
        page = next(self._query(request, {":metric": metric, ":last": format_second(until)}))
        return list(map(_record, page.get("Items", ())))

    def records_at(self, slots: Mapping[str, datetime]) -> list[MetricRecord]:
        """The record of one slot of each of up to MAX_KEYS metrics, in no order; those that there are."""
        keys = [
            {"metricName": _typed(name), "slotTime": _typed(format_instant(slot))} for name, slot in slots.items()
        ]
        return list(map(_record, get_items(self._time_left, self._table, keys)))

    def _one(self, request: Fields, values: dict[str, str]) -> MetricRecord | None:
        page = next(self._query(request | {"Limit": 1}, values))
        return next(map(_record, page.get("Items", ())), None)

    def _pages(self, metric: str, start: datetime, end: datetime, **options: Any) -> Iterator[Fields]:
        bounds = _whole_seconds(start, end)
        if bounds is None:
            return
        values = {":metric": metric, ":first": format_instant(bounds[0]), ":last": format_instant(bounds[1])}
        yield from self._query({"KeyConditionExpression": SLOTS_IN_RANGE, **options}, values)

    def _query(self, request: Fields, values: dict[str, str]) -> Iterator[Fields]:
        typed = {name: _typed(value) for name, value in values.items()}
        whole = {"TableName": self._table, "ExpressionAttributeValues": typed, "ConsistentRead": True, **request}
        return read_pages(self._time_left, "Query", whole)


def typed_record(record: MetricRecord) -> Fields:
    """The record as an item of the table, which DynamoDB removes some time after it has expired."""
    item = {name: _typed(value) for name, value in write_record(record).items()}
    return item if record.expires_at is None else {**item, "expiresAt": _typed(record.expires_at)}


def _whole_seconds(start: datetime, end: datetime) -> tuple[datetime, datetime] | None:
    """The first and the last second of [start, end): slot times have no fractions, and BETWEEN takes both ends."""
    start, end = to_utc(start), to_utc(end)
    if start >= end:
        return None
    last = floor_to_second(end - timedelta(microseconds=1))
    if start > last:
        return None
    return (floor_to_second(shift(start, 1)) if start.microsecond else start), last


def _typed(value: str | Number) -> dict[str, str]:
    return {"S": value} if isinstance(value, str) else {"N": plain_text(value)}


def _record(item: dict[str, dict[str, Any]]) -> MetricRecord:
    fields = {name: _plain(value) for name, value in item.items()}
    try:
        return read_record(fields)
    except InvalidInput as error:
        place = f"{shorten(fields.get('metricName'))}, {shorten(fields.get('slotTime'))}"
        raise StoreError(f"the item ({place}) of the table is not a metric record: {error}") from None


def _plain(value: dict[str, Any]) -> Any:
    kind, content = next(iter(value.items()))
    return _number(content) if kind == "N" else content


def _second_of_day(slot: str) -> int:
    """Of a slot time as it is written: an interval divides a day."""
    return int(slot[11:13]) * 3600 + int(slot[14:16]) * 60 + int(slot[17:19])


def _number(text: str) -> Any:
    """The number that an item has, or its text if that is none that can be a count."""
    if text.isdecimal():  # as most are, and there may be hundreds of thousands
        return int(text)
    exact = read_exact(text)
    return text if exact is None else to_number(*exact)
