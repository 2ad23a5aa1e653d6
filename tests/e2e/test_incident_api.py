"""Incidents and events as programs read them, and what is ordered there."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from kizami.alerts.decision import AlertState, Decision
from kizami.backend.incidents import BackendEvent, Incident, Kind, Member
from kizami.core.slots import format_instant
from kizami.local.alerts.event_rows import write_events
from kizami.local.alerts.incident_rows import save_incidents
from kizami.local.store.database import open_database, transaction
from samples.page_database import build_backend, served, this_slot

NOW = this_slot()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Three incidents, of which the second is open, and five events."""
    path: Path = build_backend(tmp_path_factory.mktemp("incidents") / "kizami.db", NOW)
    member = Member("calls", frozenset({Kind.FAILS, Kind.DEAD}), NOW, "503", NOW)
    incidents = [
        Incident(number, "trouble", "", "status 503, expected 200", NOW, {"calls": member}, over_since=over)
        for number, over in ((1, NOW), (2, None), (3, NOW))
    ]
    connection = open_database(path)
    with transaction(connection):
        save_incidents(connection, Decision(AlertState((incidents[1],)), tuple(incidents)))
        write_events(connection, [BackendEvent(0, NOW, "clock.jumped", "kizami up", {"n": n}) for n in range(5)])
    connection.close()
    with served(path, NOW) as server:
        yield server.url


def get(url: str, path: str, **query: Any) -> requests.Response:
    return requests.get(f"{url}{path}", params=query, timeout=60)


def order(url: str, path: str, **body: Any) -> requests.Response:
    return requests.post(f"{url}/api/v1/incidents/{path}", json=body, headers={"Origin": url}, timeout=60)


def test_incidents_come_in_pages_and_as_csv(url: str) -> None:
    first = get(url, "/api/v1/incidents", limit=2).json()
    second = get(url, "/api/v1/incidents", limit=2, cursor=first["next"]).json()
    assert [each["number"] for each in first["items"] + second["items"]] == [3, 2, 1]
    assert second["next"] is None
    (opened,) = get(url, "/api/v1/incidents", state="open").json()["items"]
    assert (opened["number"], opened["kinds"], opened["members"][0]["name"]) == (2, ["dead", "fails"], "calls")
    lines = get(url, "/api/v1/incidents", format="csv").text.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("number,state,kinds,cause,since")


def test_events_come_newest_first(url: str) -> None:
    items = get(url, "/api/v1/events", limit=3).json()["items"]
    assert [each["details"]["n"] for each in items] == [4, 3, 2]
    assert {each["event"] for each in items} == {"clock.jumped"}


def test_an_incident_is_taken_on_and_silenced(url: str) -> None:
    taken = order(url, "acknowledge", incident=2, by="ann").json()
    assert (taken["acknowledgedBy"], taken["acknowledgedAt"] is None) == ("ann", False)
    silenced = order(url, "silence", incident=2, minutes=30).json()
    assert silenced["silencedUntil"] == format_instant(NOW + timedelta(minutes=30))
    assert 'data-action="unsilence"' in get(url, "/", lang="en").text
    assert order(url, "unsilence", incident=2).json()["silencedUntil"] is None
    assert 'data-action="unsilence"' not in get(url, "/", lang="en").text


@pytest.mark.parametrize(
    ("path", "body", "parameter"),
    [
        ("acknowledge", {}, "incident"),
        ("acknowledge", {"incident": 9}, "incident"),
        ("acknowledge", {"incident": 1}, "incident"),
        ("acknowledge", {"incident": 2, "by": ""}, "by"),
        ("silence", {"incident": 2}, "minutes"),
        ("silence", {"incident": 2, "minutes": 0}, "minutes"),
        ("silence", {"incident": True, "minutes": 5}, "incident"),
    ],
)
def test_an_order_that_cannot_be_is_a_problem(url: str, path: str, body: dict[str, Any], parameter: str) -> None:
    answer = order(url, path, **body)
    assert (answer.status_code, answer.json()["parameter"]) == (400, parameter)


def test_a_state_that_there_is_not_is_a_problem(url: str) -> None:
    assert get(url, "/api/v1/incidents", state="closed").json()["parameter"] == "state"


def test_metrics_have_incidents(url: str) -> None:
    text = get(url, "/metrics").text
    assert "\nkizami_open_incidents 1\n" in text
    assert '\nkizami_incidents{kind="fails"} 1\n' in text
    assert '\nkizami_incidents{kind="silent"} 0\n' in text


def test_the_page_lists_them_first_with_what_can_be_done_and_escapes_what_they_say(url: str) -> None:
    page = get(url, "/", lang="en").text
    assert page.index('id="incidents"') < page.index('id="orders"') < page.index('id="targets"')
    assert "calls: status 503, expected 200 since" in page
    assert [f'data-minutes="{minutes}"' in page for minutes in (60, 480, 1440)] == [True] * 3
    assert page.count("calls: recovered at") == 2
    assert "the clock jumped · n: 4" in page
    assert "発生" not in page
    of_another = get(url, "/targets/注文/数", lang="en").text
    assert 'id="incidents" aria-labelledby="incidents-heading" hidden' in of_another


def test_a_target_s_lists_have_its_own_alone(url: str) -> None:
    """The page of the other target, and its lists, show none of what happened to this one."""
    for metric, incidents in (("calls", [3, 2, 1]), ("注文/数", [])):
        items = get(url, "/api/v1/incidents", metric=metric).json()["items"]
        assert [each["number"] for each in items] == incidents
        events = get(url, "/api/v1/events", metric=metric).json()["items"]
        names = {each["event"] for each in events}
        assert names - {"incident.acknowledged", "incident.silenced", "incident.unsilenced"} == {"clock.jumped"}
        assert metric == "calls" or names == {"clock.jumped"}
        for language, word in (("en", "incident acknowledged"), ("ja", "インシデント")):
            page = get(url, f"/targets/{metric}", lang=language).text
            shown = page[page.index('id="events"') : page.index('id="calendar"')]
            assert (word in shown) is (metric == "calls" and "incident.acknowledged" in names)
    unknown = get(url, "/api/v1/events", metric="nobody")
    assert (unknown.status_code, unknown.json()["parameter"]) == (404, "metric")
