"""The page over a database that stands still: looking around, sharing, keyboard, languages, accessibility."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import OpenPage, overflow, until_the_chart_fits
from kizami.core.epoch import to_seconds
from kizami.core.slots import format_instant
from kizami.local.backend import LocalBackend
from kizami.local.daemon_lock import UP, sole_daemon
from kizami.local.store.database import open_database
from kizami.web.server import DashboardServer
from programs.daemon import wait_for
from samples.page_database import CALLS, HOSTILE, ORDERS, FixedClock, build_backend, served, slot_before

NOW = datetime(2025, 12, 2, 10, 23, 10, tzinfo=UTC)
TOKEN = "sesame-open-yourself"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_backend(tmp_path_factory.mktemp("page") / "kizami.db", NOW)


@pytest.fixture(scope="module")
def url(path: Path) -> Iterator[str]:
    with served(path, NOW) as server:
        yield server.url


def slot(back: int) -> str:
    return format_instant(slot_before(NOW, back))


def cell(page: Page, back: int):  # type: ignore[no-untyped-def]
    return page.locator(f'#grid td[data-slot="{slot(back)}"]')


def until_live(page: Page) -> Page:
    expect(page.locator("#live")).to_have_attribute("data-state", "connected")
    if "/targets/" in page.url:
        expect(page.locator("#chart canvas")).to_be_visible()
    return page


def test_it_shows_the_verdict_the_tiles_and_every_state(open_page: OpenPage, url: str) -> None:
    page = until_live(open_page(f"{url}/targets/{CALLS}"))
    expect(page.locator("#verdict-sentence")).to_have_text(
        "All 12 slots of the last minute are stored; coverage 24 h 98.88%, 1 gap, 1 dead letter."
    )
    assert page.locator(".tile .label").all_inner_texts() == [
        "Newest slot", "Coverage 1 h", "Coverage 24 h", "Dead letters", "Gaps 24 h",
    ]  # fmt: skip
    for back, state in (
        (59, "stored"),
        (60, "missing"),
        (70, "dead"),
        (72, "pending"),
        (74, "late"),
        (75, "retried"),
        (76, "backfilled"),
    ):
        expect(cell(page, back)).to_have_class(state)
        expect(cell(page, back)).to_have_attribute("aria-label", re.compile(state))
    expect(page.locator("#chart-summary")).to_contain_text(f"{CALLS}: 172 of 180 slots, lowest 0")
    figures = page.locator("#figures div").all_inner_texts()
    assert [figure.split("\n")[0] for figure in figures] == ["Lowest", "Mean", "Highest", "Total", "Stored"]
    assert figures[4] == "Stored\n172 / 180"


def test_the_chart_has_a_hole_where_slots_are_missing(open_page: OpenPage, url: str) -> None:
    """No line crosses the hole: the pixels of the line's colour stop at its edges."""
    page = until_live(open_page(f"{url}/targets/{CALLS}?from={slot(100)}&to={slot(20)}", color_scheme="light"))
    columns = wait_for(lambda: drawn_columns(page), "the line")
    width = len(columns)
    # Slots 65 to 60 of the 80 that are shown, seen from the left.
    hole = columns[int(width * (100 - 64.5) / 80) : int(width * (100 - 60.5) / 80)]
    assert not any(hole)


def drawn_columns(page: Page) -> list[bool] | None:
    """Which columns of the chart have a piece of the line in them, once most have."""
    columns = page.evaluate(LINE_COLUMNS)
    return columns if sum(columns) > len(columns) * 0.8 else None


