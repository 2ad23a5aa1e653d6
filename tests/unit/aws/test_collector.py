"""The Collector function, from the SQS event to the row in the table (Requirements 1 to 3 and 7)."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import fakes.fault_server as faults
from aws_here.lambda_events import LambdaContext, log_lines, sqs_event
from aws_here.local_aws import create_metrics_table, dynamodb_at, lead_to
from fakes.fault_server import Behaviour, FaultServer
from fakes.ports import ManualClock, MemoryQueue
from kizami.aws.collector import handler
from kizami.aws.sender import send_plan
from kizami.core.errors import (
    ApiError,
    ApiPayloadError,
    ApiStatusError,
    ApiUnreachable,
    ConfigurationError,
    InvalidInput,
    KizamiError,
    StoreError,
)
from kizami.core.messages import MAX_COUNT, ScheduleMessage
from kizami.core.sender import plan_minute
from kizami.core.slots import Window, floor_to_slot
from kizami.core.targets.target import Target

SLOT = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
MESSAGE = ScheduleMessage(Window.of_slot(SLOT, 5))
MINUTE = [entry.message for entry in plan_minute(SLOT, Target())]
KEY = {"metricName": {"S": "ai_response_count"}, "slotTime": {"S": "2025-12-02T10:23:00Z"}}

Rows = list[dict[str, Any]]


@pytest.fixture
def table(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The function's environment leads to an empty table; each test says where the API is."""
    name = create_metrics_table(moto_endpoint)
    lead_to(moto_endpoint, monkeypatch)
    monkeypatch.setenv("AI_METRICS_TABLE_NAME", name)
    monkeypatch.setenv("AI_API_BASE_URL", faults.refused_url())
    monkeypatch.delenv("KIZAMI_API_TIMEOUT_SECONDS", raising=False)
    return name


def collect(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch, *messages: ScheduleMessage | str, seconds: float = 30
) -> dict[str, list[dict[str, str]]]:
    monkeypatch.setenv("AI_API_BASE_URL", server.url)
    return handler(sqs_event(*(messages or [MESSAGE])), LambdaContext(seconds))


def rows(table: str, endpoint: str) -> Rows:
    items: Rows = dynamodb_at(endpoint).scan(TableName=table)["Items"]
    return sorted(items, key=lambda item: str(item["slotTime"]["S"]))


