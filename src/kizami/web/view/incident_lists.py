"""Which incidents and events a page lists, and how an event is put (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kizami.backend.incidents import BackendEvent
from kizami.core.slots import Window
from kizami.web.view.words import Words
from kizami.web.wall.incidents import IncidentNews, ToldIncident

EVENTS_LISTED = 20
SILENCE_MINUTES = (60, 480, 1440)
_DETAILS_LENGTH = 160
_TOLD_AS_INCIDENTS = ("incident.opened", "incident.over")


@dataclass(frozen=True, slots=True)
class IncidentLists:
    """What is open, what of the shown time is over, and the events until its end; each the newest first."""

    open: Sequence[ToldIncident] = ()
    ended: Sequence[ToldIncident] = ()
    events: Sequence[BackendEvent] = ()


def list_incidents(news: IncidentNews, shown: Window) -> IncidentLists:
    """Those of the shown time."""
    found = news.incidents
    events = [each for each in news.events if each.at <= shown.end and each.event not in _TOLD_AS_INCIDENTS]
    return IncidentLists(
        [told for told in found if told.incident.is_open],
        [told for told in found if _has_ended_within(told, shown)],
        events[:EVENTS_LISTED],
    )


def _has_ended_within(told: ToldIncident, shown: Window) -> bool:
    over = told.incident.over_since
    return over is not None and told.message.since <= shown.end and shown.start <= over


def event_text(event: BackendEvent, words: Words) -> str:
    """What happened, in a few words; one that has none has its name."""
    name = words.section("event").get(event.event.replace(".", "_"), event.event)
    details = ", ".join(f"{key}: {_detail(value)}" for key, value in event.details.items())
    text = f"{name} · {details}" if details else name
    return text if len(text) <= _DETAILS_LENGTH else f"{text[:_DETAILS_LENGTH]}…"


def _detail(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