LINE_COLUMNS = """() => {
  const canvas = document.querySelector("#chart canvas");
  const over = document.querySelector("#chart .u-over").getBoundingClientRect();
  const frame = canvas.getBoundingClientRect();
  const scale = canvas.width / frame.width;
  const [left, top] = [(over.left - frame.left) * scale, (over.top - frame.top) * scale];
  const context = canvas.getContext("2d");
  const { data, width, height } = context.getImageData(left, top, over.width * scale, over.height * scale);
  const columns = [];
  for (let x = 0; x < width; x++) {
    let found = false;
    for (let y = 0; y < height; y++) {
      const at = 4 * (y * width + x);
      const [r, g, b, a] = data.slice(at, at + 4);
      const isLine = Math.abs(r - 53) < 40 && Math.abs(g - 70) < 40 && Math.abs(b - 176) < 40;
      found ||= a > 200 && isLine;
    }
    columns.push(found);
  }
  return columns;
}"""


def test_ranges_zoom_and_pan_are_in_the_address_and_the_way_back_leads_back(open_page: OpenPage, url: str) -> None:
    page = until_live(open_page(f"{url}/targets/{CALLS}"))
    page.get_by_role("link", name="1h", exact=True).click()
    page.wait_for_url(re.compile("range=1h"))
    expect(page.locator("#chart-summary")).to_contain_text("of 720 slots")
    expect(page.get_by_role("link", name="1h", exact=True)).to_have_attribute("aria-current", "true")
    box = page.locator("#chart .u-over").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 60, steps=5)
    page.mouse.up()
    page.wait_for_url(re.compile("from=.*to="))
    expect(page.locator("#chart-summary")).to_contain_text(re.compile(r"of 36\d slots"))
    zoomed = page.url
    page.get_by_role("button", name="Earlier").click()
    page.wait_for_url(lambda now: now != zoomed)
    page.get_by_role("button", name="Zoom out").click()
    expect(page.locator("#chart-summary")).to_contain_text(re.compile(r"of [4-7]\d\d slots"))
    page.get_by_role("link", name="Back to live").click()
    page.wait_for_url(re.compile("range=1h$"))
    page.go_back()
    page.go_back()
    page.go_back()
    expect(page).to_have_url(zoomed)
    expect(page.locator("#chart-summary")).to_contain_text(re.compile(r"of 36\d slots"))


def test_the_chart_obeys_the_keyboard(open_page: OpenPage, url: str) -> None:
    page = until_live(open_page(f"{url}/targets/{CALLS}"))
    page.locator("#chart").focus()
    page.keyboard.press("+")
    page.wait_for_url(re.compile("from="))
    first = page.url
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(lambda now: now != first)
    page.keyboard.press("Escape")
    page.wait_for_url(re.compile(rf"/targets/{CALLS}$"))


def test_a_shared_address_opens_the_same_view(open_page: OpenPage, url: str) -> None:
    """Also as it was when there was one page for all targets."""
    address = f"{url}/?metric=%E6%B3%A8%E6%96%87%2F%E6%95%B0&range=6h&until={slot(200)}&minutes=5"
    page = until_live(open_page(address))
    assert urlsplit(page.url).path == "/targets/%E6%B3%A8%E6%96%87/%E6%95%B0"
    rows = page.locator("#grid-body tr")
    expect(rows).to_have_count(5)
    expect(page.get_by_role("heading", level=1)).to_have_text(ORDERS)
    expect(page.get_by_role("link", name="6h")).to_have_attribute("aria-current", "true")
    seen = page.locator("#grid-body").inner_text()
    page.reload()
    until_live(page)
    expect(page.locator("#grid-body")).to_have_text(seen, use_inner_text=True)
    page.get_by_role("link", name="← Earlier").click()
    expect(cell(page, 260)).to_be_visible()
    page.get_by_role("link", name="Now").click()
    expect(cell(page, 0)).to_be_visible()
    expect(page).not_to_have_url(re.compile("until"))


def test_a_target_is_a_click_away_and_the_way_back_leads_back(open_page: OpenPage, url: str) -> None:
    page = until_live(open_page(url))
    page.locator("#rows").get_by_role("link", name=ORDERS).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(ORDERS)
    page.locator(".crumbs").get_by_role("link", name="Targets").click()
    page.locator("#rows .row").filter(has_text=CALLS).click()  # anywhere on its row
    expect(cell(page, 60)).to_have_class("missing")


