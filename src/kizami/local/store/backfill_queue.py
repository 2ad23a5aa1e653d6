"""How past slots come onto the queue: for catching up, for verbs and for the dashboard.

A slot is on the queue once. Sending one that is stored, pending or dead already changes nothing, so planning a
minute twice, a clock that jumps back or a repeated backfill never ask for anything a second time.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from kizami.core.epoch import to_ms, to_seconds
from kizami.core.errors import QueueError
from kizami.core.messages import ScheduleMessage
from kizami.core.ports import Clock
from kizami.local.store import statements
from kizami.local.store.blocks import KeptSlots, forget_kept
from kizami.local.store.database import open_database, sqlite_errors, transaction
from kizami.local.store.metrics import KnownMetric, register_slot
from kizami.local.store.rows import SentRow
from kizami.local.store.statements import BACKFILL

PIECE = 1000  # messages in one transaction of a verb, so that the daemon never waits long for its turn


class BackfillQueue:
    """The queue of a database file. Many may work on one file at once, also in several processes."""

    def __init__(self, path: Path, clock: Clock, *, create: bool = False) -> None:
        self._path = path
        self._clock = clock
        self._connection = open_database(path, create=create)

    def send_backfill(self, messages: Iterable[ScheduleMessage]) -> int:
        """Put past slots on the queue, to be asked for when there is room; how many were missing until now.

        Piece by piece, so that it can be interrupted and repeated at any point.
        """
        remaining = iter(messages)
        sent = 0
        while piece := list(islice(remaining, PIECE)):
            now_ms = to_ms(self._clock.now())
            known: dict[str, KnownMetric] = {}
            with sqlite_errors(QueueError, self._path), transaction(self._connection):
                rows = [_row(message, self._metric(message, known)) for message in piece]
                sent += statements.send(self._connection, rows, BACKFILL, now_ms)
        return sent

    def forget_kept(self, kept: Iterable[KeptSlots]) -> None:
        """All of these that were missing are on the queue now."""
        with sqlite_errors(QueueError, self._path), transaction(self._connection):
            for each in kept:
                forget_kept(self._connection, each)

    def close(self) -> None:
        """Give the file back."""
        self._connection.close()

    def _metric(self, message: ScheduleMessage, known: dict[str, KnownMetric]) -> KnownMetric:
        """The metric of a message, as this transaction `known` it before or has to read it."""
        metric, window = known.get(message.metric), message.window
        if metric is None or to_seconds(window.start) % metric.step_seconds:
            metric = register_slot(self._connection, message.metric, window.start, int(window.seconds))
            known[message.metric] = metric
        return metric


def _row(message: ScheduleMessage, metric: KnownMetric) -> SentRow:
    """The message, to be handed out from its slot's moment on.

    Whatever the clock says now, a past slot is asked for at once, one that is not due yet waits for its moment.
    """
    slot = to_seconds(message.window.start)
    due_ms = (slot + metric.lag_seconds) * 1000
    return SentRow(slot, metric.asked_id, int(message.window.seconds), due_ms)
