"""Records of many metrics written together: 25 a call, each only where its slot has none."""

from __future__ import annotations

from collections.abc import Sequence

from kizami.aws.client import machine
from kizami.aws.client.json_client import AwsError, Fields
from kizami.aws.dynamodb import PAUSES_SECONDS, call_dynamodb, store_error
from kizami.aws.invocation import TimeLeft
from kizami.aws.store.metric_table import typed_record
from kizami.core.errors import StoreError
from kizami.core.messages import MetricRecord
from kizami.core.ports import PutOutcome

MOST_AT_ONCE = 25  # DynamoDB's limit

# PartiQL's INSERT takes no condition and needs none: it refuses a key that is there (Requirement 3.4).
IS_STORED = "DuplicateItem"
PASSING = {
    "ProvisionedThroughputExceeded",
    "RequestLimitExceeded",
    "ThrottlingError",
    "InternalServerError",
    "TransactionConflict",
}

Outcome = PutOutcome | StoreError


class RecordBatches:
    """Writes records of any metrics into the table `AiResponseMetrics`."""

    def __init__(self, table: str, time_left: TimeLeft) -> None:
        self._table = table
        self._time_left = time_left

    def put(self, records: Sequence[MetricRecord]) -> list[Outcome]:
        """Store each unless its slot has a record; what became of each, a failure as the port raises it.

        What was throttled is written again as long as there is time. A record that failed may be there all the
        same, and putting it again is safe.
        """
        outcomes = self._put(records)
        for pause in PAUSES_SECONDS:
            again = [number for number, outcome in enumerate(outcomes) if _may_pass(outcome)]
            if not again or self._time_left() < 3 * pause:
                break
            machine.sleep(pause)
            for number, outcome in zip(again, self._put([records[number] for number in again]), strict=True):
                outcomes[number] = outcome
        return outcomes

    def _put(self, records: Sequence[MetricRecord]) -> list[Outcome]:
        found: list[Outcome] = []
        for start in range(0, len(records), MOST_AT_ONCE):
            found += self._put_batch(records[start : start + MOST_AT_ONCE])
        return found

    def _put_batch(self, records: Sequence[MetricRecord]) -> list[Outcome]:
        statements = [_insert(self._table, typed_record(record)) for record in records]
        try:
            answer = call_dynamodb(self._time_left, "BatchExecuteStatement", {"Statements": statements})
        except AwsError as error:
            return [store_error(error)] * len(records)
        return [_outcome(response) for response in answer["Responses"]]


class _Passing(StoreError):
    """A record that was refused for the moment."""


def _may_pass(outcome: Outcome) -> bool:
    return isinstance(outcome, _Passing)


def _insert(table: str, item: Fields) -> Fields:
    names = ", ".join(f"'{name}': ?" for name in item)
    return {"Statement": f'INSERT INTO "{table}" VALUE {{{names}}}', "Parameters": list(item.values())}


def _outcome(response: Fields) -> Outcome:
    error = response.get("Error")
    if not error:
        return PutOutcome.STORED
    if error["Code"] == IS_STORED:
        return PutOutcome.DUPLICATE
    kind = _Passing if error["Code"] in PASSING else StoreError
    return kind(f"BatchExecuteStatement: {error['Code']}: {error.get('Message', '')}")
