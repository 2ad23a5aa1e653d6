"""Failed runs of the batch on AWS, noted for alerts.

Each company whose last run failed has an item in the metric table, (`#failures`, `company/<id>`), with the
`reason` and the time of the failure (`failedAt`).
"""

from __future__ import annotations

from datetime import datetime
from math import inf

from kizami.aws.aggregation_settings import FAILURES_PARTITION
from kizami.aws.client.json_client import Fields
from kizami.aws.dynamodb import change_item, read_items
from kizami.aws.invocation import TimeLeft
from kizami.core.slots import floor_to_second, format_instant, shift

NOTE_SECONDS = 2.0  # a run does not wait longer for its note
KEPT_SECONDS = 2 * 86_400  # of a company that has no more runs

_PREFIX = "company/"


class CompanyFailures:
    """The failures that are noted in a table. StoreError."""

    def __init__(self, table: str, time_left: TimeLeft = lambda: inf) -> None:
        self._table = table
        self._time_left = time_left

    def note(self, company_id: str, reason: str, now: datetime) -> None:
        """Note that the last run of a company failed."""
        noted = {
            "reason": {"S": reason},
            "failedAt": {"S": format_instant(floor_to_second(now))},
            "expiresAt": {"N": str(int(shift(now, KEPT_SECONDS).timestamp()))},
        }
        self._change("PutItem", {"Item": {**_key(company_id), **noted}})

    def forget(self, company_id: str) -> None:
        """Forget the failure of a company whose last run succeeded."""
        self._change("DeleteItem", {"Key": _key(company_id)})

    def all(self) -> dict[str, str]:
        """Return why the last run failed, by company."""
        request = {
            "TableName": self._table,
            "KeyConditionExpression": "metricName = :partition AND begins_with(slotTime, :prefix)",
            "ExpressionAttributeValues": {":partition": {"S": FAILURES_PARTITION}, ":prefix": {"S": _PREFIX}},
        }
        items = read_items(self._time_left, request)
        return {item["slotTime"]["S"].removeprefix(_PREFIX): item["reason"]["S"] for item in items}

    def _change(self, operation: str, request: Fields) -> None:
        within = min(NOTE_SECONDS, self._time_left())
        change_item(lambda: within, operation, {"TableName": self._table, **request})


def _key(company_id: str) -> Fields:
    return {"metricName": {"S": FAILURES_PARTITION}, "slotTime": {"S": f"{_PREFIX}{company_id}"}}