def errors(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [line for line in log_lines(capsys) if line["level"] == "ERROR"]


def test_requirement_1_4_a_message_that_becomes_available_is_processed(
    table: str, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultServer(faults.answer(7)) as server:
        assert collect(server, monkeypatch) == {"batchItemFailures": []}
    (row,) = rows(table, moto_endpoint)
    assert row["count"] == {"N": "7"}


def test_a_window_that_has_not_begun_is_not_asked_for_and_stays_on_the_queue(
    table: str, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon = floor_to_slot(datetime.now(UTC), 5) + timedelta(minutes=1)
    with FaultServer(faults.answer(7)) as server:
        with pytest.raises(InvalidInput, match="cannot be asked for before"):
            collect(server, monkeypatch, ScheduleMessage(Window.of_slot(soon, 5)))
        assert server.requests == []
    assert rows(table, moto_endpoint) == []


def test_a_message_that_comes_a_moment_too_soon_is_waited_for(
    table: str, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("kizami.aws.client.machine.sleep", slept.append)
    monkeypatch.setattr("kizami.core.collector.seconds_until_due", lambda *_: 0.75)
    with FaultServer(faults.answer(7)) as server:
        assert collect(server, monkeypatch) == {"batchItemFailures": []}
    assert slept == [0.75]


def test_requirement_1_5_a_minute_makes_twelve_invocations_at_its_ticks(
    table: str, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A simulated minute: the Sender's messages come due on the queue, and each one starts the Collector."""
    clock = ManualClock(SLOT)
    queue = MemoryQueue(clock)
    assert send_plan(plan_minute(clock.now(), Target()), queue) == {"sent": 12, "failed": 0}
    invoked_at = []
    with FaultServer(faults.answer(3)) as server:
        for second in range(60):
            for received in queue.receive(10):
                assert collect(server, monkeypatch, received.body) == {"batchItemFailures": []}
                queue.acknowledge(received)
                invoked_at.append(second)
            clock.advance(1)
    assert invoked_at == [0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55]
    expected = [f"2025-12-02T10:23:{second:02d}Z" for second in invoked_at]
    assert [row["slotTime"]["S"] for row in rows(table, moto_endpoint)] == expected


@pytest.mark.usefixtures("table")
def test_requirement_2_1_the_window_is_the_messages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    body = '{"from": "2025-12-02T10:23:45Z", "to": "2025-12-02T10:23:50Z"}'
    with FaultServer(faults.answer()) as server:
        collect(server, monkeypatch, body)
        assert server.requests[0].query == {"from": ["2025-12-02T10:23:45Z"], "to": ["2025-12-02T10:23:50Z"]}
    assert log_lines(capsys)[0]["from"] == "2025-12-02T10:23:45Z"


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("base", "target"),
    [
        ("", "/response_count?from={from}&to={to}"),
        ("/", "/response_count?from={from}&to={to}"),
        ("/prod", "/prod/response_count?from={from}&to={to}"),
        ("/prod/?tenant=a", "/prod/response_count?tenant=a&from={from}&to={to}"),
    ],
)
def test_requirement_2_2_the_api_is_called_at_its_base_url_with_iso8601_parameters(
    base: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultServer(faults.answer()) as server:
        monkeypatch.setenv("AI_API_BASE_URL", server.url + base)
        handler(sqs_event(MESSAGE), LambdaContext())
        (request,) = server.requests
    written = {"{from}": "2025-12-02T10%3A23%3A00Z", "{to}": "2025-12-02T10%3A23%3A05Z"}
    for name, value in written.items():
        target = target.replace(name, value)
    assert (request.method, request.target) == ("GET", target)
    assert request.headers["accept"] == "application/json"
    assert request.headers["user-agent"].startswith("kizami/")


def test_requirement_2_3_the_answer_is_read_from_its_three_fields(
    table: str, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = b' {"count": 12, "to": "2025-12-02T10:23:05Z", "extra": [1], "from": "2025-12-02T10:23:00Z"}\n'
    with FaultServer(faults.raw(body)) as server:
        collect(server, monkeypatch)
    assert rows(table, moto_endpoint)[0]["count"] == {"N": "12"}


def test_requirement_3_1_the_row_has_the_metric_as_its_partition_key(
    table: str, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultServer(faults.answer()) as server:
        collect(server, monkeypatch)
    assert rows(table, moto_endpoint)[0]["metricName"] == {"S": "ai_response_count"}


def test_requirement_3_2_the_row_has_the_slot_time_as_its_sort_key(
    table: str, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultServer(faults.answer()) as server:
        collect(server, monkeypatch, *MINUTE)
    slots = [row["slotTime"]["S"] for row in rows(table, moto_endpoint)]
    assert slots == [f"2025-12-02T10:23:{second:02d}Z" for second in range(0, 60, 5)]


@pytest.mark.parametrize("count", [0, 65, MAX_COUNT])
def test_requirement_3_3_the_count_is_stored_as_a_number(
    count: int, table: str, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultServer(faults.answer(count)) as server:
        collect(server, monkeypatch)
    assert rows(table, moto_endpoint)[0]["count"] == {"N": str(count)}


def test_requirement_3_4_a_slot_that_has_its_record_keeps_it(
    table: str, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultServer(faults.answer(7), then=faults.answer(99)) as server:
        collect(server, monkeypatch)
        first = rows(table, moto_endpoint)
        assert collect(server, monkeypatch) == {"batchItemFailures": []}
    assert rows(table, moto_endpoint) == first
    assert first[0]["count"] == {"N": "7"}
    assert errors(capsys) == []


@pytest.mark.usefixtures("table")
def test_collector_error_a_failed_condition_is_logged_as_information(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultServer(faults.answer()) as server:
        collect(server, monkeypatch)
        capsys.readouterr()
        assert collect(server, monkeypatch) == {"batchItemFailures": []}
    last = log_lines(capsys)[-1]
    assert last["level"] == "INFO"
    assert last["event"] == "slot.duplicate"
    assert last["slotTime"] == "2025-12-02T10:23:00Z"


UNREACHABLE = [
    faults.hang_before_headers,
    faults.hang_in_body,
    faults.drip_headers,
    faults.drip_body,
    faults.close_without_a_word,
    faults.close_in_body,
    faults.not_http,
]


def expect_failure(
    kind: type[KizamiError],
    server: FaultServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> KizamiError:
    """The one record fails: its details are logged, then the same error is raised (Requirements 7.1, 7.2)."""
    with pytest.raises(kind) as raised:
        collect(server, monkeypatch)
    (line,) = errors(capsys)
    assert (line["error"], line["detail"]) == (kind.__name__, str(raised.value))
    assert (line["messageId"], line["receiveCount"]) == ("message-0", "1")
    assert (line["from"], line["to"]) == ("2025-12-02T10:23:00Z", "2025-12-02T10:23:05Z")
    return raised.value


@pytest.mark.parametrize("behaviour", UNREACHABLE)
def test_collector_error_network_and_timeout_are_logged_and_raised(
    behaviour: Behaviour,
    table: str,
    moto_endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KIZAMI_API_TIMEOUT_SECONDS", "0.5")
    with FaultServer(behaviour) as server:
        started = time.monotonic()
        error = expect_failure(ApiUnreachable, server, monkeypatch, capsys)
        assert time.monotonic() - started < 60
    place = server.url.removeprefix("http://")
    assert place in str(error) or str(error) == "no complete answer within 0.5 s"
    assert rows(table, moto_endpoint) == []


@pytest.mark.usefixtures("table")
def test_requirement_7_1_a_refused_call_is_logged_with_its_details_and_raised(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(ApiUnreachable, match=r"^connection refused by "):
        handler(sqs_event(MESSAGE), LambdaContext())
    (line,) = errors(capsys)
    assert line["error"] == "ApiUnreachable"
    assert line["detail"].startswith("connection refused by 127.0.0.1:")


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("code", [201, 204, 301, 302, 400, 404, 429, 500, 503])
def test_collector_error_non_200_is_logged_and_raised(
    code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Even with the body of a right answer."""
    with (
        FaultServer(faults.answer()) as elsewhere,
        FaultServer(faults.status(code, Location=elsewhere.url)) as server,
    ):
        error = expect_failure(ApiStatusError, server, monkeypatch, capsys)
        assert isinstance(error, ApiStatusError)
        assert error.status == code
        assert elsewhere.requests == [], "a redirect is not followed"


@pytest.mark.usefixtures("table")
def test_a_busy_api_that_names_a_time_is_understood(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultServer(faults.status(429, Retry_After="7")) as server:
        error = expect_failure(ApiStatusError, server, monkeypatch, capsys)
        assert isinstance(error, ApiStatusError)
        assert error.retry_after_seconds == 7


@pytest.mark.usefixtures("table")
def test_a_huge_body_does_not_hide_the_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultServer(faults.raw(b" " * 1_000_000, 500)) as server:
        expect_failure(ApiStatusError, server, monkeypatch, capsys)


@pytest.mark.parametrize(
    "behaviour",
    [
        faults.html,
        faults.another_window,
        faults.huge_body,
        faults.endless_chunks,
        faults.gzip_bomb,
        faults.close_in_headers,
        faults.raw(b""),
        faults.raw(b"null"),
        faults.raw(b"[]"),
        faults.raw(b'{"count": 7}'),
        faults.raw(b'{"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z", "count": 1, "count": 2}'),
        faults.raw(b'{"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z", "count": "\xff"}'),
        faults.raw(b'{"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z", "count": NaN}'),
        faults.raw(b'{"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z", "count": 1e400}'),
        faults.raw(b"[" * 60_000),
        *map(faults.answer, (-1, 1.5, "7", True, None, [], {}, MAX_COUNT + 1, 10**4000)),
    ],
)
def test_collector_error_an_invalid_answer_is_logged_and_raised(
    behaviour: Behaviour,
    table: str,
    moto_endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with FaultServer(behaviour) as server:
        error = expect_failure(ApiPayloadError, server, monkeypatch, capsys)
    assert len(str(error)) < 300
    assert rows(table, moto_endpoint) == []


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("behaviour", "problem"),
    [
        (faults.huge_body, "larger than 1048576 bytes"),
        (faults.gzip_bomb, "larger than 1048576 bytes"),
        (faults.encoded_and_late, "encoded as 'br', which was not asked for"),
    ],
)
def test_collector_error_a_refused_body_says_why(
    behaviour: Behaviour, problem: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultServer(behaviour) as server:
        assert str(expect_failure(ApiPayloadError, server, monkeypatch, capsys)) == f"the body is {problem}"


def refuse_writes(code: str, status: int = 400) -> Behaviour:
    kind = f"com.amazonaws.dynamodb.v20120810#{code}"
    return faults.raw(json.dumps({"__type": kind, "message": "not today"}).encode(), status)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("code", ["AccessDeniedException", "ThrottlingException", "ValidationException"])
def test_requirement_7_2_a_failed_write_is_logged_with_its_details_and_raised(
    code: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultServer(faults.answer()) as server, FaultServer(refuse_writes(code)) as dynamodb:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb.url)
        error = expect_failure(StoreError, server, monkeypatch, capsys)
    assert str(error) == f"PutItem: {code}: not today"


@pytest.mark.usefixtures("table")
def test_collector_error_a_missing_table_is_logged_and_raised(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AI_METRICS_TABLE_NAME", "NoSuchTable")
    with FaultServer(faults.answer()) as server:
        assert "ResourceNotFoundException" in str(expect_failure(StoreError, server, monkeypatch, capsys))


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("", "message"),
        ("not json", "message"),
        ("[]", "message"),
        ('{"from": "2025-12-02T10:23:00Z"}', "to"),
        ('{"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:10Z"}', "to"),
        ('{"from": "2025-12-02T10:23:01Z", "to": "2025-12-02T10:23:06Z"}', "from"),
        ('{"CompanyId": "c", "ApiKey": "canary"}', "message"),
    ],
)
def test_a_message_that_breaks_its_contract_is_logged_and_raised_without_a_call(
    body: str, place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultServer(faults.answer()) as server:
        with pytest.raises(InvalidInput, match=f"{place}: "):
            collect(server, monkeypatch, body)
        assert server.requests == []
    output = capsys.readouterr().err
    assert json.loads(output.splitlines()[-1])["error"] == "InvalidInput"
    assert "canary" not in output


@pytest.mark.usefixtures("table")
def test_a_message_for_a_target_that_is_not_configured_is_logged_and_raised(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        FaultServer(faults.answer()) as server,
        pytest.raises(ConfigurationError, match="'other' is not a target"),
    ):
        collect(server, monkeypatch, ScheduleMessage(MESSAGE.window, "other"))
    assert errors(capsys)[0]["metric"] == "other"


@pytest.mark.usefixtures("table")
def test_a_bundle_of_a_former_configuration_is_dropped_and_no_dead_letter(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AI_API_BASE_URL", faults.refused_url())
    event = sqs_event('{"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z", "metrics": ["a", "b"]}')
    event["Records"][0]["attributes"]["ApproximateReceiveCount"] = "3"
    assert handler(event, LambdaContext()) == {"batchItemFailures": []}
    assert [(line["event"], line["metrics"]) for line in log_lines(capsys)] == [("slots.dropped", ["a", "b"])]


def fail_some(exchange: faults.Exchange) -> None:
    """500 for every second slot."""
    second = int(exchange.request.query["from"][0][17:19])
    (faults.status(500) if second % 10 else faults.answer(second))(exchange)


def test_the_failed_of_a_batch_are_reported_and_the_others_kept(
    table: str, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultServer(fail_some) as server:
        report = collect(server, monkeypatch, *MINUTE)
    failed = [f"message-{number}" for number in range(1, 12, 2)]
    assert report == {"batchItemFailures": [{"itemIdentifier": name} for name in failed]}
    assert [row["count"]["N"] for row in rows(table, moto_endpoint)] == ["0", "10", "20", "30", "40", "50"]
    assert sorted(line["messageId"] for line in errors(capsys)) == sorted(failed)


def test_a_batch_with_a_poison_message_and_a_duplicate_keeps_the_rest(
    table: str, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultServer(faults.answer()) as server:
        report = collect(server, monkeypatch, MESSAGE, "poison", MESSAGE, MINUTE[1])
    assert report == {"batchItemFailures": [{"itemIdentifier": "message-1"}]}
    assert len(rows(table, moto_endpoint)) == 2


def test_the_requests_of_a_batch_run_side_by_side(
    table: str, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every answer waits until all twelve questions have arrived: one after the other none would come."""
    from threading import Barrier

    monkeypatch.setenv("KIZAMI_API_TIMEOUT_SECONDS", "60")
    all_asked = Barrier(12)

    def wait_for_the_others(exchange: faults.Exchange) -> None:
        all_asked.wait(60)
        faults.answer()(exchange)

    with FaultServer(wait_for_the_others) as server:
        assert collect(server, monkeypatch, *MINUTE) == {"batchItemFailures": []}
    assert len(rows(table, moto_endpoint)) == 12


@pytest.mark.usefixtures("table")
def test_a_surprise_in_one_record_is_reported_with_its_stack_and_takes_no_other_down(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from kizami.aws import collector

    def stumble(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    with FaultServer(faults.answer()) as server:
        monkeypatch.setattr(collector, "plan_request", stumble)
        report = collect(server, monkeypatch, MESSAGE, MINUTE[1])
    assert [item["itemIdentifier"] for item in report["batchItemFailures"]] == ["message-0", "message-1"]
    assert all("ZeroDivisionError: a bug" in line["stackTrace"] for line in errors(capsys))


@pytest.mark.usefixtures("table")
def test_an_empty_batch_is_nothing_to_do() -> None:
    assert handler({"Records": []}, LambdaContext()) == {"batchItemFailures": []}


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    "event",
    [
        {},
        [],
        None,
        {"Records": {}},
        {"Records": [1]},
        {"Records": [{"body": "{}"}]},
        {"Records": [{"messageId": "m"}]},
    ],
)
def test_an_event_that_is_not_of_sqs_is_logged_and_raised(event: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidInput, match="Records"):
        handler(event, LambdaContext())
    (line,) = log_lines(capsys)
    assert (line["level"], line["error"]) == ("ERROR", "InvalidInput")


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("attributes", [None, {}, "x", [1], {"ApproximateReceiveCount": None}])
def test_a_record_without_its_attributes_is_collected(attributes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    event = sqs_event(MESSAGE)
    event["Records"][0]["attributes"] = attributes
    with FaultServer(faults.answer()) as server:
        monkeypatch.setenv("AI_API_BASE_URL", server.url)
        assert handler(event, LambdaContext()) == {"batchItemFailures": []}


@pytest.mark.usefixtures("table")
def test_the_call_ends_before_the_invocation_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KIZAMI_API_TIMEOUT_SECONDS", "60")
    with FaultServer(faults.hang_before_headers) as server, pytest.raises(ApiError, match=r"within 0\.2 s"):
        collect(server, monkeypatch, seconds=0.3)
    assert len(errors(capsys)) == 1


@pytest.mark.usefixtures("table")
def test_the_write_ends_before_the_invocation_does(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer(faults.answer()) as server, FaultServer(faults.hang_before_headers) as dynamodb:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb.url)
        monkeypatch.setenv("AI_API_BASE_URL", server.url)
        context = LambdaContext()
        # The API has all the time it needs, and a second is left once it was asked.
        monkeypatch.setattr(context, "get_remaining_time_in_millis", lambda: 1000 if server.requests else 120_000)
        with pytest.raises(StoreError, match=r"within 0\.9 s"):
            handler(sqs_event(MESSAGE), context)


@pytest.mark.usefixtures("table")
def test_connections_are_kept_between_invocations(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer(faults.answer()) as server:
        for message in MINUTE[:3]:
            collect(server, monkeypatch, message)
        assert server.connections == 1


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("name", ["AI_API_BASE_URL", "AI_METRICS_TABLE_NAME"])
def test_settings_missing_ones_are_logged_and_raised_by_name(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(name)
    with pytest.raises(ConfigurationError, match=f"{name}: is not set"):
        handler(sqs_event(MESSAGE), LambdaContext())
    (line,) = log_lines(capsys)
    assert (line["level"], line["error"]) == ("ERROR", "ConfigurationError")


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AI_API_BASE_URL", "api.example.com"),
        ("AI_API_BASE_URL", "https://user:canary@api.example.com"),
        ("AI_API_BASE_URL", "https://api.example.com/?api_key=canary"),
        ("AI_METRICS_TABLE_NAME", "a table"),
        ("AI_METRICS_TABLE_NAME", "x"),
        ("KIZAMI_API_TIMEOUT_SECONDS", "soon"),
        ("KIZAMI_API_TIMEOUT_SECONDS", "0"),
        ("KIZAMI_API_TIMEOUT_SECONDS", "301"),
    ],
)
def test_settings_invalid_ones_are_logged_and_raised_by_name_without_their_secrets(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=f"{name}: ") as raised:
        handler(sqs_event(MESSAGE), LambdaContext())
    assert "canary" not in capsys.readouterr().err + str(raised.value)


def test_requirement_7_4_the_collector_logs_its_operations_with_timestamps_and_parameters(
    table: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_LOG_LEVEL", "DEBUG")
    with FaultServer(faults.answer(7)) as server:
        collect(server, monkeypatch)
    calling, stored = log_lines(capsys)
    assert (calling["event"], calling["url"]) == ("api.called", f"{server.url}/response_count")
    assert (stored["event"], stored["slotTime"], stored["count"]) == ("slot.stored", "2025-12-02T10:23:00Z", 7)
    assert (calling["level"], stored["level"]) == (
        "DEBUG",
        "INFO",
    )  # one line an invocation, unless all are asked for
    for line in (calling, stored):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["timestamp"])
        assert (line["from"], line["to"]) == ("2025-12-02T10:23:00Z", "2025-12-02T10:23:05Z")
        assert (line["metric"], line["messageId"]) == ("ai_response_count", "message-0")
    asked, answered = (_milliseconds_after_slot(line) for line in (calling, stored))
    assert asked - 1 <= stored["latenessMilliseconds"] <= answered + 1


def _milliseconds_after_slot(line: dict[str, Any]) -> float:
    return (datetime.fromisoformat(line["timestamp"]) - SLOT).total_seconds() * 1000


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("behaviour", [faults.answer(), faults.odd_headers, faults.status(500), *UNREACHABLE[:1]])
def test_no_query_of_the_base_url_and_no_credential_shows_in_logs_or_exceptions(
    behaviour: Behaviour, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "canary-token")
    monkeypatch.setenv("KIZAMI_API_TIMEOUT_SECONDS", "0.5" if behaviour in UNREACHABLE else "10")
    with FaultServer(behaviour) as server:
        monkeypatch.setenv("AI_API_BASE_URL", f"{server.url}/?tenant=canary-tenant")
        try:
            handler(sqs_event(MESSAGE), LambdaContext())
            shown = ""
        except ApiError as error:
            shown = repr(error)
        assert "tenant=canary-tenant" in server.requests[0].target
    assert "canary" not in capsys.readouterr().err + shown


def test_several_values_of_one_answer_are_one_request_and_one_transaction(
    table: str, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with FaultServer(faults.raw(b'{"a": 3, "b": 0.25}'), then=faults.raw(b'{"a": 9, "b": 9}')) as server:
        values = 'values = { requests = "/a", cost = "/b" }\ndecimals = 2\nlag = 0'
        (tmp_path / "kizami.toml").write_text(f'[[targets]]\nname = "usage"\nurl = "{server.url}"\n{values}\n')
        monkeypatch.setenv("KIZAMI_CONFIG", "kizami.toml")
        monkeypatch.setenv("LAMBDA_TASK_ROOT", str(tmp_path))
        for _ in range(2):
            message = ScheduleMessage(MESSAGE.window, "usage")
            assert collect(server, monkeypatch, message) == {"batchItemFailures": []}
        assert len(server.requests) == 2
    found = {row["metricName"]["S"]: row["count"]["N"] for row in rows(table, moto_endpoint)}
    assert found == {"usage/requests": "3", "usage/cost": "0.25"}
