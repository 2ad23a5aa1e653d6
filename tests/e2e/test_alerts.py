"""Told when it breaks and when it is whole again: a real daemon, real receivers, and `kill -9` in between."""

from __future__ import annotations

import hmac
import json
import signal
import sqlite3
from base64 import b64encode
from pathlib import Path
from typing import Any

import fakes.fault_server as faults
from fakes.fault_server import Exchange, FaultServer, SeenRequest
from kizami.backend.incidents import BackendEvent
from kizami.local.backend import LocalBackend
from programs.daemon import Daemon, toml, wait_for
from programs.quick_alerts import QUICK

SECRET = "a-secret-to-sign-with"
QUIET = ("--no-mock", "--no-dashboard", "--retry-seconds", "0.2")


class Switched:
    """Answers 503 while it is down."""

    def __init__(self, *, down: bool = False) -> None:
        self.down = down

    def __call__(self, exchange: Exchange) -> None:
        (faults.status(503) if self.down else faults.answer())(exchange)


def ok(exchange: Exchange) -> None:
    faults.raw(b"{}")(exchange)


class Receiver(Switched):
    """A webhook that refuses while it is down."""

    def __call__(self, exchange: Exchange) -> None:
        (faults.status(503) if self.down else ok)(exchange)


def verified(request: SeenRequest) -> dict[str, Any]:
    """The document of a request that is signed as Standard Webhooks says."""
    key, seconds = request.headers["webhook-id"], request.headers["webhook-timestamp"]
    signed = f"{key}.{seconds}.".encode() + request.body
    expected = b64encode(hmac.digest(SECRET.encode(), signed, "sha256")).decode()
    assert request.headers["webhook-signature"] == f"v1,{expected}"
    document: dict[str, Any] = json.loads(request.body)
    assert document["id"] == key
    return document


def taken(server: FaultServer, refused: int) -> list[dict[str, Any]]:
    """What a receiver has got since it takes messages."""
    return [verified(request) for request in server.requests[refused:]]


def test_a_message_survives_kill_9_and_the_recovery_has_the_counts_of_the_store(tmp_path: Path) -> None:
    api, hook = Switched(), Receiver(down=True)
    (tmp_path / "secret").write_text(SECRET)
    with (
        FaultServer(api) as polled,
        FaultServer(hook) as receiver,
        FaultServer(faults.hang_before_headers) as hanging,
        FaultServer(ok) as alive,
    ):
        targets = [{"name": f"chat/{n}", "url": polled.url, "interval": "1s", "lag": "1s"} for n in range(3)]
        (tmp_path / "kizami.toml").write_text(
            f'public_url = "https://kizami.example.com"\nheartbeat = "{alive.url}/ping/me"\n{toml(targets)}\n'
            f'[[alerts]]\nto = "{hanging.url}/hook"\nwait = "0s"\n'
            f'[[alerts]]\nname = "ops"\nto = "{receiver.url}/hook"\nwait = "1s"\n'
            f'secret = "file:{tmp_path}/secret"\n'
        )
        with Daemon(tmp_path, *QUIET, program=QUICK) as daemon:
            daemon.wait_for_rows(3)
            wait_for(lambda: alive.requests, "a heartbeat")
            api.down = True
            assert daemon.wait_for_event("alert.refused")["receiver"] == "ops"
            daemon.stop(signal.SIGKILL)
        refused = len(receiver.requests)
        api.down = hook.down = False
        with Daemon(tmp_path, *QUIET, program=QUICK) as daemon:
            wait_for(lambda: len(taken(receiver, refused)) >= 2, "both messages")
            assert daemon.stop() == 0
        opened, recovered = taken(receiver, refused)
        assert [request.target for request in alive.requests[:1]] == ["/ping/me"]
    assert (opened["state"], recovered["state"]) == ("opened", "recovered")
    assert opened["incident"]["targets"] == 3
    assert opened["title"].startswith("✗ chat/0 and 2 more: status 503, expected 200 since ")
    assert opened["link"].startswith("https://kizami.example.com/?metric=chat%2F0&from=")
    slots = recovered["incident"]["slots"]
    assert slots["stored"] == slots["expected"] == stored_of_incident(tmp_path / "kizami.db") > 0
    assert f"; {slots['stored']} of {slots['expected']} slots filled; coverage of 24 h" in recovered["title"]
    assert SECRET not in daemon.log_file.read_text()
    events = [event.event for event in reversed(events_of(tmp_path / "kizami.db"))]
    assert events[0] == "daemon.started"
    assert events.count("daemon.started") == 2
    assert events[-1] == "daemon.stopped"
    assert {"incident.opened", "incident.over"} <= set(events)


def events_of(database: Path) -> list[BackendEvent]:
    """The log of events, newest first."""
    backend = LocalBackend(database)
    try:
        return backend.incident_log.events()
    finally:
        backend.close()


def stored_of_incident(database: Path) -> int:
    """How many slots the store has between the first that lacked and the moment at which its target was well."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        ((document,),) = connection.execute("SELECT document FROM incidents WHERE family = 'trouble'").fetchall()
        total = 0
        for member in json.loads(document)["members"]:
            sql = "SELECT count(*) FROM slots JOIN metrics ON id = metric_id WHERE name = ? AND slot >= ?"
            sql += " AND slot < ?"
            well_since = member.get("answersSince", member["clearSince"])
            bounds = member["firstSlot"], well_since / 1000 - 1
            total += connection.execute(sql, (member["name"], *bounds)).fetchone()[0]
    connection.close()
    return total
