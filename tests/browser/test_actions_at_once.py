"""What is done on a page is on it with the answer: no live update is needed, and none comes in these tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from browser.conftest import OpenPage
from browser.test_incidents import incident, save
from samples.page_database import CALLS, ORDERS, build_backend, served, this_slot

NOW = this_slot()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = build_backend(tmp_path / "kizami.db", NOW)
    save(made, incident(1, CALLS, "status 503"), incident(2, ORDERS, "status 500"))
    return made


@pytest.fixture
def url(path: Path) -> Iterator[str]:
    with served(path, NOW) as server:
        yield server.url


@pytest.fixture
def open_deaf(open_page: OpenPage, url: str) -> Iterator[Callable[[str], Page]]:
    """Opens a page to which no live update comes."""
    pages: list[Page] = []

    def open_one(address: str) -> Page:
        page = open_page(f"{url}/healthz")
        held: list[Route] = []
        page.route(re.compile("/api/v1/live"), lambda route: held.append(route))
        page.goto(address)
        pages.append(page)
        return page

    yield open_one
    for page in pages:
        assert page.locator("#live").get_attribute("data-state") != "connected"
        page.close()


@pytest.mark.parametrize("place", ["/", f"/targets/{CALLS}"])
def test_an_incident_is_acknowledged_silenced_and_heard_again(
    open_deaf: Callable[[str], Page], open_page: OpenPage, url: str, place: str
) -> None:
    other = open_page(url)
    expect(other.locator("#live")).to_have_attribute("data-state", "connected")
    page = open_deaf(f"{url}{place}")
    row = page.locator("#incidents .open li[data-key='1']")
    row.get_by_role("button", name="Acknowledge").click()
    expect(row.locator(".of")).to_contain_text("acknowledged by page at")
    expect(row.get_by_role("button", name="Acknowledge")).to_have_count(0)
    expect(page.locator("#events li").first).to_contain_text("incident acknowledged")
    row.get_by_role("button", name="8 h").click()
    expect(row.locator(".of")).to_contain_text("silenced until")
    expect(other.locator("#incidents .open li[data-key='1'] .of")).to_contain_text("silenced until")
    row.get_by_role("button", name="End the silence").click()
    expect(row.locator(".of")).not_to_contain_text("silenced until")
    expect(row.locator(".of")).to_contain_text("acknowledged by page at")
    other.close()


def test_a_target_is_paused_and_resumed(open_deaf: Callable[[str], Page], url: str) -> None:
    page = open_deaf(f"{url}/targets/{CALLS}")
    page.get_by_role("button", name="Pause").click()
    page.locator("#dialog-confirm").click()
    expect(page.locator("#target-head .state")).to_have_text("paused")
    expect(page.locator("#verdict")).to_have_class("verdict idle")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#target-head .state")).to_have_text("incomplete")
    expect(page.locator("#verdict")).to_have_class("verdict notice")


def test_slots_are_backfilled_and_put_back_and_the_order_is_dismissed(
    open_deaf: Callable[[str], Page], url: str
) -> None:
    page = open_deaf(f"{url}/targets/{CALLS}")
    dead = page.locator("#grid td.dead")
    expect(dead).to_have_count(1)
    page.locator("[data-action=redrive]").click()
    page.locator("#dialog-confirm").click()
    expect(dead).to_have_count(0)
    expect(page.locator("#tile-dead .value")).to_have_text("0")
    expect(page.locator("#orders li")).to_have_count(1)
    expect(page.locator("#grid td.missing")).to_have_count(6)
    page.locator("#episodes [data-action=backfill]").click()
    page.locator("#dialog-confirm").click()
    expect(page.locator("#grid td.missing")).to_have_count(0)
    expect(page.locator("#tile-gaps .value")).to_have_text("0")
    expect(page.locator("#orders li")).to_have_count(2)
    page.locator("#orders li").first.get_by_role("button", name="Dismiss").click()
    expect(page.locator("#orders li")).to_have_count(1)


def test_a_backfill_of_all_is_on_the_overview_and_on_the_calendar(
    open_deaf: Callable[[str], Page], url: str
) -> None:
    page = open_deaf(url)
    page.locator("[data-action=backfill-all]").click()
    page.locator("#dialog-confirm").click()
    expect(page.locator("#orders li")).to_have_count(1)
    expect(page.locator("#tile-gaps .value")).to_have_text("0")
    expect(page.locator("#episodes")).not_to_contain_text("nobody asked")
    calendar = open_deaf(f"{url}/calendar")
    calendar.get_by_role("button", name="Dismiss").click()
    expect(calendar.locator("#orders li")).to_have_count(0)
