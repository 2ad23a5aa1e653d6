"""What is wrong with targets and backend, from the figures that the page shows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kizami.alerts.findings import AlertFinding, topic_of
from kizami.alerts.troubles import MachineTrouble, WatchRun, find_backend_troubles, find_troubles
from kizami.backend.health import SlotTally, TargetStatus
from kizami.backend.incidents import BACKEND, TROUBLE, Kind
from kizami.backend.targets import KnownTarget, Polling
from kizami.backend.values import Deaths, Lateness, QueueDepth, TargetTrouble
from kizami.core.coverage import Completeness
from kizami.core.epoch import EPOCH

NOW = datetime(2025, 12, 2, 10, 0, 30, tzinfo=UTC)
TARGET = KnownTarget("chat/a", 5, 5, NOW - timedelta(days=2))
WELL = TargetStatus(
    TARGET, NOW - timedelta(seconds=15), SlotTally(12), Completeness(720, 720), Completeness(17_280, 17_280), 0
)
IDLE = QueueDepth(0, 12, 0, 0, 0.0)
PROMPT = Lateness(100, 2, 9, 40)


def found(
    status: TargetStatus, deaths: Deaths | None = None, since: datetime | None = None
) -> AlertFinding | None:
    name = status.target.name
    findings = find_troubles({name: status}, {name: deaths} if deaths else {}, NOW, WatchRun(running_since=since))
    return findings.bad.get((TROUBLE, name))


def test_a_target_that_collects_has_no_trouble() -> None:
    assert found(WELL) is None


def test_a_failing_target_lacks_what_comes_after_its_newest_slot() -> None:
    trouble = TargetTrouble("status 503, expected 200")
    finding = found(replace(WELL, minute=SlotTally(6, pending=6), trouble=trouble))
    assert finding is not None
    assert (set(finding.kinds), finding.cause) == ({Kind.FAILS}, "status 503, expected 200")
    assert finding.first_slot == NOW - timedelta(seconds=10)


def test_a_silent_target_is_found_without_an_error() -> None:
    finding = found(replace(WELL, newest_slot=None, minute=SlotTally(missing=12)))
    assert finding is not None
    assert (set(finding.kinds), finding.cause, finding.first_slot) == ({Kind.SILENT}, "", TARGET.first_slot)


def test_a_target_without_any_record_of_which_nobody_knows_since_when_it_is_polled_lacks_recent_slots() -> None:
    unknown = replace(TARGET, first_slot=EPOCH)
    finding = found(replace(WELL, target=unknown, newest_slot=None, minute=SlotTally(missing=12)))
    assert finding is not None
    assert (finding.first_slot, finding.since) == (unknown.current(NOW).start, None)


def test_slots_that_died_are_one_trouble_with_the_failure_that_killed_them() -> None:
    deaths = Deaths(3, NOW - timedelta(minutes=5), "status 503, expected 200")
    silent = replace(WELL, minute=SlotTally(pending=12), trouble=TargetTrouble("status 503, expected 200"))
    finding = found(silent, deaths)
    assert finding is not None
    assert finding.kinds == {Kind.FAILS, Kind.SILENT, Kind.DEAD}
    assert finding.first_slot == deaths.first_slot


def test_a_target_that_has_some_of_its_slots_and_no_error_is_late() -> None:
    finding = found(replace(WELL, minute=SlotTally(8, pending=4)))
    assert finding is not None
    assert (set(finding.kinds), finding.detail) == ({Kind.LATE}, "8/12")


def test_a_target_that_is_not_polled_has_no_trouble() -> None:
    paused = replace(TARGET, polling=Polling.PAUSED)
    assert found(replace(WELL, target=paused, minute=SlotTally(missing=12))) is None


def test_nothing_is_said_about_the_time_before_the_start() -> None:
    silent = replace(WELL, minute=SlotTally(missing=12))
    findings = find_troubles({"chat/a": silent}, {}, NOW, WatchRun(running_since=NOW - timedelta(seconds=30)))
    assert (dict(findings.bad), set(findings.unjudged)) == ({}, {(TROUBLE, "chat/a")})
    assert found(silent, since=NOW - timedelta(minutes=5)) is not None
    assert not find_troubles({"chat/a": WELL}, {}, NOW, WatchRun(running_since=NOW)).unjudged, (
        "what is all there is well"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("status 401, expected 200; check env:A", "status 401, expected 200; check env:B"),
        (
            "connection refused by 10.0.0.1:80; is its server up?",
            "connection refused by h2:81; is its server up?",
        ),
        ("host name a.example.com not found", "host name b.example.com not found"),
        ("no token from https://a.example/t: status 400", "no token from https://b.example/t: status 400"),
        ("no answer within 10 s", "no answer within 2.5 s"),
    ],
)
def test_one_cause_has_one_topic_whichever_target_tells_of_it(one: str, other: str) -> None:
    assert topic_of(one) == topic_of(other)


def test_other_statuses_are_other_topics() -> None:
    assert topic_of("status 503, expected 200") == "status 503, expected …"
    assert topic_of("status 503, expected 200") != topic_of("status 500, expected 200")


def of_backend(
    queue: QueueDepth = IDLE,
    lateness: Lateness = PROMPT,
    storing: bool = True,
    machine: MachineTrouble | None = None,
) -> set[tuple[str, str]]:
    return set(find_backend_troubles(queue, lateness, 1000, storing, machine or MachineTrouble()).bad)


def test_a_backend_that_is_well_has_no_trouble() -> None:
    assert of_backend() == set()


def test_a_queue_is_stuck_if_old_messages_wait_and_nothing_comes() -> None:
    old = QueueDepth(7, 0, 0, 0, 301.0)
    assert of_backend(old, storing=False) == {("queue stuck", BACKEND)}
    assert of_backend(old) == set()


def test_requests_that_leave_late_are_the_backend_s_trouble() -> None:
    assert of_backend(lateness=Lateness(100, 1500, 4000, 9000)) == {("late", BACKEND)}


def test_a_full_disk_and_a_failed_aggregation_are_told_by_the_daemon() -> None:
    machine = MachineTrouble("the disk is full; make room", {"acme": "007: the run is failed"})
    assert of_backend(machine=machine) == {("disk full", BACKEND), ("aggregation failed", "acme")}
