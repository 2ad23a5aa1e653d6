"""Incidents and events as pages tell of them: what is open, the newest others, and where their slots are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from threading import Lock
from time import monotonic

from kizami.alerts.messages import Message, page_message
from kizami.alerts.seen import Look
from kizami.alerts.watch import BackendSlotCounter
from kizami.backend.health import DAY
from kizami.backend.incidents import BackendEvent, Incident
from kizami.backend.port import Backend
from kizami.web.wall.kept import Kept

NEWEST_INCIDENTS = 100
NEWEST_EVENTS = 500
UNSEEN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ToldIncident:
    """An incident, and what is said of it."""

    incident: Incident
    message: Message


@dataclass(frozen=True, slots=True)
class IncidentNews:
    """What is known of incidents and events, the newest first."""

    incidents: Sequence[ToldIncident] = ()
    events: Sequence[BackendEvent] = ()


class Incidents:
    """The news that all pages share, of all targets and of those whose pages are open; any thread may ask."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._news: dict[str | None, Kept[IncidentNews]] = {}
        self._looked_at: dict[str | None, float] = {}

    def look(self, backend: Backend, now: datetime, metric: str | None = None) -> IncidentNews:
        """As it is now, or was a moment ago: of all targets, or of one and of the backend itself."""
        with self._lock:
            kept = self._news.setdefault(metric, Kept())
            self._looked_at[metric] = monotonic()
            return kept.get(partial(read_news, backend, now, metric))

    def renew(self, backend: Backend, now: datetime) -> None:
        """Read again what is due, and let go of what no page shows any more."""
        with self._lock:
            for metric, kept in list(self._news.items()):
                if monotonic() - self._looked_at[metric] > UNSEEN_SECONDS:
                    del self._news[metric]
                    continue
                kept.renew(partial(read_news, backend, now, metric))

    def forget(self) -> None:
        """Read everything again: an action has changed it."""
        with self._lock:
            self._news.clear()


def read_news(backend: Backend, now: datetime, metric: str | None = None) -> IncidentNews:
    """Ask a backend; slots are counted of what is open, or was a day ago."""
    log = backend.incident_log
    found = [
        *log.incidents(NEWEST_INCIDENTS, open_only=True, metric=metric),
        *log.incidents(NEWEST_INCIDENTS, metric=metric),
    ]
    incidents = sorted({each.number: each for each in found}.items(), reverse=True)
    events = log.events(NEWEST_EVENTS, metric=metric)
    if not incidents:
        return IncidentNews((), events)
    members = {name for _, incident in incidents for name in incident.members}
    targets = {target.name: target for target in backend.targets(members)}
    counter = BackendSlotCounter(backend, Look(now, targets=targets))
    return IncidentNews([_tell(incident, counter, now, metric) for _, incident in incidents], events)


def _tell(incident: Incident, counter: BackendSlotCounter, now: datetime, metric: str | None) -> ToldIncident:
    is_news = incident.over_since is None or now - incident.over_since <= DAY
    holes = counter.holes(incident.members.values()) if is_news else {}
    return ToldIncident(incident, page_message(incident, holes, now, metric))