def test_who_zooms_in_sees_those_slots(open_page: OpenPage, url: str) -> None:
    page = until_live(open_page(f"{url}/targets/{CALLS}?from={slot(400)}&to={slot(300)}"))
    newest = page.locator("#grid-body tr").first
    expect(newest.locator(f'[data-slot="{slot(301)}"]')).to_be_visible()
    expect(page.locator("#chart-summary")).to_contain_text(f"{CALLS}: 100 of 100 slots")
    page.get_by_role("link", name="Now").click()
    expect(cell(page, 0)).to_be_visible()
    expect(page).not_to_have_url(re.compile("from"))


def test_a_chart_that_has_missed_slots_or_could_not_be_loaded_is_loaded_anew(
    open_page: OpenPage, path: Path
) -> None:
    clock = FixedClock(NOW - timedelta(minutes=30))
    with DashboardServer(lambda: LocalBackend(path), port=0, clock=clock) as server:
        page = until_live(open_page(f"{server.url}/targets/{ORDERS}", expected=("ERR_FAILED",)))
        summary = page.locator("#chart-summary")
        expect(summary).to_contain_text("180 of 180 slots")
        clock.moment = NOW  # as when the reader's machine has slept
        expect(page.locator("#grid-head time").last).to_have_text("10:23")
        expect(summary).to_contain_text("180 of 180 slots")
        page.route("**/api/v1/chart*", lambda route: route.abort())
        page.get_by_role("link", name="5m", exact=True).click()
        expect(summary).to_contain_text("could not be loaded")
        page.unroute("**/api/v1/chart*")
        expect(summary).to_contain_text("60 of 60 slots")
        page.close()


def test_a_copied_command_is_confirmed_for_a_moment(open_page: OpenPage, url: str) -> None:
    page = until_live(open_page(url, permissions=["clipboard-read", "clipboard-write"]))
    button = page.locator("#episodes .copy").first
    button.dblclick()
    expect(button).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "kizami gaps --last 24h"
    expect(button).to_have_text("Copy")


def test_language_and_theme_are_chosen_and_remembered(open_page: OpenPage, url: str) -> None:
    page = until_live(open_page(f"{url}/targets/{CALLS}?range=1h"))
    page.get_by_role("link", name="日本語").click()
    expect(page.locator("html")).to_have_attribute("lang", "ja")
    expect(page.locator("#verdict-sentence")).to_contain_text("すべて保存済みです。")
    expect(page.locator("#live-text")).to_have_text("ライブ")
    assert page.url == f"{url}/targets/{CALLS}?range=1h"
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_label("テーマ").select_option("dark")
    expect(page.locator("body")).not_to_have_css("background-color", before)
    page.reload()
    until_live(page)
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.locator("html")).to_have_attribute("lang", "ja")


def test_the_browser_s_own_language_and_theme_are_the_first_choice(open_page: OpenPage, url: str) -> None:
    page = until_live(open_page(f"{url}/targets/{CALLS}", locale="ja-JP", color_scheme="dark"))
    expect(page.locator("html")).to_have_attribute("lang", "ja")
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", colour)[:3])) < 60
    page.emulate_media(media="print")  # light ink on white paper would be nothing to read
    colour = page.evaluate("getComputedStyle(document.body).color")
    assert max(map(int, re.findall(r"\d+", colour)[:3])) < 60
    expect(page.locator("#select-missing")).to_be_hidden()


