"""Each function as it is deployed: its package on its Python, under AWS's own Lambda runtime interface.

SQS, DynamoDB and the polled API are reached by real HTTP.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from aws_here.lambda_events import scheduled_event, sqs_event
from aws_here.local_aws import (
    clean_environment,
    create_company_table,
    create_metrics_table,
    create_points_table,
    create_queue,
    dynamodb_at,
    environment,
    lead_to,
)
from aws_here.read_queue import ReadSqsQueue
from aws_here.template import HANDLERS, synthesize
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.cdk.parts.package import package_files
from kizami.core.messages import MetricRecord
from kizami.core.ports import PutOutcome
from kizami.core.slots import floor_to_minute, parse_instant
from kizami.mock_api.server import MockServer
from kizami.mock_api.users import MOCK_USERS_KEY
from programs.fetched_tools import lambda_runtime_client, lambda_runtime_emulator, python_3_14
from programs.local_processes import Words, hold_port, listens, running, wait_for

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


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the default deployment as Lambda unpacks it."""
    root = tmp_path_factory.mktemp("task")
    for name, body in package_files({}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(body)
    return root


@contextmanager
def deployed(package: Path, handler: str, **variables: str) -> Iterator[Function]:
    """The handler in a fresh sandbox with these variables and no other setting of AWS."""
    path = f"{package}:{lambda_runtime_client()}"
    settings = {"PYTHONPATH": path, "LAMBDA_TASK_ROOT": str(package), "AWS_LAMBDA_FUNCTION_TIMEOUT": "120"}
    settings |= variables
    with hold_port() as port, hold_port() as api_port:
        command = [str(lambda_runtime_emulator()), "--runtime-interface-emulator-address", f"127.0.0.1:{port}"]
        command += [
            "--runtime-api-address",
            f"127.0.0.1:{api_port}",
            *python_3_14(),
            "-m",
            "awslambdaric",
            handler,
        ]
        with running(command, {**clean_environment(), **settings}) as words:
            wait_for(lambda: listens(port), words)
            yield Function(f"http://127.0.0.1:{port}/2015-03-31/functions/function/invocations", words)


def test_the_python_of_these_tests_is_the_one_that_is_deployed() -> None:
    version = subprocess.run([*python_3_14(), "--version"], capture_output=True, text=True, check=True).stdout
    for name in HANDLERS:
        assert (
            version.lower().replace(" ", "").startswith(synthesize(aggregation="true").function(name)["Runtime"])
        )


def test_the_sender_sends_its_minute_to_sqs(
    package: Path, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead_to(moto_endpoint, monkeypatch)
    url = create_queue(moto_endpoint)
    with deployed(package, "kizami.aws.sender.handler", QUEUE_URL=url, **environment(moto_endpoint)) as sender:
        assert sender.invoke(scheduled_event("2025-12-02T10:23:07Z")) == {"sent": 12, "failed": 0}
        (line,) = sender.log_lines(1)
        assert (line["event"], line["sent"]) == ("messages.sent", 12)
        assert re.fullmatch("[0-9a-f-]{36}", line["requestId"])
    assert [received.body for received in ReadSqsQueue(url).receive(10)] == [MESSAGE]


def test_the_collector_asks_the_mock_api_and_writes_to_dynamodb(
    package: Path, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead_to(moto_endpoint, monkeypatch)
    table = create_metrics_table(moto_endpoint)
    with MockServer(port=0) as mock:
        settings = {"AI_API_BASE_URL": mock.url, "AI_METRICS_TABLE_NAME": table, **environment(moto_endpoint)}
        with deployed(package, "kizami.aws.collector.handler", **settings) as collector:
            for _ in range(2):  # a redelivery finds the sandbox warm and the record there
                assert collector.invoke(sqs_event(MESSAGE)) == {"batchItemFailures": []}
            lines = collector.log_lines(2)
    (record,) = DynamoDbMetricStore(table).query("ai_response_count", SLOT, SLOT + timedelta(minutes=1))
    assert (record.slot, record.count) == (SLOT, 23 % 11)
    assert [line["event"] for line in lines] == ["slot.stored", "slot.duplicate"]


def test_a_failure_reaches_lambda_as_the_functions_error_without_a_secret(
    package: Path, moto_endpoint: str
) -> None:
    """Lambda then counts an error and SQS delivers the message again."""
    secrets = {"AWS_SECRET_ACCESS_KEY": "canary-secret", "AWS_SESSION_TOKEN": "canary-token"}
    settings = {**environment(moto_endpoint), **secrets, "AI_METRICS_TABLE_NAME": "NoSuchTable"}
    with MockServer(port=0) as mock:
        url = f"{mock.url}/?tenant=canary"
        with deployed(package, "kizami.aws.collector.handler", AI_API_BASE_URL=url, **settings) as collector:
            answer = collector.invoke(sqs_event(MESSAGE))
            assert (answer["errorType"], collector.log_lines(1)[-1]["error"]) == ("StoreError", "StoreError")
            assert "ResourceNotFoundException" in answer["errorMessage"]
            assert "canary" not in json.dumps(answer) + collector.words()


def test_the_reconciler_asks_for_what_is_missing_between_records(
    package: Path, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead_to(moto_endpoint, monkeypatch)
    table, url = create_metrics_table(moto_endpoint), create_queue(moto_endpoint)
    hour_ago = floor_to_minute(datetime.now(UTC)) - timedelta(hours=1)
    record = MetricRecord("ai_response_count", hour_ago, 7, datetime.now(UTC))
    assert DynamoDbMetricStore(table).put_if_absent(record) is PutOutcome.STORED
    settings = {"AI_METRICS_TABLE_NAME": table, "QUEUE_URL": url, "KIZAMI_STACK": "Here"}
    settings |= {"KIZAMI_GRACE_SECONDS": "960", "KIZAMI_RECONCILE_HOURS": "2"}
    with deployed(
        package, "kizami.aws.reconciler.handler", **settings, **environment(moto_endpoint)
    ) as reconciler:
        assert reconciler.invoke(scheduled_event())["sent"] > 0
    assert ReadSqsQueue(url).receive(10)


def test_a_dispatched_company_gets_its_points(
    package: Path, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead_to(moto_endpoint, monkeypatch)
    companies, points = create_company_table(moto_endpoint), create_points_table(moto_endpoint)
    url = create_queue(moto_endpoint)
    item = {"CompanyId": {"S": "acme"}, "ApiKeyRef": {"S": "secretsmanager:kizami/aggregation/acme"}}
    dynamodb_at(moto_endpoint).put_item(TableName=companies, Item=item)
    tables = {"COMPANY_TABLE_NAME": companies, "POINTS_TABLE_NAME": points, "QUEUE_URL": url}
    settings = {**tables, **environment(moto_endpoint)}
    with deployed(package, "kizami.aws.aggregation_dispatcher.handler", **settings) as dispatcher:
        assert dispatcher.invoke(scheduled_event()) == {"sent": 1}
    message = json.dumps({"CompanyId": "acme", "ApiKey": MOCK_USERS_KEY.value})
    with MockServer(port=0) as mock:
        settings |= {"AGGREGATION_API_BASE_URL": mock.url}
        with deployed(package, "kizami.aws.aggregation.handler", **settings) as aggregation:
            assert aggregation.invoke(sqs_event(message)) == {"batchItemFailures": []}
    assert dynamodb_at(moto_endpoint).scan(TableName=points)["Count"] > 0


def test_the_mock_api_answers_api_gateway(package: Path) -> None:
    window = {"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z"}
    event = {"httpMethod": "GET", "path": "/response_count", "queryStringParameters": window}
    with deployed(package, "kizami.aws.mock_api.handler") as mock:
        answer = mock.invoke(event)
    assert answer["statusCode"] == 200
    assert json.loads(answer["body"]) == {**window, "count": 1}
