"""The Sender function, from the scheduled event to what SQS is asked (Requirements 1.2, 7.3, 7.4)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pytest

import fakes.fault_server as faults
from aws_here.lambda_events import LambdaContext, log_lines, scheduled_event
from aws_here.local_aws import create_queue, lead_to
from aws_here.read_queue import ReadSqsQueue
from fakes.fault_server import Behaviour, Exchange, FaultServer, SeenRequest
from kizami.aws.client.http_client import HttpAnswer, HttpClient, HttpRequest
from kizami.aws.sender import handler
from kizami.core.errors import ConfigurationError, InvalidInput, QueueError

QUEUE_URL = "https://sqs.us-east-1.amazonaws.com/123456789012/schedule"
DELAYS = [0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUE_URL", QUEUE_URL)
    monkeypatch.delenv("WINDOW_LAG_SECONDS", raising=False)


def entries_of(request: SeenRequest) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(request.body)["Entries"]
    return entries


def delays_of(requests: Iterable[SeenRequest]) -> list[int]:
    return [entry["DelaySeconds"] for request in requests for entry in entries_of(request)]


def take_except(*refused_delays: int) -> Behaviour:
    """SQS that takes every entry but those with the delays given."""

    def behave(exchange: Exchange) -> None:
        entries = entries_of(exchange.request)
        taken = [{"Id": e["Id"], "MessageId": "m"} for e in entries if e["DelaySeconds"] not in refused_delays]
        failed = [
            {"Id": e["Id"], "Code": "InternalError", "Message": "try later", "SenderFault": False}
            for e in entries
            if e["DelaySeconds"] in refused_delays
        ]
        faults.raw(json.dumps({"Successful": taken, "Failed": failed}).encode())(exchange)

    return behave


take_all = take_except()


def slow(seconds: float, behave: Behaviour) -> Behaviour:
    def wait(exchange: Exchange) -> None:
        exchange.stopping.wait(seconds)
        behave(exchange)

    return wait


def refuse(code: str, status: int = 400) -> Behaviour:
    return faults.raw(json.dumps({"__type": f"com.amazonaws.sqs#{code}", "message": "no"}).encode(), status)


def send(server: FaultServer, monkeypatch: pytest.MonkeyPatch, event: Any = None) -> dict[str, int]:
    lead_to(server.url, monkeypatch)
    return handler(scheduled_event() if event is None else event, LambdaContext(10))


def test_requirement_1_2_twelve_messages_with_their_windows_and_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer(take_all) as server:
        assert send(server, monkeypatch) == {"sent": 12, "failed": 0}
        entries = [entry for request in server.requests for entry in entries_of(request)]
    assert [entry["DelaySeconds"] for entry in entries] == DELAYS
    windows = [json.loads(entry["MessageBody"]) for entry in entries]
    assert windows[0] == {"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z"}
    assert windows[-1] == {"from": "2025-12-02T10:23:55Z", "to": "2025-12-02T10:24:00Z"}
    assert [window["to"] for window in windows[:-1]] == [window["from"] for window in windows[1:]]


def test_the_messages_go_in_the_fewest_calls_to_the_queue_of_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer(take_all) as server:
        send(server, monkeypatch)
        assert [len(entries_of(request)) for request in server.requests] == [10, 2]
        assert {json.loads(request.body)["QueueUrl"] for request in server.requests} == {QUEUE_URL}
        assert server.connections == 1


def test_the_messages_are_on_a_real_queue(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lead_to(moto_endpoint, monkeypatch)
    url = create_queue(moto_endpoint)
    monkeypatch.setenv("QUEUE_URL", url)
    assert handler(scheduled_event(), LambdaContext(10)) == {"sent": 12, "failed": 0}
    (received,) = ReadSqsQueue(url).receive(10)
    assert json.loads(received.body)["from"] == "2025-12-02T10:23:00Z"


@pytest.mark.parametrize("time", ["2025-12-02T10:23:00Z", "2025-12-02T10:23:07Z", "2025-12-02T10:23:59Z"])
def test_a_trigger_within_the_minute_sends_that_minutes_messages(
    time: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultServer(take_all) as server:
        send(server, monkeypatch, scheduled_event(time))
        first = json.loads(entries_of(server.requests[0])[0]["MessageBody"])
    assert first == {"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z"}


def test_settings_default_lag_is_zero_and_a_lag_moves_the_windows_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDOW_LAG_SECONDS", "5")
    with FaultServer(take_all) as server:
        send(server, monkeypatch)
        assert delays_of(server.requests) == DELAYS
        first = json.loads(entries_of(server.requests[0])[0]["MessageBody"])
    assert first == {"from": "2025-12-02T10:22:55Z", "to": "2025-12-02T10:23:00Z"}


@pytest.mark.parametrize(
    "event",
    [
        {},
        [],
        "text",
        scheduled_event(None),
        scheduled_event(1764670980),
        scheduled_event("yesterday"),
        scheduled_event("2025-12-02T10:23:00+09:00"),
        scheduled_event("2025-12-02T23:59:60Z"),
    ],
)
def test_an_event_without_a_valid_time_is_logged_and_raised_and_nothing_is_sent(
    event: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultServer(take_all) as server:
        with pytest.raises(InvalidInput, match="time: "):
            send(server, monkeypatch, event)
        assert server.requests == []
    (line,) = log_lines(capsys)
    assert (line["level"], line["error"]) == ("ERROR", "InvalidInput")
    assert line["detail"].startswith("time: ")


def test_sender_error_a_failed_entry_is_sent_once_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultServer(take_except(15, 40), then=take_all) as server:
        assert send(server, monkeypatch) == {"sent": 12, "failed": 0}
        assert delays_of(server.requests[2:]) == [15, 40]
    retried, sent = log_lines(capsys)
    assert (retried["event"], retried["failed"]) == ("send.retried", 2)
    assert (sent["event"], sent["sent"], sent["failed"]) == ("messages.sent", 12, 0)


def test_requirement_7_3_a_failed_send_is_logged_and_the_rest_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultServer(take_except(0, 50)) as server:
        assert send(server, monkeypatch) == {"sent": 10, "failed": 2}
    failed = [line for line in log_lines(capsys) if line["event"] == "message.failed"]
    assert [(line["level"], line["delaySeconds"], line["from"], line["to"]) for line in failed] == [
        ("ERROR", 0, "2025-12-02T10:23:00Z", "2025-12-02T10:23:05Z"),
        ("ERROR", 50, "2025-12-02T10:23:50Z", "2025-12-02T10:23:55Z"),
    ]
    assert failed[0]["detail"] == "InternalError: try later"


def test_sender_error_a_call_that_fails_is_logged_and_the_other_call_is_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten messages are refused as a whole, twice; the two of the second call are sent all the same."""
    with FaultServer(refuse("AccessDenied", 403), take_all, refuse("AccessDenied", 403), then=take_all) as server:
        assert send(server, monkeypatch) == {"sent": 2, "failed": 10}
        assert len(server.requests) == 3
    failed = [line for line in log_lines(capsys) if line["event"] == "message.failed"]
    assert [line["delaySeconds"] for line in failed] == DELAYS[:10]
    assert failed[0]["detail"] == "SendMessageBatch: AccessDenied: no"


