"""The Aggregation function, from the SQS event to the points in the table, on real HTTP and moto's DynamoDB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest

import fakes.fault_server as faults
from aws_here.lambda_events import LambdaContext, log_lines, sqs_event
from aws_here.local_aws import (
    ACCESS_KEY,
    REGION,
    SECRET_KEY,
    create_company_table,
    create_points_table,
    create_queue,
    dynamodb_at,
    lead_to,
    sqs_at,
)
from aws_here.read_queue import ReadSqsQueue
from fakes.aggregation import user
from fakes.fault_server import Behaviour, Exchange, FaultServer
from kizami.aggregation.signing import ApiKey, sign
from kizami.aws.aggregation import handler
from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.mock_api.server import MockServer
from programs.daemon import wait_for

KEY = "canary-key-4f1d"
PLAIN = json.dumps({"CompanyId": "acme", "ApiKey": KEY})
COMPANY = {"CompanyId": {"S": "acme"}}

Item = dict[str, Any]


@pytest.fixture(autouse=True)
def tables(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function's environment leads to empty tables; each test says where the API is."""
    lead_to(moto_endpoint, monkeypatch)
    monkeypatch.setenv("COMPANY_TABLE_NAME", create_company_table(moto_endpoint))
    monkeypatch.setenv("POINTS_TABLE_NAME", create_points_table(moto_endpoint))
    monkeypatch.setenv("AGGREGATION_API_BASE_URL", faults.refused_url())
    for name in ("AGGREGATION_TZ", "QUEUE_URL", "KIZAMI_AGGREGATION_RETRY_SECONDS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> int:
    """The function's time, which stands still: a day that ended in the middle would be another test."""
    moment = int(time.time())

    monkeypatch.setattr("kizami.aws.client.machine.now", lambda: datetime.fromtimestamp(moment, UTC))
    return moment


class Tables:
    """What stands in the tables that the environment names."""

    def __init__(self, endpoint: str) -> None:
        self.dynamodb = dynamodb_at(endpoint)
        self.company, self.points = os.environ["COMPANY_TABLE_NAME"], os.environ["POINTS_TABLE_NAME"]

    def points_by_user(self) -> dict[str, int]:
        items = self.dynamodb.scan(TableName=self.points)["Items"]
        return {item["UserMonth"]["S"].partition("#")[0]: int(item["Points"]["N"]) for item in items}

    def company_item(self) -> Item:
        return self.dynamodb.get_item(TableName=self.company, Key=COMPANY).get("Item", {})

    def lock(self, age: timedelta, owner: str) -> None:
        at = (datetime.now(UTC) - age).strftime("%Y-%m-%dT%H:%M:%SZ")
        attributes = {"UpdateAt": {"S": at}, "LockOwner": {"S": owner}, "LockRun": {"S": "r0"}}
        self.dynamodb.put_item(TableName=self.company, Item={**COMPANY, **attributes})


@pytest.fixture
def state(tables: None, moto_endpoint: str) -> Tables:
    return Tables(moto_endpoint)


def answering(*users: Any) -> Behaviour:
    return faults.raw(json.dumps({"users": list(users)}).encode())


def run(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch, *bodies: str, seconds: float = 900
) -> list[dict[str, str]]:
    """The failed items of one invocation."""
    monkeypatch.setenv("AGGREGATION_API_BASE_URL", server.url)
    return handler(sqs_event(*(bodies or [PLAIN])), LambdaContext(seconds))["batchItemFailures"]


def codes(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line["code"][-3:] for line in log_lines(capsys) if "code" in line]


def test_a_message_becomes_points_and_leaves_no_lock(
    state: Tables, now: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultServer(answering(user("u1", now), user("u2", None), user("u3", now - 86_400 * 2))) as server:
        assert run(server, monkeypatch) == []
    assert codes(capsys) == ["001", "003", "008", "009", "010", "012"]
    assert state.points_by_user() == {"u1": 1}
    assert state.company_item() == COMPANY


def test_the_api_is_asked_with_a_valid_signature(monkeypatch: pytest.MonkeyPatch, now: int) -> None:
    with FaultServer(answering()) as server:
        run(server, monkeypatch)
    (request,) = server.requests
    query = {name: values[0] for name, values in request.query.items()}
    assert request.method == "GET"
    assert request.target.startswith("/users?")
    assert query["company_id"] == "acme"
    assert abs(int(query["timestamp"]) - now) < 60
    assert query["signature"] == sign(ApiKey(KEY), int(query["timestamp"]), "acme")
    assert set(query) == {"company_id", "timestamp", "signature"}


def test_a_second_message_on_the_same_day_grants_nothing_more(
    state: Tables, now: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultServer(answering(user("u1", now))) as server:
        assert run(server, monkeypatch, PLAIN, PLAIN) == []
    assert codes(capsys)[4:] == ["001", "003", "008", "013", "012"]
    assert state.points_by_user() == {"u1": 1}


def test_a_younger_lock_of_another_message_ends_the_run_and_the_message_is_done(
    state: Tables, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state.lock(timedelta(minutes=100), "another message")
    with FaultServer(answering()) as server:
        assert run(server, monkeypatch) == []
    assert codes(capsys) == ["001", "003", "005"]
    assert server.requests == []


def test_an_expired_lock_is_reported_and_taken_over(
    state: Tables, now: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state.lock(timedelta(minutes=121), "another message")
    with FaultServer(answering(user("u1", now))) as server:
        assert run(server, monkeypatch) == []
    assert codes(capsys) == ["001", "003", "004", "008", "012"]
    assert state.points_by_user() == {"u1": 1}


def test_a_redelivery_after_a_crash_re_enters_the_lock_of_its_message(
    state: Tables, now: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state.lock(timedelta(minutes=1), "message-0")
    with FaultServer(answering(user("u1", now))) as server:
        assert run(server, monkeypatch) == []
    assert codes(capsys) == ["001", "003", "008", "012"]
    assert state.points_by_user() == {"u1": 1}


def test_two_messages_for_one_company_at_once_are_one_run(
    state: Tables, now: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While the first waits for the API, the second comes, finds the lock and is done."""
    failed_of_second = []

    def second_comes(exchange: Exchange) -> None:
        event = sqs_event(PLAIN)
        event["Records"][0]["messageId"] = "the second"
        failed_of_second.append(handler(event, LambdaContext()))
        answering(user("u1", now))(exchange)

    with FaultServer(second_comes) as server:
        assert run(server, monkeypatch) == []
    assert failed_of_second == [{"batchItemFailures": []}]
    assert len(server.requests) == 1
    by_message: dict[str, list[str]] = {}
    for line in log_lines(capsys):
        by_message.setdefault(line["messageId"], []).append(line["code"][-3:])
    assert by_message == {"message-0": ["001", "003", "008", "012"], "the second": ["001", "003", "005"]}
    assert state.points_by_user() == {"u1": 1}


def test_a_function_that_is_killed_in_the_middle_loses_nothing(
    state: Tables, now: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed while it holds the lock: others find it held, its own message goes on at once."""
    program = (
        "import sys, json\nfrom kizami.aws.aggregation import handler\n"
        "from aws_here.lambda_events import LambdaContext\n"
        "handler(json.loads(sys.argv[1]), LambdaContext(900))"
    )
    with FaultServer(faults.hang_before_headers) as hanging:
        monkeypatch.setenv("AGGREGATION_API_BASE_URL", hanging.url)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", program, json.dumps(sqs_event(PLAIN))]
        process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        wait_for(lambda: hanging.requests, "its question")
        process.kill()
        process.wait(timeout=60)
    assert state.company_item()["LockOwner"] == {"S": "message-0"}
    with FaultServer(answering(user("u1", now))) as server:
        other = sqs_event(PLAIN)
        other["Records"][0]["messageId"] = "another"
        monkeypatch.setenv("AGGREGATION_API_BASE_URL", server.url)
        assert handler(other, LambdaContext()) == {"batchItemFailures": []}
        assert codes(capsys) == ["001", "003", "005"]
        assert run(server, monkeypatch) == []
    assert codes(capsys) == ["001", "003", "008", "012"]
    assert state.points_by_user() == {"u1": 1}
    assert state.company_item() == COMPANY


def test_the_mock_api_answers_the_function(
    state: Tables, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    body = json.dumps({"CompanyId": "acme-8", "ApiKey": "mock-aggregation-key"})
    with MockServer(port=0) as server:
        monkeypatch.setenv("AGGREGATION_API_BASE_URL", server.url)
        assert handler(sqs_event(body), LambdaContext(900)) == {"batchItemFailures": []}
        assert state.points_by_user() == {f"u00000{number}": 1 for number in (0, 1, 4, 5)}
        capsys.readouterr()
        failed = handler(sqs_event(PLAIN), LambdaContext(900))
    assert failed == {"batchItemFailures": [{"itemIdentifier": "message-0"}]}
    assert "status 401" in capsys.readouterr().err


FAULTS: dict[str, Behaviour] = {
    "a hanging server": faults.hang_before_headers,
    "a server that hangs in the body": faults.hang_in_body,
    "a dripping server": faults.drip_body,
    "a closed connection": faults.close_without_a_word,
    "a body cut short": faults.raw(b'{"users": ['),
    "an error": faults.raw(b'{"users": []}', 500),
    "a redirect": faults.raw(b"", 302, Location="http://127.0.0.1:9/"),
    "a page": faults.html,
    "a huge body": faults.huge_body,
    "an endless body": faults.endless_chunks,
    "a compressed bomb": faults.gzip_bomb,
    "no HTTP": faults.not_http,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_api_that_misbehaves_fails_the_item_with_007_and_leaves_no_lock_and_no_secret(
    state: Tables, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    with FaultServer(FAULTS[fault]) as server:
        started = time.monotonic()
        # 31 s left, of which 30 are kept back: the API has one.
        assert run(server, monkeypatch, seconds=31) == [{"itemIdentifier": "message-0"}]
        assert time.monotonic() - started < 60
    text = capsys.readouterr().err
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["code"][-3:] for line in lines if "code" in line] == ["001", "003", "007"]
    assert lines[-1]["stackTrace"].startswith("Traceback")
    assert_silent(text, server)
    assert state.company_item() == COMPANY


def test_an_api_that_refuses_connections_fails_the_item_with_007(
    state: Tables, capsys: pytest.CaptureFixture[str]
) -> None:
    assert handler(sqs_event(PLAIN), LambdaContext()) == {"batchItemFailures": [{"itemIdentifier": "message-0"}]}
    assert codes(capsys) == ["001", "003", "007"]
    assert state.company_item() == COMPANY


def assert_silent(text: str, server: FaultServer) -> None:
    assert "canary" not in text
    for request in server.requests:
        assert request.query["signature"][0] not in text


def test_a_company_of_some_hundred_users_is_granted_side_by_side(
    state: Tables, now: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultServer(answering(*(user(f"u{number}", now) for number in range(150)))) as server:
        assert run(server, monkeypatch) == []
    page = state.dynamodb.scan(TableName=state.points, Select="COUNT")
    assert page["Count"] == 150


def test_a_run_that_nears_the_time_limit_is_a_failed_item_with_its_lock_released(
    state: Tables, now: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultServer(answering(user("u1", now))) as server:
        assert run(server, monkeypatch, seconds=29) == [{"itemIdentifier": "message-0"}]
    assert codes(capsys) == ["001", "003", "008", "016"]
    assert state.company_item() == COMPANY


def test_points_that_cannot_be_written_fail_the_item_after_all_users_were_tried(
    now: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POINTS_TABLE_NAME", "NoSuchTable")
    with FaultServer(answering(user("u1", now), user("u2", now))) as server:
        assert run(server, monkeypatch) == [{"itemIdentifier": "message-0"}]
    lines = log_lines(capsys)
    told = [line for line in lines if "code" in line]
    assert [line["code"][-3:] for line in told] == ["001", "003", "008", "011", "011", "012"]
    for line in told[3:5]:  # where the write failed, and what of AWS it was
        assert "in _grant_one" in line["stackTrace"]
        assert (
            "kizami.aws.client.json_client.AwsError: UpdateItem: ResourceNotFoundException" in line["stackTrace"]
        )


def test_a_lock_that_cannot_be_read_fails_the_item(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COMPANY_TABLE_NAME", "NoSuchTable")
    assert handler(sqs_event(PLAIN), LambdaContext())["batchItemFailures"] == [{"itemIdentifier": "message-0"}]
    assert codes(capsys) == ["001", "002"]


def test_a_message_that_is_none_is_a_failed_item_and_the_others_run(
    state: Tables, now: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = f'{{"CompanyId": "acme", "ApiKey": "{KEY}", "x": 1}}'
    with FaultServer(answering(user("u1", now))) as server:
        assert run(server, monkeypatch, broken, PLAIN, "not JSON " + KEY) == [
            {"itemIdentifier": "message-0"},
            {"itemIdentifier": "message-2"},
        ]
    text = capsys.readouterr().err
    assert "canary" not in text
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["code"][-3:] for line in lines] == ["999", "001", "003", "008", "012", "999"]
    assert "InvalidInput: message: has a field other than" in lines[0]["stackTrace"]
    assert state.points_by_user() == {"u1": 1}


def received_from(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> tuple[ReadSqsQueue, dict[str, Any]]:
    """A queue that hides messages for 90 minutes, and the event of one that it has handed out."""
    url = create_queue(endpoint, {"VisibilityTimeout": "5400"})
    monkeypatch.setenv("QUEUE_URL", url)
    monkeypatch.setenv("KIZAMI_AGGREGATION_RETRY_SECONDS", "0")
    sqs_at(endpoint).send_message(QueueUrl=url, MessageBody=PLAIN)
    queue, event = ReadSqsQueue(url), sqs_event(PLAIN)
    (event["Records"][0]["receiptHandle"],) = [received.receipt for received in queue.receive(1)]
    return queue, event


def test_a_failed_message_comes_back_after_the_pause_and_not_after_the_queues_long_one(
    moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, event = received_from(moto_endpoint, monkeypatch)
    with FaultServer(faults.status(503)) as server:
        monkeypatch.setenv("AGGREGATION_API_BASE_URL", server.url)
        assert handler(event, LambdaContext())["batchItemFailures"] == [{"itemIdentifier": "message-0"}]
    (again,) = queue.receive(1)
    assert (again.body, again.receive_count) == (PLAIN, 2)


def test_a_message_that_succeeded_stays_hidden(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, event = received_from(moto_endpoint, monkeypatch)
    with FaultServer(answering()) as server:
        monkeypatch.setenv("AGGREGATION_API_BASE_URL", server.url)
        assert handler(event, LambdaContext())["batchItemFailures"] == []
    assert queue.receive(1) == []


def test_a_failed_message_that_cannot_be_brought_back_early_is_reported_all_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QUEUE_URL", "https://sqs.us-east-1.amazonaws.com/123456789012/no-such-queue")
    with FaultServer(faults.status(503)) as server:
        assert run(server, monkeypatch) == [{"itemIdentifier": "message-0"}]
    warning = log_lines(capsys)[-1]
    assert (warning["level"], warning["messageId"]) == ("WARN", "message-0")
    assert warning["detail"].startswith("ChangeMessageVisibility: ")


@pytest.mark.parametrize("event", [None, {}, {"Records": None}, {"Records": [{"body": KEY}]}, []])
def test_an_event_that_is_none_of_sqs_is_refused(event: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidInput, match="Records"):
        handler(event, LambdaContext())
    text = capsys.readouterr().err
    assert json.loads(text)["code"] == "AGGREGATION-999"
    assert "canary" not in text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COMPANY_TABLE_NAME", None),
        ("COMPANY_TABLE_NAME", "a table"),
        ("POINTS_TABLE_NAME", None),
        ("AGGREGATION_API_BASE_URL", None),
        ("AGGREGATION_API_BASE_URL", "users.example.com"),
        ("AGGREGATION_TZ", "Asia/Tokio"),
        ("KIZAMI_API_KEY", "canary-instead-of-its-place"),
        ("QUEUE_URL", "aggregation"),
        ("KIZAMI_AGGREGATION_RETRY_SECONDS", "soon"),
    ],
)
def test_a_wrong_setting_is_named_before_anything_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str | None
) -> None:
    monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    with pytest.raises(ConfigurationError, match=f"^{name}: "):
        handler(sqs_event(PLAIN), LambdaContext())
    text = capsys.readouterr().err
    assert json.loads(text)["code"] == "AGGREGATION-999"
    assert "canary" not in text


def test_the_day_is_that_of_the_zone(
    state: Tables, now: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the time, in some of these zones it is not yet noon, and twelve hours ago was yesterday."""
    with FaultServer(answering(user("u1", now - 12 * 3600))) as server:
        seen = []
        for zone in ("Etc/GMT+12", "UTC", "Etc/GMT-12"):
            monkeypatch.setenv("AGGREGATION_TZ", zone)
            run(server, monkeypatch)
            seen.append("010" in codes(capsys))
    assert set(seen) == {True, False}


# Keys by reference


def keep_secret(endpoint: str, text: str) -> str:
    client = boto3.client(
        "secretsmanager", endpoint_url=endpoint, region_name=REGION,
        aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY,
    )  # fmt: skip
    name = f"kizami/aggregation/{time.time_ns()}"
    client.create_secret(Name=name, SecretString=text)
    client.close()
    return name


def by_reference(name: str) -> str:
    return json.dumps({"CompanyId": "acme", "ApiKeyRef": f"secretsmanager:{name}"})


@pytest.mark.parametrize("text", [KEY, f"{KEY}\n", json.dumps({"ApiKey": KEY})])
def test_a_reference_is_looked_up_in_secrets_manager(
    moto_endpoint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    with FaultServer(answering()) as server:
        assert run(server, monkeypatch, by_reference(keep_secret(moto_endpoint, text))) == []
    query = server.requests[0].query
    assert query["signature"][0] == sign(ApiKey(KEY), int(query["timestamp"][0]), "acme")
    assert_silent(capsys.readouterr().err, server)


@pytest.mark.parametrize("text", ["", json.dumps({"Other": KEY}), json.dumps({"ApiKey": [KEY]}), f"{KEY}\x00"])
def test_a_secret_that_holds_no_key_is_007_and_is_not_shown(
    state: Tables,
    moto_endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
) -> None:
    with FaultServer(answering()) as server:
        name = keep_secret(moto_endpoint, text) if text else "kizami/none"
        assert run(server, monkeypatch, by_reference(name)) == [{"itemIdentifier": "message-0"}]
    written = capsys.readouterr().err
    assert "canary" not in written
    assert f"ConfigurationError: secretsmanager:{name}: " in json.loads(written.splitlines()[2])["message"]
    assert server.requests == []
    assert state.company_item() == COMPANY


def test_an_api_behind_a_gateway_gets_the_gateways_key_too_and_no_log_shows_it(
    now: int, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = keep_secret(moto_endpoint, "canary-of-the-gateway")
    monkeypatch.setenv("KIZAMI_API_KEY", f"secretsmanager:{name}")
    with FaultServer(answering(user("u1", now))) as server:
        assert run(server, monkeypatch) == []
    assert server.requests[0].headers["x-api-key"] == "canary-of-the-gateway"
    assert "canary" not in capsys.readouterr().err


def test_a_secrets_manager_that_does_not_answer_is_007(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", faults.refused_url())
    with FaultServer(answering()) as server:
        assert run(server, monkeypatch, by_reference("acme/key")) == [{"itemIdentifier": "message-0"}]
    assert (
        "secretsmanager:acme/key: cannot be read: GetSecretValue: Unreachable" in log_lines(capsys)[2]["message"]
    )


def test_an_unexpected_fault_is_999_with_a_stack_trace_that_shows_no_secret(
    state: Tables, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(http: Any, request: Any, seconds: float) -> Any:
        raise RuntimeError(f"bug while asking {request.url} with {KEY}")

    monkeypatch.setattr("kizami.aws.aggregation.fetch", fail)
    with FaultServer(answering()) as server:
        assert run(server, monkeypatch) == [{"itemIdentifier": "message-0"}]
    text = capsys.readouterr().err
    last = json.loads(text.splitlines()[-1])
    assert last["message"] == "AGGREGATION-999 Unknown error."
    assert "RuntimeError: bug while asking" in last["stackTrace"]
    assert "canary" not in text
    assert "signature=***" in last["stackTrace"]
    assert state.company_item() == COMPANY
