"""The reconciler function: from rows in the table to messages on the backfill queue and a metric in the log."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from aws_here.lambda_events import LambdaContext, log_lines
from aws_here.local_aws import create_metrics_table, create_queue, lead_to, sqs_at
from kizami.aws.history.hour_totals import HourTotals
from kizami.aws.history.keeping import hour_of
from kizami.aws.reconciler import handler
from kizami.aws.settings import packaged_config
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.store.sqs_queue import SqsQueue
from kizami.backend.values import Bucket
from kizami.core.errors import ConfigurationError, StoreError
from kizami.core.messages import MetricRecord, ScheduleMessage, read_message
from kizami.core.slots import floor_to_slot, format_instant, slots_between

METRIC = "ai_response_count"


@pytest.fixture
def queue_url(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The function's environment leads to an empty table and an empty queue; half an hour is looked at."""
    url = create_queue(moto_endpoint)
    lead_to(moto_endpoint, monkeypatch)
    settings = {
        "AI_METRICS_TABLE_NAME": create_metrics_table(moto_endpoint),
        "QUEUE_URL": url,
        "KIZAMI_STACK": "the-stack",
        "KIZAMI_RECONCILE_HOURS": "0.5",
        "KIZAMI_RECONCILE_MINUTES": "5",
        "KIZAMI_GRACE_SECONDS": "60",
        "KIZAMI_RECONCILE_LIMIT": "20",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return url


@pytest.fixture
def store(queue_url: str) -> DynamoDbMetricStore:
    return DynamoDbMetricStore(os.environ["AI_METRICS_TABLE_NAME"])


def now() -> datetime:
    return datetime.now(UTC)


def put(store: DynamoDbMetricStore, slots: Iterable[datetime], metric: str = METRIC) -> None:
    for slot in slots:
        store.put_if_absent(MetricRecord(metric, slot, 1, slot))


def minutes_ago(minutes: float) -> datetime:
    return floor_to_slot(now() - timedelta(minutes=minutes))


def sent(endpoint: str, url: str) -> list[str]:
    """The slots asked for, in the order of their time."""
    return sorted(format_instant(each.window.start) for each in sent_messages(endpoint, url))


def sent_messages(endpoint: str, url: str) -> list[ScheduleMessage]:
    bodies: list[str] = []
    while messages := sqs_at(endpoint).receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        bodies += [message["Body"] for message in messages]
    return list(map(read_message, bodies))


def published(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    (line,) = [line for line in log_lines(capsys) if line["event"] == "coverage.published"]
    return line


def test_missing_slots_are_sent_and_stored_ones_are_not(
    store: DynamoDbMetricStore, queue_url: str, moto_endpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    slots = list(slots_between(minutes_ago(4), now(), 5))
    hole = slots[12:16]  # three minutes ago
    put(store, (slot for slot in slots if slot not in hole))
    assert handler({}, LambdaContext()) == {"missing": 4, "sent": 4, "failed": 0}
    assert sent(moto_endpoint, queue_url) == [format_instant(slot) for slot in hole]
    assert published(capsys)["MissingSlots"] == 4


def test_a_complete_target_sends_nothing_and_is_published_as_complete(
    store: DynamoDbMetricStore, queue_url: str, moto_endpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    put(store, slots_between(minutes_ago(3), now(), 5))
    assert handler({}, LambdaContext()) == {"missing": 0, "sent": 0, "failed": 0}
    assert sent(moto_endpoint, queue_url) == []
    line = published(capsys)
    assert (line["Coverage"], line["LowestCoverage"], line["Stack"]) == (100.0, 100.0, "the-stack")


def test_the_metric_is_in_cloudwatchs_embedded_format(
    store: DynamoDbMetricStore, capsys: pytest.CaptureFixture[str]
) -> None:
    put(store, slots_between(minutes_ago(3), now(), 5))
    handler({}, LambdaContext())
    line = published(capsys)
    (directive,) = line["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "kizami"
    assert directive["Dimensions"] == [["Stack"]]
    assert {metric["Name"] for metric in directive["Metrics"]} <= line.keys()
    assert abs(line["_aws"]["Timestamp"] / 1000 - now().timestamp()) < 60


def test_a_run_sends_no_more_than_its_limit_less_what_still_waits(
    store: DynamoDbMetricStore, queue_url: str, moto_endpoint: str
) -> None:
    sqs_at(moto_endpoint).send_message(QueueUrl=queue_url, MessageBody="{}", DelaySeconds=900)
    put(store, [minutes_ago(5), *slots_between(minutes_ago(1), now(), 5)])
    outcome = handler({}, LambdaContext())
    assert outcome["missing"] > 30
    assert outcome["sent"] == 19
    assert SqsQueue(queue_url).waiting() == 20


def test_a_target_without_any_record_is_not_covered_and_probed_once(
    queue_url: str, moto_endpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert handler({}, LambdaContext())["sent"] == 1
    assert published(capsys)["LowestCoverage"] == 0.0
    (slot,) = sent(moto_endpoint, queue_url)
    assert slot > format_instant(minutes_ago(2))  # what lies before the deployment is not asked for


def test_every_target_of_the_packaged_config_is_examined(
    store: DynamoDbMetricStore,
    moto_endpoint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    targets = [f'[[targets]]\nname = "m{n}"\nurl = "https://api.example.com"\nlag = "0s"\n' for n in range(3)]
    (tmp_path / "kizami.toml").write_text("\n".join(targets) + "enabled = false\n")
    monkeypatch.setenv("LAMBDA_TASK_ROOT", str(tmp_path))
    monkeypatch.setenv("KIZAMI_CONFIG", "kizami.toml")
    put(store, slots_between(minutes_ago(3), now(), 5), "m0")
    put(store, [minutes_ago(3), *slots_between(minutes_ago(1.5), now(), 5)], "m1")
    handler({}, LambdaContext())
    line = published(capsys)
    assert line["targets"] == 2
    assert line["LowestCoverage"] < line["Coverage"] < 100


def test_several_values_are_asked_for_again_by_the_message_of_their_target(
    queue_url: str,
    store: DynamoDbMetricStore,
    moto_endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    values = 'values = { requests = "/a", cost = "/b" }'
    (tmp_path / "kizami.toml").write_text(f'[[targets]]\nname = "usage"\nurl = "https://h"\n{values}\n')
    monkeypatch.setenv("KIZAMI_CONFIG", "kizami.toml")
    monkeypatch.setenv("LAMBDA_TASK_ROOT", str(tmp_path))
    slots = [minutes_ago(5) + timedelta(seconds=5 * number) for number in range(3)]
    # They are written one after the other: whoever is cut off in between has the first and lacks the last.
    put(store, slots, "usage/requests")
    put(store, [slots[0], slots[2]], "usage/cost")
    handler({}, LambdaContext())
    asked = sent_messages(moto_endpoint, queue_url)
    assert {each.metric for each in asked} == {"usage"}
    assert slots[1] in {each.window.start for each in asked}


def test_a_table_that_cannot_be_read_fails_the_run_with_its_reason(
    queue_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AI_METRICS_TABLE_NAME", "nowhere")
    with pytest.raises(StoreError, match="ResourceNotFoundException"):
        handler({}, LambdaContext())
    assert {line["event"] for line in log_lines(capsys)} == {"target.unread", "reconcile.failed"}


def test_a_packaged_config_that_is_not_there_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match=r"KIZAMI_CONFIG: /nowhere/kizami.toml: No such file"):
        packaged_config({"KIZAMI_CONFIG": "kizami.toml", "LAMBDA_TASK_ROOT": "/nowhere"})


def test_a_packaged_configuration_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "kizami.toml").write_bytes(b"# caf\xe9")
    with pytest.raises(ConfigurationError, match=r"KIZAMI_CONFIG: .*kizami.toml: is not UTF-8 at byte 5"):
        packaged_config({"KIZAMI_CONFIG": "kizami.toml", "LAMBDA_TASK_ROOT": str(tmp_path)})


@pytest.mark.parametrize("backfill", [True, False])
def test_an_hours_slot_is_asked_for_again_unless_its_api_can_only_say_now(
    queue_url: str,
    moto_endpoint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    backfill: bool,
) -> None:
    table = 'name = "hourly"\nurl = "https://api.example.com"\ninterval = "1h"'
    (tmp_path / "kizami.toml").write_text(f"[[targets]]\n{table}\nbackfill = {str(backfill).lower()}")
    monkeypatch.setenv("LAMBDA_TASK_ROOT", str(tmp_path))
    monkeypatch.setenv("KIZAMI_CONFIG", "kizami.toml")
    monkeypatch.setattr("kizami.core.reconcile.is_turn", lambda *_: True)
    newest = floor_to_slot(now() - timedelta(seconds=3660), 3600)
    outcome = handler({}, LambdaContext())
    assert outcome["missing"] == 1
    assert sent(moto_endpoint, queue_url) == ([format_instant(newest)] if backfill else [])
    (line,) = [line for line in log_lines(capsys) if line["event"] == "slots.missing"]
    assert ("stay so: backfill = false" in line["message"]) is not backfill


def test_a_single_target_has_totals_of_what_is_kept_no_more(
    store: DynamoDbMetricStore, queue_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIZAMI_KEEP_DAYS", "2")
    hour = hour_of(now()) - timedelta(hours=60)
    put(store, [hour, hour + timedelta(seconds=5), hour_of(now()) - timedelta(hours=3)])
    handler({}, LambdaContext())
    totals = HourTotals(os.environ["AI_METRICS_TABLE_NAME"])
    assert totals.between(METRIC, hour, hour_of(now()), now()) == [Bucket(hour, 2, 1, 1, 2)]
