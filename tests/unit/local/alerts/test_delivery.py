"""Receivers on threads of their own: one that hangs or refuses delays nobody, and nothing comes twice."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import fakes.fault_server as faults
from fakes.alert_world import START
from fakes.fault_server import Exchange, FaultServer
from kizami.alerts.messages import Message
from kizami.alerts.notices import MessageState
from kizami.alerts.rules.settings import Rule
from kizami.local.alerts import outbox
from kizami.local.alerts.delivery import AlertDelivery
from kizami.local.alerts.outbox import next_message, note_refused, put_messages, undelivered, wait_seconds
from kizami.local.store.database import open_database, transaction
from kizami.platform.clock import SystemClock
from programs.daemon import wait_for


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "kizami.db"
    open_database(path, create=True).close()
    return path


@pytest.fixture
def delivery(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AlertDelivery]:
    monkeypatch.setattr(outbox, "LEAST_WAIT_SECONDS", 0.05)
    delivery = AlertDelivery(path, SystemClock())
    yield delivery
    delivery.close()


def message(number: int, receiver: str, at: datetime | None = None) -> Message:
    at = at or SystemClock().now()
    return Message(1, number, receiver, MessageState.TEST, at, at)


def put(path: Path, *messages: Message) -> None:
    connection = open_database(path)
    with transaction(connection):
        put_messages(connection, messages, "en")
    connection.close()


def ids(server: FaultServer) -> list[str]:
    return [json.loads(request.body)["id"] for request in server.requests]


def taken(exchange: Exchange) -> None:
    faults.raw(b"{}")(exchange)


def settled(path: Path, receiver: str) -> bool:
    connection = open_database(path)
    try:
        return receiver not in undelivered(connection)
    finally:
        connection.close()


def test_one_that_hangs_delays_nobody_else(path: Path, delivery: AlertDelivery) -> None:
    with FaultServer(faults.hang_before_headers) as hanging, FaultServer(taken) as server:
        put(path, *(message(number, name) for number in (1, 2) for name in ("slow", "quick")))
        delivery.use([Rule("slow", hanging.url, ()), Rule("quick", server.url, ())])
        wait_for(lambda: settled(path, "quick"), "both messages of the quick one")
        assert ids(server) == ["1-1", "1-2"]
        delivery.close()
    assert not settled(path, "slow")


def test_what_is_refused_comes_again_in_its_order_and_then_never_more(path: Path, delivery: AlertDelivery) -> None:
    with FaultServer(faults.status(503), then=taken) as server:
        put(path, message(1, "ops"), message(2, "ops"))
        delivery.use([Rule("ops", server.url, ())])
        wait_for(lambda: settled(path, "ops"), "both messages")
        put(path, message(1, "ops"), message(2, "ops"))
        delivery.wake()
        put(path, message(3, "ops"))
        delivery.wake()
        wait_for(lambda: settled(path, "ops"), "the third message")
        assert ids(server) == ["1-1", "1-1", "1-2", "1-3"]


def test_a_receiver_can_be_changed_and_taken_away_while_it_waits(path: Path, delivery: AlertDelivery) -> None:
    with FaultServer(faults.status(503)) as refusing, FaultServer(taken) as server:
        delivery.use([Rule("ops", refusing.url, ())])
        put(path, message(1, "ops"))
        delivery.wake()
        wait_for(lambda: refusing.requests, "a refusal")
        delivery.use([Rule("ops", server.url, ())])
        wait_for(lambda: settled(path, "ops"), "the message at its new place")
        delivery.use([])
        wait_for(lambda: "kizami-receiver" not in {thread.name for thread in threading.enumerate()}, "its end")


def test_after_three_days_a_message_is_given_up(path: Path) -> None:
    put(path, message(1, "ops", START))
    connection = open_database(path)
    try:
        assert _refuse(connection, START + timedelta(days=2))
        assert undelivered(connection) == {"ops": (1, "no")}
        assert not _refuse(connection, START + timedelta(days=3, seconds=1))
        assert undelivered(connection) == {}
    finally:
        connection.close()


def _refuse(connection: object, now: datetime) -> bool:
    found = next_message(connection, "ops")  # type: ignore[arg-type]
    assert found is not None
    return note_refused(connection, found[0], "no", now)  # type: ignore[arg-type]


def test_the_wait_grows_up_to_a_quarter_of_an_hour() -> None:
    assert [wait_seconds(attempts) for attempts in (1, 2, 3, 8, 9, 1000)] == [5, 10, 20, 640, 900, 900]
