"""The delivery: a thread for each receiver, so that one who hangs delays nobody else.

A message that its receiver has taken is noted before the next one is thought of, and never sent again; if the
process dies between the two, it is sent once more, with the same id.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path

import apsw

from kizami.alerts.rules.settings import Rule
from kizami.core.errors import KizamiError, StoreError
from kizami.core.ports import Clock
from kizami.local.alerts.outbox import OutgoingMessage, next_message, note_delivered, note_refused
from kizami.local.alerts.receivers import deliver
from kizami.local.engine.machine import Machine
from kizami.local.store.database import open_database, sqlite_errors, transaction

STOP_SECONDS = 1.0
_LOOK_SECONDS = 60.0
_TROUBLE_SECONDS = 2.0

Deliver = Callable[[Rule, OutgoingMessage], None]  # KizamiError if the message is not taken

logger = logging.getLogger(__name__)


class AlertDelivery:
    """The receivers of all rules."""

    def __init__(
        self, path: Path, clock: Clock, machine: Machine | None = None, deliver: Deliver = deliver
    ) -> None:
        self._path = path
        self._clock = clock
        self._machine = machine or Machine()
        self._deliver = deliver
        self._lines: dict[str, ReceiverLine] = {}

    def use(self, rules: Iterable[Rule]) -> None:
        """Deliver to these from now on; what waits for others stays in the outbox. Nobody is waited for."""
        wanted = {rule.name: rule for rule in rules}
        for name in self._lines.keys() - wanted.keys():
            self._lines.pop(name).stop()
        for name, rule in wanted.items():
            if name in self._lines:
                self._lines[name].rule = rule
            else:
                surroundings = self._path, self._clock, self._machine, self._deliver
                self._lines[name] = ReceiverLine(*surroundings, rule)
        self.wake()

    def wake(self) -> None:
        """There may be something to deliver."""
        for line in self._lines.values():
            line.wake()

    def close(self) -> None:
        """End soon: what is not delivered by then stays in the outbox."""
        for line in self._lines.values():
            line.stop()
        for line in self._lines.values():
            line.close()


class ReceiverLine:
    """Delivers one receiver's messages in their order."""

    def __init__(self, path: Path, clock: Clock, machine: Machine, deliver: Deliver, rule: Rule) -> None:
        self.rule = rule
        self._path = path
        self._clock = clock
        self._hand_over = deliver
        self._news = machine.signal()
        self._stopping = False
        self._refused = False
        self._thread = machine.thread(self._run, "kizami-receiver")
        self._thread.start()

    def wake(self) -> None:
        self._news.set()

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopping = True
        self._news.set()

    def close(self) -> None:
        """Wait for what is in hand, but not for one who hangs."""
        self.stop()
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        while not self._stopping:
            try:
                with sqlite_errors(StoreError, self._path):
                    connection = open_database(self._path)
                    try:
                        self._work(connection)
                    finally:
                        connection.close()
            except StoreError:  # the writer says what is wrong with the file
                self._pause(_TROUBLE_SECONDS)
            except Exception:  # the top of the thread
                logger.exception("a receiver's thread failed", extra={"event": "alert.failed"})
                self._pause(_LOOK_SECONDS)

    def _pause(self, seconds: float) -> None:
        self._news.clear()
        if not self._stopping:
            self._news.wait(seconds)

    def _work(self, connection: apsw.Connection) -> None:
        while not self._stopping:
            self._news.clear()
            found = next_message(connection, self.rule.name)
            now = self._clock.now()
            if found is None:
                self._news.wait(_LOOK_SECONDS)
            elif found[1] > now:
                self._news.wait(min(_LOOK_SECONDS, (found[1] - now).total_seconds()))
            else:
                self._deliver(connection, found[0])

    def _deliver(self, connection: apsw.Connection, outgoing: OutgoingMessage) -> None:
        try:
            self._hand_over(self.rule, outgoing)
        except KizamiError as error:
            self._note_refused(connection, outgoing, str(error))
            return
        self._refused = False
        self._note_delivered(connection, outgoing)
        details = {"event": "alert.delivered", "receiver": self.rule.name, "alert": outgoing.message}
        logger.info("a receiver has taken a message", extra=details)

    def _note_delivered(self, connection: apsw.Connection, outgoing: OutgoingMessage) -> None:
        """Until it can be written: whoever asked for the next message before that would send it twice."""
        while True:
            try:
                with sqlite_errors(StoreError, self._path), transaction(connection):
                    note_delivered(connection, outgoing, self._clock.now())
                return
            except StoreError:
                if self._stopping:
                    raise
                self._pause(_TROUBLE_SECONDS)

    def _note_refused(self, connection: apsw.Connection, outgoing: OutgoingMessage, error: str) -> None:
        with transaction(connection):
            is_tried_again = note_refused(connection, outgoing, error, self._clock.now())
        details = {"receiver": self.rule.name, "alert": outgoing.message, "reason": error}
        if not is_tried_again:
            logger.error("a message is given up", extra={"event": "alert.undeliverable", **details})
        elif not self._refused:  # once, and not at every attempt
            logger.warning(
                "a message is refused, and tried again later", extra={"event": "alert.refused", **details}
            )
        self._refused = True
