"""Alerts on AWS against a local one: incidents in the table, messages at a topic and a webhook, orders."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest

import fakes.fault_server as faults
from aws_here.local_aws import ACCESS_KEY, REGION, SECRET_KEY, create_metrics_table, create_queue, lead_to, sqs_at
from fakes.fault_server import FaultServer
from fakes.watched_backend import WatchedBackend
from kizami.alerts.decision import Decision
from kizami.alerts.rules.settings import AlertSettings, parse_alerts
from kizami.aws.alert_delivery import publish
from kizami.aws.incidents import AwsIncidentLog, IncidentItems
from kizami.aws.watching import StackAlerts, StackWatch
from kizami.backend.targets import KnownTarget
from kizami.backend.values import TargetTrouble
from kizami.core.errors import InvalidInput, QueueError
from samples.database import FixedClock

T0 = datetime.now(UTC).replace(second=0, microsecond=0)
REASON = "status 401, expected 200; the key is refused: check headers"
TOPIC_ARN = "arn:aws:sns:us-east-1:123456789012:none"


@pytest.fixture
def table(transacting_endpoint: str) -> str:
    return create_metrics_table(transacting_endpoint)


def at(minutes: int) -> datetime:
    return T0 + timedelta(minutes=minutes)


class Watched:
    """The watch over one target that is blocked or has all its slots; its receivers are told at once."""

    def __init__(self, table: str, *urls: str) -> None:
        rules = [
            {"to": url, "when": ["fails"], "wait": "0s", "name": f"hook{number or ''}"}
            for number, url in enumerate(urls)
        ]
        self.table, self.topic, self.settings = table, TOPIC_ARN, parse_alerts({"alerts": rules}, "kizami.toml")
        self.backend = WatchedBackend()
        self.backend.add(KnownTarget("calls", 60, 60, T0 - timedelta(days=30)))
        self.backend.store("calls", at(-60), at(-5))

    def run(self, minutes: int, *, blocked: bool = False) -> None:
        """A run so many minutes after T0."""
        self.backend.failing = {"calls": TargetTrouble(REASON, T0)} if blocked else {}
        if not blocked:
            self.backend.store("calls", at(-60), at(minutes))
        watch = StackWatch(StackAlerts(self.table, self.topic, self.settings), lambda: 120)
        watch.run(self.backend.port, at(minutes))


def test_an_incident_is_kept_told_and_over_when_all_is_stored(table: str) -> None:
    with FaultServer(faults.raw(b"{}")) as server:
        watched = Watched(table, server.url)
        for minutes in (0, 5, 10, 15, 20):
            watched.run(minutes, blocked=minutes < 10)
        told = [json.loads(request.body) for request in server.requests]
    assert [(each["state"], each["id"]) for each in told] == [("opened", "1-1"), ("recovered", "1-2")]
    assert told[0]["incident"]["cause"] == REASON
    assert told[1]["incident"]["slots"]["stored"] == told[1]["incident"]["slots"]["expected"] > 0
    (incident,) = IncidentItems(table).newest()
    assert (incident.is_open, incident.since, incident.members["calls"].clear_since) == (False, at(0), at(10))
    assert IncidentItems(table).read().state.incidents == ()


def test_what_is_not_taken_stays_in_the_outbox_and_is_delivered_by_a_later_run(table: str) -> None:
    with FaultServer(faults.status(503), then=faults.raw(b"{}")) as server:
        watched = Watched(table, server.url)
        watched.run(0, blocked=True)
        assert AwsIncidentLog(IncidentItems(table), FixedClock(T0)).undelivered()["hook"] == (1, None)
        watched.run(5, blocked=True)
        watched.run(10, blocked=True)
        assert [request.headers["webhook-id"] for request in server.requests] == ["1-1", "1-1"]


def test_of_two_runs_at_once_one_wins_and_nobody_is_told_twice(table: str) -> None:
    items = IncidentItems(table)
    before = items.read()
    with FaultServer(faults.raw(b"{}")) as server:
        Watched(table, server.url).run(0, blocked=True)
        assert not items.save(Decision(before.state), {}, before)
        Watched(table, server.url).run(1, blocked=True)
        assert len(server.requests) == 1


def test_people_acknowledge_and_silence_and_the_runs_leave_it_alone(table: str) -> None:
    with FaultServer(faults.raw(b"{}")) as server:
        watched = Watched(table, server.url)
        watched.run(0, blocked=True)
        log = AwsIncidentLog(IncidentItems(table), FixedClock(at(1)))
        assert log.acknowledge(1, "ann").acknowledged_at == at(1)
        assert log.acknowledge(1, "bob").acknowledged_by == "ann"
        log.silence(1, at(60), "ann")
        watched.run(5)
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
    watched = Watched(create_metrics_table(moto_endpoint))
    watched.settings, watched.topic = AlertSettings(language="ja"), topic
    for minutes in (0, 5, 10, 15):
        watched.run(minutes, blocked=minutes < 10)
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
        watched = Watched(table, refusing.url, taking.url)
        for minutes in (0, 5, 10):
            watched.run(minutes, blocked=not minutes)
        assert [request.headers["webhook-id"] for request in taking.requests] == ["1-1", "1-2"]
        assert {request.headers["webhook-id"] for request in refusing.requests} == {"1-1"}, "the first one first"
    assert AwsIncidentLog(IncidentItems(table), FixedClock(T0)).undelivered() == {"hook": (2, None)}
