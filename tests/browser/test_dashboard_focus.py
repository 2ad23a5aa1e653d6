"""Who is at the keyboard keeps their place: through every dialog, and while the page is renewed around them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from browser.conftest import OpenPage
from kizami.core.epoch import to_ms, to_seconds
from kizami.core.sender import message_for_slot
from kizami.core.targets.target import Target
from kizami.local.backend import LocalBackend
from kizami.local.daemon_lock import UP, sole_daemon
from kizami.local.store.backfill_queue import BackfillQueue
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import register_targets
from kizami.web.server import DashboardServer
from samples.page_database import FixedClock, build_targets, newest_due

NOW = datetime(2025, 12, 2, 10, 23, 10, tzinfo=UTC)
CALLS = Target(name="calls", interval_seconds=5, lag_seconds=5)
QUICK = Target(name="quick", interval_seconds=1, lag_seconds=3)
SLOW = Target(name="slow", interval_seconds=60, lag_seconds=120)
DEAD = (3, 4)


class Backend:
    """A served database whose clock is moved, and whose content is changed, by the test."""

    def __init__(self, path: Path) -> None:
        self.clock = FixedClock(NOW)
        lacking = {CALLS: {*DEAD, 10, 11, 12, 20}, QUICK: range(30, 33), SLOW: {5, 6}}
        self.path = build_targets(path, NOW, lacking)
        for back in DEAD:
            self.bury(back)

    def bury(self, back: int) -> None:
        slot = newest_due(CALLS, NOW) - timedelta(seconds=5 * back)
        with open_database(self.path) as connection:
            metric = connection.execute("SELECT id FROM metrics WHERE name = ?", (CALLS.name,)).get
            times = (to_ms(slot), to_ms(slot), to_ms(slot))
            row = (to_seconds(slot), metric, 5, 0, *times, 5, "status 500")
            connection.execute("INSERT INTO dead_letters VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def ask_for(self, target: Target, *backs: int) -> None:
        """As when somebody else backfills."""
        newest = newest_due(target, NOW)
        queue = BackfillQueue(self.path, self.clock)
        slots = [newest - timedelta(seconds=back * target.interval_seconds) for back in backs]
        queue.send_backfill(message_for_slot(slot, target) for slot in slots)
        queue.close()

    def add_target(self, name: str) -> None:
        connection = open_database(self.path)
        with transaction(connection):
            register_targets(connection, [Target(name=name)], NOW)
        connection.close()


@pytest.fixture
def backend(tmp_path: Path) -> Backend:
    return Backend(tmp_path / "kizami.db")


@pytest.fixture
def page(backend: Backend, open_page: OpenPage) -> Iterator[Page]:
    with (
        sole_daemon(backend.path, UP),
        DashboardServer(lambda: LocalBackend(backend.path), port=0, clock=backend.clock) as server,
    ):
        page = open_page(f"{server.url}/targets/calls")
        expect(page.locator("#live")).to_have_attribute("data-state", "connected")
        expect(page.locator("#chart canvas")).to_be_visible()
        yield page
        page.close()


@pytest.fixture
def wall(page: Page) -> Page:
    """The same backend, all targets of it."""
    page.locator(".brand").click()
    expect(page.locator("#rows.virtual .row")).to_have_count(3)
    return page


def row_button(page: Page, text: str) -> Locator:
    return page.locator("#episodes tbody tr").filter(has_text=text).get_by_role("button")


def open_dialog(page: Page, button: Locator) -> None:
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#dialog")).to_be_visible()


def close_dialog(page: Page, way: str) -> None:
    if way == "outside":
        page.mouse.click(5, 5)
    elif way == "Escape":
        page.keyboard.press("Escape")
    else:
        page.locator("#dialog button", has_text=re.compile("Cancel" if way == "cancel" else "^(?!Cancel)")).focus()
        page.keyboard.press("Enter")
    expect(page.locator("#dialog")).to_be_hidden()


def test_every_dialog_gives_the_focus_back_to_what_opened_it(page: Page) -> None:
    page.locator("#select-missing").press("Enter")
    openers = [
        page.locator("#backfill-range"),
        page.locator("#backfill-selected"),
        page.get_by_role("button", name="Backfill all gaps"),
        row_button(page, "nobody asked"),
        page.get_by_role("button", name="Redrive all dead letters"),
        row_button(page, "status 500"),
        page.get_by_role("button", name="Pause"),
    ]
    for opener in openers:
        for way in ("Escape", "cancel", "outside"):
            open_dialog(page, opener)
            close_dialog(page, way)
            expect(opener).to_be_focused()
            expect(opener).to_be_enabled()


def test_what_is_confirmed_leaves_the_focus_beside_what_is_gone(page: Page) -> None:
    open_dialog(page, page.get_by_role("button", name="Pause"))
    close_dialog(page, "confirm")
    expect(page.locator("#target-head button:focus")).to_have_text("Resume")
    page.keyboard.press("Enter")  # no dialog: what was paused goes on
    expect(page.locator("#target-head button:focus")).to_have_text("Pause")

    expect(page.locator("#episodes tbody tr")).to_have_count(2)
    open_dialog(page, row_button(page, "nobody asked"))
    close_dialog(page, "confirm")
    expect(page.locator("#episodes tbody tr")).to_have_count(1)
    expect(page.get_by_role("button", name="Redrive all dead letters")).to_be_focused()
    open_dialog(page, row_button(page, "status 500"))
    close_dialog(page, "confirm")
    expect(page.locator("#episodes .empty")).to_be_visible()
    expect(page.locator("#episodes")).to_be_focused()
    expect(page.locator("#orders li")).to_have_count(2)
    dismiss = page.locator("#orders").get_by_role("button")
    dismiss.first.press("Enter")
    expect(page.locator("#orders li")).to_have_count(1)
    expect(dismiss).to_be_focused()


def test_a_selection_that_is_done_with_leaves_the_focus_in_the_grid(page: Page) -> None:
    page.locator("#select-missing").press("Enter")
    page.locator("#clear-selection").press("Enter")
    expect(page.locator('#grid td[tabindex="0"]')).to_be_focused()
    page.locator("#select-missing").press("Enter")
    open_dialog(page, page.locator("#backfill-selected"))
    close_dialog(page, "confirm")
    expect(page.locator("#selection")).to_be_hidden()
    expect(page.locator('#grid td[tabindex="0"]')).to_be_focused()


def test_an_opener_that_goes_while_its_dialog_is_open_leaves_the_focus_to_its_neighbour(
    wall: Page, backend: Backend
) -> None:
    expect(wall.locator("#episodes tbody tr")).to_have_count(4)
    open_dialog(wall, row_button(wall, "quick"))
    backend.ask_for(QUICK, 30, 31, 32)
    expect(wall.locator("#episodes tbody tr")).to_have_count(3)
    close_dialog(wall, "Escape")
    expect(wall.locator("#episodes tbody button:focus")).to_have_count(1)


def test_a_renewed_page_takes_nobody_s_focus_and_hands_no_button_to_another(wall: Page, backend: Backend) -> None:
    button = row_button(wall, "slow")
    button.focus()
    backend.ask_for(QUICK, 30, 31, 32)
    expect(wall.locator("#episodes tbody tr")).to_have_count(3)
    expect(button).to_be_focused()
    row = wall.locator("#rows").get_by_role("link", name="quick")
    row.focus()
    backend.add_target("a_new_one_before_the_others")
    expect(wall.locator("#rows .row")).to_have_count(4)
    expect(row).to_be_focused()
    backend.ask_for(SLOW, 5, 6)
    expect(wall.locator("#episodes tbody tr")).to_have_count(2)
    expect(row).to_be_focused()
    wall.keyboard.press("Enter")
    expect(wall.get_by_role("heading", level=1)).to_have_text("quick")


def test_what_is_typed_stays_when_something_new_comes_to_stand_beside_it(
    open_page: OpenPage, tmp_path: Path
) -> None:
    whole: dict[Target, tuple[int, ...]] = {Target(name=f"target_{number}"): () for number in range(12)}
    path = build_targets(tmp_path / "kizami.db", NOW, whole)
    with (
        sole_daemon(path, UP),
        DashboardServer(lambda: LocalBackend(path), port=0, clock=FixedClock(NOW)) as server,
    ):
        page = open_page(server.url)
        expect(page.locator("#rows .row")).to_have_count(12)
        search = page.locator("#search")
        search.press_sequentially("target_7")
        expect(page.locator("#rows .row")).to_have_count(1)
        with closing(LocalBackend(path)) as source:
            source.pause("target_3")  # as another page would
        expect(page.locator("#conditions")).to_contain_text("paused 1")
        expect(search).to_be_focused()
        expect(search).to_have_value("target_7")
        expect(page.locator("#rows .row")).to_have_count(1)
        page.close()


def test_a_minute_that_leaves_the_grid_leaves_the_focus_in_it(page: Page, backend: Backend) -> None:
    oldest = page.locator("#grid-body tr").last.locator("td").last
    oldest.focus()
    minute = page.locator("#grid-body tr").last.get_attribute("id")
    backend.clock.moment = NOW + timedelta(minutes=20)
    expect(page.locator(f"#{minute}")).to_have_count(0)
    expect(page.locator("#grid td:focus")).to_have_count(1)


def test_the_preview_names_the_first_and_last_slot_that_are_then_asked_for(wall: Page, backend: Backend) -> None:
    """Of targets of different intervals and lags; and what falls due while the dialog is open is left alone."""
    open_dialog(wall, wall.get_by_role("button", name="Backfill all gaps"))
    facts = wall.locator("#dialog dd")
    first = newest_due(SLOW, NOW) - timedelta(minutes=6)
    last = newest_due(QUICK, NOW) - timedelta(seconds=30)
    expect(facts.nth(0)).to_have_text("calls, quick, slow")
    expect(facts.nth(1)).to_have_text(f"{first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S}")
    expect(wall.locator("#dialog-heading")).to_have_text("Backfill 9 slots?")
    backend.clock.moment = NOW + timedelta(minutes=2)
    expect(wall.locator("#tile-gaps .value")).not_to_have_text("4")
    close_dialog(wall, "confirm")
    expect(wall.locator("#toast")).to_have_text("9 slots are on their way.")
    with open_database(backend.path) as connection:
        slots = connection.execute("SELECT json_group_array(DISTINCT slot) FROM messages").get
    assert str(to_seconds(first)) in slots
    assert str(to_seconds(last)) in slots
