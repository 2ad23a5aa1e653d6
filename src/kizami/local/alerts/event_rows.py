"""The log of events in the file: what the daemon does, taken from its log lines, and what people order."""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import apsw

from kizami.backend.incidents import BACKEND, BackendEvent
from kizami.core.epoch import from_ms, to_ms
from kizami.core.logs import details_of, hide_secrets

KEPT = 10_000
DAEMON = "kizami up"
# Those of the daemon's log lines that are worth keeping; `kizami alerts` and the page have their own names.
KEPT_EVENTS = frozenset(
    {
        *("daemon.started", "daemon.stopped", "config.applied", "config.refused", "config.postponed"),
        *("clock.jumped", "database.unwritable", "database.writable", "target.blocked", "target.unblocked"),
        *("aggregation.not_run", "alert.undeliverable", "incident.opened", "incident.over"),
    }
)
_HELD = 1000  # while nothing can be written
_FORGET = "DELETE FROM events WHERE number <= (SELECT max(number) FROM events) - ?"


class EventCollector(logging.Handler):
    """Takes the lines that are worth keeping, on whichever thread they are written; `take` empties it."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(hide_secrets)
        self._events: deque[BackendEvent] = deque(maxlen=_HELD)

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event", None)
        if event in KEPT_EVENTS:
            at = datetime.fromtimestamp(record.created, UTC)
            self._events.append(BackendEvent(0, at, str(event), DAEMON, details_of(record)))

    def add(self, event: str, at: datetime, **details: object) -> None:
        """Keep something that has no line."""
        self._events.append(BackendEvent(0, at, event, DAEMON, details))

    def take(self) -> list[BackendEvent]:
        """What has come since, each once."""
        taken = []
        while self._events:
            taken.append(self._events.popleft())
        return taken

    def give_back(self, events: Iterable[BackendEvent]) -> None:
        """They could not be written."""
        self._events.extendleft(reversed(list(events)))


def write_events(connection: apsw.Connection, events: Iterable[BackendEvent]) -> None:
    """Add them to the log, and let go of the oldest; to be called in a transaction."""
    written = False
    for each in events:
        row = to_ms(each.at), each.event, each.by, _json(each.details)
        connection.execute("INSERT INTO events (at_ms, event, actor, details) VALUES (?, ?, ?, ?)", row)
        number = connection.last_insert_rowid()
        about = [(metric, number) for metric in _targets_of(connection, each)]
        connection.executemany("INSERT OR IGNORE INTO event_targets VALUES (?, ?)", about)
        written = True
    if written:
        connection.execute(_FORGET, (KEPT,))
        connection.execute("DELETE FROM event_targets WHERE event < (SELECT min(number) FROM events)")


def _targets_of(connection: apsw.Connection, event: BackendEvent) -> Collection[str]:
    """The targets that an event is about: those of its incident, or those that it names; else BACKEND."""
    if event.targets is not None:
        return event.targets
    details = event.details
    # A message is known by its incident and its number in it.
    incident = details.get("incident") or str(details.get("alert", "")).partition("-")[0]
    if incident:
        found = connection.execute("SELECT metric FROM incident_targets WHERE incident = ?", (int(incident),))
        return [metric for (metric,) in found] or [BACKEND]
    if "companyId" in details:
        return []
    return [details["metric"]] if "metric" in details else details.get("metrics") or [BACKEND]


def marks(values: Collection[object]) -> str:
    """The parameters of a statement for these values, behind two others."""
    return ", ".join(f"?{number}" for number in range(3, 3 + len(values)))


def _json(details: Mapping[str, Any]) -> str:
    return json.dumps(dict(details), ensure_ascii=False, default=str)


def read_events(
    connection: apsw.Connection, limit: int = -1, before: int | None = None, about: Collection[str] = ()
) -> list[BackendEvent]:
    """Newest first, from after `before` on; with `about`, those about any of these targets."""
    is_wanted = (
        f"AND number IN (SELECT event FROM event_targets WHERE metric IN ({marks(about)}))" if about else ""
    )
    rows: list[tuple[Any, ...]] = connection.execute(
        f"""SELECT number, at_ms, event, actor, details FROM events
        WHERE (?1 IS NULL OR number < ?1) {is_wanted} ORDER BY number DESC LIMIT ?2""",
        (before, limit, *about),
    ).fetchall()
    return [
        BackendEvent(number, from_ms(at), event, actor, json.loads(details))
        for number, at, event, actor, details in rows
    ]
