"""Each function under AWS's own Lambda runtime interface, with real HTTP to SQS, DynamoDB and the mock API."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from aws_here.lambda_events import scheduled_event, sqs_event
from aws_here.local_aws import clean_environment, create_metrics_table, create_queue, environment, lead_to
from aws_here.read_queue import ReadSqsQueue
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.core.slots import parse_instant
from kizami.mock_api.server import MockServer
from programs.fetched_tools import lambda_runtime_emulator
from programs.local_processes import Words, hold_port, listens, running, wait_for

SOURCE = Path(__file__).resolve().parent.parent.parent / "src"
SLOT = parse_instant("2025-12-02T10:23:00Z")
MESSAGE = '{"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z"}'


@dataclass(frozen=True)
class Function:
    """A function in a sandbox of the emulator."""

    url: str
    words: Words

    def invoke(self, event: dict[str, Any]) -> Any:
        with urlopen(Request(self.url, json.dumps(event).encode()), timeout=180) as answer:
            return json.load(answer)

    def log_lines(self, count: int) -> list[dict[str, Any]]:
        """What the function itself logged, between the runtime's own lines; it comes a little after the answer."""
        wait_for(lambda: len(self._logged()) >= count, self.words)
        return [json.loads(line) for line in self._logged()]

    def _logged(self) -> list[str]:
        whole, _, _ = self.words().rpartition("\n")
        return [line for line in whole.splitlines() if line.startswith('{"timestamp"')]


@contextmanager
def deployed(handler: str, **variables: str) -> Iterator[Function]:
    """The handler in a fresh sandbox with these variables and no other setting of AWS."""
    settings = {"PYTHONPATH": str(SOURCE), "AWS_LAMBDA_FUNCTION_TIMEOUT": "120", **variables}
    with hold_port() as port, hold_port() as api_port:
        command = [str(lambda_runtime_emulator()), "--runtime-interface-emulator-address", f"127.0.0.1:{port}"]
        command += [
            "--runtime-api-address",
            f"127.0.0.1:{api_port}",
            sys.executable,
            "-m",
            "awslambdaric",
            handler,
        ]
        with running(command, {**clean_environment(), **settings}) as words:
            wait_for(lambda: listens(port), words)
            yield Function(f"http://127.0.0.1:{port}/2015-03-31/functions/function/invocations", words)


def test_the_sender_sends_its_minute_to_sqs(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lead_to(moto_endpoint, monkeypatch)
    url = create_queue(moto_endpoint)
    with deployed("kizami.aws.sender.handler", QUEUE_URL=url, **environment(moto_endpoint)) as sender:
        assert sender.invoke(scheduled_event("2025-12-02T10:23:07Z")) == {"sent": 12, "failed": 0}
        assert [line["event"] for line in sender.log_lines(13)] == ["minute.planned"] + ["message.sent"] * 12
    assert [received.body for received in ReadSqsQueue(url).receive(10)] == [MESSAGE]


def test_the_collector_asks_the_mock_api_and_writes_to_dynamodb(
    moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead_to(moto_endpoint, monkeypatch)
    table = create_metrics_table(moto_endpoint)
    with MockServer(port=0) as mock:
        settings = {"AI_API_BASE_URL": mock.url, "AI_METRICS_TABLE_NAME": table, **environment(moto_endpoint)}
        with deployed("kizami.aws.collector.handler", **settings) as collector:
            for _ in range(2):  # a redelivery finds the sandbox warm and the record there
                assert collector.invoke(sqs_event(MESSAGE)) == {"batchItemFailures": []}
            lines = collector.log_lines(4)
    (record,) = DynamoDbMetricStore(table).query("ai_response_count", SLOT, SLOT + timedelta(minutes=1))
    assert (record.slot, record.count) == (SLOT, 23 % 11)
    assert [line["event"] for line in lines] == ["api.called", "slot.stored", "api.called", "slot.duplicate"]


def test_a_failure_reaches_lambda_as_the_functions_error_without_a_secret(moto_endpoint: str) -> None:
    """Lambda then counts an error and SQS delivers the message again."""
    secrets = {"AWS_SECRET_ACCESS_KEY": "canary-secret", "AWS_SESSION_TOKEN": "canary-token"}
    settings = {**environment(moto_endpoint), **secrets, "AI_METRICS_TABLE_NAME": "NoSuchTable"}
    with MockServer(port=0) as mock:
        url = f"{mock.url}/?tenant=canary"
        with deployed("kizami.aws.collector.handler", AI_API_BASE_URL=url, **settings) as collector:
            answer = collector.invoke(sqs_event(MESSAGE))
            assert (answer["errorType"], collector.log_lines(2)[-1]["error"]) == ("StoreError", "StoreError")
            assert "ResourceNotFoundException" in answer["errorMessage"]
            assert "canary" not in json.dumps(answer) + collector.words()


def test_the_mock_api_answers_api_gateway() -> None:
    window = {"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z"}
    event = {"httpMethod": "GET", "path": "/response_count", "queryStringParameters": window}
    with deployed("kizami.aws.mock_api.handler") as mock:
        answer = mock.invoke(event)
    assert answer["statusCode"] == 200
    assert json.loads(answer["body"]) == {**window, "count": 1}
