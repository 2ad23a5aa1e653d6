"""The one thread that writes while the daemon runs: what the loop hands over becomes durable in grouped commits.

A turn of the writer is one transaction: results are stored and their messages acknowledged, plans are put on
the queue, failures go back or die, and what is due next is handed out, some time ahead of its moment, so that
no poll ever waits for the disk. When the disk refuses, all of that is kept in bounded memory and tried again;
meanwhile the messages that are due are handed out without being counted, and polling goes on.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import apsw

from kizami.core.errors import StoreError
from kizami.core.ports import WallClock
from kizami.local.engine.machine import Machine
from kizami.local.engine.waiting_lines import HostRoom, WaitingLines
from kizami.local.engine.write_batch import Change, WriteBatch
from kizami.local.store import statements
from kizami.local.store.database import explain, is_locked, open_database, rewrite_page, sqlite_errors, transaction
from kizami.local.store.rows import TakenMessage
from kizami.local.store.statements import LIVE
from kizami.local.store.write_ahead_log import LogWatch

LATE_MS = 5000  # a live message that nobody asked for by then is backfill
LOOK_AHEAD_MS = 7000  # how far ahead of its moment a live message is handed out with whatever is written
HELD_LIMIT = 50_000  # results and plans kept in memory while nothing can be written

_LEAST_AHEAD_MS = 5000  # how long a commit may take before a poll is late for it
_GROUP_SECONDS = 0.25  # what comes in within this time is committed together
_IDLE_SECONDS = 0.5  # how soon a message is noticed that another process has sent
_TROUBLE_SECONDS = 1.0
_LIVE_LIMIT = 5000

Outcome = TypeVar("Outcome")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WriterTurn:
    """What the writer has for the loop: messages handed out, and what is durable now."""

    taken: list[TakenMessage]
    written: WriteBatch


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """How messages are handed out."""

    visibility_seconds: float
    old_per_second: int


def when_unlocked(step: Callable[[], Outcome], path: Path, is_ending: Callable[[], bool]) -> Outcome:
    """Do a step of the start, again and again while another program has the database locked, until it is to end.

    Each attempt waits for the lock by itself. A lock later on is the writer's thread's to wait for.
    """
    told = False
    while True:
        try:
            return step()
        except StoreError as error:
            if not is_locked(error) or is_ending():
                raise
            if not told:
                logger.warning(
                    "another program has the database locked; the start waits for it",
                    extra={"event": "database.locked", "database": str(path)},
                )
            told = True


class Writer:
    """Owns the connection that writes. `report` is called on the writer's thread, for each turn that has something
    for the loop; `room` says how many retried and backfilled messages the loop can take."""

    def __init__(
        self,
        path: Path,
        clock: WallClock,
        limits: QueueLimits,
        report: Callable[[WriterTurn], None],
        room: HostRoom,
        machine: Machine | None = None,
    ) -> None:
        machine = machine or Machine()
        self._path = path
        self._clock = clock
        self._limits = limits
        self._report = report
        self._connection = open_database(path, create=True)
        self._file = _identity(path)
        self._log_watch = LogWatch(path, machine.monotonic)
        self._handed_over: deque[WriteBatch] = deque()
        self._unwritten: list[WriteBatch] = []  # in the order in which it was handed over
        # How much was handed over, counted by the loop, and how much of it is written, counted by the thread.
        self._submitted = self._written = 0
        self._wake = machine.signal()
        self._stop = machine.signal()
        self._busy = machine.mutex()
        self._handing_out = True
        self._trouble: str | None = None
        self._waiting_lines = WaitingLines(room, limits.old_per_second, clock.milliseconds())
        self._thread = machine.thread(self._run, "writer")

    def start(self) -> None:
        self._thread.start()

    def submit(self, batch: WriteBatch) -> None:
        """Hand a batch over; it is durable when it comes back in a WriterTurn."""
        self._submitted += len(batch)
        self._handed_over.append(batch)
        if not self._wake.is_set():
            self._wake.set()

    @property
    def alive(self) -> bool:
        """Whether the thread is at work."""
        return self._thread.is_alive()

    @property
    def in_trouble(self) -> bool:
        """Whether the last thing to be written was refused."""
        return self._trouble is not None

    @property
    def trouble(self) -> str | None:
        """Why the last thing to be written was refused, if it was."""
        return self._trouble

    @property
    def file_in_place(self) -> bool:
        """Whether the file that is written is still the one of that name."""
        return _identity(self._path) == self._file

    @property
    def backlog(self) -> int:
        """How much is waiting to be written."""
        return self._submitted - self._written

    @property
    def overloaded(self) -> bool:
        """Whether so much is waiting to be written that nothing more may be begun."""
        return self.backlog >= HELD_LIMIT

    def run_now(self, change: Change) -> None:
        """Do something in a transaction of its own, before the thread is started."""
        with sqlite_errors(StoreError, self._path), transaction(self._connection):
            change(self._connection)

    def stop_handing_out(self, timeout_seconds: float) -> None:
        """Hand out nothing more. When this returns, what was handed out has been delivered."""
        self._handing_out = False
        if self._busy.acquire(timeout=timeout_seconds):
            self._busy.release()

    def close(self, timeout_seconds: float) -> None:
        """Write what was handed over and give the file back; what cannot be written stays on the queue."""
        self._stop.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)
        if not self._thread.is_alive():
            if not self.file_in_place:  # then SQLite would leave rows in the log beside the old name
                with suppress(apsw.Error):
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._connection.close()

    def _run(self) -> None:
        was_busy = True
        try:
            while not self._stop.is_set():
                self._wake.wait(_IDLE_SECONDS if was_busy else _IDLE_SECONDS + _GROUP_SECONDS)
                self._wake.clear()
                was_busy = self._turn()
                self._log_watch.look(self._connection)
                if was_busy or self._trouble:
                    self._stop.wait(_TROUBLE_SECONDS if self._trouble else _GROUP_SECONDS)
            self._turn()
        except Exception:
            logger.exception(
                "the writer has stopped; this is a fault in kizami", extra={"event": "writer.stopped"}
            )

    def _turn(self) -> bool:
        """Whether there was something to write or to hand out."""
        while self._handed_over:
            self._gather(self._handed_over.popleft())
        now_ms = int(self._clock.milliseconds())
        with self._busy:
            try:
                turn = self._write_and_take(now_ms)
            except apsw.Error as error:
                self._complain(error)
                turn = WriterTurn(self._due_in_trouble(now_ms), WriteBatch())
            if is_busy := bool(turn.taken or turn.written):
                self._report(turn)
        return is_busy

    def _gather(self, batch: WriteBatch) -> None:
        """One batch is cheaper than two, but a change must find what was handed over before it, and no more."""
        if self._unwritten and not batch.changes:
            self._unwritten[-1].absorb(batch)
        else:
            self._unwritten.append(batch)

    def _write_and_take(self, now_ms: int) -> WriterTurn:
        if not self._unwritten and not self._due(now_ms, _LEAST_AHEAD_MS):
            return WriterTurn([], WriteBatch())
        if self._trouble:  # all that is held would be worked through in vain while the disk takes no page
            rewrite_page(self._connection)
        hidden_until_ms = now_ms + LOOK_AHEAD_MS + round(self._limits.visibility_seconds * 1000)
        with transaction(self._connection):
            for batch in self._unwritten:
                batch.write(self._connection, now_ms)
            statements.demote_late(self._connection, now_ms - LATE_MS)
            self._waiting_lines.clear(self._connection, now_ms)
            due = self._due(now_ms, LOOK_AHEAD_MS)
            statements.hand_out(self._connection, due, hidden_until_ms)
        self._waiting_lines.served(due)
        written, *later = self._unwritten or [WriteBatch()]
        for batch in later:
            written.absorb(batch)
        self._unwritten = []
        self._written += len(written)
        self._recover(written)
        return WriterTurn(due, written)

    def _due(self, now_ms: int, ahead_ms: int) -> list[TakenMessage]:
        """Live messages so long ahead of their moment, then retried and backfilled ones where there is room."""
        if not self._handing_out:
            return []
        until_ms = now_ms + ahead_ms
        has_live, has_others = statements.has_messages(self._connection, until_ms)  # most turns have neither
        live = statements.live_by(self._connection, until_ms, _LIVE_LIMIT) if has_live else []
        return live + (self._waiting_lines.choose(self._connection, now_ms) if has_others else [])

    def _due_in_trouble(self, now_ms: int) -> list[TakenMessage]:
        """What is due while nothing can be written: from the file, and from plans that are not yet in it."""
        if self.overloaded or not self._handing_out:
            return []
        until_ms = now_ms + LOOK_AHEAD_MS
        planned = [
            TakenMessage(row.slot, row.metric_id, row.seconds, LIVE, row.due_ms, attempts=0)
            for batch in self._unwritten
            for row in batch.sent
            if row.due_ms <= until_ms
        ]
        try:
            return planned + statements.live_by(self._connection, until_ms, _LIVE_LIMIT)
        except apsw.Error:
            return planned

    def _complain(self, error: apsw.Error) -> None:
        trouble = explain(error)
        if trouble != self._trouble:
            logger.error(
                "the database cannot be written; results are held in memory",
                extra={
                    "event": "database.unwritable",
                    "database": str(self._path),
                    "reason": trouble,
                    "held": self.backlog,
                },
            )
        self._trouble = trouble

    def _recover(self, batch: WriteBatch) -> None:
        if self._trouble:
            logger.warning(
                "the database can be written again",
                extra={"event": "database.writable", "written": len(batch.stored)},
            )
        self._trouble = None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
