"""What SQS hands to a function: the records of an event, each a message with the id it is reported by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kizami.core.errors import InvalidInput

# What a message that goes back carries beside its body, which stays what it was.
ATTEMPTS, REASON, NOT_BEFORE = "attempts", "reason", "notBefore"


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as SQS delivered it."""

    message_id: str
    body: str
    receive_count: str
    receipt: str
    source: str = ""  # the queue's name
    attempts: int = 0  # that were made before it was sent
    not_before: int = 0  # the API asked for no attempt until then, in seconds since 1970


def read_deliveries(event: Mapping[str, Any]) -> list[Delivery]:
    """The records of an SQS event; one that cannot be named could not be reported either, so all are refused."""
    records = event.get("Records") if isinstance(event, Mapping) else None
    if not isinstance(records, list):
        raise InvalidInput("Records", "is missing; the function takes an SQS event")
    return [_read_delivery(record, f"Records[{index}]") for index, record in enumerate(records)]


def report_failures(failed: Iterable[Delivery]) -> dict[str, list[dict[str, str]]]:
    """The answer that has SQS deliver these again, and no other of the event (ReportBatchItemFailures)."""
    ids = dict.fromkeys(delivery.message_id for delivery in failed)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in ids]}


def _read_delivery(record: Any, place: str) -> Delivery:
    message_id = record.get("messageId") if isinstance(record, dict) else None
    body = record.get("body") if isinstance(record, dict) else None
    if not isinstance(message_id, str) or not message_id or not isinstance(body, str):
        raise InvalidInput(place, "must have a messageId and a body")
    attributes = record.get("attributes")
    count = attributes.get("ApproximateReceiveCount", "1") if isinstance(attributes, dict) else "1"
    source = str(record.get("eventSourceARN", "")).rpartition(":")[2]
    receipt = str(record.get("receiptHandle", ""))
    attempts, not_before = _stated(record, ATTEMPTS, 5), _stated(record, NOT_BEFORE, 10)
    return Delivery(message_id, body, str(count), receipt, source, attempts, not_before)


def _stated(record: dict[str, Any], name: str, digits: int) -> int:
    """What the attribute says; one that is not ours is no reason to refuse a message."""
    stated = record.get("messageAttributes")
    attribute = stated.get(name) if isinstance(stated, dict) else None
    text = attribute.get("stringValue") if isinstance(attribute, dict) else None
    if not isinstance(text, str) or not text.isascii() or not text.isdecimal() or len(text) > digits:
        return 0
    return int(text)
