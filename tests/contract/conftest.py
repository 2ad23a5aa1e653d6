"""The implementations that the contract suite runs against; a new one adds itself here and inherits every test."""

from __future__ import annotations

import json
import time

import pytest
from local_aws import create_metrics_table, create_queue, environment, sqs_at
from twins import ManualClock, MemoryMetricStore, MemoryQueue, QueueKit

from kizami.aws.dynamodb import DynamoDbMetricStore
from kizami.aws.sqs import SqsQueue
from kizami.ports import MetricStore

VISIBILITY_SECONDS = 2
MAX_RECEIVES = 2


@pytest.fixture(params=["memory", "moto", "dynamodb-local"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> MetricStore:
    """An empty metric store."""
    if request.param == "memory":
        return MemoryMetricStore()
    endpoint = request.getfixturevalue(request.param.replace("-", "_") + "_endpoint")
    for name, value in environment(endpoint).items():
        monkeypatch.setenv(name, value)
    return DynamoDbMetricStore(create_metrics_table(endpoint))


@pytest.fixture(params=["memory", "moto"])
def kit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> QueueKit:
    """An empty queue with a visibility timeout of 2 s and dead letters after 2 receives."""
    return _memory_kit() if request.param == "memory" else _moto_kit(request, monkeypatch)


def _memory_kit() -> QueueKit:
    clock = ManualClock()
    queue = MemoryQueue(clock, VISIBILITY_SECONDS, MAX_RECEIVES)
    return QueueKit(queue, clock.advance, lambda: queue.dead_letters)


def _moto_kit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> QueueKit:
    endpoint = request.getfixturevalue("moto_endpoint")
    for name, value in environment(endpoint).items():
        monkeypatch.setenv(name, value)
    dead_letter_url = create_queue(endpoint)
    redrive = {"deadLetterTargetArn": _arn(endpoint, dead_letter_url), "maxReceiveCount": str(MAX_RECEIVES)}
    attributes = {"VisibilityTimeout": str(VISIBILITY_SECONDS), "RedrivePolicy": json.dumps(redrive)}
    queue = SqsQueue(create_queue(endpoint, attributes))
    # Its clock is the wall's: a little more than the time asked for has certainly passed.
    return QueueKit(queue, lambda seconds: time.sleep(seconds + 0.2), lambda: _bodies(endpoint, dead_letter_url))


def _arn(endpoint: str, url: str) -> str:
    answer = sqs_at(endpoint).get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return answer["Attributes"]["QueueArn"]


def _bodies(endpoint: str, url: str) -> list[str]:
    answer = sqs_at(endpoint).receive_message(QueueUrl=url, MaxNumberOfMessages=10)
    return [message["Body"] for message in answer.get("Messages", [])]
