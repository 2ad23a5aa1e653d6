"""Delivery on AWS over HTTP: the heartbeat and webhooks, their deadlines, and URLs that no log line shows."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest

import fakes.fault_server as faults
from aws_here.local_aws import ACCESS_KEY, REGION, SECRET_KEY, create_metrics_table, lead_to
from fakes.fault_server import FaultServer
from fakes.watched_backend import WatchedBackend
from kizami.alerts.rules.settings import parse_alerts
from kizami.aws import alert_delivery
from kizami.aws.alert_delivery import require_taken
from kizami.aws.client.http_client import HttpRequest
from kizami.aws.watching import StackAlerts, StackWatch
from kizami.backend.targets import KnownTarget
from kizami.backend.values import TargetTrouble

T0 = datetime.now(UTC).replace(second=0, microsecond=0)
TOPIC_ARN = "arn:aws:sns:us-east-1:123456789012:none"


@pytest.fixture
def table(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    lead_to(moto_endpoint, monkeypatch)
    return create_metrics_table(moto_endpoint)


def run(table: str, heartbeat: str, hook: str = "", *, failing: bool = False) -> None:
    """A run of the watch over one target."""
    rules = [{"to": hook, "name": "hook", "wait": "0s"}] if hook else []
    settings = parse_alerts({"heartbeat": heartbeat, "alerts": rules}, "kizami.toml")
    backend = WatchedBackend()
    backend.add(KnownTarget("calls", 60, 60, T0 - timedelta(days=30)))
    if failing:
        backend.failing["calls"] = TargetTrouble("status 503", T0)
    else:
        backend.store("calls", T0 - timedelta(hours=1), T0)
    StackWatch(StackAlerts(table, TOPIC_ARN, settings), lambda: 120).run(backend.port, T0)


def test_a_user_and_password_in_a_url_that_was_looked_up_are_sent_as_a_header() -> None:
    with FaultServer(faults.raw(b"OK")) as server:
        url = server.url.replace("://", "://me:hunter%32@") + "/ping?token=x"
        require_taken(HttpRequest("GET", url, {}, 5, 1000), "GET")
        (request,) = server.requests
    assert (request.target, request.headers["authorization"]) == ("/ping?token=x", "Basic bWU6aHVudGVyMg==")


def test_each_run_asks_it_also_while_a_target_fails(table: str) -> None:
    with FaultServer(faults.raw(b"OK")) as alive:
        for failing in (False, True, False):
            run(table, f"{alive.url}/ping/me", failing=failing)
        assert [(request.method, request.target) for request in alive.requests] == [("GET", "/ping/me")] * 3


@pytest.mark.parametrize("behaviour", [faults.status(404), faults.hang_before_headers, faults.redirect("/else")])
def test_one_that_hangs_or_refuses_is_logged_without_its_url_and_messages_are_delivered(
    table: str, behaviour: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(alert_delivery, "BEAT_SECONDS", 0.2)
    with FaultServer(behaviour) as alive, FaultServer(faults.raw(b"{}")) as hook:
        run(table, f"{alive.url}/ping/c4n4ry", hook.url, failing=True)
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
            run(table, f"ssm:{name}")
        assert [request.target for request in alive.requests] == ["/ping/me"]
    refused = [vars(record) for record in caplog.records if getattr(record, "event", "") == "heartbeat.refused"]
    assert len(refused) == 2
    assert "c4n4ry" not in str(refused)


def test_that_of_one_machine_is_left_to_it(table: str, caplog: pytest.LogCaptureFixture) -> None:
    run(table, "env:HEARTBEAT_URL")
    assert not [record for record in caplog.records if getattr(record, "event", "") == "heartbeat.refused"]


def test_it_is_not_asked_when_the_time_of_the_run_is_up(table: str) -> None:
    with FaultServer(faults.raw(b"OK")) as alive:
        alert_delivery.beat(alive.url, lambda: alert_delivery.LEAST_SECONDS - 1)
        assert alive.requests == []
