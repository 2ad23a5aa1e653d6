"""The daemon's thread for alerts: it watches the backend every 15 seconds, saves decisions and wakes delivery."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path

import apsw

from kizami.alerts.decision import AlertState, Decision
from kizami.alerts.incidents import is_backend_well
from kizami.alerts.rules.settings import NO_ALERTS, AlertSettings
from kizami.alerts.troubles import MachineTrouble, WatchRun
from kizami.alerts.watch import watch
from kizami.backend.incidents import Incident
from kizami.backend.port import Backend
from kizami.core.errors import KizamiError, StoreError
from kizami.core.ports import Clock
from kizami.local.alerts.delivery import AlertDelivery, Deliver
from kizami.local.alerts.event_rows import EventCollector, write_events
from kizami.local.alerts.heartbeat import Heartbeat
from kizami.local.alerts.incident_rows import forget_old, read_state, save_incidents, with_orders
from kizami.local.alerts.outbox import forget_delivered, put_messages
from kizami.local.alerts.receivers import deliver
from kizami.local.engine.machine import Machine
from kizami.local.store.database import LITTLE_ROOM_BYTES, open_database, sqlite_errors, transaction

LOOK_SECONDS = 15.0
# Between pieces of a look polls have the interpreter for five times as long as the piece took, at most 0.2 s.
_REST, _LONGEST_REST_SECONDS = 5.0, 0.2
STOP_SECONDS = 2.0
_TIDY_LOOKS = 240  # once an hour
_HELD_UP = timedelta(seconds=4 * LOOK_SECONDS)  # the machine slept, or the clock was set

logger = logging.getLogger(__name__)


class AlertWatch:
    """Watches the backend until it is closed; polls never wait for it.

    `unwritable` and `failed_companies` return what only the daemon knows.
    """

    def __init__(
        self,
        path: Path,
        open_backend: Callable[[], Backend],
        clock: Clock,
        machine: Machine | None = None,
        deliver: Deliver = deliver,
    ) -> None:
        self._path = path
        self._open_backend = open_backend
        self._clock = clock
        self._machine = machine = machine or Machine()
        self.unwritable: Callable[[], str | None] = lambda: None
        self.failed_companies: Callable[[], Mapping[str, str]] = dict
        self._settings = NO_ALERTS
        self._news = machine.signal()
        self._stopping = False
        self._is_blind = False
        self._looks = 0
        self._running_since = self._looked_at = clock.now()
        self._state: AlertState | None = None
        self.events = EventCollector()
        self._delivery = AlertDelivery(path, clock, machine, deliver)
        self._heartbeat = Heartbeat()
        self._thread = machine.thread(self._run, "kizami-alerts")

    def start(self) -> None:
        self._running_since = self._looked_at = self._clock.now()
        self._thread.start()

    def use(self, settings: AlertSettings | None) -> None:
        """Obey these settings from now on."""
        self._settings = settings or NO_ALERTS
        self._heartbeat.to = self._settings.heartbeat
        self._delivery.use(self._settings.rules)

    def close(self) -> None:
        """Save the events so far, and end soon."""
        self._stopping = True
        self._news.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_SECONDS)
        self._heartbeat.close()
        self._delivery.close()

    def _run(self) -> None:
        while not self._stopping:
            try:
                with sqlite_errors(StoreError, self._path), ExitStack() as stack:
                    connection = open_database(self._path)
                    stack.callback(connection.close)
                    backend = self._open_backend()
                    stack.callback(backend.close)
                    self._watch(connection, backend)
            except KizamiError as error:
                self._complain(str(error))
            except Exception:  # the top of the thread: polling goes on, and so does the watch
                logger.exception("a look failed", extra={"event": "alerts.failed"})
            self._news.wait(LOOK_SECONDS)

    def _watch(self, connection: apsw.Connection, backend: Backend) -> None:
        self._state = self._state or read_state(connection, self._clock.now())
        while not self._stopping:
            self._look(connection, backend)
            self._is_blind = False
            self._news.wait(LOOK_SECONDS)
        self._keep_events(connection)

    def _complain(self, reason: str) -> None:
        if not self._is_blind:
            logger.error(
                "alerts cannot look or keep what they see", extra={"event": "alerts.blind", "reason": reason}
            )
        self._is_blind = True

    def _look(self, connection: apsw.Connection, backend: Backend) -> None:
        assert self._state is not None
        now, settings = self._clock.now(), self._settings
        if not timedelta() <= now - self._looked_at <= _HELD_UP:
            self._running_since = now
        self._looked_at = now
        run = WatchRun(
            period_seconds=int(LOOK_SECONDS),
            running_since=self._running_since,
            machine=MachineTrouble(self._disk_full(), dict(self.failed_companies())),
            rest=self._rests(),
        )
        before = with_orders(connection, self._state)
        decision = watch(backend, before, settings, now, run)
        self._keep(connection, decision, settings.language, now)
        self._log(before, decision)
        self._state = decision.state
        if decision.messages:
            self._delivery.wake()
        if is_backend_well(decision.state.incidents):
            self._heartbeat.beat()

    def _rests(self) -> Callable[[], object]:
        """Return what pauses a look at thousands of targets, so that polls have their turn."""
        worked_since = self._machine.monotonic()

        def rest() -> None:
            nonlocal worked_since
            worked = self._machine.monotonic() - worked_since
            self._news.wait(min(_REST * worked, _LONGEST_REST_SECONDS))
            worked_since = self._machine.monotonic()

        return rest

    def _keep(self, connection: apsw.Connection, decision: Decision, language: str, now: datetime) -> None:
        """Save incidents, messages and events in one transaction."""
        self._looks += 1
        is_to_be_tidied = self._looks % _TIDY_LOOKS == 1
        events = self.events.take()
        if not (decision.changed or decision.messages or events or is_to_be_tidied):
            return
        try:
            with transaction(connection):
                save_incidents(connection, decision)
                put_messages(connection, decision.messages, language)
                write_events(connection, events)
                if is_to_be_tidied:
                    forget_old(connection)
                    forget_delivered(connection, now)
        except BaseException:
            self.events.give_back(events)
            raise

    def _keep_events(self, connection: apsw.Connection) -> None:
        with transaction(connection):
            write_events(connection, self.events.take())

    def _disk_full(self) -> str | None:
        if reason := self.unwritable():
            return reason
        directory = self._path.absolute().parent
        free = self._machine.free_bytes(directory)
        return f"only {free // 2**20} MB are free in {directory}" if free < LITTLE_ROOM_BYTES else None

    def _log(self, before: AlertState, decision: Decision) -> None:
        known = {incident.number for incident in before.incidents}
        for incident in decision.changed:
            if incident.number not in known:
                logger.warning(
                    "something is wrong: an incident", extra={"event": "incident.opened", **_about(incident)}
                )
            elif incident.over_since == self._looked_at:
                logger.warning("an incident is over", extra={"event": "incident.over", **_about(incident)})


def _about(incident: Incident) -> dict[str, object]:
    return {
        "incident": incident.number,
        "kinds": sorted(kind.value for kind in incident.kinds),
        "reason": incident.cause or incident.topic,
        "targets": len(incident.members),
        "metric": next(iter(incident.members), ""),
    }
