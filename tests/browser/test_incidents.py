"""Incidents on the page: seen first, acknowledged and silenced in place, drawn on the chart with what happened."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import OpenPage, overflow
from kizami.alerts.decision import AlertState, Decision
from kizami.backend.incidents import BackendEvent, Incident, Kind, Member
from kizami.local.alerts.event_rows import write_events
from kizami.local.alerts.incident_rows import save_incidents
from kizami.local.backend import LocalBackend
from kizami.local.daemon_lock import UP, sole_daemon
from kizami.local.store.database import open_database, transaction
from kizami.web.security import access_for
from kizami.web.server import DashboardServer
from samples.page_database import CALLS, HOSTILE, ORDERS, FixedClock, build_backend, served, slot_before, this_slot

NOW = this_slot()


def incident(number: int, name: str, cause: str, back: int = 80) -> Incident:
    """One that began so many slots ago."""
    since = slot_before(NOW, back)
    member = Member(name, frozenset({Kind.FAILS, Kind.DEAD}), since, "", since)
    return Incident(number, "trouble", cause, cause, since, {name: member})


def save(path: Path, *incidents: Incident) -> None:
    connection = open_database(path)
    with transaction(connection):
        state = AlertState(tuple(each for each in incidents if each.is_open))
        save_incidents(connection, Decision(state, incidents))
    connection.close()


def ended(opened: Incident, back: int) -> Incident:
    over = slot_before(NOW, back)
    members = {name: replace(member, clear_since=over) for name, member in opened.members.items()}
    return replace(opened, members=members, over_since=over)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two open incidents, one that is over, and two events."""
    made = build_backend(tmp_path / "kizami.db", NOW)
    save(
        made,
        ended(incident(1, ORDERS, "status 500", 200), 190),
        incident(2, CALLS, HOSTILE),
        incident(3, ORDERS, "status 503"),
    )
    connection = open_database(made)
    with transaction(connection):
        write_events(
            connection,
            [
                BackendEvent(0, slot_before(NOW, 100), "daemon.started", "kizami up"),
                BackendEvent(0, slot_before(NOW, 30), "slots.backfilled", "ann", {"slots": 6}),
            ],
        )
    connection.close()
    return made


@pytest.fixture
def url(path: Path) -> Iterator[str]:
    with served(path, NOW) as server:
        yield server.url


def until_live(page: Page) -> Page:
    expect(page.locator("#live")).to_have_attribute("data-state", "connected")
    return page


def test_they_are_the_first_list_acknowledged_and_silenced_by_keyboard_and_their_end_is_told(
    url: str, open_page: OpenPage, path: Path, axe: Callable[[Page], list[str]]
) -> None:
    page = until_live(open_page(url))
    assert page.locator("main section.panel:visible").first.get_attribute("id") == "incidents"
    row = page.locator("#incidents .open li").filter(has_text="<script>")
    expect(row.locator(".sentence")).to_have_text(
        re.compile(r"^calls: .* since (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d, 1 slot dead$")
    )
    expect(row.locator(".of")).to_contain_text("6 slots missing so far")
    row.get_by_role("button", name="Acknowledge").focus()
    page.keyboard.press("Enter")
    expect(row.locator(".of")).to_contain_text("acknowledged by page at")
    expect(row.get_by_role("button", name="Acknowledge")).to_have_count(0)
    expect(row).to_be_focused()  # and not another incident's button
    for _ in range(4):  # its target's link, and the buttons
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "8 h":
            break
    expect(row.get_by_role("button", name="8 h")).to_be_focused()
    page.keyboard.press("Enter")
    expect(row.locator(".of")).to_contain_text("silenced until")
    expect(page.locator("#toast")).to_contain_text("Incident 2 is silenced until")
    expect(row.get_by_role("button", name="8 h")).to_be_focused()
    with closing(LocalBackend(path)) as backend:
        kept = backend.incident_log.incident(2)
    assert (kept.acknowledged_by, kept.silenced_until) == ("page", NOW + timedelta(hours=8))
    assert axe(page) == []
    row.get_by_role("button", name="End the silence").click()
    expect(row.locator(".of")).not_to_contain_text("silenced until")
    expect(page.locator("#toast")).to_contain_text("The silence about incident 2 has ended")

    page.locator("#incidents summary").click()
    over = page.locator("#incidents .ended .sentence")
    expect(over).to_have_text(re.compile(rf"^{ORDERS}: recovered at .*; (\d+) of \1 slots filled$"))
    save(path, ended(incident(3, ORDERS, "status 503"), 5))
    expect(over).to_have_count(2)  # told while it is looked at, and still unfolded
    expect(over.first).to_be_visible()
    expect(page.locator("#incidents .open li")).to_have_count(1)


def test_a_target_has_its_own_on_a_chart_with_what_happened(
    url: str, open_page: OpenPage, axe: Callable[[Page], list[str]]
) -> None:
    page = until_live(open_page(f"{url}/targets/calls?range=1h&lang=ja"))
    expect(page.locator("#incidents-heading")).to_have_text("インシデント 1")
    expect(page.locator("#incidents .open .sentence")).to_contain_text("デッドレター 1 件")
    expect(page.locator("#events li").first).to_contain_text("バックフィルを指示 · slots: 6")
    expect(page.locator("#chart .mark.incident i")).to_have_attribute("title", re.compile("^calls: <script>"))
    expect(page.locator("#chart .mark.event")).to_have_count(2)
    left = page.locator("#chart .mark.event").evaluate_all(
        "marks => marks.map((each) => parseFloat(each.style.left))"
    )
    width = page.locator("#chart .u-over").evaluate("over => over.clientWidth")
    places = sorted(place / width for place in left)
    assert places == pytest.approx([1 - 101 / 720, 1 - 31 / 720], abs=0.01)
    assert axe(page) == []
    page.set_viewport_size({"width": 320, "height": 800})
    for address in (f"{url}/targets/calls", url):
        until_live(page).goto(address)
        expect(page.locator("#incidents .open li").first).to_be_visible()
        assert overflow(page) == 0


def test_who_may_only_look_sees_no_buttons_and_without_incidents_there_is_no_list(
    open_page: OpenPage, path: Path, tmp_path: Path
) -> None:
    access = access_for("127.0.0.1", "sesame-open-yourself", read_token="sesame-let-me-look")
    clock = FixedClock(NOW)
    with (
        sole_daemon(path, UP),
        DashboardServer(lambda: LocalBackend(path), port=0, clock=clock, access=access) as server,
    ):
        page = open_page(server.url, expected=("401",))
        page.locator("input[name=token]").fill("sesame-let-me-look")
        page.keyboard.press("Enter")
        expect(page.locator("#incidents .open li")).to_have_count(2)
        expect(page.locator("#incidents button:visible").filter(has_not_text="Copy")).to_have_count(0)
        expect(page.locator("#incidents .silence").first).to_be_hidden()
        page.close()
    calm = build_backend(tmp_path / "calm.db", NOW)
    with served(calm, NOW) as server:
        page = until_live(open_page(server.url))
        expect(page.locator("#incidents")).to_be_hidden()
        expect(page.locator("#events")).to_be_hidden()
        page.close()
