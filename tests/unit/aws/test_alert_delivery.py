"""The heartbeat on AWS: each run asks it while kizami itself is well; nobody waits for it, or reads its URL."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest

import fakes.fault_server as faults
from aws_here.local_aws import ACCESS_KEY, REGION, SECRET_KEY, create_metrics_table, lead_to
from fakes.fault_server import FaultServer
from kizami.alerts.reconciled import SeenTarget
from kizami.alerts.rules.settings import parse_alerts
from kizami.aws import alert_delivery
from kizami.aws.alert_delivery import require_taken
from kizami.aws.alerts.alerting import Alerting, Run, alerting_of
from kizami.aws.client.http_client import HttpRequest
from kizami.aws.incidents import IncidentItems
from kizami.aws.reconciler import ReconcilerSettings
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.store.sqs_queue import SqsQueue
from kizami.backend.targets import KnownTarget
from kizami.backend.values import TargetTrouble
from kizami.core.coverage import Completeness
from kizami.core.errors import StoreError
from kizami.core.reconcile import ReconcilePolicy

T0 = datetime.now(UTC).replace(second=0, microsecond=0)
TARGET = KnownTarget("calls", 60, 60, T0 - timedelta(days=30))
WELL = SeenTarget(TARGET, Completeness(5, 5))
FAILING = SeenTarget(TARGET, Completeness(0, 5), T0 - timedelta(minutes=5), TargetTrouble("status 503", T0))
TOPIC_ARN = "arn:aws:sns:us-east-1:123456789012:none"


@pytest.fixture
def table(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    lead_to(moto_endpoint, monkeypatch)
    return create_metrics_table(moto_endpoint)


def alerting_at(table: str, to: str, hook: str = "") -> Alerting:
    rules = [{"to": hook, "name": "hook", "wait": "0s"}] if hook else []
    place = ReconcilerSettings(table, "https://queue", (), ReconcilePolicy(), "", topic_arn=TOPIC_ARN)
    settings = parse_alerts({"heartbeat": to, "alerts": rules}, "kizami.toml")
    return alerting_of(place, settings, DynamoDbMetricStore(table), lambda: 120)


def run(alerting: Alerting, found: SeenTarget = WELL, *, is_storing: bool = True) -> None:
    known = {"calls": TARGET}.get
    alerting.after_run(Run(T0, [found], known, lambda _: {}, lambda *_: [TARGET], is_storing=is_storing))


def test_a_user_and_password_in_a_url_that_was_looked_up_are_sent_as_a_header() -> None:
    with FaultServer(faults.raw(b"OK")) as server:
        url = server.url.replace("://", "://me:hunter%32@") + "/ping?token=x"
        require_taken(HttpRequest("GET", url, {}, 5, 1000), "GET")
        (request,) = server.requests
    assert (request.target, request.headers["authorization"]) == ("/ping?token=x", "Basic bWU6aHVudGVyMg==")


def test_each_run_asks_it_also_while_a_target_fails(table: str) -> None:
    with FaultServer(faults.raw(b"OK")) as alive:
        for found in (WELL, FAILING, WELL):
            run(alerting_at(table, f"{alive.url}/ping/me"), found)
        assert [(request.method, request.target) for request in alive.requests] == [("GET", "/ping/me")] * 3


def test_it_is_not_asked_while_the_queue_does_not_move(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqsQueue, "depth", lambda _: (7, 0, 0))
    with FaultServer(faults.raw(b"OK")) as alive:
        alerting = replace(alerting_at(table, alive.url), queue=SqsQueue("https://queue"))
        run(alerting, is_storing=False)
        assert alive.requests == []


def test_it_is_not_asked_by_a_run_that_cannot_keep_what_it_sees(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StoreError("no table")

    monkeypatch.setattr(IncidentItems, "read", fail)
    with FaultServer(faults.raw(b"OK")) as alive:
        run(alerting_at(table, alive.url))
        assert alive.requests == []


@pytest.mark.parametrize("behaviour", [faults.status(404), faults.hang_before_headers, faults.redirect("/else")])
def test_one_that_hangs_or_refuses_is_logged_without_its_url_and_messages_are_delivered(
    table: str, behaviour: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(alert_delivery, "BEAT_SECONDS", 0.2)
    with FaultServer(behaviour) as alive, FaultServer(faults.raw(b"{}")) as hook:
        run(alerting_at(table, f"{alive.url}/ping/c4n4ry", hook.url), FAILING)
        assert [json.loads(request.body)["state"] for request in hook.requests] == ["opened"]
    (line,) = [record for record in caplog.records if getattr(record, "event", "") == "heartbeat.refused"]
    assert line.levelno == logging.WARNING
    assert "c4n4ry" not in str(vars(line))


def test_its_url_may_be_a_secret_of_aws(table: str, moto_endpoint: str, caplog: pytest.LogCaptureFixture) -> None:
    keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
    aws: Any = boto3.client("ssm", endpoint_url=moto_endpoint, region_name=REGION, **keys)  # type: ignore[call-overload]
    with FaultServer(faults.raw(b"OK")) as alive:
        urls = {
            "/ops/alive": f"{alive.url}/ping/me",
            "/ops/clear": "http://example.com/c4n4ry",
            "/ops/no": "c4n4ry",
        }
        for name, url in urls.items():
            aws.put_parameter(Name=name, Value=url, Type="SecureString")
            run(alerting_at(table, f"ssm:{name}"))
        assert [request.target for request in alive.requests] == ["/ping/me"]
    refused = [vars(record) for record in caplog.records if getattr(record, "event", "") == "heartbeat.refused"]
    assert len(refused) == 2
    assert "c4n4ry" not in str(refused)


def test_that_of_one_machine_is_left_to_it(table: str, caplog: pytest.LogCaptureFixture) -> None:
    run(alerting_at(table, "env:HEARTBEAT_URL"))
    assert not [record for record in caplog.records if getattr(record, "event", "") == "heartbeat.refused"]


def test_it_is_not_asked_when_the_time_of_the_run_is_up(table: str) -> None:
    with FaultServer(faults.raw(b"OK")) as alive:
        alert_delivery.beat(alive.url, lambda: alert_delivery.LEAST_SECONDS - 1)
        assert alive.requests == []
