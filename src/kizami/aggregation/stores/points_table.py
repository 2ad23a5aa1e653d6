"""The `Points` table on AWS: one item a (company, user, month), raised by at most one point a day."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from math import inf
from typing import Any

from kizami.aggregation.points import GrantOutcome, PointDay, UserPoints, point_key, read_point_key
from kizami.aws.client import machine
from kizami.aws.client.json_client import AwsError, Fields
from kizami.aws.dynamodb import MAX_KEYS, call_dynamodb, read_pages
from kizami.aws.invocation import TimeLeft
from kizami.core.errors import StoreError

GRANTED_AT_ONCE = 16  # as many as the client keeps connections

# The specification joins these by "and", which can never hold; see docs/aggregation.md.
NOT_GRANTED_TODAY = "attribute_not_exists(CompanyId) OR UpdateTimestamp < :day_start"
ONE_MORE_POINT = "SET Points = if_not_exists(Points, :zero) + :one, UpdateTimestamp = :now"

log = logging.getLogger(__name__)


class DynamoDbPointStore:
    """The PointStore port on the table `Points` (CompanyId, UserMonth)."""

    def __init__(self, table: str, time_left: TimeLeft = lambda: inf) -> None:
        self._table = table
        self._time_left = time_left

    def grant(
        self, company_id: str, user_numbers: Sequence[str], day: PointDay
    ) -> Sequence[GrantOutcome | StoreError]:
        """Grant side by side. Those who have their point already are found by reading, which is a tenth of the
        price and the time of a refused write: most of an hourly run, and of a redelivery, is about them.
        """
        granted = self._find_granted(company_id, user_numbers, day)

        def settle(user_number: str) -> GrantOutcome | StoreError:
            if user_number in granted:
                return GrantOutcome.ALREADY_GRANTED
            try:
                return self._grant_one(company_id, user_number, day)
            except StoreError as error:  # raised first: its stack trace says where the write failed
                return error

        return list(machine.map_in_threads(settle, user_numbers, GRANTED_AT_ONCE))

    def _grant_one(self, company_id: str, user_number: str, day: PointDay) -> GrantOutcome:
        numbers = {":zero": 0, ":one": 1, ":now": day.now, ":day_start": day.start}
        parameters = {
            "TableName": self._table,
            "Key": _key(company_id, user_number, day.month),
            "UpdateExpression": ONE_MORE_POINT,
            "ConditionExpression": NOT_GRANTED_TODAY,
            "ExpressionAttributeValues": {name: {"N": str(value)} for name, value in numbers.items()},
        }
        try:
            call_dynamodb(self._time_left, "UpdateItem", parameters)
        except AwsError as error:
            if error.code == "ConditionalCheckFailedException":
                return GrantOutcome.ALREADY_GRANTED
            raise StoreError(str(error)) from error
        return GrantOutcome.GRANTED

    def _find_granted(self, company_id: str, user_numbers: Sequence[str], day: PointDay) -> set[str]:
        """Users who surely have the day's point; one who is not found may have it too, which the write tells."""
        users = list(dict.fromkeys(user_numbers))  # DynamoDB refuses a key that is asked for twice
        chunks = [users[start : start + MAX_KEYS] for start in range(0, len(users), MAX_KEYS)]
        read = partial(self._read_chunk, company_id, day)
        return {user for found in machine.map_in_threads(read, chunks, GRANTED_AT_ONCE) for user in found}

    def _read_chunk(self, company_id: str, day: PointDay, user_numbers: Sequence[str]) -> list[str]:
        keys = [_key(company_id, user_number, day.month) for user_number in user_numbers]
        request = {self._table: {"Keys": keys, "ProjectionExpression": "UserMonth, Points, UpdateTimestamp"}}
        try:
            answer = call_dynamodb(self._time_left, "BatchGetItem", {"RequestItems": request})
            items = answer.get("Responses", {}).get(self._table, [])
            return [found.user_number for found in map(_read_points, items) if found.updated_at >= day.start]
        except (AwsError, StoreError) as error:
            log.warning(
                "points not read ahead; each will be tried", extra={"event": "points.unread", "detail": str(error)}
            )
            return []

    def points(self, company_id: str, month: str) -> Iterator[UserPoints]:
        """The company's points of a month, page by page; the other months are read over."""
        request = {
            "TableName": self._table,
            "KeyConditionExpression": "CompanyId = :company",
            "ExpressionAttributeValues": {":company": {"S": company_id}},
            "ConsistentRead": True,
        }
        for page in read_pages(self._time_left, "Query", request):
            yield from (found for found in map(_read_points, page.get("Items", ())) if found.month == month)


def _key(company_id: str, user_number: str, month: str) -> Fields:
    return {"CompanyId": {"S": company_id}, "UserMonth": {"S": point_key(user_number, month)}}


def _read_points(item: dict[str, Any]) -> UserPoints:
    user_number, month = read_point_key(item["UserMonth"]["S"])
    try:
        return UserPoints(user_number, month, int(item["Points"]["N"]), int(item["UpdateTimestamp"]["N"]))
    except (KeyError, ValueError):
        key = point_key(user_number, month)
        raise StoreError(f"the item {key} of the Points table has no whole Points and UpdateTimestamp") from None
