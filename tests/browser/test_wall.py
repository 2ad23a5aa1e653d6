"""The wall with 6, 300 and 2,000 targets: who is silent is named, found, opened, and what is lacking is filled; by
mouse, by keyboard alone and on a phone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from browser.conftest import OpenPage, overflow
from kizami.core.targets.target import Target
from kizami.local.backend import LocalBackend
from kizami.local.daemon_lock import UP, sole_daemon
from kizami.local.store.database import open_database
from kizami.web.security import access_for
from kizami.web.server import DashboardServer
from programs.daemon import wait_for
from samples.page_database import FixedClock, build_targets, newest_due, served, store_slots

NOW = datetime(2025, 12, 2, 10, 23, 10, tzinfo=UTC)
GROUPS = ("auth", "billing", "chat", "mail")
SILENT = Target("chat/kyoto-15", lag_seconds=5)
OLD = Target("mail/osaka-1", lag_seconds=5)


# Names that a careless script or style would trip over.
HOSTILE = (
    "__proto__",
    "constructor/toString",
    "chat/" + "x" * 123,
    "שלום/עולם",
    "mail/..-..:https://evil.example",
)
SIZES = (6, 300, 2000)


def targets_of(count: int) -> dict[Target, range]:
    """Targets of four groups; one is silent, and an outage of a minute has hit all of one group."""
    made: dict[Target, range] = {SILENT: range(20)}
    made |= {Target(name, lag_seconds=5): range(0) for name in (HOSTILE if count > 6 else ())}
    for number in range(count - len(made)):
        group = GROUPS[number % 4]
        lacking = range(24, 36) if group == "billing" else range(0)
        made[Target(f"{group}/target-{number:04}", lag_seconds=5)] = lacking
    return made


@pytest.fixture(scope="module", params=SIZES)
def size(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def url(size: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("wall") / "kizami.db"
    build_targets(path, NOW, targets_of(size))
    with served(path, NOW) as server:
        yield server.url


def until_live(page: Page) -> Page:
    expect(page.locator("#rows.virtual .row").first).to_be_visible()
    return page


def test_the_verdict_names_who_is_silent_and_leads_there(open_page: OpenPage, url: str, size: int) -> None:
    page = until_live(open_page(url))
    expect(page.locator("#culprits")).to_have_text(re.compile(r"^chat/kyoto-15 is silent since \d\d:\d\d:\d\d$"))
    row = page.locator("#rows .row").first
    expect(row.locator(".target")).to_have_text("chat/kyoto-15")  # the worst of the worst group
    expect(row.locator(".state")).to_have_text("silent")
    outage = page.locator("#episodes tbody tr").filter(has_text="billing/")
    expect(outage.locator(".name")).to_have_text(re.compile(r"and \d+ more targets$" if size > 6 else "^billing/"))
    expect(page.locator("#rows .spark .line").first).to_have_attribute("d", re.compile("^M"))
    assert page.locator("#rows .row").count() < 80  # of hundreds, only those in sight are there
    page.locator("#culprits a").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("chat/kyoto-15")
    expect(page.locator("#tile-age")).to_have_class("tile bad")


def test_a_target_is_found_by_typing_and_opened_by_keyboard_alone(open_page: OpenPage, url: str) -> None:
    page = until_live(open_page(url))
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("target-00")
    expect(page.locator("#rows .row").nth(1).locator(".target")).to_have_text(re.compile("target-00"))
    assert "search=target" in page.url
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#rows .row").nth(1).locator(".target")).to_be_focused()
    # All of the row is the link, so all of it has the ring.
    assert page.evaluate("getComputedStyle(document.activeElement, '::after').outlineStyle") == "solid"
    name = page.locator("#rows .row").nth(1).locator(".target").inner_text()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    page.go_back()
    expect(page.locator("#search")).to_have_value("target-00")
    page.locator("#search").fill("nobody")
    expect(page.locator("#no-rows")).to_be_visible()
    page.keyboard.press("Escape")
    until_live(page)


def test_all_rows_can_be_scrolled_to_and_filtered_by_state(open_page: OpenPage, url: str, size: int) -> None:
    page = until_live(open_page(url))
    last = page.locator("#rows .row").last
    page.locator("#rows .target").first.focus()
    page.keyboard.press("End")
    expect(page.locator("#rows .target:focus")).to_be_in_viewport()
    assert page.evaluate("+document.querySelector('#rows .row:has(:focus)').ariaPosInSet") >= size
    assert page.locator("#rows .row").count() < 80
    expect(last).to_be_visible()
    page.locator("#conditions").get_by_role("link", name="silent 1").click()
    expect(page.locator("#rows .row")).to_have_count(1)
    assert page.url.endswith("condition=silent")


def test_axe_finds_nothing_on_the_wall_in_a_large_dialog_and_on_the_calendar(
    open_page: OpenPage, url: str, size: int, axe: Callable[[Page], list[str]]
) -> None:
    page = open_page(f"{url}/?lang=ja")
    for language in ("ja", "en"):
        if language == "en":
            page.goto(f"{url}/?lang=en")  # which is remembered
        for theme in ("dark", "light"):
            page.emulate_media(color_scheme=theme)
            assert axe(until_live(page)) == [], (language, theme)
    page.locator("[data-action=backfill-all]").click()
    expect(page.locator("#dialog")).to_be_visible()
    names = page.locator("#dialog-names")
    if size > 6:  # few are named in the sentence
        names.locator("summary").click()
        assert names.locator("li").count() > size // 5  # every name, in a list that scrolls
    assert page.evaluate("dialog.scrollHeight <= dialog.clientHeight")
    assert axe(page) == []
    page.goto(f"{url}/calendar")
    expect(page.locator("#live")).to_have_attribute("data-state", "connected")
    assert axe(page) == []


def test_a_dialog_is_opened_and_left_by_keyboard_and_gives_the_focus_back(open_page: OpenPage, url: str) -> None:
    page = until_live(open_page(url))
    button = page.locator("[data-action=backfill-all]")
    button.focus()
    for leave in ("Escape", "Enter"):
        page.keyboard.press("Enter")
        expect(page.locator("#dialog")).to_be_visible()
        assert page.evaluate("dialog.contains(document.activeElement)")
        if leave == "Enter":
            page.get_by_role("button", name="Cancel").focus()
        page.keyboard.press(leave)
        expect(page.locator("#dialog")).to_be_hidden()
        expect(button).to_be_focused()
        expect(button).to_be_enabled()  # the browser gives the focus back before it says that the dialog is closed


def test_on_a_phone_of_320_pixels_nothing_is_cut_off_and_a_tap_opens_a_target(
    open_page: OpenPage, url: str
) -> None:
    page = until_live(open_page(url, screen={"width": 320, "height": 640}, has_touch=True))
    page.set_viewport_size({"width": 320, "height": 640})
    assert overflow(page) == 0
    page.locator("#search").tap()
    page.locator("#search").fill("kyoto")
    expect(page.locator("#rows .row")).to_have_count(1)
    page.locator("#rows .row").tap(position={"x": 200, "y": 50})  # all of it leads there, not the name alone
    expect(page.get_by_role("heading", level=1)).to_have_text("chat/kyoto-15")
    expect(page.locator("#live")).to_have_attribute("data-state", "connected")
    assert overflow(page) == 0
    page.goto(f"{url}/calendar")
    expect(page.locator("#calendar .cell[data-kind]").first).to_be_attached()
    assert overflow(page) == 0


def test_a_wall_asks_for_one_stream_and_hears_what_came_before_its_script(
    open_page: OpenPage, url: str, size: int
) -> None:
    page = open_page(f"{url}/calendar")
    page.goto("about:blank")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    held: list[Route] = []
    page.route(re.compile("/wall.js"), lambda route: held.append(route))
    with page.expect_response(re.compile("/api/v1/live")):
        page.goto(url, wait_until="commit")
    page.wait_for_timeout(300)  # the first event is there by now, and nobody listens
    expect(page.locator("#live")).to_have_attribute("data-state", "waiting")
    held.pop().continue_()
    expect(page.locator("#live")).to_have_attribute("data-state", "connected")
    assert len([each for each in asked if "/api/v1/live" in each]) == 1
    page.unroute_all(behavior="ignoreErrors")


def test_no_frame_of_a_page_that_loads_on_a_phone_is_wider_than_it(
    open_page: OpenPage, url: str, size: int
) -> None:
    """Stylesheets, scripts and data come one by one, as over a slow line."""
    page = open_page(f"{url}/calendar")
    page.set_viewport_size({"width": 320, "height": 640})
    held: list[Route] = []
    page.route(re.compile("/static/|/api/"), lambda route: held.append(route))

    def is_there_with_one_more() -> bool:
        if held:
            held.pop(0).continue_()
        page.wait_for_timeout(20)  # a frame: what is wrong with it is a complaint
        return not held and page.locator("#live[data-state=connected]").count() == 1

    for place in ("/", f"/targets/{SILENT.name if size == 6 else HOSTILE[2]}", "/calendar"):
        page.goto(url + place, wait_until="commit")
        wait_for(is_there_with_one_more, f"all of {place}")
        assert overflow(page) == 0
    page.unroute_all(behavior="ignoreErrors")


def test_names_that_are_code_elsewhere_are_names(open_page: OpenPage, url: str, size: int) -> None:
    if size == 6:
        return  # there is no room for them
    page = until_live(open_page(url))
    for name in HOSTILE:
        page.locator("#search").fill(name)
        row = page.locator("#rows .row")
        expect(row).to_have_count(1)
        expect(row.locator(".target")).to_have_text(name)
        expect(row.locator(".state")).to_have_text("collecting")
    page.set_viewport_size({"width": 320, "height": 640})
    for name in HOSTILE:
        page.locator("#search").fill(name)
        page.locator("#rows .target").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        assert overflow(page) == 0
        page.go_back()
        until_live(page)


def test_a_hole_of_last_year_is_found_previewed_filled_and_seen_to_fill(
    open_page: OpenPage, tmp_path: Path
) -> None:
    """Year, day, hour, slot: on the calendar of all targets and on that of the one."""
    path, clock = tmp_path / "kizami.db", FixedClock(NOW)
    hour = datetime(2024, 12, 30, 7, 0, tzinfo=UTC)
    build_targets(path, hour + timedelta(hours=1), {OLD: range(100, 112)}, slots=720)
    connection = open_database(path)
    connection.execute("UPDATE metrics SET interval_seconds = 5")
    connection.close()
    with sole_daemon(path, UP), DashboardServer(lambda: LocalBackend(path), port=0, clock=clock) as server:
        page = open_page(f"{server.url}/calendar?year=2024", expected=("400",))
        page.clock.set_fixed_time(NOW)
        page.reload()
        day = page.locator('#calendar .cell[title^="2024-12-30"]')
        expect(day).to_have_attribute("data-kind", re.compile("partly|nearly"))
        day.click()
        cell = page.locator('#calendar .cell[title^="2024-12-30 07:00"]')
        expect(cell).to_have_attribute("title", re.compile("708 of 720 slots · 12 slots lacking"))
        cell.click()
        hole = page.locator("#calendar-body li")
        expect(hole).to_contain_text("12 slots lacking")
        page.locator("#calendar-backfill").click()
        expect(page.locator("#dialog-heading")).to_have_text("Backfill 12 slots?")
        page.locator("#dialog-confirm").click()
        expect(page.locator("#orders li.running")).to_contain_text("12 on their way")
        newest = newest_due(OLD, hour + timedelta(hours=1))
        fill(path, [newest - timedelta(seconds=5 * back) for back in range(100, 112)])
        expect(page.locator("#orders li.done")).to_contain_text("12 filled. Seen to end")
        page.reload()
        expect(page.locator("#orders li.done")).to_contain_text("12 filled. Seen to end")  # it stays
        page.goto(f"{server.url}/targets/{OLD.name}?day=2024-12-30T00:00:00Z")
        cell = page.locator('#calendar .cell[title^="2024-12-30 07:00"]')
        expect(cell).to_have_attribute("data-kind", "whole")
        cell.click()
        expect(page.locator("#grid-body tr")).to_have_count(60)
        expect(page.locator("#slots")).to_be_focused()
        page.close()


def fill(path: Path, slots: list[datetime]) -> None:
    """As the daemon does: the record, and no message any more."""
    store_slots(path, OLD, slots)
    connection = open_database(path)
    connection.execute("DELETE FROM messages")
    connection.close()


def test_several_metrics_by_the_minute_beside_last_week_are_one_address(
    open_page: OpenPage, tmp_path: Path
) -> None:
    whole: dict[Target, range] = {Target(f"chat/{name}", lag_seconds=5): range(0) for name in ("a", "b", "c")}
    path = build_targets(tmp_path / "kizami.db", NOW, whole, slots=300)
    with served(path, NOW) as server:
        page = open_page(f"{server.url}/targets/chat/a")
        expect(page.locator("#figures div").nth(3)).to_have_text(re.compile("^Total"))
        page.locator("#add-metric input").fill("chat/b")
        page.keyboard.press("Enter")
        page.get_by_role("link", name="minute").click()
        page.get_by_role("link", name="Sum").click()
        page.get_by_role("link", name="+ last week").click()
        expect(page.locator("#series li")).to_have_text(["chat/a", "the same time last week", "chat/b×"])
        expect(page.locator("#chart-foot a").last).to_have_attribute(
            "href", re.compile("^/api/v1/figures.*every=1m")
        )
        address = page.url
        assert all(part in address for part in ("with=chat%2Fb", "every=1m", "figure=sum", "compare=1w"))
        page.goto(address)
        expect(page.locator("#series li")).to_have_count(3)
        page.locator("#typed-range [name=from]").fill("2025-12-02T10:00:00")
        page.locator("#typed-range [name=to]").fill("2025-12-02T10:10:00")
        page.get_by_role("button", name="Show").click()
        expect(page.locator("#figures")).to_contain_text("120 / 120")
        page.get_by_role("link", name="Remove chat/b").click()
        expect(page.locator("#series li")).to_have_count(2)
        page.close()


def test_who_may_only_look_is_offered_nothing_to_do(open_page: OpenPage, tmp_path: Path) -> None:
    path = build_targets(tmp_path / "kizami.db", NOW, {OLD: range(24, 36)})
    access = access_for("127.0.0.1", "sesame-open-yourself", read_token="sesame-let-me-look")
    with (
        sole_daemon(path, UP),
        DashboardServer(lambda: LocalBackend(path), port=0, clock=FixedClock(NOW), access=access) as server,
    ):
        page = open_page(f"{server.url}/targets/{OLD.name}", expected=("401", "403"))
        page.get_by_label("Token").fill("sesame-let-me-look")
        page.keyboard.press("Enter")
        expect(page.locator("#episodes tbody tr")).to_have_count(1)
        expect(page.get_by_role("button", name=re.compile("Backfill|Pause"))).to_have_count(0)
        refused = page.evaluate(
            """async () => (await fetch("/api/v1/backfill", {method: "POST", body: '{"allGaps": true}',
            headers: {"Content-Type": "application/json"}})).status"""
        )
        assert refused == 403
        page.close()
