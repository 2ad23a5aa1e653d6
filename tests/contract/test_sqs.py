"""The SQS adapter beyond the queue's contract: its calls, its limits and its errors."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from aws_here.local_aws import create_queue, lead_to, sqs_at
from aws_here.read_queue import ReadSqsQueue
from fakes.fault_server import refused_url
from kizami.aws.store.sqs_queue import QueueNotFound, SqsQueue
from kizami.core.errors import QueueError
from kizami.core.messages import ScheduleMessage, write_message
from kizami.core.sender import PlannedMessage, plan_minute
from kizami.core.slots import Window
from kizami.core.targets.target import Target

MINUTE = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
PLAN = plan_minute(MINUTE, Target())


@pytest.fixture(params=["moto", "fauxqs"])
def endpoint(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    found: str = request.getfixturevalue(f"{request.param}_endpoint")
    lead_to(found, monkeypatch)
    return found


def test_others_receive_the_seeds_message(endpoint: str) -> None:
    url = create_queue(endpoint)
    SqsQueue(url).send(PLAN[:1])
    (message,) = sqs_at(endpoint).receive_message(QueueUrl=url)["Messages"]
    assert message["Body"] == '{"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z"}'


def test_an_entry_that_sqs_refuses_is_returned_and_the_others_are_sent(
    endpoint: str, request: pytest.FixtureRequest
) -> None:
    """SQS takes delays of up to 900 seconds."""
    if "fauxqs" in request.node.callspec.id:
        pytest.skip("fauxqs takes any delay")
    url = create_queue(endpoint)
    refused = PlannedMessage(PLAN[0].message, 901)
    (failed,) = SqsQueue(url).send([refused, PlannedMessage(PLAN[1].message, 0)])
    assert failed.entry == refused
    assert "DelaySeconds" in failed.reason
    assert [received.body for received in ReadSqsQueue(url).receive(10)] == [write_message(PLAN[1].message)]


def test_a_queue_that_does_not_exist_is_told_apart(endpoint: str) -> None:
    queue = SqsQueue(create_queue(endpoint) + "-gone")
    with pytest.raises(QueueNotFound, match="QueueDoesNotExist"):
        queue.send(PLAN)
    with pytest.raises(QueueNotFound, match="QueueDoesNotExist"):
        queue.depth()


def test_an_endpoint_that_nobody_listens_on_is_a_queue_error(monkeypatch: pytest.MonkeyPatch) -> None:
    lead_to(refused_url(), monkeypatch)
    queue = SqsQueue("https://sqs.us-east-1.amazonaws.com/123456789012/schedule")
    with pytest.raises(QueueError, match="SendMessageBatch: Unreachable"):
        queue.send(PLAN)
    with pytest.raises(QueueError, match="ChangeMessageVisibility: Unreachable"):
        queue.hide("receipt", 1)


def test_the_largest_batch_stays_far_below_the_limit_of_bytes() -> None:
    """256 KiB is SQS's older and lower limit of a call; that is why batches are counted and not weighed."""
    largest = ScheduleMessage(Window.of_slot(MINUTE, 5), "𝛀" * 128)
    assert 10 * len(write_message(largest).encode()) < 256 * 1024 / 20