def test_sender_error_an_entry_that_the_answer_forgets_counts_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer(faults.raw(b'{"Successful": [{"Id": "0"}]}'), then=take_all) as server:
        assert send(server, monkeypatch) == {"sent": 12, "failed": 0}
        assert delays_of(server.requests[2:]) == DELAYS[1:10]


@pytest.mark.parametrize("behaviour", [refuse("AccessDenied", 403), refuse("ServiceUnavailable", 503)])
def test_sender_error_when_nothing_can_be_sent_every_message_is_logged_and_the_invocation_fails(
    behaviour: Behaviour, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Raised so that it counts as an error of the function and EventBridge delivers the event again."""
    with FaultServer(behaviour) as server, pytest.raises(QueueError, match="none of 12 messages was sent"):
        send(server, monkeypatch)
    failed = [line["delaySeconds"] for line in log_lines(capsys) if line["event"] == "message.failed"]
    assert failed == DELAYS


def test_sender_error_an_unreachable_queue_ends_within_the_functions_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here within one: what is left is shared out, so that two calls and their repetition fit into any time.

    The time that passes is what the calls are given, each of which takes all of it.
    """
    given = note_seconds_given(monkeypatch)
    context = LambdaContext()
    monkeypatch.setattr(context, "get_remaining_time_in_millis", lambda: int(1000 * (1 - sum(given))))
    with FaultServer(faults.hang_before_headers) as server:
        lead_to(server.url, monkeypatch)
        with pytest.raises(QueueError, match="no complete answer"):
            handler(scheduled_event(), context)
    assert context.get_remaining_time_in_millis() > 0
    assert len(given) == 4
    assert len(log_lines(capsys)) == 1 + 12 + 1


def test_sender_error_a_slow_queue_gets_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    given = note_seconds_given(monkeypatch)
    with FaultServer(slow(0.3, take_all), then=take_all) as server:
        assert send(server, monkeypatch) == {"sent": 12, "failed": 0}
        assert len(server.requests) == 2  # it took its time, and nothing was sent twice
    assert min(given) > 2


def note_seconds_given(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each request may take, in the order in which they are made."""
    given: list[float] = []
    exchange = HttpClient.exchange

    def note(client: HttpClient, request: HttpRequest) -> HttpAnswer:
        given.append(request.timeout_seconds)
        return exchange(client, request)

    monkeypatch.setattr(HttpClient, "exchange", note)
    return given


def test_sender_error_a_call_never_outlasts_the_invocation(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer(faults.hang_before_headers) as server:
        lead_to(server.url, monkeypatch)
        with pytest.raises(QueueError, match=r"within 0\.08 s"):
            handler(scheduled_event(), LambdaContext(0.2))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "schedule",
        "arn:aws:sqs:us-east-1:123456789012:schedule",
        "ftp://sqs.us-east-1.amazonaws.com/1/q",
        "https://sqs.us-east-1.amazonaws.com",
        "https://sqs.us-east-1.amazonaws.com/",
        "https://user:canary@sqs.us-east-1.amazonaws.com/1/q",
        "https://sqs us-east-1/1/q",
    ],
)
def test_sender_error_an_invalid_queue_url_is_logged_and_raised_at_once(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QUEUE_URL", url)
    with FaultServer(take_all) as server:
        with pytest.raises(ConfigurationError, match="QUEUE_URL: ") as raised:
            send(server, monkeypatch)
        assert server.requests == []
    (line,) = log_lines(capsys)
    assert (line["level"], line["error"]) == ("ERROR", "ConfigurationError")
    assert "canary" not in str(raised.value) + json.dumps(line)


def test_settings_missing_queue_url_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUEUE_URL")
    with pytest.raises(ConfigurationError, match="QUEUE_URL: is not set"):
        handler(scheduled_event(), LambdaContext())


@pytest.mark.parametrize("lag", ["-5", "3", "five", "2678405", "1e3", "５"])
def test_settings_invalid_lag_is_named(lag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDOW_LAG_SECONDS", lag)
    with pytest.raises(ConfigurationError, match="WINDOW_LAG_SECONDS: "):
        handler(scheduled_event(), LambdaContext())


def test_sender_error_a_queue_that_does_not_exist_is_raised_at_once_without_a_second_try(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultServer(refuse("QueueDoesNotExist")) as server:
        with pytest.raises(ConfigurationError, match=r"QUEUE_URL: .*QueueDoesNotExist"):
            send(server, monkeypatch)
        assert len(server.requests) <= 2
    assert log_lines(capsys)[-1]["error"] == "ConfigurationError"


def test_requirement_7_4_the_sender_logs_its_operations_with_timestamps_and_parameters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultServer(take_all) as server:
        send(server, monkeypatch, scheduled_event("2025-12-02T10:23:07Z"))
        (told,) = log_lines(capsys)  # one line an invocation, unless more is asked for
        monkeypatch.setenv("AWS_LAMBDA_LOG_LEVEL", "DEBUG")
        handler(scheduled_event("2025-12-02T10:23:07Z"), LambdaContext())
    assert (told["event"], told["time"], told["sent"]) == ("messages.sent", "2025-12-02T10:23:07Z", 12)
    *sent, summary = log_lines(capsys)
    assert summary["event"] == "messages.sent"
    assert [line["delaySeconds"] for line in sent] == DELAYS
    assert {line["event"] for line in sent} == {"message.sent"}
    assert sent[1]["from"] == "2025-12-02T10:23:05Z"
    assert sent[1]["metric"] == "ai_response_count"
    for line in (told, *sent):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["timestamp"])
        datetime.fromisoformat(line["timestamp"])


def test_no_credential_shows_in_a_log_or_an_exception(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def echo_everything(exchange: Exchange) -> None:
        told = json.dumps({"__type": "InvalidSignatureException", "message": str(exchange.request)})
        faults.raw(told.encode(), 403)(exchange)

    with FaultServer(echo_everything) as server:
        lead_to(server.url, monkeypatch)
        for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            monkeypatch.setenv(name, f"canary-{name}")
        with pytest.raises(QueueError) as raised:
            handler(scheduled_event(), LambdaContext())
    assert "canary" not in capsys.readouterr().err + str(raised.value)
