"""What Lambda hands to a handler, and how a test reads back what the handler logged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kizami.core.messages import ScheduleMessage, write_message


class LambdaContext:
    """The context of an invocation that has `seconds` left, however long the test takes."""

    def __init__(self, seconds: float = 30) -> None:
        self._seconds = seconds

    def get_remaining_time_in_millis(self) -> int:
        return int(self._seconds * 1000)


def scheduled_event(time: object = "2025-12-02T10:23:00Z") -> dict[str, Any]:
    """What an EventBridge rule with a schedule sends."""
    return {
        "version": "0",
        "id": "53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa",
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": "123456789012",
        "time": time,
        "region": "us-east-1",
        "resources": ["arn:aws:events:us-east-1:123456789012:rule/every-minute"],
        "detail": {},
    }


def sqs_event(*messages: ScheduleMessage | str) -> dict[str, Any]:
    """What an SQS event source sends: one record a message, `message-0`, `message-1` and so on."""
    return {"Records": [_record(number, message) for number, message in enumerate(messages)]}


def _record(number: int, message: ScheduleMessage | str) -> dict[str, Any]:
    return {
        "messageId": f"message-{number}",
        "receiptHandle": f"receipt-{number}",
        "body": message if isinstance(message, str) else write_message(message),
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1764670980000"},
        "messageAttributes": {},
        "md5OfBody": "",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:schedule",
        "awsRegion": "us-east-1",
    }


def log_lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The JSON objects that were logged since the last call."""
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]
