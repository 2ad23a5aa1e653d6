"""SQS and DynamoDB in memory, as far as the functions of bundles ask them, with their limits; and who calls those.

It is for many thousands of targets, where an emulator would take longer than the functions. A request that AWS
would refuse is an AssertionError here.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Any
from unittest.mock import patch

from kizami.aws.client import machine
from kizami.aws.client.json_client import AwsError, Fields, JsonClient
from kizami.core.epoch import to_ms
from simulation.aws_world.dynamodb import Refused, SimulatedDynamoDb, Table

MOST_ENTRIES, MOST_BYTES, MOST_DELAY, MOST_ATTRIBUTES = 10, 262_144, 900, 10
MOST_STATEMENTS, PAGE_BYTES, ITEM_BYTES = 25, 1_048_576, 100

_KEYS = re.compile(r"(\w+) = (:\w+)(?: AND (\w+) (?:BETWEEN (:\w+) AND (:\w+)|(<=|<|>=|=) (:\w+)))?")
_NEVER, _ALWAYS = "", "\U0010ffff"


@dataclass
class MemoryTable:
    """Items by partition and sort key, as what they hold beside their keys."""

    partition_key: str
    sort_key: str
    items: dict[str, dict[str, Fields]] = field(default_factory=dict)
    is_lean: bool = False  # of an item nothing is kept but that it is there

    def insert(self, item: Fields) -> bool:
        """Whether there was none of that key."""
        partition = self.items.setdefault(item[self.partition_key]["S"], {})
        sort = item[self.sort_key]["S"]
        if sort in partition:
            return False
        self.put(item)
        return True

    def put(self, item: Fields) -> None:
        rest = {name: value for name, value in item.items() if name not in (self.partition_key, self.sort_key)}
        partition = self.items.setdefault(item[self.partition_key]["S"], {})
        partition[item[self.sort_key]["S"]] = {} if self.is_lean else rest

    def query(self, request: Fields) -> Fields:
        values = {name: value["S"] for name, value in request["ExpressionAttributeValues"].items()}
        partition, first, last = self._bounds(request["KeyConditionExpression"], values)
        held = self.items.get(partition, {})
        start = request.get("ExclusiveStartKey", {}).get(self.sort_key, {}).get("S", _NEVER)
        keys = [key for key in sorted(held) if first <= key <= last and key > start]
        if request.get("ScanIndexForward") is False:
            assert "ExclusiveStartKey" not in request
            keys.reverse()
        page = keys[: min(request.get("Limit", len(keys)), PAGE_BYTES // ITEM_BYTES)]
        found = [key for key in page if _passes(request.get("FilterExpression"), held[key])]
        answer: Fields = {"Count": len(found), "ScannedCount": len(page)}
        if request.get("Select") != "COUNT":
            answer["Items"] = [self._item(partition, key) for key in found]
        if len(page) < len(keys):
            answer["LastEvaluatedKey"] = {self.partition_key: {"S": partition}, self.sort_key: {"S": page[-1]}}
        return answer

    def _bounds(self, condition: str, values: dict[str, str]) -> tuple[str, str, str]:
        match = _KEYS.fullmatch(condition)
        assert match, condition
        assert match[1] == self.partition_key
        assert match[3] in (None, self.sort_key)
        partition = values[match[2]]
        if match[4]:
            return partition, values[match[4]], values[match[5]]
        operator, bound = match[6], values.get(match[7] or "", "")
        first = {">=": bound, "=": bound}.get(operator, _NEVER)
        last = {"<=": bound, "=": bound, "<": bound[:-1] + chr(ord(bound[-1]) - 1) + _ALWAYS if bound else ""}
        return partition, first, last.get(operator, _ALWAYS)

    def _item(self, partition: str, key: str) -> Fields:
        return {self.partition_key: {"S": partition}, self.sort_key: {"S": key}, **self.items[partition][key]}


def _passes(condition: str | None, item: Fields) -> bool:
    wanted = {"attribute_not_exists(lacking)": False, "attribute_exists(lacking)": True}
    return condition is None or ("lacking" in item) is wanted[condition]


@dataclass
class MemoryMessage:
    body: str
    attributes: Fields = field(default_factory=dict)
    receives: int = 0
    delay: int = 0  # that was asked for, in seconds
    id: str = field(default_factory=machine.new_id)
    sent_at: datetime = field(default_factory=lambda: machine.now())
    receipt: str = ""  # while it is handed out


class MemoryAws:
    """Tables and queues by name; a queue's messages are due at once, whatever their delay.

    A message that was received stays hidden until its visibility is changed.

    `dynamodb` answers about tables that are not in `tables`: it is the simulator's, with all its operations.
    """

    def __init__(
        self, tables: dict[str, MemoryTable] | None = None, dynamodb: SimulatedDynamoDb | None = None
    ) -> None:
        self.tables = tables or {}
        self.dynamodb = dynamodb or SimulatedDynamoDb()
        self.queues: dict[str, deque[MemoryMessage]] = {}
        self.calls: Counter[str] = Counter()
        self.fault: Callable[[str], str | None] = lambda operation: None  # "before" or "after" it is carried out
        self._lock = Lock()

    def answer(self, operation: str, request: Fields) -> Fields:
        """What the service answers; AwsError."""
        with self._lock:
            self.calls[operation] += 1
            fault = self.fault(operation)
            if fault == "before":
                raise AwsError(operation, "ThrottlingException", "")
            answer = self._perform(operation, request)
            if fault == "after":
                raise AwsError(operation, "InternalServerError", "", transient=True)
            return answer

    def _perform(self, operation: str, request: Fields) -> Fields:
        if "QueueUrl" in request:
            found_by: dict[str, Callable[[Fields], Fields]] = {
                "SendMessageBatch": self._send,
                "GetQueueAttributes": self._depth,
                "ReceiveMessage": self._receive,
                "DeleteMessageBatch": self._delete,
                "ChangeMessageVisibilityBatch": self._show,
            }
            return found_by[operation](request)
        if not self.tables:
            try:
                answer = self.dynamodb.perform(operation, json.loads(json.dumps(request)))
            except Refused as refused:
                transient = refused.status >= 500
                raise AwsError(operation, refused.code, refused.words, transient, refused.item) from None
            copied: Fields = json.loads(json.dumps(answer))
            return copied
        found: Fields = {
            "Query": lambda request: self.tables[request["TableName"]].query(request),
            "PutItem": self._put,
            "UpdateItem": self._update,
            "BatchExecuteStatement": self._insert,
        }[operation](request)
        return found

    def _send(self, request: Fields) -> Fields:
        entries = request["Entries"]
        assert 1 <= len(entries) <= MOST_ENTRIES
        assert len({entry["Id"] for entry in entries}) == len(entries)
        assert sum(map(_bytes_of, entries)) <= MOST_BYTES
        queue = self._queue(request)
        for entry in entries:
            assert 0 <= entry["DelaySeconds"] <= MOST_DELAY
            assert len(entry.get("MessageAttributes", {})) <= MOST_ATTRIBUTES
            attributes = entry.get("MessageAttributes", {})
            queue.append(MemoryMessage(entry["MessageBody"], attributes, delay=entry["DelaySeconds"]))
        return {"Successful": [{"Id": entry["Id"], "MessageId": entry["Id"]} for entry in entries], "Failed": []}

    def _depth(self, request: Fields) -> Fields:
        messages = self._queue(request)
        hidden = sum(bool(message.receipt) for message in messages)
        counts = {"": len(messages) - hidden, "Delayed": 0, "NotVisible": hidden}
        return {"Attributes": {f"ApproximateNumberOfMessages{name}": str(n) for name, n in counts.items()}}

    def _receive(self, request: Fields) -> Fields:
        visible = [message for message in self._queue(request) if not message.receipt]
        taken = visible[: request["MaxNumberOfMessages"]]
        for message in taken:
            message.receives += 1
            message.receipt = machine.new_id()
        return {"Messages": [_received(message) for message in taken]}

    def _delete(self, request: Fields) -> Fields:
        receipts = {entry["ReceiptHandle"] for entry in request["Entries"]}
        assert len(receipts) <= MOST_ENTRIES
        queue = self._queue(request)
        for message in [message for message in queue if message.receipt in receipts]:
            queue.remove(message)
        return {}

    def _show(self, request: Fields) -> Fields:
        shown = {entry["ReceiptHandle"] for entry in request["Entries"] if not entry["VisibilityTimeout"]}
        assert len(request["Entries"]) <= MOST_ENTRIES
        for message in self._queue(request):
            if message.receipt in shown:
                message.receipt = ""
        return {}

    def _queue(self, request: Fields) -> deque[MemoryMessage]:
        return self.queues.setdefault(request["QueueUrl"].rpartition("/")[2], deque())

    def _put(self, request: Fields) -> Fields:
        table = self.tables[request["TableName"]]
        if "attribute_not_exists" not in request.get("ConditionExpression", ""):
            table.put(request["Item"])
        elif not table.insert(request["Item"]):
            raise AwsError("PutItem", "ConditionalCheckFailedException", "")
        return {}

    def _update(self, request: Fields) -> Fields:
        """That of the ledger: members are taken off a tick that is there."""
        assert request["UpdateExpression"] == "DELETE lacking :stored"
        table = self.tables[request["TableName"]]
        item = table.items.get(request["Key"]["bundle"]["S"], {}).get(request["Key"]["tick"]["S"])
        if item is None:
            raise AwsError("UpdateItem", "ConditionalCheckFailedException", "")
        stored = set(request["ExpressionAttributeValues"][":stored"]["NS"])
        left = sorted(set(item.pop("lacking", {"NS": []})["NS"]) - stored)
        if left:  # a set is never empty
            item["lacking"] = {"NS": left}
        return {}

    def _insert(self, request: Fields) -> Fields:
        statements = request["Statements"]
        assert 1 <= len(statements) <= MOST_STATEMENTS
        return {"Responses": [self._insert_one(statement) for statement in statements]}

    def _insert_one(self, statement: Fields) -> Fields:
        table, names = re.fullmatch(r'INSERT INTO "(.+)" VALUE \{(.+)\}', statement["Statement"]).groups()  # type: ignore[union-attr]
        item = dict(zip(re.findall(r"'(\w+)'", names), statement["Parameters"], strict=True))
        duplicate = {"Code": "DuplicateItem", "Message": "Duplicate primary key exists in table"}
        return {"TableName": table} if self.tables[table].insert(item) else {"Error": duplicate}


def _received(message: MemoryMessage) -> Fields:
    """As SQS hands a message to a verb."""
    sent, receives = str(to_ms(message.sent_at)), str(message.receives)
    return {
        "MessageId": message.id,
        "ReceiptHandle": message.receipt,
        "Body": message.body,
        "Attributes": {"SentTimestamp": sent, "ApproximateReceiveCount": receives},
        "MessageAttributes": message.attributes,
    }


def _bytes_of(entry: Fields) -> int:
    """What SQS counts of a message: its body, and of its attributes the names, types and values."""
    stated = entry.get("MessageAttributes", {}).items()
    texts = (name + value["DataType"] + value["StringValue"] for name, value in stated)
    return sum(len(text.encode()) for text in (entry["MessageBody"], *texts))


def memory_aws() -> MemoryAws:
    """Return one with an empty metric table, `Metrics`, on the simulator's DynamoDB."""
    aws = MemoryAws()
    aws.dynamodb.tables["Metrics"] = Table("metricName", "slotTime")
    return aws