def test_times_can_be_shown_in_the_reader_s_zone(open_page: OpenPage, url: str) -> None:
    page = until_live(open_page(f"{url}/targets/{CALLS}"))
    utc = slot_before(NOW, 0)
    header = page.locator("#grid-body th").first
    expect(header).to_have_text(utc.strftime("%H:%M"))
    expect(page.get_by_label("Time zone").locator("[value=local]")).to_have_text("Local: Asia/Tokyo (UTC+09:00)")
    page.get_by_label("Time zone").select_option("local")
    tokyo = utc + timedelta(hours=9)
    expect(header).to_have_text(tokyo.strftime("%H:%M"))
    expect(cell(page, 0)).to_have_attribute("aria-label", re.compile(tokyo.strftime("^%H:%M:%S stored")))


def test_the_grid_obeys_the_keyboard(open_page: OpenPage, url: str) -> None:
    page = until_live(open_page(f"{url}/targets/{CALLS}"))
    cell(page, 66).focus()
    page.keyboard.press("ArrowRight")
    expect(cell(page, 65)).to_be_focused()
    page.keyboard.press("Space")
    expect(cell(page, 65)).to_have_attribute("aria-selected", "true")
    expect(page.locator("#selected")).to_have_text("1 slot selected")
    expect(page.locator("#selected-cell")).to_have_text(re.compile(r"^\d\d:\d\d:\d\d missing$"))
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    expect(page.locator("#selected")).to_have_text("3 slots selected")
    expect(page.locator("#selected-cell")).to_be_hidden()
    page.keyboard.press("Home")
    expect(page.locator("#grid-body tr td:focus")).to_have_attribute("data-slot", re.compile(":00Z$"))
    page.keyboard.press("Escape")
    expect(page.locator("#selection")).to_be_hidden()
    # One stop of the Tab key for the whole grid.
    expect(page.locator('#grid td[tabindex="0"]')).to_have_count(1)


def test_everything_can_be_reached_with_the_tab_key_and_is_seen_to_have_it(open_page: OpenPage, url: str) -> None:
    page = until_live(open_page(f"{url}/targets/{CALLS}"))
    seen: list[str] = []
    for _ in range(80):
        page.keyboard.press("Tab")
        seen.append(page.evaluate(FOCUSED))
        if seen[-1] == "BODY":
            break
    named = " ".join(seen)
    for name in (
        "skip",
        "zone",
        "tile",
        "theme",
        "language",
        "chart",
        "select-missing",
        "grid-cell",
        "backfill-all",
        "redrive-all",
        "pause",
    ):
        assert name in named, name
    assert "unseen" not in named


FOCUSED = """() => {
  const element = document.activeElement;
  const kind = element.dataset.slot ? "grid-cell" : element.className || element.nodeName;
  const name = element.id || element.dataset.action || kind;
  const isSeen = element === document.body || getComputedStyle(element).outlineStyle !== "none";
  return isSeen ? name : `${name} unseen`;
}"""


def test_a_backfill_is_previewed_by_keyboard_alone_and_can_be_left(open_page: OpenPage, url: str) -> None:
    page = until_live(open_page(f"{url}/targets/{CALLS}"))
    page.locator("#select-missing").press("Enter")
    expect(page.locator("#selected")).to_have_text("7 slots selected")
    page.locator("#backfill-selected").press("Enter")
    dialog = page.locator("#dialog")
    expect(dialog).to_be_visible()
    expect(dialog.get_by_role("heading")).to_have_text("Backfill 7 slots?")
    expect(dialog.locator("dl")).to_contain_text("Missing, will be asked for")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(cell(page, 60)).to_have_class("missing")
    expect(page.locator("#selected")).to_have_text("7 slots selected")
    page.locator("#backfill-range").press("Enter")
    expect(dialog.get_by_role("heading")).to_have_text("Backfill 7 slots?")
    expect(dialog.locator("dd").nth(1)).to_contain_text(slot_before(NOW, 60).strftime("%H:%M:%S"))


