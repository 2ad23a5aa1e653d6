"""What verbs and page read and order of incidents and events: the port's IncidentLog over the file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import apsw

from kizami.backend.incidents import BACKEND, BackendEvent, Incident
from kizami.core.errors import StoreError
from kizami.core.ports import Clock
from kizami.core.slots import format_second
from kizami.local.alerts import event_rows, incident_rows, outbox
from kizami.local.store.database import sqlite_errors, transaction


class LocalIncidentLog:
    """`IncidentLog` on a connection of its owner's; the daemon may run or not."""

    def __init__(
        self,
        connection: apsw.Connection,
        path: Path,
        clock: Clock,
        asker: Callable[[str], str] = lambda name: name,
    ) -> None:
        self._connection = connection
        self._path = path
        self._clock = clock
        self._asker = asker

    def incidents(
        self, limit: int = -1, before: int | None = None, *, open_only: bool = False, metric: str | None = None
    ) -> list[Incident]:
        with sqlite_errors(StoreError, self._path):
            about = self._about(metric)
            return incident_rows.list_incidents(self._connection, limit, before, open_only=open_only, about=about)

    def _about(self, metric: str | None) -> Collection[str]:
        """The names under which a target stands in the log: the daemon's lines have that of who asks for it."""
        return () if metric is None else {metric, self._asker(metric), BACKEND}

    def incident(self, number: int) -> Incident:
        with sqlite_errors(StoreError, self._path):
            return incident_rows.find_incident(self._connection, number)

    def acknowledge(self, number: int, by: str) -> Incident:
        with self._changing():
            known = incident_rows.find_incident(self._connection, number)
            if known.acknowledged_at is None:
                self._note("incident.acknowledged", by, {"incident": number})
            return incident_rows.acknowledge_incident(self._connection, number, by, self._clock.now())

    def silence(self, number: int, until: datetime, by: str) -> Incident:
        with self._changing():
            self._note("incident.silenced", by, {"incident": number, "until": format_second(until)})
            return incident_rows.silence_incident(self._connection, number, until, self._clock.now())

    def unsilence(self, number: int, by: str) -> Incident:
        with self._changing():
            if incident_rows.find_incident(self._connection, number).silenced_until is not None:
                self._note("incident.unsilenced", by, {"incident": number})
            return incident_rows.unsilence_incident(self._connection, number)

    def events(
        self, limit: int = -1, before: int | None = None, *, metric: str | None = None
    ) -> list[BackendEvent]:
        with sqlite_errors(StoreError, self._path):
            return event_rows.read_events(self._connection, limit, before, self._about(metric))

    def undelivered(self) -> dict[str, tuple[int, str | None]]:
        with sqlite_errors(StoreError, self._path):
            return outbox.undelivered(self._connection)

    def note(self, event: str, by: str, details: Mapping[str, object], targets: Collection[str]) -> None:
        """Keep that somebody has ordered something about these targets."""
        with self._changing():
            self._note(event, by, details, targets)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with sqlite_errors(StoreError, self._path), transaction(self._connection):
            yield

    def _note(
        self, event: str, by: str, details: Mapping[str, object], targets: Collection[str] | None = None
    ) -> None:
        noted = BackendEvent(0, self._clock.now(), event, by, details, targets)
        event_rows.write_events(self._connection, [noted])
