"""Every time on a page is in the zone that is chosen: what is seen, pointed at, read out, asked and answered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import OpenPage
from browser.test_incidents import save
from kizami.backend.incidents import TROUBLE, BackendEvent, Incident, Kind, Member
from kizami.core.blocking import Trouble
from kizami.local.alerts.event_rows import write_events
from kizami.local.backend import LocalBackend
from kizami.local.daemon_lock import UP, sole_daemon
from kizami.local.store.blocks import save_block
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import known_metric
from kizami.web.server import DashboardServer
from samples.page_database import CALLS, ORDERS, FixedClock, build_backend, slot_before

NOW = datetime(2025, 12, 2, 10, 23, 10, tzinfo=UTC)
# All times are between nine and eleven in UTC, and so at hours that are none of these in the other zones.
OF_UTC = re.compile(r"(?<![\d:+-])(09|10):[0-5]\d(?!\d)")
ZONES = [("local", "Asia/Tokyo"), ("America/St_Johns", "America/St_Johns"), ("utc", "UTC")]

# What a reader sees, points at or is read out, but for the choice of the zone and the lines for a terminal.
SAID = """() => {
  const isAside = (element) => element.closest("#zone, code, .copy, script, style, template, noscript");
  const said = [document.title];
  for (const element of document.querySelectorAll("body *")) {
    if (isAside(element)) continue;
    for (const node of element.childNodes) if (node.nodeType === Node.TEXT_NODE) said.push(node.data);
    for (const name of ["title", "aria-label"]) said.push(element.getAttribute(name) ?? "");
  }
  return said.map((each) => each.trim()).filter(Boolean);
}"""
TIMES = """() => [...document.querySelectorAll("body time[data-clock]")]
  .map((time) => [time.dateTime, time.dataset.clock, time.textContent])"""
STYLES = {
    "second": "%H:%M:%S",
    "minute": "%H:%M",
    "full": "%Y-%m-%d %H:%M:%S",
    "full-minute": "%Y-%m-%d %H:%M",
    "past-hour": ":%M",
}


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW)


@pytest.fixture
def url(tmp_path: Path, clock: FixedClock) -> Iterator[str]:
    """One of everything that has a time."""
    path = build_backend(tmp_path / "kizami.db", NOW)
    over = incident(1, ORDERS, "status 500", 200, slot_before(NOW, 190))
    save(path, over, incident(2, CALLS, "status 503", 80))
    trouble = Trouble(slot_before(NOW, 6), "status 401", NOW, 2, 3, NOW + timedelta(minutes=2))
    with closing(open_database(path)) as connection, transaction(connection):
        known = known_metric(connection, ORDERS)
        assert known is not None
        save_block(connection, known.id, trouble, 0)
        until = {"incident": 2, "until": "2025-12-02T10:40:00Z"}
        write_events(connection, [BackendEvent(0, slot_before(NOW, 30), "incident.silenced", "ann", until)])
    with (
        sole_daemon(path, UP),
        DashboardServer(lambda: LocalBackend(path), port=0, clock=clock) as server,
    ):
        yield server.url


def incident(number: int, name: str, cause: str, back: int, over: datetime | None = None) -> Incident:
    """One that began so many slots ago."""
    since = slot_before(NOW, back)
    member = Member(name, frozenset({Kind.FAILS}), since, "", since, over)
    return Incident(number, TROUBLE, cause, cause, since, {name: member}, over_since=over)


def require_zone(page: Page, zone: str) -> None:
    """Nothing on the page is in another zone."""
    for instant, style, shown in page.evaluate(TIMES):
        there = datetime.fromisoformat(instant).astimezone(ZoneInfo(zone))
        assert shown == there.strftime(STYLES[style]), (instant, style)
    said = page.evaluate(SAID)
    assert [each for each in said if "UTC" in each] == []
    if zone != "UTC" and "/calendar" not in page.url:  # where every hour of a day stands
        assert [each for each in said if OF_UTC.search(each)] == []


def choose(page: Page, choice: str) -> None:
    page.locator("#zone").select_option(choice)
    expect(page.locator("#live")).to_have_attribute("data-state", "connected")


@pytest.mark.parametrize(("choice", "zone"), ZONES)
def test_every_part_of_every_page_is_in_the_chosen_zone(
    open_page: OpenPage, url: str, clock: FixedClock, choice: str, zone: str
) -> None:
    page = open_page(f"{url}/calendar")
    page.clock.set_fixed_time(NOW)
    choose(page, choice)
    for address in (
        "/",
        f"/targets/{CALLS}?range=1h",
        f"/targets/{ORDERS}?range=1h",
        "/calendar?day=2025-12-02T00:00:00Z",
    ):
        page.goto(f"{url}{address}")
        page.clock.set_fixed_time(NOW)
        expect(page.locator("#live")).to_have_attribute("data-state", "connected")
        if "targets" in address:
            expect(page.locator("#chart .mark.incident i").first).to_have_attribute("title", re.compile("."))
            expect(page.locator("#figures div").first).to_be_visible()
        if address == "/":
            expect(page.locator("#rows .row .error").filter(has_text="since")).to_have_count(2)
        require_zone(page, zone)
        page.locator("#zone").select_option("Pacific/Auckland")  # and back again, in place
        page.locator("#zone").select_option(choice)
        require_zone(page, zone)
    page.close()


@pytest.mark.parametrize(("choice", "zone"), ZONES)
def test_what_is_asked_answered_and_told_live_is_in_the_chosen_zone(
    open_page: OpenPage, url: str, clock: FixedClock, choice: str, zone: str
) -> None:
    page = open_page(f"{url}/targets/{CALLS}")
    page.clock.set_fixed_time(NOW)
    choose(page, choice)
    page.locator("#episodes [data-action=backfill]").click()
    expect(page.locator("#dialog-facts")).to_contain_text(
        slot_before(NOW, 65).astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M:%S")
    )
    require_zone(page, zone)
    page.locator("#dialog-confirm").click()
    expect(page.locator("#orders li")).to_have_count(1)
    require_zone(page, zone)
    page.locator("#incidents .open li").get_by_role("button", name="1 h", exact=True).click()
    until = (NOW + timedelta(hours=1)).astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M")
    expect(page.locator("#toast")).to_contain_text(f"silenced until {until}")
    expect(page.locator("#incidents .open .of")).to_contain_text(until)
    page.locator("#events li").first.wait_for()
    if zone != "UTC":
        assert not OF_UTC.search(page.locator("#toast").inner_text())
    clock.moment += timedelta(minutes=1)
    newest = clock.moment.astimezone(ZoneInfo(zone)).strftime("%H:%M")
    expect(page.locator("#grid-body th time").first).to_have_text(newest)
    require_zone(page, zone)
    page.close()
