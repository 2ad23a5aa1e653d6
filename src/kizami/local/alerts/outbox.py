"""Messages that are to be delivered: written with the decision, taken off when their receiver has answered.

Each receiver's are delivered in their order. One that is refused is tried again ever more slowly, for three days.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import apsw

from kizami.alerts.messages import Message
from kizami.alerts.texts import render_text
from kizami.alerts.webhook import message_json
from kizami.core.epoch import from_ms, to_ms
from kizami.core.slots import shift

LEAST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 5.0, 900.0
TRIED_FOR = timedelta(days=3)
KEPT_FOR = timedelta(days=31)  # so long is known what was delivered


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A message on its way to a receiver."""

    number: int
    message: str
    document: dict[str, Any]
    created_at: datetime
    attempts: int


def put_messages(connection: apsw.Connection, messages: Iterable[Message], language: str) -> None:
    """To be called in the transaction that keeps their incidents. One that is there already stays as it is."""
    rows = [
        (each.receiver, each.key, _document(each, language), to_ms(each.at), to_ms(each.at)) for each in messages
    ]
    sql = """INSERT INTO outbox (receiver, message, document, created_ms, next_ms) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT DO NOTHING"""
    connection.executemany(sql, rows)


def _document(message: Message, language: str) -> str:
    return json.dumps(message_json(message, render_text(message, language)), ensure_ascii=False)


def outgoing_of(message: Message, language: str) -> OutgoingMessage:
    """A message that goes out without the outbox."""
    return OutgoingMessage(0, message.key, message_json(message, render_text(message, language)), message.at, 0)


def next_message(connection: apsw.Connection, receiver: str) -> tuple[OutgoingMessage, datetime] | None:
    """The oldest one of a receiver that is to be delivered, and from when on."""
    row = connection.execute(
        """SELECT number, message, document, created_ms, attempts, next_ms FROM outbox
        WHERE settled_ms IS NULL AND receiver = ? ORDER BY number LIMIT 1""",
        (receiver,),
    ).fetchone()
    if row is None:
        return None
    number, message, document, created, attempts, next_ms = row
    return OutgoingMessage(number, message, json.loads(document), from_ms(created), attempts), from_ms(next_ms)


def note_delivered(connection: apsw.Connection, outgoing: OutgoingMessage, now: datetime) -> None:
    """Its receiver has answered: it is never sent again."""
    sql = "UPDATE outbox SET settled_ms = ?, attempts = attempts + 1, last_error = NULL WHERE number = ?"
    connection.execute(sql, (to_ms(now), outgoing.number))


def note_refused(connection: apsw.Connection, outgoing: OutgoingMessage, error: str, now: datetime) -> bool:
    """It was refused; whether it is tried again."""
    attempts = outgoing.attempts + 1
    is_given_up = now - outgoing.created_at > TRIED_FOR
    connection.execute(
        "UPDATE outbox SET attempts = ?, last_error = ?, next_ms = ?, settled_ms = ? WHERE number = ?",
        (
            attempts,
            error,
            to_ms(shift(now, wait_seconds(attempts))),
            to_ms(now) if is_given_up else None,
            outgoing.number,
        ),
    )
    return not is_given_up


def wait_seconds(attempts: int) -> float:
    """The wait after so many attempts: 5, 10, 20 s … 15 minutes."""
    return min(LEAST_WAIT_SECONDS * 2.0 ** min(attempts - 1, 20), LONGEST_WAIT_SECONDS)


def forget_delivered(connection: apsw.Connection, now: datetime) -> None:
    """Let go of what was delivered long ago."""
    connection.execute("DELETE FROM outbox WHERE settled_ms < ?", (to_ms(now - KEPT_FOR),))


def undelivered(connection: apsw.Connection) -> dict[str, tuple[int, str | None]]:
    """How many messages wait for each receiver, and why the oldest of them was refused."""
    rows = connection.execute(
        "SELECT receiver, count(*), min(number), last_error FROM outbox WHERE settled_ms IS NULL GROUP BY receiver"
    )
    return {receiver: (count, error) for receiver, count, _, error in rows}
