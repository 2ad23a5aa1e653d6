"""Many targets on AWS: one kizami.toml in the package serves the Sender and the Collector alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fakes.fault_server as faults
from aws_here.lambda_events import LambdaContext, log_lines, scheduled_event, sqs_event
from aws_here.local_aws import create_metrics_table, dynamodb_at, lead_to
from fakes.fault_server import Exchange, FaultServer
from kizami.aws import collector, sender

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
    assert [line["event"] for line in log_lines(capsys)] == ["minute.planned", "messages.sent"]


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
    (row,) = dynamodb_at(moto_endpoint).scan(TableName=table)["Items"]
    assert (row["metricName"]["S"], row["count"]["N"]) == ("orders", "3")
