"""One target that fails: its Collector notes why, the reconciler tells it and, later, that it is whole again."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import fakes.fault_server as faults
from aws_here.lambda_events import LambdaContext, sqs_event
from aws_here.local_aws import create_metrics_table, create_queue, lead_to
from fakes.fault_server import FaultServer
from kizami.aws import collector
from kizami.aws.alerts.failure_notes import FAILURES_PARTITION, FailureNotes, noted_at
from kizami.aws.incidents import IncidentItems
from kizami.aws.reconciler import reconcile, reconciler_settings
from kizami.aws.settings import _read_config
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.store.sqs_queue import SqsQueue
from kizami.core.errors import ApiStatusError
from kizami.core.messages import MetricRecord, ScheduleMessage
from kizami.core.slots import Window, floor_to_slot, slots_between

NOW = floor_to_slot(datetime.now(UTC), 60)
CONFIG = """
[[targets]]
name = "calls"
url = "{url}"
interval = "20s"
[[alerts]]
to = "{hook}"
name = "hook"
wait = "0s"
"""


@pytest.fixture
def table(moto_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    noted_at.cache_clear()
    _read_config.cache_clear()
    lead_to(moto_endpoint, monkeypatch)
    variables = {
        "AI_METRICS_TABLE_NAME": create_metrics_table(moto_endpoint),
        "QUEUE_URL": create_queue(moto_endpoint),
        "LAMBDA_TASK_ROOT": str(tmp_path),
        "KIZAMI_CONFIG": "kizami.toml",
        "KIZAMI_MAX_ATTEMPTS": "5",
        "KIZAMI_RECONCILE_HOURS": "0.5",
        "KIZAMI_GRACE_SECONDS": "60",
        "KIZAMI_ALARM_TOPIC_ARN": "arn:aws:sns:us-east-1:123456789012:nowhere",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("kizami.aws.client.machine.now", lambda: NOW)
    return variables["AI_METRICS_TABLE_NAME"]


def at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def store(table: str, start: float, end: float) -> None:
    records = DynamoDbMetricStore(table)
    for slot in slots_between(at(start), at(end), 20):
        records.put_if_absent(MetricRecord("calls", slot, 1, slot))


def fail(slot: datetime, receives: int) -> None:
    event = sqs_event(ScheduleMessage(Window(slot, slot + timedelta(seconds=20)), "calls"))
    event["Records"][0]["attributes"] = {"ApproximateReceiveCount": str(receives)}
    with pytest.raises(ApiStatusError):
        collector.handler(event, LambdaContext())


def run(table: str, minutes: float) -> None:
    import os

    settings = reconciler_settings(os.environ)
    reconcile(settings, DynamoDbMetricStore(table), SqsQueue(settings.queue_url), at(minutes), lambda: 120)


def test_it_is_told_with_its_cause_and_its_dead_slots_and_again_when_all_is_stored(
    table: str, tmp_path: Path
) -> None:
    with FaultServer(faults.status(503)) as api, FaultServer(faults.raw(b"{}")) as hook:
        (tmp_path / "kizami.toml").write_text(CONFIG.format(url=api.url, hook=hook.url))
        store(table, -35, -6)
        fail(at(-6), 1)
        fail(at(-6), 5)
        for minutes in (0, 5):
            run(table, minutes)
        store(table, -6, 15)
        for minutes in (10, 15):
            run(table, minutes)
        opened, recovered = [json.loads(request.body) for request in hook.requests]
    assert opened["title"].startswith("✗ calls: status 503, expected 200 since ")
    assert opened["title"].endswith(", 1 slot dead")
    slots = recovered["incident"]["slots"]
    assert slots["stored"] == slots["expected"] > 0
    (incident,) = IncidentItems(table).newest()
    assert not incident.is_open


def test_failures_an_hour_apart_are_counted_anew(table: str) -> None:
    notes = FailureNotes(table)
    for minutes in (0, 1, 90):
        notes.note(FAILURES_PARTITION, "calls", "status 503", at(minutes), at(minutes - 5))
        (note,) = notes.all(FAILURES_PARTITION).values()
        assert (note.dead, note.first_dead) == {0: (1, at(-5)), 1: (2, at(-5)), 90: (1, at(85))}[minutes]
