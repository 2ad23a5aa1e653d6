"""DynamoDB calls: one client for all stores, conditional changes, pages and batches, errors as StoreError."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice

from kizami.aws.client import machine
from kizami.aws.client.json_client import UNREACHABLE, AwsError, Fields, JsonClient
from kizami.aws.invocation import TimeLeft
from kizami.core.errors import StoreError, StoreUnreachable

MAX_KEYS = 100  # of one BatchGetItem
MAX_STATEMENTS = 25  # of one BatchExecuteStatement, and puts of one BatchWriteItem
PAUSES_SECONDS = (0.1, 0.3, 0.9, 2.0)  # before what an answer left out is asked for or written again
# Codes of single statements that may pass when they are executed again.
PASSING = {
    "ProvisionedThroughputExceeded",
    "RequestLimitExceeded",
    "ThrottlingError",
    "InternalServerError",
    "TransactionConflict",
}

CONDITION_FAILED = "ConditionalCheckFailedException"


@lru_cache(maxsize=1)
def dynamodb_client() -> JsonClient:
    """The one client, with its connections kept from one invocation to the next."""
    return JsonClient("dynamodb", "DynamoDB_20120810")


def call_dynamodb(time_left: TimeLeft, operation: str, parameters: Fields) -> Fields:
    """Carry out one operation within the time that is left, else AwsError."""
    return dynamodb_client().call(operation, parameters, time_left() * 0.9)


def change_item(time_left: TimeLeft, operation: str, parameters: Fields) -> bool:
    """Carry out a PutItem, UpdateItem or DeleteItem; False if its condition failed. StoreError."""
    try:
        call_dynamodb(time_left, operation, parameters)
    except AwsError as error:
        if error.code == CONDITION_FAILED:
            return False
        raise store_error(error) from None
    return True


def change_or_read(time_left: TimeLeft, operation: str, parameters: Fields) -> Fields | None:
    """Carry out a change; return None if it was made, else the item that failed its condition. StoreError.

    An item that is not there is an empty one.
    """
    whole = {**parameters, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    try:
        call_dynamodb(time_left, operation, whole)
    except AwsError as error:
        if error.code != CONDITION_FAILED:
            raise store_error(error) from None
        return error.item or {}
    return None


def read_pages(time_left: TimeLeft, operation: str, request: Fields) -> Iterator[Fields]:
    """Return the answers to a Query or Scan, one call a page as they are asked for; StoreError."""
    start: Fields = {}
    while True:
        try:
            page = call_dynamodb(time_left, operation, request | start)
        except AwsError as error:
            raise store_error(error) from None
        yield page
        if "LastEvaluatedKey" not in page:
            return
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def read_items(time_left: TimeLeft, request: Fields) -> Iterator[Fields]:
    """Return the items of a Query."""
    for page in read_pages(time_left, "Query", request):
        yield from page.get("Items", ())


def get_items(time_left: TimeLeft, table: str, keys: Iterable[Fields], *, consistent: bool = True) -> list[Fields]:
    """Return the items of these keys that exist, in no order, 100 a call; StoreError."""
    remaining, found = iter(keys), []
    while chunk := list(islice(remaining, MAX_KEYS)):
        wanted: Fields = {table: {"Keys": chunk, "ConsistentRead": consistent}}
        for pause in (0.0, *PAUSES_SECONDS):
            if not wanted:
                break
            machine.sleep(pause)
            try:
                answer = call_dynamodb(time_left, "BatchGetItem", {"RequestItems": wanted})
            except AwsError as error:
                raise store_error(error) from None
            found += answer["Responses"].get(table, ())
            wanted = answer.get("UnprocessedKeys") or {}  # what was throttled
        if wanted:
            raise StoreError(f"BatchGetItem: {table} is asked for more than it gives at present")
    return found


def put_items(time_left: TimeLeft, table: str, items: Sequence[Fields]) -> None:
    """Put items without a condition, 25 a call; StoreError. Putting them again is safe."""
    for start in range(0, len(items), MAX_STATEMENTS):
        chunk = [{"PutRequest": {"Item": item}} for item in items[start : start + MAX_STATEMENTS]]
        wanted: Fields = {table: chunk}
        for pause in (0.0, *PAUSES_SECONDS):
            if not wanted:
                break
            machine.sleep(pause)
            try:
                answer = call_dynamodb(time_left, "BatchWriteItem", {"RequestItems": wanted})
            except AwsError as error:
                raise store_error(error) from None
            wanted = answer.get("UnprocessedItems") or {}
        if wanted:
            raise StoreError(f"BatchWriteItem: {table} is written more than it takes at present")


def execute_statements(time_left: TimeLeft, statements: Sequence[Fields]) -> list[str]:
    """Execute PartiQL statements, 25 a call; return the error code of each, empty where it succeeded. StoreError.

    Throttled statements are executed again while there is time.
    """
    codes = _execute(time_left, statements)
    for pause in PAUSES_SECONDS:
        again = [number for number, code in enumerate(codes) if code in PASSING]
        if not again or time_left() < 3 * pause:
            break
        machine.sleep(pause)
        for number, code in zip(again, _execute(time_left, [statements[number] for number in again]), strict=True):
            codes[number] = code
    return codes


def _execute(time_left: TimeLeft, statements: Sequence[Fields]) -> list[str]:
    codes = []
    for start in range(0, len(statements), MAX_STATEMENTS):
        try:
            chunk = list(statements[start : start + MAX_STATEMENTS])
            answer = call_dynamodb(time_left, "BatchExecuteStatement", {"Statements": chunk})
        except AwsError as error:
            raise store_error(error) from None
        codes += [response.get("Error", {}).get("Code", "") for response in answer["Responses"]]
    return codes


def store_error(error: AwsError) -> StoreError:
    """Translate a failure of DynamoDB."""
    return StoreUnreachable(str(error)) if error.code == UNREACHABLE else StoreError(str(error))
