"""The queue on one machine: SQS semantics in the same SQLite file as the store (delay, visibility, dead letters).

A slot is on the queue once. Sending one that is stored, pending or dead already changes nothing, so planning a
minute twice, a clock that jumps back or a repeated backfill never ask for anything a second time.
Live messages are handed out before retried ones, and those before backfill.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import apsw

from kizami.errors import QueueError
from kizami.local.database import open_database, sqlite_errors, transaction
from kizami.local.metrics import KnownMetric, known_metric, known_metrics, register
from kizami.local.moments import from_seconds, to_ms, to_seconds
from kizami.messages import ScheduleMessage, write_message
from kizami.ports import Clock, FailedSend, Received
from kizami.sender import PlannedMessage
from kizami.slots import Window, shift

LIVE, RETRY, BACKFILL = 0, 1, 2

DEFAULT_RECEIVE_LIMIT = 5
DEFAULT_VISIBILITY_SECONDS = 60
PIECE = 1000  # messages in one transaction of a verb, so that the daemon never waits long for its turn

# As in store.py a batch is one JSON parameter. An element: [slot, metric_id, seconds, due_ms, visible_ms].
_SEND = """
WITH entry AS MATERIALIZED (
    SELECT value ->> 0 AS slot, value ->> 1 AS metric_id, value ->> 2 AS seconds,
           value ->> 3 AS due_ms, value ->> 4 AS visible_ms
    FROM json_each(?1)
)
INSERT INTO messages (slot, metric_id, seconds, priority, due_ms, visible_ms, sent_ms)
SELECT slot, metric_id, seconds, ?2, due_ms, visible_ms, ?3 FROM entry
WHERE NOT EXISTS (SELECT 1 FROM slots AS s WHERE s.slot = entry.slot AND s.metric_id = entry.metric_id)
  AND NOT EXISTS (SELECT 1 FROM dead_letters AS d WHERE d.slot = entry.slot AND d.metric_id = entry.metric_id)
ON CONFLICT DO NOTHING
"""

_IN_TURN = """
SELECT json_group_array(json_array(slot, metric_id, seconds, priority, due_ms, receives + 1)) FROM (
    SELECT * FROM messages WHERE priority = ?1 AND visible_ms <= ?2 ORDER BY visible_ms LIMIT ?3
)
"""

# In the statements below ?1 is a JSON array of elements that begin with [slot, metric_id].
_THESE = "(slot, metric_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))"
_HAND_OUT = f"UPDATE messages SET receives = receives + 1, held = 1, visible_ms = ?2 WHERE {_THESE}"
_REMOVE = f"DELETE FROM messages WHERE {_THESE}"
_BURY = f"""
INSERT INTO dead_letters (slot, metric_id, seconds, priority, due_ms, sent_ms, died_ms, receives, reason)
SELECT slot, metric_id, seconds, priority, due_ms, sent_ms, ?2, receives,
       ifnull(last_error, 'handed out ' || receives || ' times and never settled')
FROM messages WHERE {_THESE}
"""


class Taken(NamedTuple):
    """A message handed out, in the database's units; `receives` counts this time too."""

    slot: int
    metric_id: int
    seconds: int
    priority: int
    due_ms: int
    receives: int


def send_batch(connection: apsw.Connection, rows: str, priority: int, sent_ms: int) -> int:
    """Put a JSON array of messages on the queue; how many of their slots were missing until now."""
    connection.execute(_SEND, (rows, priority, sent_ms))
    return connection.changes()


def take_batch(
    connection: apsw.Connection,
    priority: int,
    *,
    due_by_ms: int,
    hidden_until_ms: int,
    limit: int,
    receive_limit: int,
    now_ms: int,
) -> list[Taken]:
    """Hand out up to `limit` messages that are due by then, longest due first; bury the exhausted instead."""
    keys = str(connection.execute(_IN_TURN, (priority, due_by_ms, limit)).get)
    found = [Taken(*row) for row in json.loads(keys)]
    exhausted = [message for message in found if message.receives > receive_limit]
    if exhausted:
        bury_batch(connection, json.dumps(exhausted), now_ms)
    if found:
        connection.execute(_HAND_OUT, (keys, hidden_until_ms))
    return [message for message in found if message.receives <= receive_limit] if exhausted else found


