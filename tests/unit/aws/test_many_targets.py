"""Many targets on AWS: one kizami.toml in the package serves the Sender and the Collector alike."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest

import fakes.fault_server as faults
from aws_here.lambda_events import LambdaContext, log_lines, scheduled_event, sqs_event
from aws_here.local_aws import create_metrics_table, dynamodb_at, lead_to
from fakes.fault_server import Exchange, FaultServer
from kizami.aws import collector, sender
from kizami.core.errors import ApiStatusError, ApiUnreachable, ConfigurationError
from kizami.core.messages import BundleMessage, ScheduleMessage, write_bundle
from kizami.core.slots import Window, floor_to_slot, format_instant, shift

TARGETS = 1000


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The function's package holds a kizami.toml; each test writes what it says."""
    monkeypatch.setenv("LAMBDA_TASK_ROOT", str(tmp_path))
    monkeypatch.setenv("KIZAMI_CONFIG", "kizami.toml")
    return tmp_path / "kizami.toml"


def target(name: str, url: str = "https://api.example.com", more: str = "") -> str:
    return f'[[targets]]\nname = "{name}"\nurl = "{url}"\n{more}\n'


def take_all(exchange: Exchange) -> None:
    entries = json.loads(exchange.request.body)["Entries"]
    body = json.dumps({"Successful": [{"Id": entry["Id"], "MessageId": "x"} for entry in entries]}).encode()
    exchange.write(faults.head(len(body)) + body)


