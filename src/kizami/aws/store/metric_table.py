"""The metric store on AWS: one item a (metric, slot) in DynamoDB, written only where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from math import inf
from typing import Any

from kizami.aws.client.json_client import CALL_SECONDS, UNREACHABLE, AwsError, Fields, JsonClient
from kizami.aws.invocation import TimeLeft
from kizami.core.errors import InvalidInput, StoreError, StoreUnreachable
from kizami.core.messages import MetricRecord, read_record, write_record
from kizami.core.ports import PutOutcome
from kizami.core.slots import floor_to_second, format_instant, format_second, shift, shorten, to_utc

SLOT_IS_FREE = "attribute_not_exists(slotTime)"  # Requirement 3.4
METRIC = "metricName = :metric"
SLOTS_IN_RANGE = f"{METRIC} AND slotTime BETWEEN :first AND :last"
SLOTS_UNTIL = f"{METRIC} AND slotTime <= :last"


@lru_cache(maxsize=1)
def dynamodb_client() -> JsonClient:
    """The one client, with its connections kept from one invocation to the next."""
    return JsonClient("dynamodb", "DynamoDB_20120810")


class DynamoDbMetricStore:
    """The RecordStore port on the table `AiResponseMetrics`, and its records read back; reads are consistent."""

    def __init__(self, table: str, time_left: TimeLeft = lambda: inf) -> None:
        self._table = table
        self._time_left = time_left

    def put_if_absent(self, record: MetricRecord) -> PutOutcome:
        """Store the record unless its slot has one."""
        item = {name: _typed(value) for name, value in write_record(record).items()}
        try:
            request = {"TableName": self._table, "Item": item, "ConditionExpression": SLOT_IS_FREE}
            call_dynamodb(self._time_left, "PutItem", request)
        except AwsError as error:
            if error.code == "ConditionalCheckFailedException":
                return PutOutcome.DUPLICATE
            raise _store_error(error) from None
        return PutOutcome.STORED

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

    def newest_slot(self, metric: str) -> datetime | None:
        """The slot of the metric's last record, None if it has none."""
        newest = self._one({"KeyConditionExpression": METRIC, "ScanIndexForward": False}, {":metric": metric})
        return None if newest is None else newest.slot

    def newest_until(self, metric: str, end: datetime) -> MetricRecord | None:
        """The record of the newest slot that begins by `end`, None if there is none."""
        values = {":metric": metric, ":last": format_second(end)}
        return self._one({"KeyConditionExpression": SLOTS_UNTIL, "ScanIndexForward": False}, values)

    def _one(self, request: Fields, values: dict[str, str]) -> MetricRecord | None:
        page = next(self._query(request | {"Limit": 1}, values))
        return next(map(_record, page.get("Items", ())), None)

    def _pages(self, metric: str, start: datetime, end: datetime, **options: str) -> Iterator[Fields]:
        bounds = _whole_seconds(start, end)
        if bounds is None:
            return
        values = {":metric": metric, ":first": format_instant(bounds[0]), ":last": format_instant(bounds[1])}
        yield from self._query({"KeyConditionExpression": SLOTS_IN_RANGE, **options}, values)

    def _query(self, request: Fields, values: dict[str, str]) -> Iterator[Fields]:
        typed = {name: _typed(value) for name, value in values.items()}
        whole = {"TableName": self._table, "ExpressionAttributeValues": typed, "ConsistentRead": True, **request}
        return read_pages(self._time_left, "Query", whole)


def call_dynamodb(time_left: TimeLeft, operation: str, parameters: Fields) -> Fields:
    """One DynamoDB operation within the time that is left, else AwsError."""
    return dynamodb_client().call(operation, parameters, min(CALL_SECONDS, time_left() * 0.9))


def read_pages(time_left: TimeLeft, operation: str, request: Fields) -> Iterator[Fields]:
    """The answers to a Query or Scan, one call a page as they are asked for; StoreError."""
    start: Fields = {}
    while True:
        try:
            page = call_dynamodb(time_left, operation, request | start)
        except AwsError as error:
            raise _store_error(error) from None
        yield page
        if "LastEvaluatedKey" not in page:
            return
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def _store_error(error: AwsError) -> StoreError:
    return StoreUnreachable(str(error)) if error.code == UNREACHABLE else StoreError(str(error))


def _whole_seconds(start: datetime, end: datetime) -> tuple[datetime, datetime] | None:
    """The first and the last second of [start, end): slot times have no fractions, and BETWEEN takes both ends."""
    start, end = to_utc(start), to_utc(end)
    if start >= end:
        return None
    last = floor_to_second(end - timedelta(microseconds=1))
    if start > last:
        return None
    return (floor_to_second(shift(start, 1)) if start.microsecond else start), last


def _typed(value: str | int) -> dict[str, str]:
    return {"N": str(value)} if isinstance(value, int) else {"S": value}


def _record(item: dict[str, dict[str, Any]]) -> MetricRecord:
    fields = {name: _plain(value) for name, value in item.items()}
    try:
        return read_record(fields)
    except InvalidInput as error:
        place = f"{shorten(fields.get('metricName'))}, {shorten(fields.get('slotTime'))}"
        raise StoreError(f"the item ({place}) of the table is not a metric record: {error}") from None


def _plain(value: dict[str, Any]) -> Any:
    kind, content = next(iter(value.items()))
    return int(content) if kind == "N" and content.isdecimal() else content
