"""The outbox without its threads: each receiver's messages in their order, once, and not for ever."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from fakes.alert_world import START
from kizami.alerts.messages import Message
from kizami.alerts.notices import MessageState
from kizami.local.alerts.outbox import (
    TRIED_FOR,
    next_message,
    note_delivered,
    note_refused,
    put_messages,
    undelivered,
    wait_seconds,
)
from kizami.local.store.database import open_database


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = open_database(tmp_path / "kizami.db", create=True)
    yield connection
    connection.close()


def message(number: int, receiver: str = "on-call") -> Message:
    return Message(1, number, receiver, MessageState.TEST, START, START)


def test_messages_come_in_their_order_to_their_own_receiver_and_once(connection: apsw.Connection) -> None:
    put_messages(connection, [message(1), message(1, "other"), message(2)], "en")
    put_messages(connection, [message(1)], "en")
    seen = []
    while found := next_message(connection, "on-call"):
        seen.append(found[0].message)
        note_delivered(connection, found[0], START)
    assert seen == [message(1).key, message(2).key]
    assert undelivered(connection) == {"other": (1, None)}


def test_one_that_is_refused_waits_ever_longer_and_is_given_up_after_three_days(
    connection: apsw.Connection,
) -> None:
    put_messages(connection, [message(1)], "en")
    waits = []
    for _ in range(3):
        found = next_message(connection, "on-call")
        assert found is not None
        assert note_refused(connection, found[0], "status 500", START)
        after = next_message(connection, "on-call")
        assert after is not None
        waits.append((after[1] - START).total_seconds())
    assert waits == [5.0, 10.0, 20.0]
    assert undelivered(connection) == {"on-call": (1, "status 500")}
    found = next_message(connection, "on-call")
    assert found is not None
    assert note_refused(connection, found[0], "status 500", START + TRIED_FOR)
    assert not note_refused(connection, found[0], "status 500", START + TRIED_FOR + timedelta(seconds=1))
    assert next_message(connection, "on-call") is None


def test_no_wait_is_longer_than_a_quarter_of_an_hour() -> None:
    assert [wait_seconds(attempts) for attempts in (1, 8, 9, 1000)] == [5.0, 640.0, 900.0, 900.0]
