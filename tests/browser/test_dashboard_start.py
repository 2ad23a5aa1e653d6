"""The first seconds of a new backend: verdict, tiles, chart, grid, list and `kizami status` tell one story."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import OpenPage
from kizami.cli.backends import BackendOptions
from kizami.cli.terminal.status_text import read_status
from kizami.cli.terminal.status_text import status_lines as lines_of
from kizami.core.targets.target import Target
from kizami.local.backend import LocalBackend
from kizami.local.daemon_lock import UP, sole_daemon
from kizami.web.server import DashboardServer
from samples.page_database import FixedClock, build_targets, store_slots

START = datetime(2025, 12, 2, 10, 23, 12, 600_000, tzinfo=UTC)
CALLS = Target(name="calls", lag_seconds=5)
TICK = datetime(2025, 12, 2, 10, 23, 15, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # no kizami.toml is here
    return build_targets(tmp_path / "kizami.db", START, {CALLS: ()}, slots=0)


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(START)


@pytest.fixture
def page(path: Path, clock: FixedClock, open_page: OpenPage) -> Iterator[Page]:
    with sole_daemon(path, UP), DashboardServer(lambda: LocalBackend(path), port=0, clock=clock) as server:
        page = open_page(server.url)
        expect(page.locator("#chart canvas")).to_be_visible()
        yield page
        page.close()


def expect_tile(page: Page, kind: str, value: str, note: str) -> None:
    expect(page.locator(f".tile[data-tile={kind}] :is(.value, .note)")).to_have_text([value, note])


def status_lines(path: Path, now: datetime) -> str:
    with BackendOptions(database=path).opened() as backend:
        return "\n".join(lines_of(read_status(backend, now)))


def test_the_first_seconds_do_not_contradict_themselves(page: Page, path: Path, clock: FixedClock) -> None:
    sentence = page.locator("#verdict-sentence")
    expect(sentence).to_have_text("The first slot is due in 3 s.")
    expect(page.locator("#verdict .level")).to_have_text("Starting")
    assert_nothing_yet(page)
    assert "starting: the first slot is due in 3s" in status_lines(path, clock.now())
    clock.moment = TICK + timedelta(seconds=1)
    expect(sentence).to_have_text("The first slot is on its way.")
    assert_nothing_yet(page)
    assert "starting: the first slot is on its way" in status_lines(path, clock.now())
    for number in range(4):
        store_slots(path, CALLS, [TICK + timedelta(seconds=5 * (number - 1))])
        clock.moment = TICK + timedelta(seconds=5 * number + 2)
        assert_so_many(page, number + 1)
        assert f"coverage  {number + 1}/{number + 1} (100%) of the last hour" in status_lines(path, clock.now())


def assert_nothing_yet(page: Page) -> None:
    expect_tile(page, "age", "–", "none yet")
    expect_tile(page, "hour", "–", "from the first slot on")
    expect_tile(page, "day", "–", "from the first slot on")
    expect_tile(page, "lateness", "–", "no poll yet")
    expect(page.locator("#target-head .state")).to_have_text("waiting")
    expect(page.locator("#chart-summary")).to_have_text("calls: no slot is stored in this range.")
    expect(page.locator(".legend .stored b")).to_have_text("0")


def assert_so_many(page: Page, count: int) -> None:
    """The page, of which only the verdict has the time in it, comes to speak of so many slots everywhere."""
    first = (
        "The one slot of the last minute is stored" if count == 1 else f"All {count} slots of the last minute are"
    )
    expect(page.locator("#verdict-sentence")).to_have_text(re.compile(f"^{first}"))
    expect(page.locator(".legend .stored b")).to_have_text(str(count))
    expect(page.locator("#chart-summary")).to_contain_text(f"calls: {count} of {count} slots")
    expect_tile(page, "hour", "100%", f"{count} of {count}")
    expect_tile(page, "day", "100%", f"{count} of {count}")
    expect_tile(page, "age", "7 s ago", "of 1 target")
    expect(page.locator("#target-head .state")).to_have_text("collecting")
    expect(page.locator("#verdict .level")).to_have_text("All is well")


def test_the_newest_slot_is_not_that_of_the_best_target(open_page: OpenPage, tmp_path: Path) -> None:
    well = {Target(name=f"well_{number}", lag_seconds=5): range(0) for number in range(11)}
    path = build_targets(tmp_path / "kizami.db", START, {**well, Target(name="silent", lag_seconds=5): range(20)})
    with (
        sole_daemon(path, UP),
        DashboardServer(lambda: LocalBackend(path), port=0, clock=FixedClock(START)) as server,
    ):
        page = open_page(server.url)
        expect_tile(page, "age", "1 min 47 s ago", "silent; 1 of 12 targets behind")
        expect(page.locator('.tile[data-tile="age"]')).to_have_class("tile bad")
        with closing(LocalBackend(path)) as source:
            source.pause("silent")
        expect(page.locator('.tile[data-tile="age"] .note')).to_have_text("or newer, all 11 targets")
        expect(page.locator('.tile[data-tile="age"] .value')).to_have_text("7 s ago")
        page.close()