def test_a_gap_is_repaired_with_nothing_but_the_keyboard(open_page: OpenPage, tmp_path: Path) -> None:
    path = build_backend(tmp_path / "kizami.db", NOW)
    with served(path, NOW) as server:
        page = until_live(open_page(f"{server.url}/targets/{CALLS}"))
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # the link that skips to the slots
        tab_to(page, "#select-missing")
        page.keyboard.press("Enter")
        tab_to(page, "#backfill-selected")
        page.keyboard.press("Enter")
        expect(page.locator("#dialog-heading")).to_have_text("Backfill 7 slots?")
        tab_to(page, "#dialog-confirm")
        page.keyboard.press("Enter")
        expect(page.locator("#toast")).to_have_text("7 slots are on their way.")
        expect(page.locator("#grid td.missing, #grid td.dead")).to_have_count(0)
        expect(page.locator("#grid td.pending")).to_have_count(8)
        page.close()


def tab_to(page: Page, selector: str) -> None:
    for _ in range(20):
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the Tab key does not lead to {selector}")


@pytest.mark.parametrize("locale", ["en-US", "ja-JP"])
@pytest.mark.parametrize("color_scheme", ["light", "dark"])
def test_axe_finds_nothing(
    open_page: OpenPage, url: str, axe: Callable[[Page], list[str]], locale: str, color_scheme: str
) -> None:
    address = f"{url}/targets/{CALLS}?minutes=8"  # all states are in these
    page = until_live(open_page(address, locale=locale, color_scheme=color_scheme))
    page.locator("#select-missing").click()
    assert axe(page) == []
    page.locator("#backfill-selected").click()
    expect(page.locator("#dialog")).to_be_visible()
    assert axe(page) == []


def test_hostile_names_and_errors_stay_text(open_page: OpenPage, tmp_path: Path) -> None:
    path = build_backend(tmp_path / "kizami.db", NOW)
    evil = "<img src=x onerror=alert(1)>'\"&amp;{n}</script>"
    with served(path, NOW) as server:
        page = until_live(open_page(f"{server.url}/targets/{CALLS}", expected=("400",)))
        expect(page.locator("#episodes .reason").first).to_have_text("nobody asked")
        expect(page.locator("#episodes .reason").last).to_have_text(HOSTILE)
        expect(cell(page, 70)).to_have_attribute("title", re.compile(re.escape(HOSTILE)))
        page.locator("#episodes tbody tr").last.get_by_role("button").click()
        expect(page.locator("#dialog dd").last).to_have_text(HOSTILE)
        page.keyboard.press("Escape")
        # No such name can be configured; if one were in the file all the same, it would stay text.
        connection = open_database(path)
        connection.execute("UPDATE metrics SET name = ? WHERE name = ?", (evil, CALLS))
        connection.execute("UPDATE messages SET last_error = ?, receives = 1", (HOSTILE,))
        connection.close()
        page.goto(server.url)
        until_live(page)
        expect(page.locator("#rows .target").filter(has_text="img")).to_have_text(evil)
        expect(page.locator("#episodes .name").first).to_have_text(evil)
        page.get_by_role("button", name="Backfill", exact=True).click()
        expect(page.locator("#dialog dd").first).to_have_text(evil)
        page.locator("#dialog-confirm").click()
        expect(page.locator("#toast")).to_have_text("6 slots are on their way.")
        expect(page.locator("#orders b")).to_have_text(f"6 slots of {evil}")
        page.locator("#rows .target").filter(has_text="img").click()
        expect(page.locator(".reason")).to_contain_text("is not a metric name")
        assert page.locator("img[src=x]").count() == 0
        page.close()


