"""Targets of a bundle that fail together: one incident, told once with its cause, and told when all is filled."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import fakes.fault_server as faults
from aws_here.bundled import Bundled, deploy_bundles
from fakes.fault_server import FaultServer
from kizami.aggregation.stores.company_failures import CompanyFailures
from kizami.aws.alerts.failure_notes import LEDGER_KEYS, FailureNotes, noted_at
from kizami.aws.incidents import IncidentItems
from kizami.aws.reconciler import reconciler_settings
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.store.sqs_queue import SqsQueue
from kizami.core.messages import MetricRecord
from kizami.core.slots import floor_to_slot, slots_between

NAMES = ("a", "b", "c")
NOW = floor_to_slot(datetime.now(UTC), 60)
REASON = "status 503, expected 200"
WHEN = ["fails", "silent", "late", "dead", "zero for 5m", "coverage of 1h < 50%", "aggregation failed"]


@pytest.fixture
def hook() -> Iterator[FaultServer]:
    with FaultServer(faults.raw(b"{}")) as server:
        yield server


@pytest.fixture
def aws(
    hook: FaultServer,
    dynamodb_local_endpoint: str,
    moto_endpoint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Bundled:
    """The rule tells at once; the topic is not there, and its messages wait in the outbox. Records go after a
    while, so each run leaves a mark in the ledger of the totals that it has made."""
    noted_at.cache_clear()
    targets = "".join(
        f'[[targets]]\nname = "{name}"\nurl = "https://{name}.example"\ninterval = "20s"\nkeep = "30d"\n'
        for name in NAMES
    )
    rule = f'[[alerts]]\nto = "{hook.url}"\nname = "hook"\nwhen = {json.dumps(WHEN)}\nwait = "0s"\n'
    deployed = deploy_bundles(targets + rule, tmp_path, dynamodb_local_endpoint, moto_endpoint, monkeypatch)
    monkeypatch.setenv("QUEUE_URL", deployed.backfill)
    monkeypatch.setenv("KIZAMI_LIVE_QUEUE_URL", deployed.queue)
    monkeypatch.setenv("KIZAMI_RECONCILE_HOURS", "0.5")
    monkeypatch.setenv("KIZAMI_GRACE_SECONDS", "60")
    monkeypatch.setenv("KIZAMI_ALARM_TOPIC_ARN", "arn:aws:sns:us-east-1:123456789012:nowhere")
    monkeypatch.setattr("kizami.aws.client.machine.now", lambda: NOW)
    return deployed


def at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def note(aws: Bundled, start: float, end: float, stored: tuple[str, ...] = NAMES) -> None:
    """The ledger as the Collector would have kept it."""
    aws.note(slots_between(at(start), at(end), 20), stored)


def fail(aws: Bundled, minutes: float, *names: str, dead_slot: datetime | None = None) -> None:
    notes = FailureNotes(aws.ledger_table, LEDGER_KEYS)
    for name in names:
        notes.note(aws.the_bundle.name, name, REASON, at(minutes), dead_slot)


def run(aws: Bundled, minutes: float, seconds_left: float = 120) -> None:
    aws.reconcile(at(minutes), lambda: seconds_left)


def told(hook: FaultServer) -> list[dict[str, Any]]:
    return [json.loads(request.body) for request in hook.requests]


def test_targets_that_fail_together_are_told_once_with_their_cause_and_again_when_all_is_filled(
    aws: Bundled, hook: FaultServer
) -> None:
    note(aws, -40, -8)
    fail(aws, -4, *NAMES)
    for name in NAMES:
        fail(aws, -2, name, dead_slot=at(-8))
    run(aws, 0)
    run(aws, 5)
    (opened,) = told(hook)
    assert opened["title"].startswith(f"✗ a and 2 more: {REASON} since")
    assert opened["title"].endswith(", 3 slots dead")
    assert opened["incident"]["kinds"] == ["dead", "fails", "silent"]
    note(aws, -8, 15)
    for minutes in (10, 15):
        run(aws, minutes)
    _, recovered = told(hook)
    slots = recovered["incident"]["slots"]
    assert slots["stored"] == slots["expected"] >= 3 * 3 * 5
    assert recovered["title"].endswith("coverage of 24 h 100%")
    (incident,) = IncidentItems(aws.table).newest()
    assert not incident.is_open


def test_a_target_that_lacks_some_slots_without_an_error_is_late(aws: Bundled, hook: FaultServer) -> None:
    note(aws, -40, -4)
    note(aws, -4, -3, ("a", "c"))
    note(aws, -3, 0)
    run(aws, 0)
    (opened,) = told(hook)
    assert (opened["incident"]["kinds"], opened["incident"]["names"]) == (["late"], ["b"])


def test_while_all_is_well_nobody_is_told_and_no_record_is_read_but_for_the_numbers(
    aws: Bundled, hook: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(aws, -70, 0)
    aws.store(MetricRecord("a", slot, 1, slot) for slot in slots_between(at(-8), at(0), 20))
    monkeypatch.setattr(DynamoDbMetricStore, "query", lambda *_: 1 / 0)
    monkeypatch.setattr(DynamoDbMetricStore, "count", lambda *_: 1 / 0)
    run(aws, 0)
    assert told(hook) == []


def test_counts_that_are_zero_for_so_long_are_an_incident_of_their_own(aws: Bundled, hook: FaultServer) -> None:
    note(aws, -70, 0)
    aws.store(MetricRecord("b", slot, 0, slot) for slot in slots_between(at(-8), at(0), 20))
    run(aws, 0)
    (opened,) = told(hook)
    assert opened["title"].startswith("✗ b: zero for 5m (0) since")


def test_low_coverage_and_a_failed_company_are_told(aws: Bundled, hook: FaultServer) -> None:
    note(aws, -70, -50)
    note(aws, -50, -14, ("a", "c"))
    note(aws, -14, 0)
    reason = "AGGREGATION-004: the run is failed"
    CompanyFailures(aws.table).note("acme", reason, at(-1))
    run(aws, 0)
    titles = {each["title"].partition(" since")[0] for each in told(hook)}
    assert titles == {"✗ b: coverage of 1h < 50% (40%)", f"✗ company acme: aggregation failed: {reason}"}


def test_of_bundles_that_there_is_no_time_to_read_nothing_is_said(aws: Bundled, hook: FaultServer) -> None:
    note(aws, -40, -8)
    fail(aws, -4, *NAMES)
    run(aws, 0)
    settings = reconciler_settings(os.environ)
    from kizami.aws.bundles.telling import tell_of_bundles

    tell_of_bundles(settings, aws.ledger, DynamoDbMetricStore(aws.table), [], {}, at(5), lambda: 14)
    (incident,) = IncidentItems(aws.table).newest()
    assert all(member.clear_since is None for member in incident.members.values())


def test_the_live_queue_does_not_move(aws: Bundled, hook: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    note(aws, -40, -10)
    monkeypatch.setattr(SqsQueue, "depth", lambda _: (7, 0, 0))
    run(aws, 0)
    state = IncidentItems(aws.table).read().state
    assert {incident.group for incident in state.incidents} >= {"queue stuck", "trouble"}
