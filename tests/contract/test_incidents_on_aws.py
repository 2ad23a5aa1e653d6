"""Alerts on AWS against a local one: incidents in the table, messages at a topic and a webhook, orders."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest

import fakes.fault_server as faults
from aws_here.local_aws import ACCESS_KEY, REGION, SECRET_KEY, create_metrics_table, create_queue, lead_to, sqs_at
from fakes.fault_server import FaultServer
from kizami.alerts.decision import Decision
from kizami.alerts.reconciled import SeenTarget
from kizami.alerts.rules.settings import AlertSettings, parse_alerts
from kizami.aws.alert_delivery import publish
from kizami.aws.alerts.alerting import Alerting, Run, alerting_of
from kizami.aws.incidents import AwsIncidentLog, IncidentItems
from kizami.aws.reconciler import ReconcilerSettings
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.backend.targets import KnownTarget
from kizami.backend.values import TargetTrouble
from kizami.core.coverage import Completeness, Span
from kizami.core.errors import InvalidInput, QueueError
from kizami.core.messages import MetricRecord
from kizami.core.reconcile import ReconcilePolicy
from samples.database import FixedClock

T0 = datetime.now(UTC).replace(second=0, microsecond=0)
TARGET = KnownTarget("calls", 60, 60, T0 - timedelta(days=30))
REASON = "status 401, expected 200; the key is refused: check headers"
WELL = SeenTarget(TARGET, Completeness(5, 5))
FIRST = T0 - timedelta(minutes=5)
BLOCKED = SeenTarget(TARGET, Completeness(0, 5), FIRST, TargetTrouble(REASON, T0))
TOPIC_ARN = "arn:aws:sns:us-east-1:123456789012:none"


@pytest.fixture
def table(endpoint: str) -> str:
    return create_metrics_table(endpoint)


def at(minutes: int) -> datetime:
    return T0 + timedelta(minutes=minutes)


def stored(spans: Mapping[str, Span]) -> dict[str, Completeness]:
    return {name: Completeness(span.expected, span.expected) for name, span in spans.items()}


def run(alerting: Alerting, found: SeenTarget, minutes: int, unread: frozenset[str] = frozenset()) -> None:
    alerting.after_run(Run(at(minutes), [found], {"calls": TARGET}.get, stored, lambda *_: [TARGET], unread))


def alerting_at(table: str, settings: AlertSettings, topic: str = TOPIC_ARN) -> Alerting:
    place = ReconcilerSettings(table, "https://queue", (), ReconcilePolicy(), "", topic_arn=topic)
    return alerting_of(place, settings, DynamoDbMetricStore(table), lambda: 120)


def hooked(url: str, table: str, *others: str, when: str = "fails") -> Alerting:
    rules = [
        {"to": each, "when": [when], "wait": "0s", "name": f"hook{number or ''}"}
        for number, each in enumerate((url, *others))
    ]
    return alerting_at(table, parse_alerts({"alerts": rules}, "kizami.toml"))


def test_a_target_that_was_taken_out_of_the_file_keeps_no_incident_open(table: str) -> None:
    with FaultServer(faults.raw(b"{}")) as server:
        alerting = hooked(server.url, table)
        run(alerting, BLOCKED, 0)
        for minutes in (5, 10, 15, 20):
            alerting.after_run(Run(at(minutes), [], lambda name: None, stored, lambda *_: []))
        told = [json.loads(request.body)["state"] for request in server.requests]
    assert told == ["opened", "recovered"]


def test_an_incident_is_kept_told_and_over_when_all_is_stored(table: str) -> None:
    with FaultServer(faults.raw(b"{}")) as server:
        alerting = hooked(server.url, table)
        for minutes, found in ((0, BLOCKED), (5, BLOCKED), (10, WELL), (15, WELL), (20, WELL)):
            run(alerting, found, minutes)
        told = [json.loads(request.body) for request in server.requests]
    assert [(each["state"], each["id"]) for each in told] == [("opened", "1-1"), ("recovered", "1-2")]
    assert told[0]["incident"]["cause"] == REASON
    assert told[1]["incident"]["slots"]["stored"] == told[1]["incident"]["slots"]["expected"] > 0
    (incident,) = IncidentItems(table).newest()
    assert (incident.is_open, incident.since, incident.members["calls"].clear_since) == (False, at(0), at(10))
    assert IncidentItems(table).read().state.incidents == ()


def test_what_is_not_taken_stays_in_the_outbox_and_is_delivered_by_a_later_run(table: str) -> None:
    with FaultServer(faults.status(503), then=faults.raw(b"{}")) as server:
        alerting = hooked(server.url, table)
        run(alerting, BLOCKED, 0)
        assert AwsIncidentLog(IncidentItems(table), FixedClock(T0)).undelivered()["hook"] == (1, None)
        run(alerting, BLOCKED, 5)
        run(alerting, BLOCKED, 10)
        assert [request.headers["webhook-id"] for request in server.requests] == ["1-1", "1-1"]


def test_of_two_runs_at_once_one_wins_and_nobody_is_told_twice(table: str) -> None:
    items = IncidentItems(table)
    before = items.read()
    with FaultServer(faults.raw(b"{}")) as server:
        run(hooked(server.url, table), BLOCKED, 0)
        assert not items.save(Decision(before.state), {}, before)
        run(hooked(server.url, table), BLOCKED, 1)
        assert len(server.requests) == 1


def test_people_acknowledge_and_silence_and_the_runs_leave_it_alone(table: str) -> None:
    with FaultServer(faults.raw(b"{}")) as server:
        run(hooked(server.url, table), BLOCKED, 0)
        log = AwsIncidentLog(IncidentItems(table), FixedClock(at(1)))
        assert log.acknowledge(1, "ann").acknowledged_at == at(1)
        assert log.acknowledge(1, "bob").acknowledged_by == "ann"
        log.silence(1, at(60), "ann")
        run(hooked(server.url, table), WELL, 5)
    incident = log.incident(1)
    assert (incident.acknowledged_by, incident.silenced_until) == ("ann", at(60))
    assert incident.members["calls"].clear_since == at(5)
    assert log.unsilence(1, "ann").silenced_until is None
    assert log.incident(1).acknowledged_by == "ann"
    assert [each.number for each in log.incidents(open_only=True)] == [1]
    with pytest.raises(InvalidInput, match="none of number 7"):
        log.acknowledge(7, "ann")


def test_the_topic_gets_the_same_words(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lead_to(moto_endpoint, monkeypatch)
    keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
    sns: Any = boto3.client("sns", endpoint_url=moto_endpoint, region_name=REGION, **keys)  # type: ignore[call-overload]
    topic, queue = sns.create_topic(Name="alarms")["TopicArn"], create_queue(moto_endpoint)
    sqs = sqs_at(moto_endpoint)
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    alerting = alerting_at(create_metrics_table(moto_endpoint), AlertSettings(language="ja"), topic)
    for minutes, found in ((0, BLOCKED), (5, BLOCKED), (10, WELL), (15, WELL)):
        run(alerting, found, minutes)
    bodies = [
        json.loads(each["Body"]) for _ in range(2) for each in sqs.receive_message(QueueUrl=queue)["Messages"]
    ]
    assert [body["Subject"] for body in bodies] == ["kizami: incident opened", "kizami: incident recovered"]
    assert bodies[0]["Message"].startswith("✗ calls: 200 ではなくステータス 401（")
    assert "に復旧しました" in bodies[1]["Message"]


def test_a_topic_that_is_not_there_is_an_error_with_its_name(
    moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead_to(moto_endpoint, monkeypatch)
    with pytest.raises(QueueError, match="NotFound"):
        publish("arn:aws:sns:us-east-1:123456789012:nowhere", "subject", "text")


def test_a_receiver_that_refuses_keeps_its_own_messages_in_their_order_and_nobody_elses(table: str) -> None:
    with FaultServer(faults.status(503)) as refusing, FaultServer(faults.raw(b"{}")) as taking:
        alerting = hooked(refusing.url, table, taking.url)
        for minutes, found in ((0, BLOCKED), (5, WELL), (10, WELL)):
            run(alerting, found, minutes)
        assert [request.headers["webhook-id"] for request in taking.requests] == ["1-1", "1-2"]
        assert {request.headers["webhook-id"] for request in refusing.requests} == {"1-1"}, "the first one first"
    assert AwsIncidentLog(IncidentItems(table), FixedClock(T0)).undelivered() == {"hook": (2, None)}


def test_counts_that_meet_a_condition_are_an_incident_and_one_that_ends(table: str) -> None:
    store = DynamoDbMetricStore(table)
    for minute in range(-20, 20):
        store.put_if_absent(MetricRecord("calls", at(minute), 0 if minute < 5 else 7, at(minute)))
    with FaultServer(faults.raw(b"{}")) as server:
        alerting = hooked(server.url, table, when="zero for 10m")
        for minutes in (3, 8, 13, 18):
            run(alerting, WELL, minutes)
        told = [json.loads(request.body) for request in server.requests]
    assert [each["state"] for each in told] == ["opened", "recovered"]
    assert told[0]["title"].startswith("✗ calls: zero for 10m (0) since")


def test_what_a_rule_for_one_machine_asks_for_goes_to_the_topic(table: str) -> None:
    settings = parse_alerts(
        {"alerts": [{"to": "env:SLACK_URL", "when": ["fails", "above 5"], "targets": ["c*"]}]}, "kizami.toml"
    )
    topic, slack = alerting_at(table, settings).obeyed().rules
    assert "fails" in {each.text for each in topic.conditions}
    assert (slack.to, slack.targets, [each.text for each in slack.conditions]) == (TOPIC_ARN, ("c*",), ["above 5"])