@pytest.mark.parametrize("locale", ["en-US", "ja-JP"])
def test_a_narrow_screen_scrolls_in_one_direction_only(open_page: OpenPage, url: str, locale: str) -> None:
    page = until_live(open_page(f"{url}/targets/{CALLS}", locale=locale))
    page.locator("h1").evaluate("title => title.textContent = 'long_segment_of_a_name.'.repeat(5)")
    for width in (320, 390, 768, 1081, 1600):
        page.set_viewport_size({"width": width, "height": 800})
        until_the_chart_fits(page)
        assert overflow(page) == 0, width
        assert page.evaluate(CUT_OFF) == [], width
        assert page.evaluate(BROKEN_STATES) == [], width


# What does not fit where it stands: in a tile, or a button in its list.
CUT_OFF = """() => [...document.querySelectorAll(".tile span, .list .act button")].filter((element) => {
  const box = (element.closest(".tile, .scroll")).getBoundingClientRect();
  const range = document.createRange();
  range.selectNodeContents(element);
  return range.getBoundingClientRect().right > box.right + 1;
}).map((element) => element.textContent)"""


# A state is one word: it stands on one line.
BROKEN_STATES = """() => [...document.querySelectorAll(".list .state")].filter((element) => {
  const range = document.createRange();
  range.selectNodeContents(element);
  return range.getClientRects().length > 1;
}).map((element) => element.textContent)"""


def test_without_javascript_everything_but_the_chart_is_there(open_page: OpenPage, url: str) -> None:
    page = open_page(f"{url}/targets/{CALLS}", java_script_enabled=False)
    expect(page.locator("#verdict-sentence")).to_contain_text("are stored")
    expect(cell(page, 60)).to_have_class("missing")
    page.get_by_role("link", name="← Earlier").click()
    expect(page.locator("#grid-body tr")).to_have_count(15)
    page.get_by_role("link", name="Targets").first.click()
    expect(page.locator("#rows .row")).to_have_count(2)
    expect(page.locator("#rows .row").first.locator(".newest-count")).to_have_text("0")


def test_a_token_is_asked_for_once(open_page: OpenPage, path: Path, axe: Callable[[Page], list[str]]) -> None:
    with DashboardServer(lambda: LocalBackend(path), port=0, token=TOKEN) as server:
        page = open_page(f"{server.url}/targets/{CALLS}?range=1h", expected=("401",))
        assert axe(page) == []
        page.get_by_label("Token").fill("a wrong guess")
        page.get_by_role("button", name="Enter").click()
        expect(page.get_by_role("alert")).to_have_text("That is not the token.")
        page.get_by_label("Token").fill(TOKEN)
        page.keyboard.press("Enter")
        until_live(page)
        assert page.url == f"{server.url}/targets/{CALLS}?range=1h"
        page.close()


def test_a_new_database_says_what_to_do(
    open_page: OpenPage, tmp_path: Path, axe: Callable[[Page], list[str]]
) -> None:
    path = tmp_path / "kizami.db"
    open_database(path, create=True).close()
    with sole_daemon(path, UP), DashboardServer(lambda: LocalBackend(path), port=0) as server:
        page = open_page(server.url)
        expect(page.locator("#live")).to_have_attribute("data-state", "connected")
        expect(page.locator("#verdict-sentence")).to_contain_text("kizami up")
        assert axe(page) == []
        connection = open_database(path)
        connection.execute(
            "INSERT INTO metrics (id, name, interval_seconds, lag_seconds, step_seconds, first_slot)"
            " VALUES (0, 'first', 5, 5, 5, ?)",
            (to_seconds(NOW),),
        )
        connection.close()
        expect(page.locator("#rows .target")).to_have_text("first")
        connection = open_database(path)
        connection.execute(
            "INSERT INTO metrics (id, name, interval_seconds, lag_seconds, step_seconds, first_slot)"
            " VALUES (1, 'second', 1, 1, 1, ?)",
            (to_seconds(NOW),),
        )
        connection.close()
        page.locator("#rows").get_by_role("link", name="second").click()
        expect(page.locator("#grid-columns th")).to_have_count(61)
        expect(page.locator("#grid-caption")).to_contain_text("Coverage of second")
        page.close()
