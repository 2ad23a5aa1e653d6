"""Which incidents and events a page lists: what is open or of the shown time, of one target or of all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kizami.alerts.messages import page_message
from kizami.alerts.seen import Holes
from kizami.alerts.texts import sentence
from kizami.backend.health import SlotTally
from kizami.backend.incidents import BackendEvent, Incident, Kind, Member
from kizami.core.slots import Window
from kizami.web.view.incident_lists import EVENTS_LISTED, event_text, list_incidents
from kizami.web.view.words import words_in
from kizami.web.wall.incidents import IncidentNews, ToldIncident

NOW = datetime(2025, 12, 2, 8, 51, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = Window(NOW - 24 * HOUR, NOW)


def told(number: int, name: str, began: timedelta, over: timedelta | None = None, dead: int = 0) -> ToldIncident:
    """An incident that began and was over so long ago, of a target that lacked 12 slots."""
    since, ended = NOW - began, None if over is None else NOW - over
    member = Member(name, frozenset({Kind.FAILS}), since, "", since, ended)
    incident = Incident(number, "trouble", "", "status 503; is it up?", since, {name: member}, over_since=ended)
    holes = {name: Holes(SlotTally(stored=12 - dead, dead=dead))}
    return ToldIncident(incident, page_message(incident, holes, NOW))


def numbers(found: object) -> list[int]:
    return [each.incident.number for each in found]  # type: ignore[attr-defined]


def test_open_ones_are_always_listed_and_ended_ones_if_they_touch_the_shown_time() -> None:
    news = IncidentNews(
        [
            told(4, "calls", HOUR),
            told(3, "calls", 30 * HOUR, 23 * HOUR),
            told(2, "calls", 48 * HOUR, 25 * HOUR),
            told(1, "calls", 900 * HOUR),
        ]
    )
    lists = list_incidents(news, DAY)
    assert (numbers(lists.open), numbers(lists.ended)) == ([4, 1], [3])
    zoomed = list_incidents(news, Window(NOW - 40 * HOUR, NOW - 31 * HOUR))
    assert (numbers(zoomed.open), numbers(zoomed.ended)) == ([4, 1], [2])


def test_they_are_told_in_the_words_of_their_messages() -> None:
    opened, ended = told(1, "calls", timedelta(minutes=17), dead=12), told(2, "calls", HOUR, timedelta(0))
    assert sentence(opened.message, "en") == "calls: status 503 since 08:34 UTC, 12 slots dead"
    assert sentence(opened.message, "ja") == "calls: status 503（08:34 UTC から）、デッドレター 12 件"
    assert sentence(ended.message, "en") == "calls: recovered at 08:51 UTC; 12 of 12 slots filled"


def test_the_newest_events_until_the_end_of_the_shown_time_are_listed() -> None:
    events = [BackendEvent(n, NOW - (50 - n) * HOUR, "clock.jumped") for n in range(50, 0, -1)]
    events.insert(0, BackendEvent(51, NOW, "incident.opened"))  # which is in the list of incidents
    found = list_incidents(IncidentNews((), events), Window(NOW - 12 * HOUR, NOW - 10 * HOUR)).events
    assert [each.number for each in found] == list(range(40, 40 - EVENTS_LISTED, -1))
    newest = list_incidents(IncidentNews((), events), DAY).events
    assert newest[0].number == 50


def test_an_event_is_put_in_words_and_an_unknown_one_by_its_name() -> None:
    backfilled = BackendEvent(1, NOW, "slots.backfilled", "ann", {"slots": 3, "metrics": ["calls", "orders"]})
    assert event_text(backfilled, words_in("en")) == "backfill ordered · slots: 3, metrics: calls, orders"
    assert event_text(backfilled, words_in("ja")).startswith("バックフィルを指示 · ")
    assert event_text(BackendEvent(1, NOW, "moon.rose"), words_in("en")) == "moon.rose"
    long = event_text(BackendEvent(1, NOW, "config.refused", "", {"reason": "x" * 999}), words_in("en"))
    assert len(long) <= 161
