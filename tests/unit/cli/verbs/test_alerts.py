"""`kizami alerts`: incidents listed, taken on and silenced; receivers tried; what doctor says of them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import fakes.fault_server as faults
from fakes.fault_server import FaultServer
from kizami.alerts.decision import AlertState, Decision
from kizami.alerts.rules.settings import parse_alerts
from kizami.backend.incidents import Incident, Kind, Member
from kizami.cli.checks.alerts import check_alerts
from kizami.cli.checks.machine import Health
from kizami.cli.exit_codes import CONFIGURATION, FAILURE, OK, USAGE
from kizami.local.alerts.incident_rows import save_incidents
from kizami.local.store.database import open_database, transaction
from kizami.platform.clock import SystemClock
from programs.command import Command
from samples.database import at, make_database

NOW = at(720)
DATABASE = Path("kizami.db")
CAUSE = "status 503, expected 200"


@pytest.fixture
def kizami(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """An open incident of two targets, and an older one that is over."""
    monkeypatch.chdir(tmp_path)
    for name in ("KIZAMI_CONFIG", "KIZAMI_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(SystemClock, "now", lambda self: NOW)
    monkeypatch.setenv("LOGNAME", "ann")
    make_database(DATABASE, {"calls": range(700)})
    members = {
        name: Member(name, frozenset({Kind.FAILS}), NOW, first_slot=at(700)) for name in ("calls", "errors")
    }
    over = Incident(1, "disk full", "", "the disk is full", NOW - timedelta(hours=2), over_since=NOW)
    opened = Incident(2, "trouble", CAUSE, CAUSE, NOW, members)
    connection = open_database(DATABASE)
    with transaction(connection):
        save_incidents(connection, Decision(AlertState((opened,)), (over, opened)))
    connection.close()
    return Command(capsys)


def test_open_incidents_are_listed_and_with_all_those_that_are_over(kizami: Command) -> None:
    found = kizami("alerts", "list")
    assert (found.code, found.err) == (OK, "kizami: 1 open incident\n")
    assert found.out.splitlines() == [
        "number  since                 over  kinds  targets  first  cause",
        "     2  2025-12-02T10:00:00Z  -     fails        2  calls  status 503, expected 200",
    ]
    assert [each["number"] for each in kizami("alerts", "list", "--all", "--json").json["incidents"]] == [2, 1]


def test_one_is_shown_with_its_targets(kizami: Command) -> None:
    document = kizami("alerts", "show", "2", "--json").json
    assert [member["name"] for member in document["members"]] == ["calls", "errors"]
    assert document["members"][0]["firstSlot"] == "2025-12-02T09:58:20Z"
    assert "calls   2025-12-02T10:00:00Z  -           fails" in kizami("alerts", "show", "2").out


def test_one_is_taken_on_and_silenced_and_both_are_kept_as_events(kizami: Command) -> None:
    found = kizami("alerts", "acknowledge", "2")
    assert (found.code, found.err) == (OK, "kizami: incident 2 is acknowledged by ann\n")
    assert kizami("alerts", "acknowledge", "2", "--by", "bob", "--json").json["acknowledgedBy"] == "ann"
    silenced = kizami("alerts", "silence", "2", "--for", "30m", "--json").json
    assert silenced["silencedUntil"] == "2025-12-02T10:30:00Z"
    events = kizami("alerts", "events", "--json").json["events"]
    assert [(event["event"], event["by"]) for event in events] == [
        ("incident.silenced", "ann"),
        ("incident.acknowledged", "ann"),
    ]
    assert "incident.silenced" in kizami("alerts", "events").out


def test_a_silence_is_ended_early_and_that_is_kept_once_as_an_event(kizami: Command) -> None:
    kizami("alerts", "silence", "2")
    found = kizami("alerts", "unsilence", "2")
    assert (found.code, found.err) == (OK, "kizami: incident 2 is not silenced any more\n")
    assert kizami("alerts", "unsilence", "2", "--json").json["silencedUntil"] is None
    events = [event["event"] for event in kizami("alerts", "events", "--json").json["events"]]
    assert events == ["incident.unsilenced", "incident.silenced"]
    assert kizami("alerts", "unsilence", "9").code == USAGE


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("show", "9"), USAGE, "there is none of number 9"),
        (("acknowledge", "1"), USAGE, "number 1 is over already"),
        (("silence", "2", "--for", "soon"), USAGE, "is not a duration"),
        (("silence", "2", "--for", "32d"), USAGE, "from 1s to 31d"),
        (("test",), CONFIGURATION, "there is no [[alerts]] in the file"),
    ],
)
def test_a_mistake_is_one_line(kizami: Command, arguments: tuple[str, ...], code: int, words: str) -> None:
    found = kizami("alerts", *arguments)
    assert (found.code, found.err.count("\n")) == (code, 1)
    assert words in found.err


def test_who_backfills_is_kept(kizami: Command) -> None:
    kizami("backfill", "calls", "--from", "2025-12-02T09:58:00Z", "--to", "2025-12-02T09:59:00Z", "--no-wait")
    (event,) = kizami("alerts", "events", "--json").json["events"]
    assert event["event"] == "slots.backfilled"
    assert event["by"] == "kizami backfill (ann)"
    assert event["details"] == {"slots": 8, "metrics": ["calls"], "of": 1}


TARGET = '[[targets]]\nname = "calls"\nurl = "http://127.0.0.1:3000"\n'


def test_receivers_are_tried_and_each_is_told_of(kizami: Command) -> None:
    with FaultServer(faults.raw(b"{}")) as server, FaultServer(faults.status(500)) as refusing:
        Path("kizami.toml").write_text(
            f'{TARGET}[[alerts]]\nto = "{server.url}/a"\nname = "good"\n[[alerts]]\nto = "{refusing.url}/b"\n'
            '[[alerts]]\nto = "env:KIZAMI_TEST_NO_SUCH"\n'
        )
        found = kizami("alerts", "test", "--json")
        good = kizami("alerts", "test", "good")
        unknown = kizami("alerts", "test", "bad")
    assert (found.code, good.code, unknown.code) == (CONFIGURATION, OK, CONFIGURATION)
    assert [each["delivered"] for each in found.json["receivers"]] == [True, False, False]
    assert "status 500, expected 200 to 299" in found.err
    assert "the environment variable KIZAMI_TEST_NO_SUCH is not set" in found.err
    assert good.err == "kizami: good: the message was taken\n"
    assert "bad' is not the name of an [[alerts]] table; known: good, " in unknown.err
    assert kizami("alerts", "test", f"{refusing.url}/b").code == FAILURE


def test_doctor_finds_what_lacks_and_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL", "mailto://127.0.0.1:1?from=a@example.com&to=b@example.com")
    monkeypatch.delenv("NONE", raising=False)
    document = {
        "alerts": [{"to": "env:MAIL"}, {"to": "env:NONE"}, {"to": "https://example.com/hook"}],
        "heartbeat": "env:NONE",
    }
    settings = parse_alerts(document, "kizami.toml")
    assert [check.health for check in check_alerts(settings)] == [
        *(Health.OK, Health.FAILED),
        *(Health.OK, Health.FAILED),
    ]
    monkeypatch.setattr("kizami.cli.checks.alerts.has_apprise", lambda: False)
    first = next(iter(check_alerts(settings)))
    assert (first.health, first.finding) == (Health.FAILED, "Apprise is not installed")
    assert first.remedy == "pip install 'kizami[alerts]'"