def test_the_sender_sends_the_minute_of_every_enabled_target_in_full_batches(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    off = target("off", more="enabled = false")
    config.write_text("".join(target(f"m{number}") for number in range(TARGETS)) + off)
    with FaultServer(take_all) as server:
        lead_to(server.url, monkeypatch)
        monkeypatch.setenv("QUEUE_URL", f"{server.url}/000000000000/queue")
        outcome = sender.handler(scheduled_event(), LambdaContext())
        batches = [json.loads(request.body)["Entries"] for request in server.requests]
    assert outcome == {"sent": TARGETS * 12, "failed": 0}
    assert {len(batch) for batch in batches} == {10}
    sent = {(json.loads(e["MessageBody"])["metric"], e["DelaySeconds"]) for batch in batches for e in batch}
    assert sent == {(f"m{number}", delay) for number in range(TARGETS) for delay in range(0, 60, 5)}
    assert [line["event"] for line in log_lines(capsys)] == ["messages.sent"]


def test_the_collector_asks_a_target_of_any_shape_and_shows_no_secret(
    config: Path, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lead_to(moto_endpoint, monkeypatch)
    table = create_metrics_table(moto_endpoint)
    monkeypatch.setenv("AI_METRICS_TABLE_NAME", table)
    ssm = boto3.client("ssm", endpoint_url=moto_endpoint, region_name="us-east-1")
    ssm.put_parameter(Name="/kizami/query-key", Value="canary&5", Type="SecureString", Overwrite=True)
    body = json.dumps({"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z", "metric": "usage"})
    with FaultServer(faults.raw(b'{"count": 8}'), then=faults.close_without_a_word) as server:
        config.write_text(
            target("usage", f"{server.url}/v1/{{from:%Y}}", "echo = false\nbody = '{\"to\": {to-1s:unix}}'")
            + 'query = { at = "{from:unix_ms}", tag = ["a", "b"], key = "ssm:/kizami/query-key" }\n'
        )
        collector.handler(sqs_event(body), LambdaContext())
        with pytest.raises(ApiUnreachable, match=r"^127\.0\.0\.1:\d+ closed the connection") as failure:
            collector.handler(sqs_event(body), LambdaContext())
        seen = server.requests[0]
    assert seen.target == "/v1/2025?at=1764670980000&tag=a&tag=b&key=canary%265"
    assert (seen.method, seen.body) == ("POST", b'{"to": 1764670984}')
    assert seen.headers["content-type"] == "application/json"
    rows = dynamodb_at(moto_endpoint).scan(TableName=table)["Items"]
    assert "canary" not in json.dumps(rows), "the note of the failure has no secret either"
    (row,) = [row for row in rows if not row["metricName"]["S"].startswith("#")]
    assert (row["metricName"]["S"], row["count"]["N"]) == ("usage", "8")
    assert "canary" not in capsys.readouterr().err + str(failure.value)


def test_the_collector_asks_the_target_that_the_message_names(
    config: Path, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead_to(moto_endpoint, monkeypatch)
    table = create_metrics_table(moto_endpoint)
    monkeypatch.setenv("AI_METRICS_TABLE_NAME", table)
    monkeypatch.delenv("AI_API_BASE_URL", raising=False)
    body = json.dumps({"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:10Z", "metric": "orders"})
    with FaultServer(faults.answer(3)) as orders, FaultServer(faults.answer(4)) as visits:
        config.write_text(target("visits", visits.url) + target("orders", orders.url, 'interval = "10s"'))
        collector.handler(sqs_event(body), LambdaContext())
        assert (len(orders.requests), len(visits.requests)) == (1, 0)
    rows = dynamodb_at(moto_endpoint).scan(TableName=table)["Items"]
    assert "canary" not in json.dumps(rows), "the note of the failure has no secret either"
    (row,) = [row for row in rows if not row["metricName"]["S"].startswith("#")]
    assert (row["metricName"]["S"], row["count"]["N"]) == ("orders", "3")


@pytest.mark.parametrize(("interval", "minutes"), [("5m", {0, 5, 10}), ("1h", {0}), ("8m", {0, 8})])
def test_a_long_interval_is_sent_at_its_ticks_alone(
    config: Path, monkeypatch: pytest.MonkeyPatch, interval: str, minutes: set[int]
) -> None:
    config.write_text(target("slow", more=f'interval = "{interval}"'))
    with FaultServer(take_all) as server:
        lead_to(server.url, monkeypatch)
        monkeypatch.setenv("QUEUE_URL", f"{server.url}/000000000000/queue")
        events = {minute: scheduled_event(f"2025-12-02T00:{minute:02d}:37Z") for minute in range(12)}
        sent = {minute for minute, event in events.items() if sender.handler(event, LambdaContext())["sent"]}
    assert sent == minutes


def test_an_api_that_can_only_say_now_is_asked_in_time_or_not_at_all(
    config: Path, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lead_to(moto_endpoint, monkeypatch)
    table = create_metrics_table(moto_endpoint)
    monkeypatch.setenv("AI_METRICS_TABLE_NAME", table)
    begun = floor_to_slot(datetime.now(UTC), 3600)
    late, in_time = (Window.of_slot(shift(begun, -back), 3600) for back in (7200, 3600))
    with FaultServer(faults.answer(3)) as api:
        says_now = 'interval = "1h"\nbackfill = false\npath = "/n?from={from}&to={to}"'
        config.write_text(target("queue", api.url, says_now))
        messages = [ScheduleMessage(window, "queue") for window in (late, in_time)]
        assert collector.handler(sqs_event(*messages), LambdaContext()) == {"batchItemFailures": []}
        assert [request.query["from"] for request in api.requests] == [[format_instant(in_time.start)]]
    rows = dynamodb_at(moto_endpoint).scan(TableName=table)["Items"]
    assert "canary" not in json.dumps(rows), "the note of the failure has no secret either"
    (row,) = [row for row in rows if not row["metricName"]["S"].startswith("#")]
    assert row["slotTime"]["S"] == format_instant(in_time.start)
    (missed,) = [line for line in log_lines(capsys) if line["event"] == "slot.missed"]
    assert (missed["from"], missed["metric"]) == (format_instant(late.start), "queue")


def test_what_failed_is_dropped_when_it_comes_back_too_late(
    config: Path, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue delivers again after its visibility timeout: the slot is then the next one's."""
    lead_to(moto_endpoint, monkeypatch)
    monkeypatch.setenv("AI_METRICS_TABLE_NAME", create_metrics_table(moto_endpoint))
    with FaultServer(faults.status(500)) as api:
        config.write_text(target("queue", api.url, "interval = 60\nlag = 60\nbackfill = false"))
        message = ScheduleMessage(Window.of_slot(shift(floor_to_slot(datetime.now(UTC), 60), -60), 60), "queue")
        with pytest.raises(ApiStatusError):
            collector.handler(sqs_event(message), LambdaContext())
        monkeypatch.setattr(collector, "is_missed", lambda *_: True)
        assert collector.handler(sqs_event(message), LambdaContext()) == {"batchItemFailures": []}
        assert len(api.requests) == 1


WINDOW = Window.of_slot(datetime(2025, 12, 2, 10, 23, tzinfo=UTC), 5)


def left_over(names: Iterable[str], receives: int = 1) -> dict[str, Any]:
    """What a deployment with more targets has left on the queue, received for so many times."""
    event = sqs_event(write_bundle(BundleMessage(WINDOW, tuple(names))))
    event["Records"][0]["attributes"]["ApproximateReceiveCount"] = str(receives)
    return event


@pytest.fixture
def table(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    lead_to(moto_endpoint, monkeypatch)
    name = create_metrics_table(moto_endpoint)
    monkeypatch.setenv("AI_METRICS_TABLE_NAME", name)
    return name


def stored(table: str, endpoint: str) -> list[str]:
    items = dynamodb_at(endpoint).scan(TableName=table)["Items"]
    return sorted(item["metricName"]["S"] for item in items if not item["metricName"]["S"].startswith("#"))


def test_a_bundle_left_by_more_targets_is_collected_as_far_as_its_targets_are_still_there(
    config: Path, table: str, moto_endpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultServer(faults.answer(3)) as api:
        config.write_text(
            target("m0", api.url) + "".join(target(f"m{n}", api.url, "enabled = false") for n in (1, 2))
        )
        assert collector.handler(left_over(["m0", "m1", "m2"]), LambdaContext()) == {"batchItemFailures": []}
        assert len(api.requests) == 3
    assert stored(table, moto_endpoint) == ["m0", "m1", "m2"]
    assert sorted(line["metric"] for line in log_lines(capsys)) == ["m0", "m1", "m2"]


def test_what_is_no_target_any_more_is_left_to_a_deployment_under_way_and_then_dropped_with_a_word(
    config: Path, table: str, moto_endpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"m{n}" for n in range(8)]
    with FaultServer(faults.answer(3)) as api:
        config.write_text(target("m0", api.url))
        for receives in (1, 2):  # the next Collector may know them
            with pytest.raises(ConfigurationError, match="'m1' is not a target; known: m0"):
                collector.handler(left_over(names, receives), LambdaContext())
        assert stored(table, moto_endpoint) == ["m0"]
        log_lines(capsys)
        assert collector.handler(left_over(names, 3), LambdaContext()) == {"batchItemFailures": []}
    assert stored(table, moto_endpoint) == ["m0"]
    told = {line["event"]: line for line in log_lines(capsys)}
    assert told.keys() == {"slot.duplicate", "slots.dropped"}
    assert (told["slots.dropped"]["level"], told["slots.dropped"]["metrics"]) == ("WARN", names[1:])


@pytest.mark.parametrize(("max_receives", "lives"), [("1", 1), ("2", 2), ("5", 3), ("0", 3)])
@pytest.mark.parametrize("names", [["gone"], ["gone", "gone-too"]], ids=["alone", "together"])
@pytest.mark.usefixtures("table")
def test_no_message_dies_of_targets_that_are_gone(
    config: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], max_receives: str, lives: int
) -> None:
    monkeypatch.setenv("KIZAMI_MAX_ATTEMPTS", max_receives)
    config.write_text(target("m0"))
    for receives in range(1, lives):
        with pytest.raises(ConfigurationError):
            collector.handler(left_over(names, receives), LambdaContext())
    assert collector.handler(left_over(names, lives), LambdaContext()) == {"batchItemFailures": []}


def test_a_slot_of_a_bundle_that_fails_brings_its_message_back_once_and_the_others_are_stored(
    config: Path, table: str, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultServer(faults.status(500)) as broken, FaultServer(faults.answer(3)) as api:
        bad = "".join(target(name, broken.url, "enabled = false") for name in ("b1", "b2"))
        config.write_text(target("good", api.url) + bad)
        event = left_over(["b1", "good", "b2"])
        event["Records"] += sqs_event("poison", "poison")["Records"][1:]
        report = collector.handler(event, LambdaContext())
    named = [item["itemIdentifier"] for item in report["batchItemFailures"]]
    assert named == ["message-0", "message-1"]
    assert stored(table, moto_endpoint) == ["good"]
    notes = dynamodb_at(moto_endpoint).scan(TableName=table)["Items"]
    assert {"failed/b1", "failed/b2"} <= {item["slotTime"]["S"] for item in notes}, "who looks learns of both"
