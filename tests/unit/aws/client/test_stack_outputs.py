"""Where the command line finds the table and the queues of a stack, and what it says when it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from aws_here.local_aws import lead_to
from fakes.fault_server import FaultServer, raw
from kizami.aws.client.account import _botocore_session
from kizami.aws.client.stack_outputs import stack_outputs
from kizami.aws.places import FoundPlaces
from kizami.core.errors import ConfigurationError

NAMESPACE = 'xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/"'
OUTPUTS = {
    "MetricsTableName": "AiResponseMetrics",
    "QueueUrl": "https://sqs.us-east-1.amazonaws.com/1/live",
    "BackfillQueueUrl": "https://sqs.us-east-1.amazonaws.com/1/backfill",
}


def described(outputs: dict[str, str]) -> bytes:
    members = "".join(
        f"<member><OutputKey>{name}</OutputKey><OutputValue>{value}</OutputValue></member>"
        for name, value in outputs.items()
    )
    stack = (
        "<StackName>s</StackName><CreationTime>2025-12-02T10:00:00Z</CreationTime>"
        f"<StackStatus>CREATE_COMPLETE</StackStatus><Outputs>{members}</Outputs>"
    )
    result = f"<DescribeStacksResult><Stacks><member>{stack}</member></Stacks></DescribeStacksResult>"
    return f"<DescribeStacksResponse {NAMESPACE}>{result}</DescribeStacksResponse>".encode()


NO_SUCH_STACK = (
    f"<ErrorResponse {NAMESPACE}><Error><Type>Sender</Type><Code>ValidationError</Code>"
    "<Message>Stack with id nope does not exist</Message></Error></ErrorResponse>"
).encode()


@pytest.fixture(autouse=True)
def no_places(monkeypatch: pytest.MonkeyPatch) -> None:
    for lane in ("", "KIZAMI_RETRY_", "KIZAMI_BACKFILL_", "KIZAMI_DEAD_LETTER_"):
        monkeypatch.delenv(f"{lane}QUEUE_URL", raising=False)


def test_the_stack_is_asked_once_for_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer(raw(described(OUTPUTS))) as server:
        lead_to(server.url, monkeypatch)
        places = FoundPlaces(stack="mine")
        assert (places.table, places.queue, places.backfill_queue) == tuple(OUTPUTS.values())
        assert places.dead_letter_queue is None
        assert places.retry_queue == places.queue
    (request,) = server.requests
    assert b"StackName=mine" in request.body


def test_options_and_environment_go_before_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    lead_to("http://127.0.0.1:9", monkeypatch)
    url = "https://sqs.us-east-1.amazonaws.com/1/dead"
    monkeypatch.setenv("KIZAMI_DEAD_LETTER_QUEUE_URL", url)
    places = FoundPlaces("Mine")
    assert (places.table, places.dead_letter_queue) == ("Mine", url)
    live, retry = (f"https://sqs.us-east-1.amazonaws.com/1/{name}" for name in ("live", "retry"))
    monkeypatch.setenv("QUEUE_URL", live)
    assert places.retry_queue == live
    monkeypatch.setenv("KIZAMI_RETRY_QUEUE_URL", retry)
    assert places.retry_queue == retry


def test_an_output_that_the_stack_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer(raw(described({}))) as server:
        lead_to(server.url, monkeypatch)
        with pytest.raises(ConfigurationError) as refusal:
            _ = FoundPlaces().queue
    line = "QUEUE_URL: is not set, and the stack DataCollectionSchedulerStack has no output QueueUrl"
    assert str(refusal.value) == line


def test_a_stack_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer(raw(NO_SUCH_STACK, 400)) as server:
        lead_to(server.url, monkeypatch)
        with pytest.raises(ConfigurationError) as refusal:
            stack_outputs("nope")
    line = "--stack: Stack with id nope does not exist (asked in us-east-1; AWS_REGION names another region)"
    assert str(refusal.value) == line


def test_the_stack_is_asked_in_the_region_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer(raw(described(OUTPUTS))) as server:
        lead_to(server.url, monkeypatch)
        monkeypatch.setenv("AWS_REGION", "ap-northeast-1")
        stack_outputs("mine")
    (request,) = server.requests
    assert "/ap-northeast-1/cloudformation/" in request.headers["authorization"]


def test_without_any_region_it_is_the_region_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lead_to("http://127.0.0.1:9", monkeypatch)
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    _botocore_session.cache_clear()
    with pytest.raises(ConfigurationError, match=r"^AWS_REGION: is not set"):
        stack_outputs("mine")


def test_a_value_that_is_no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUE_URL", "live")
    with pytest.raises(ConfigurationError, match=r"^QUEUE_URL: must be like"):
        _ = FoundPlaces().queue
