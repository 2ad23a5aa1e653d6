"""The page on a phone: with many targets and long names nothing stands beside the screen."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import OpenPage, overflow, until_the_chart_fits
from kizami.core.targets.target import Target
from samples.page_database import build_targets, served

NOW = datetime(2025, 12, 2, 10, 23, 10, tzinfo=UTC)
WIDTHS = (320, 360, 390)
NAMES = (
    "orders.created.by_region.ap-northeast-1/service_of_the_shop_{}",
    "a" * 120 + "{}",
    "注文数/とても長い対象の名前がここにあります_{}",
    "t{}",
)
ONE = "targets/" + NAMES[0].format(0)
VIEWS = ("", ONE, f"{ONE}?from=2025-12-02T10:00:00Z&to=2025-12-02T10:10:00Z", "?search=" + "x" * 120, "calendar")


def targets_of(count: int, all_well: bool) -> dict[Target, range]:
    """Targets of several paces; some of them lack slots unless all is well."""
    made = {}
    for number in range(count):
        pace = (5, 10, 1, 60)[number % 4]
        target = Target(NAMES[number % 4].format(number), interval_seconds=pace, lag_seconds=pace)
        made[target] = range(0) if all_well else (range(12) if number % 7 == 3 else range(6, 6 + number % 3))
    return made


@pytest.mark.parametrize(("count", "all_well"), [(12, True), (12, False), (40, True), (300, False)])
def test_a_phone_scrolls_in_one_direction_only_however_many_targets(
    open_page: OpenPage, tmp_path: Path, count: int, all_well: bool
) -> None:
    path = build_targets(tmp_path / "kizami.db", NOW, targets_of(count, all_well), slots=20)
    with served(path, NOW) as server:
        page = open_page(f"{server.url}/?lang=en")
        for language in ("en", "ja"):
            for view in VIEWS if count < 20 else VIEWS[:1]:
                if view or language != "en":
                    page.goto(f"{server.url}/{view or '?lang=ja'}")  # which is remembered
                expect(page.locator("#live")).to_have_attribute("data-state", "connected")
                if "targets/" in view:
                    expect(page.locator("#chart canvas")).to_be_visible()
                for theme in ("light", "dark") if not view else ("dark",):
                    page.emulate_media(color_scheme=theme)
                    assert_fits(page, f"{language} {theme} {view[:10]}")
        if not all_well:
            assert_the_dialog_fits(page, server.url)
        page.close()


def assert_fits(page: Page, what: str) -> None:
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 740})
        until_the_chart_fits(page)
        assert overflow(page) == 0, (what, width)
        assert page.evaluate(BESIDE) == [], (what, width)


def assert_the_dialog_fits(page: Page, url: str) -> None:
    page.goto(url)
    page.locator("[data-action=backfill-all]").click()
    expect(page.locator("#dialog")).to_be_visible()
    assert page.evaluate("dialog.scrollHeight <= dialog.clientHeight")
    page.keyboard.press("Escape")


# What reaches over the edge of its panel, and lists that must be moved sideways to be read.
BESIDE = """() => [
  ...[...document.querySelectorAll(".panel *, .tile *")].filter((element) => {
    const edge = element.closest(".panel, .tile").getBoundingClientRect().right;
    if (element.closest(".scroll, code, .unseen, .chart, .rows")) return false;
    return element.getBoundingClientRect().right > edge + 1;
  }),
  ...[...document.querySelectorAll(".scroll")].filter((list) => list.scrollWidth > list.clientWidth),
].map((element) => `${element.nodeName} ${element.id} ${element.className}`)"""
