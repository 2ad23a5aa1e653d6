"""The queue on one machine: SQS semantics in the same SQLite file as the store (delay, visibility, dead letters).

A slot is on the queue once. Sending one that is stored, pending or dead already changes nothing, so planning a
minute twice, a clock that jumps back or a repeated backfill never ask for anything a second time.
Live messages are handed out before retried ones, and those before backfill.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from kizami.errors import QueueError
from kizami.local import batches
from kizami.local.batches import BACKFILL, LIVE, RETRY, Taken
from kizami.local.database import open_database, sqlite_errors, transaction
from kizami.local.metrics import KnownMetric, known_metrics, register_slot
from kizami.local.moments import from_seconds, to_ms, to_seconds
from kizami.messages import ScheduleMessage, write_message
from kizami.ports import Clock, FailedSend, Received
from kizami.sender import PlannedMessage
from kizami.slots import Window, shift

DEFAULT_RECEIVE_LIMIT = 5
DEFAULT_VISIBILITY_SECONDS = 120
PIECE = 1000  # messages in one transaction of a verb, so that the daemon never waits long for its turn


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
            batches.send(self._connection, rows, LIVE, to_ms(now))
        return []

    def receive(self, limit: int) -> list[Received]:
        now_ms = to_ms(self._clock.now())
        hidden_until_ms = now_ms + self._visibility_ms
        due: list[Taken] = []
        with sqlite_errors(QueueError, self._path), transaction(self._connection):
            for priority in (LIVE, RETRY, BACKFILL):
                due += batches.in_turn(self._connection, priority, now_ms, limit - len(due))
            taken = batches.take(self._connection, due, hidden_until_ms, self._receive_limit, now_ms)
            names = {metric.id: metric.name for metric in known_metrics(self._connection).values()}
        return [_received(message, names[message.metric_id]) for message in taken]

    def acknowledge(self, received: Received) -> None:
        key = [int(part) for part in received.receipt.split(":")]
        with sqlite_errors(QueueError, self._path), transaction(self._connection):
            batches.remove(self._connection, [key])

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
                sent += batches.send(self._connection, rows, BACKFILL, now_ms)
        return sent

    def close(self) -> None:
        """Give the file back."""
        self._connection.close()

    def _metric(self, message: ScheduleMessage) -> KnownMetric:
        window = message.window
        return register_slot(self._connection, message.metric, window.start, int(window.seconds))


def backfill_row(message: ScheduleMessage, metric: KnownMetric, now_ms: int) -> list[int]:
    """A row for `batches.send`: visible at once, but due when its slot was, so that its lateness is true."""
    due_ms = (to_seconds(message.window.start) + metric.lag_seconds) * 1000
    return _row(message, metric, due_ms, now_ms)


def _row(message: ScheduleMessage, metric: KnownMetric, due_ms: int, visible_ms: int) -> list[int]:
    slot = to_seconds(message.window.start)
    return [slot, metric.id, int(message.window.seconds), due_ms, visible_ms]


def _received(message: Taken, name: str) -> Received:
    start = from_seconds(message.slot)
    body = write_message(ScheduleMessage(Window(start, shift(start, message.seconds)), name))
    return Received(body, message.receives, f"{message.slot}:{message.metric_id}")