def bury_batch(connection: apsw.Connection, keys: str, now_ms: int) -> None:
    """Make messages dead letters, with their last error as the reason."""
    connection.execute(_BURY, (keys, now_ms))
    connection.execute(_REMOVE, (keys,))


def acknowledge_batch(connection: apsw.Connection, keys: str) -> None:
    """Take messages off the queue for good."""
    connection.execute(_REMOVE, (keys,))


class SqliteQueue:
    """`ports.Queue` on a database file. Many may work on one file at once, also in several processes."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        create: bool = False,
        visibility_seconds: float = DEFAULT_VISIBILITY_SECONDS,
        receive_limit: int = DEFAULT_RECEIVE_LIMIT,
    ) -> None:
        self._path = path
        self._clock = clock
        self._visibility_ms = round(visibility_seconds * 1000)
        self._receive_limit = receive_limit
        self._connection = open_database(path, create=create)

    def send(self, entries: Sequence[PlannedMessage]) -> list[FailedSend]:
        now = self._clock.now()
        with sqlite_errors(QueueError, self._path), transaction(self._connection):
            rows = []
            for entry in entries:
                due_ms = to_ms(shift(now, entry.delay_seconds))
                rows.append(_row(entry.message, self._metric(entry.message), due_ms, due_ms))
            send_batch(self._connection, json.dumps(rows), LIVE, to_ms(now))
        return []

    def receive(self, limit: int) -> list[Received]:
        now_ms = to_ms(self._clock.now())
        taken: list[Taken] = []
        with sqlite_errors(QueueError, self._path), transaction(self._connection):
            for priority in (LIVE, RETRY, BACKFILL):
                taken += take_batch(
                    self._connection,
                    priority,
                    due_by_ms=now_ms,
                    hidden_until_ms=now_ms + self._visibility_ms,
                    limit=limit - len(taken),
                    receive_limit=self._receive_limit,
                    now_ms=now_ms,
                )
            names = {metric.id: metric.name for metric in known_metrics(self._connection).values()}
        return [_received(message, names[message.metric_id]) for message in taken]

    def acknowledge(self, received: Received) -> None:
        key = [int(part) for part in received.receipt.split(":")]
        with sqlite_errors(QueueError, self._path), transaction(self._connection):
            acknowledge_batch(self._connection, json.dumps([key]))

    def send_backfill(self, messages: Iterable[ScheduleMessage]) -> int:
        """Put past slots on the queue, to be asked for when there is room; how many were missing until now.

        Piece by piece, so that it can be interrupted and repeated at any point.
        """
        remaining = iter(messages)
        sent = 0
        while piece := list(islice(remaining, PIECE)):
            now_ms = to_ms(self._clock.now())
            with sqlite_errors(QueueError, self._path), transaction(self._connection):
                rows = [backfill_row(message, self._metric(message), now_ms) for message in piece]
                sent += send_batch(self._connection, json.dumps(rows), BACKFILL, now_ms)
        return sent

    def close(self) -> None:
        """Give the file back."""
        self._connection.close()

    def _metric(self, message: ScheduleMessage) -> KnownMetric:
        known = known_metric(self._connection, message.metric)
        return known or register(
            self._connection, message.metric, int(message.window.seconds), 0, message.window.start
        )


def backfill_row(message: ScheduleMessage, metric: KnownMetric, now_ms: int) -> list[int]:
    """An element for `send_batch`: visible at once, but due when its slot was, so that its lateness is true."""
    due_ms = (to_seconds(message.window.start) + metric.lag_seconds) * 1000
    return _row(message, metric, due_ms, now_ms)


def _row(message: ScheduleMessage, metric: KnownMetric, due_ms: int, visible_ms: int) -> list[int]:
    slot = to_seconds(message.window.start)
    return [slot, metric.id, int(message.window.seconds), due_ms, visible_ms]


def _received(message: Taken, name: str) -> Received:
    start = from_seconds(message.slot)
    body = write_message(ScheduleMessage(Window(start, shift(start, message.seconds)), name))
    return Received(body, message.receives, f"{message.slot}:{message.metric_id}")
