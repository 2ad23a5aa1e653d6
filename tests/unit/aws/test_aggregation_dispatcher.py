"""The dispatcher function: one message a company with a key reference, on moto's DynamoDB and SQS."""

from __future__ import annotations

import json
from typing import Any

import pytest

import fakes.fault_server as faults
from aws_here.lambda_events import LambdaContext, log_lines, scheduled_event
from aws_here.local_aws import create_company_table, create_queue, dynamodb_at, lead_to, sqs_at
from fakes.fault_server import FaultServer
from kizami.aggregation.messages import read_message
from kizami.aws import aggregation_dispatcher as dispatcher
from kizami.aws.aggregation_dispatcher import handler
from kizami.aws.store.sqs_queue import sqs_client
from kizami.core.errors import ConfigurationError, QueueError, StoreError
from kizami.core.targets.references import SecretReference


@pytest.fixture(autouse=True)
def endpoint(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    lead_to(moto_endpoint, monkeypatch)
    return moto_endpoint


@pytest.fixture
def table(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    name = create_company_table(endpoint)
    monkeypatch.setenv("COMPANY_TABLE_NAME", name)
    return name


@pytest.fixture
def queue(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    url = create_queue(endpoint)
    monkeypatch.setenv("QUEUE_URL", url)
    return url


def put(endpoint: str, table: str, company_id: str, **attributes: Any) -> None:
    dynamodb_at(endpoint).put_item(TableName=table, Item={"CompanyId": {"S": company_id}, **attributes})


def put_many(endpoint: str, table: str, count: int) -> None:
    for number in range(count):
        put(endpoint, table, f"c{number}", ApiKeyRef={"S": f"secretsmanager:kizami/c{number}"})


def bodies(endpoint: str, queue: str) -> list[str]:
    client, found = sqs_at(endpoint), []
    while messages := client.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
        found += [message["Body"] for message in messages]
    return sorted(found)


def dispatch(seconds: float = 60) -> dict[str, int]:
    return handler(scheduled_event(), LambdaContext(seconds))


def test_each_company_gets_one_message_with_a_reference_to_its_key(endpoint: str, table: str, queue: str) -> None:
    put_many(endpoint, table, 23)
    assert dispatch() == {"sent": 23}
    found = {message.company_id: message.key for message in map(read_message, bodies(endpoint, queue))}
    assert found == {f"c{n}": SecretReference("secretsmanager", f"kizami/c{n}") for n in range(23)}


def test_no_key_is_ever_sent_and_a_company_without_a_reference_is_passed_over(
    endpoint: str, table: str, queue: str, capsys: pytest.CaptureFixture[str]
) -> None:
    put(endpoint, table, "c1", ApiKey={"S": "canary"})
    put(endpoint, table, "c2", ApiKey={"S": "canary"}, ApiKeyRef={"S": "secretsmanager:c2"})
    assert dispatch() == {"sent": 1}
    assert bodies(endpoint, queue) == ['{"CompanyId": "c2", "ApiKeyRef": "secretsmanager:c2"}']
    lines = log_lines(capsys)
    assert {line["level"] for line in lines} == {"INFO"}  # a company without a key is no fault: no alarm rings
    assert "canary" not in json.dumps(lines)


@pytest.mark.parametrize("reference", [{"S": "canary"}, {"N": "7"}, {"S": "env:HOME"}, {"NULL": True}])
def test_a_company_with_a_wrong_reference_is_reported_and_the_others_are_dispatched(
    endpoint: str, table: str, queue: str, capsys: pytest.CaptureFixture[str], reference: dict[str, Any]
) -> None:
    put(endpoint, table, "wrong", ApiKeyRef=reference)
    put(endpoint, table, "right", ApiKeyRef={"S": "secretsmanager:right"})
    assert dispatch() == {"sent": 1}
    lines = log_lines(capsys)
    assert [line["companyId"] for line in lines if line["level"] == "ERROR"] == ["wrong"]
    assert "canary" not in json.dumps(lines)


def test_no_companies_are_no_messages(table: str, queue: str) -> None:
    assert dispatch() == {"sent": 0}


def test_messages_that_are_not_taken_are_sent_again(
    endpoint: str, table: str, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_many(endpoint, table, 12)
    put_in_the_way(monkeypatch, failures=1)
    assert dispatch() == {"sent": 12}
    assert len(bodies(endpoint, queue)) == 12


def test_messages_that_are_never_taken_fail_the_invocation_after_the_others_were_sent(
    endpoint: str, table: str, queue: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put_many(endpoint, table, 12)
    put_in_the_way(monkeypatch, failures=2)
    with pytest.raises(QueueError, match="10 of 12 messages were not sent"):
        dispatch()
    assert len(bodies(endpoint, queue)) == 2
    assert log_lines(capsys)[-1]["event"] == "dispatch.failed"


def put_in_the_way(monkeypatch: pytest.MonkeyPatch, failures: int) -> None:
    """Let SQS's first answers say that nothing was taken."""
    real = sqs_client()
    left: list[dict[str, list[object]]] = [{"Failed": [], "Successful": []}] * failures

    class Client:
        def call(self, *arguments: Any) -> Any:
            return left.pop() if left else real.call(*arguments)

    monkeypatch.setattr(dispatcher, "sqs_client", Client)


def test_a_queue_that_does_not_answer_fails_the_invocation(
    endpoint: str, table: str, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_many(endpoint, table, 1)
    with FaultServer(faults.raw(b"{}", 500)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", server.url)
        with pytest.raises(QueueError, match="1 of 1 messages were not sent"):
            dispatch()


def test_a_table_that_does_not_answer_fails_the_invocation(queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPANY_TABLE_NAME", "NoSuchTable")
    with pytest.raises(StoreError, match="Scan: ResourceNotFoundException"):
        dispatch()


def test_time_that_runs_out_fails_the_invocation(endpoint: str, table: str, queue: str) -> None:
    put_many(endpoint, table, 1)
    with pytest.raises(QueueError, match="the time ran out after 0 messages"):
        dispatch(seconds=4)


@pytest.mark.parametrize("name", ["COMPANY_TABLE_NAME", "QUEUE_URL"])
def test_a_missing_setting_is_named(table: str, queue: str, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv(name)
    with pytest.raises(ConfigurationError, match=f"^{name}: is not set"):
        dispatch()