@contextmanager
def led_to(aws: MemoryAws) -> Iterator[None]:
    """The functions' calls of AWS go there, with the client's own repetitions, and without its pauses."""

    def attempt(client: JsonClient, operation: str, parameters: Fields, seconds: float) -> Fields:
        assert seconds > 0, f"{operation}: no time is left"
        return aws.answer(operation, parameters)

    no_pause = patch("kizami.aws.client.machine.sleep", lambda seconds: None)
    with patch.object(JsonClient, "_attempt", attempt), no_pause:
        yield


class Invocation:
    """The time that a function has, running out as it does on Lambda."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds

    def get_remaining_time_in_millis(self) -> int:
        return int((self._deadline - time.monotonic()) * 1000)


def work_off(
    aws: MemoryAws, queue: str, handler: Callable[[Any, Any], Any], seconds: float, most_receives: int = 5
) -> int:
    """Call the function with each message until the queue is empty; how often it was called.

    A message comes back whose function failed, said so, or took too long, and is dropped after its last receive.
    """
    messages, calls = aws.queues.setdefault(queue, deque()), 0
    while messages:
        message = messages.popleft()
        message.receives += 1
        calls += 1
        if not _is_settled(message, queue, handler, seconds) and message.receives < most_receives:
            messages.append(message)
    return calls


def _is_settled(message: MemoryMessage, queue: str, handler: Callable[[Any, Any], Any], seconds: float) -> bool:
    stated = {
        name: {"stringValue": value["StringValue"], "dataType": "String"}
        for name, value in message.attributes.items()
    }
    record = {
        "messageId": "m",
        "body": message.body,
        "attributes": {"ApproximateReceiveCount": str(message.receives)},
        "messageAttributes": stated,
        "eventSourceARN": f"arn:aws:sqs:us-east-1:123456789012:{queue}",
    }
    invocation = Invocation(seconds)
    try:
        answer = handler({"Records": [record]}, invocation)
    except Exception:  # noqa: BLE001 -- Lambda has it delivered again, whatever it was
        return False
    return not answer["batchItemFailures"] and invocation.get_remaining_time_in_millis() > 0
