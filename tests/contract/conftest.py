"""The implementations that the contract suite runs against; a new one adds itself here and inherits every test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aws_here.local_aws import create_metrics_table, create_queue, lead_to, moto_in_this_process, sqs_at
from aws_here.read_queue import ReadSqsQueue
from fakes.ports import ManualClock, MemoryQueue, QueueKit, ReadableStore
from fakes.sqlite_records import SqliteRecords
from kizami.aws.store.metric_table import DynamoDbMetricStore

VISIBILITY_SECONDS = 2
MAX_RECEIVES = 2


@pytest.fixture(params=["sqlite", "moto", "dynamodb-local", "dynalite"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ReadableStore:
    """An empty metric store."""
    return _store(request, monkeypatch, tmp_path)


@pytest.fixture(params=["sqlite", "dynamodb-local"])
def racing_store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ReadableStore:
    """An empty metric store for several threads at once; moto looks at a condition and writes in two steps."""
    return _store(request, monkeypatch, tmp_path)


def _store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ReadableStore:
    if request.param == "sqlite":
        return SqliteRecords(tmp_path / "kizami.db", create=True)
    endpoint = request.getfixturevalue(request.param.replace("-", "_") + "_endpoint")
    lead_to(endpoint, monkeypatch)
    return DynamoDbMetricStore(create_metrics_table(endpoint))


@pytest.fixture(params=["moto", "dynamodb-local", "dynalite"])
def endpoint(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A DynamoDB, to which the environment leads."""
    return _led_to(request, monkeypatch)


@pytest.fixture(params=["moto", "dynamodb-local"])
def transacting_endpoint(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same with transactions, which dynalite does not have."""
    return _led_to(request, monkeypatch)


def _led_to(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    found: str = request.getfixturevalue(request.param.replace("-", "_") + "_endpoint")
    lead_to(found, monkeypatch)
    return found


@pytest.fixture(params=["memory", "moto"])
def kit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> QueueKit:
    """An empty queue with a visibility timeout of 2 s and dead letters after 2 receives."""
    return _memory_kit() if request.param == "memory" else _moto_kit(request, monkeypatch)


def _memory_kit() -> QueueKit:
    clock = ManualClock()
    queue = MemoryQueue(clock, VISIBILITY_SECONDS, MAX_RECEIVES)
    return QueueKit(queue, clock.advance, lambda: queue.dead_letters)


@pytest.fixture(scope="module")
def sqs_endpoint() -> Iterator[str]:
    """SQS as moto plays it, here, so that its time is the test's."""
    with moto_in_this_process() as endpoint:
        yield endpoint


def _moto_kit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> QueueKit:
    endpoint, clock = request.getfixturevalue("sqs_endpoint"), ManualClock(datetime.now(UTC))
    monkeypatch.setattr("moto.sqs.models.unix_time_millis", lambda: clock.now().timestamp() * 1000)
    lead_to(endpoint, monkeypatch)
    dead_letter_url = create_queue(endpoint)
    redrive = {"deadLetterTargetArn": _arn(endpoint, dead_letter_url), "maxReceiveCount": str(MAX_RECEIVES)}
    attributes = {"VisibilityTimeout": str(VISIBILITY_SECONDS), "RedrivePolicy": json.dumps(redrive)}
    queue = ReadSqsQueue(create_queue(endpoint, attributes))
    # moto shows a message again after its time, not at it.
    return QueueKit(
        queue, lambda seconds: clock.advance(seconds + 0.001), lambda: _bodies(endpoint, dead_letter_url)
    )


def _arn(endpoint: str, url: str) -> str:
    answer = sqs_at(endpoint).get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return answer["Attributes"]["QueueArn"]


def _bodies(endpoint: str, url: str) -> list[str]:
    answer = sqs_at(endpoint).receive_message(QueueUrl=url, MaxNumberOfMessages=10)
    return [message["Body"] for message in answer.get("Messages", [])]
