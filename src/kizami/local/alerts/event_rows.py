"""The log of events in the file: what the daemon does, taken from its log lines, and what people order."""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import apsw

from kizami.core.epoch import from_ms, to_ms
from kizami.core.logs import details_of, hide_secrets
from kizami.home.incidents import HomeEvent

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
        self._events: deque[HomeEvent] = deque(maxlen=_HELD)

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event", None)
        if event in KEPT_EVENTS:
            at = datetime.fromtimestamp(record.created, UTC)
            self._events.append(HomeEvent(0, at, str(event), DAEMON, details_of(record)))

    def add(self, event: str, at: datetime, **details: object) -> None:
        """Keep something that has no line."""
        self._events.append(HomeEvent(0, at, event, DAEMON, details))

    def take(self) -> list[HomeEvent]:
        """What has come since, each once."""
        taken = []
        while self._events:
            taken.append(self._events.popleft())
        return taken

    def give_back(self, events: Iterable[HomeEvent]) -> None:
        """They could not be written."""
        self._events.extendleft(reversed(list(events)))


def write_events(connection: apsw.Connection, events: Iterable[HomeEvent]) -> None:
    """Add them to the log, and let go of the oldest; to be called in a transaction."""
    rows = [(to_ms(each.at), each.event, each.by, _json(each.details)) for each in events]
    if rows:
        connection.executemany("INSERT INTO events (at_ms, event, actor, details) VALUES (?, ?, ?, ?)", rows)
        connection.execute(_FORGET, (KEPT,))


def _json(details: Mapping[str, Any]) -> str:
    return json.dumps(dict(details), ensure_ascii=False, default=str)


def read_events(connection: apsw.Connection, limit: int = -1, before: int | None = None) -> list[HomeEvent]:
    """Newest first, from after `before` on."""
    rows: list[tuple[Any, ...]] = connection.execute(
        """SELECT number, at_ms, event, actor, details FROM events
        WHERE ?1 IS NULL OR number < ?1 ORDER BY number DESC LIMIT ?2""",
        (before, limit),
    ).fetchall()
    return [
        HomeEvent(number, from_ms(at), event, actor, json.loads(details))
        for number, at, event, actor, details in rows
    ]
