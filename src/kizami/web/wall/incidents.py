"""Incidents and events as pages tell of them: what is open, the newest others, and where their slots are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from threading import Lock

from kizami.alerts.looks import HomeSlotCounter
from kizami.alerts.messages import Message, page_message
from kizami.alerts.seen import Look
from kizami.home.health import DAY
from kizami.home.incidents import HomeEvent, Incident
from kizami.home.port import Home
from kizami.web.wall.kept import Kept

NEWEST_INCIDENTS = 100
NEWEST_EVENTS = 500


@dataclass(frozen=True, slots=True)
class ToldIncident:
    """An incident, and what is said of it."""

    incident: Incident
    message: Message


@dataclass(frozen=True, slots=True)
class IncidentNews:
    """What is known of incidents and events, the newest first."""

    incidents: Sequence[ToldIncident] = ()
    events: Sequence[HomeEvent] = ()


class Incidents:
    """The news that all pages share; any thread may ask."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._news: Kept[IncidentNews] = Kept()

    def look(self, home: Home, now: datetime) -> IncidentNews:
        """As it is now, or was a moment ago."""
        with self._lock:
            return self._news.get(partial(read_news, home, now))

    def renew(self, home: Home, now: datetime) -> None:
        """Find them anew if that is due."""
        with self._lock:
            self._news.renew(partial(read_news, home, now))

    def forget(self) -> None:
        """After an action: whoever has done it wants to see it done."""
        self._news.forget()


def read_news(home: Home, now: datetime) -> IncidentNews:
    """Ask a home; slots are counted of what is open, or was a day ago."""
    log = home.incident_log
    found = [*log.incidents(NEWEST_INCIDENTS, open_only=True), *log.incidents(NEWEST_INCIDENTS)]
    incidents = sorted({each.number: each for each in found}.items(), reverse=True)
    events = log.events(NEWEST_EVENTS)
    if not incidents:
        return IncidentNews((), events)
    members = {name for _, incident in incidents for name in incident.members}
    targets = {target.name: target for target in home.targets(members)}
    counter = HomeSlotCounter(home, Look(now, targets=targets))
    return IncidentNews([_tell(incident, counter, now) for _, incident in incidents], events)


def _tell(incident: Incident, counter: HomeSlotCounter, now: datetime) -> ToldIncident:
    is_news = incident.over_since is None or now - incident.over_since <= DAY
    holes = counter.holes(incident.members.values()) if is_news else {}
    return ToldIncident(incident, page_message(incident, holes, now))
