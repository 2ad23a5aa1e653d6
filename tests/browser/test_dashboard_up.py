"""The page of a running `kizami up`: slots arrive before the reader's eyes, break, and are repaired there."""

from __future__ import annotations

import html
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import OpenPage
from kizami.local.store.database import open_database
from kizami.mock_api.server import MockServer
from programs.daemon import SOURCES, Daemon, slots_of, toml, wait_for
from programs.local_processes import hold_port

SILENT_PAGES = 50
QUICK = ("--receive-limit", "2", "--retry-seconds", "0.2")
# What a browser logs by itself when the server is away.
AWAY = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET")


class Site:
    """A mock API that can be stopped, and a `kizami up` that polls it every second and serves its page."""

    def __init__(self, directory: Path, resources: ExitStack, **settings: object) -> None:
        self.directory = directory
        self._resources = resources
        self._mock_port, self._page_port = (resources.enter_context(hold_port()) for _ in range(2))
        self.url = f"http://127.0.0.1:{self._page_port}"
        target = {"name": "calls", "url": f"http://127.0.0.1:{self._mock_port}", "interval": 1, "timeout": 60}
        (directory / "kizami.toml").write_text(toml([target | settings]))
        self.start_mock()
        self.start()

    def start(self) -> None:
        arguments = ("--dashboard-port", str(self._page_port), *QUICK)
        self.daemon = self._resources.enter_context(Daemon(self.directory, *arguments))
        self.daemon.wait_for_rows(2)

    def forget_the_plan(self) -> None:
        """As if it had been down for so long that nothing was planned any more."""
        connection = open_database(self.daemon.database)
        connection.execute("DELETE FROM messages")
        connection.close()

    def start_mock(self) -> None:
        self._mock = MockServer(port=self._mock_port)
        self._mock.__enter__()
        self._resources.callback(self.stop_mock)

    def stop_mock(self) -> None:
        self._mock.__exit__()


@contextmanager
def site(directory: Path, **settings: object) -> Iterator[Site]:
    with ExitStack() as resources:
        yield Site(directory, resources, **settings)


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One site for the tests that leave it as they found it."""
    with site(tmp_path_factory.mktemp("healthy")) as running:
        yield running


def until_live(page: Page) -> Page:
    expect(page.locator("#live")).to_have_attribute("data-state", "connected")
    return page


def stored(page: Page) -> int:
    return page.locator("#grid td.stored").count()


def tile(page: Page, kind: str):  # type: ignore[no-untyped-def]
    return page.locator(f'.tile[data-tile="{kind}"] .value')


def test_slots_arrive_one_by_one_in_grid_chart_and_tiles(open_page: OpenPage, healthy: Site) -> None:
    page = until_live(open_page(healthy.url))
    before = stored(page)
    summary = page.locator("#chart-summary")
    expect(summary).to_contain_text("calls: ")
    told = summary.inner_text()
    wait_for(lambda: stored(a_moment_later(page)) >= before + 3, "three more slots")
    expect(summary).not_to_have_text(told)
    expect(tile(page, "age")).to_have_text(re.compile(r"^[0-3] s ago$"))
    expect(page.locator("#verdict")).to_have_class("verdict good")
    expect(page.locator("#verdict-sentence")).to_have_text(re.compile(r"^All \d+ slots of the last minute are"))


@contextmanager
def held_up(daemon: Daemon) -> Iterator[None]:
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        daemon.process.send_signal(signal.SIGCONT)


def test_a_page_that_hears_nothing_does_not_call_itself_live(open_page: OpenPage, healthy: Site) -> None:
    page = open_page(healthy.url, expected=AWAY)
    page.clock.install()
    page.reload()
    until_live(page)
    with held_up(healthy.daemon):
        page.clock.fast_forward(16_000)
        expect(page.locator("#live-text")).to_have_text(re.compile(r"^Connection lost at \d\d:\d\d:\d\d; trying"))
        expect(page.locator("#verdict")).to_have_css("filter", "grayscale(1)")
    until_live(page)


def test_the_command_of_each_panel_works(open_page: OpenPage, healthy: Site) -> None:
    page = open_page(healthy.url)
    commands = {html.unescape(command) for command in re.findall(r'data-copy="([^"]+)"', page.content())}
    verbs = {shlex.split(command)[1] for command in commands}
    assert verbs >= {"status", "query", "gaps", "dead-letters", "export", "backfill"}
    for command in commands:
        if not command.startswith("curl"):
            # A day of seconds would be asked for: it is enough that it could be.
            assert_runs(command.replace(" backfill ", " backfill --dry-run "), healthy.directory)
    for link in page.locator(".panel-links a").all():
        answer = page.request.get(f"{healthy.url}{link.get_attribute('href')}")
        kind = "text/csv" if link.inner_text() == "CSV" else "application/json"
        assert (answer.status, answer.headers["content-type"].startswith(kind)) == (200, True), link


def test_browsers_that_take_nothing_do_not_hold_up_collecting(healthy: Site) -> None:
    with ExitStack() as connections:
        for _ in range(SILENT_PAGES):
            silent = connections.enter_context(socket.socket())
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)  # full with the first event
            silent.connect(("127.0.0.1", urlsplit(healthy.url).port))
            silent.sendall(b"GET /api/v1/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        seen = len(healthy.daemon.rows)
        wait_for(lambda: gapless(slots_of(healthy.daemon.rows[seen:], "calls"), at_least=4), "slots without a gap")


def gapless(slots: list[datetime], at_least: int) -> bool:
    return len(slots) >= at_least and max(slots) - min(slots) == timedelta(seconds=len(slots) - 1)


def assert_runs(command: str, directory: Path) -> None:
    """Each panel's command line is one that works here."""
    verb = [sys.executable, "-m", "kizami.cli.main", *shlex.split(command)[1:]]
    environment = {"PYTHONPATH": str(SOURCES), "PATH": ""}
    done = subprocess.run(verb, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stderr)


def test_an_outage_is_seen_judged_and_repaired_from_the_grid(open_page: OpenPage, healthy: Site) -> None:
    page = until_live(open_page(healthy.url))
    expect(page.locator("#verdict")).to_have_class("verdict good")
    healthy.stop_mock()
    expect(page.locator("#grid td.dead").nth(3)).to_be_visible()
    # Late until a whole minute lacks its records, then silent.
    expect(page.locator("#verdict")).to_have_class(re.compile("^verdict (notice|bad)$"))
    expect(page.locator("#culprits")).to_contain_text(re.compile("is (late|silent)"))
    expect(page.locator("#verdict-sentence")).to_contain_text("dead")
    expect(page.locator("#episodes .reason").first).to_contain_text(re.compile("refused|connect", re.IGNORECASE))
    healthy.start_mock()
    wait_until_the_outage_is_over(page, healthy)
    page.locator("#select-missing").click()
    page.locator("#backfill-selected").click()
    expect(page.locator("#dialog dl")).to_contain_text("Dead, will be redriven")
    page.locator("#dialog-confirm").click()
    expect(page.locator("#toast")).to_contain_text("on their way")
    expect(page.locator("#grid td.dead")).to_have_count(0)
    expect(tile(page, "hour")).to_have_text("100%")
    expect(tile(page, "dead")).to_have_text("0")
    expect(page.locator("#verdict")).to_have_class("verdict good")


def a_moment_later(page: Page) -> Page:
    """The page, once it has had time to go on."""
    page.wait_for_timeout(100)
    return page


def wait_until_the_outage_is_over(page: Page, healthy: Site) -> None:
    """The API is back: live slots are stored again, what was retried is stored or dead, and the page knows it."""
    seen = len(healthy.daemon.rows)
    wait_for(lambda: len(healthy.daemon.rows) >= seen + 5, "live slots")
    wait_until_nothing_pends(page)
    wait_for(lambda: all_dead_are_listed(a_moment_later(page)), "the list of all dead letters")


def wait_until_nothing_pends(page: Page) -> None:
    """The API is back: what was being retried is stored or dead by now."""
    wait_for(lambda: not a_moment_later(page).locator("#grid td.pending").count(), "no retries")


def test_dead_letters_are_redriven_by_their_cause(open_page: OpenPage, healthy: Site) -> None:
    page = until_live(open_page(healthy.url))
    healthy.stop_mock()
    rows = page.locator("#episodes tbody tr")
    many = rows.filter(has=page.locator(".number", has_text=re.compile("^([3-9]|[1-9][0-9])$")))
    expect(many).to_have_count(1)  # of many slots, for they have one cause; what was under way may have another
    healthy.start_mock()
    wait_until_the_outage_is_over(page, healthy)
    done = page.locator("#orders li.done")
    redriven, causes, earlier = 0, rows.count(), done.count()
    for _ in range(causes):
        before, slots = rows.count(), rows.first.locator(".number").inner_text()
        redriven += int(slots)
        rows.first.get_by_role("button").click()
        letters = "1 dead letter" if slots == "1" else f"{slots} dead letters"
        expect(page.locator("#dialog-heading")).to_have_text(f"Redrive {letters}?")
        page.locator("#dialog-confirm").click()
        expect(rows).to_have_count(before - 1)
    expect(tile(page, "dead")).to_have_text("0")
    expect(page.locator("#episodes .empty")).to_contain_text("Nothing is lacking")
    expect(done).to_have_count(earlier + causes)
    ends = (re.search(r"(\d+) filled. Seen to end", done.nth(place).inner_text()) for place in range(causes))
    assert sum(int(end[1]) for end in ends if end) == redriven
    expect(tile(page, "hour")).to_have_text("100%")


def all_dead_are_listed(page: Page) -> bool:
    listed = page.locator("#episodes tbody .number").all_inner_texts()
    return sum(map(int, listed)) == page.locator("#grid td.dead").count()


def test_a_stop_is_a_gap_that_the_same_page_shows_and_fills(open_page: OpenPage, tmp_path: Path) -> None:
    with site(tmp_path, catch_up=0) as running:
        page = until_live(open_page(running.url, expected=AWAY))
        assert running.daemon.stop() == 0
        expect(page.locator("#live")).to_have_attribute("data-state", "lost")
        running.forget_the_plan()
        page.wait_for_timeout(2500)
        running.start()
        until_live(page)
        gap = page.locator("#episodes tbody tr")
        expect(gap).to_have_count(1)
        # A slot is counted as a gap only once it cannot be on its way any more.
        missing = page.locator("#grid td.missing").count()
        assert missing >= 2
        expect(gap.locator(".number").first).to_have_text(str(missing))
        gap.get_by_role("button", name="Backfill").click()
        expect(page.locator("#dialog-heading")).to_have_text(re.compile(r"Backfill \d+ slots\?"))
        page.locator("#dialog-confirm").click()
        expect(page.locator("#grid td.backfilled").nth(1)).to_be_visible()
        expect(page.locator("#episodes .empty")).to_contain_text("no gap in the last 24 hours")
        expect(page.locator("#orders li.done")).to_contain_text(f"{missing} filled. Seen to end")
        expect(tile(page, "day")).to_have_text("100%")
        page.close()


def test_a_paused_target_rests_over_a_restart_and_is_caught_up_with_when_resumed(
    open_page: OpenPage, tmp_path: Path
) -> None:
    with site(tmp_path) as running:
        page = until_live(open_page(running.url, expected=AWAY))
        page.get_by_role("button", name="Pause").click()
        page.locator("#dialog-confirm").click()
        expect(page.locator("#target-head .state")).to_have_text("paused")
        running.daemon.wait_for_event("config.applied")
        running.daemon.stop()
        expect(page.locator("#live")).to_have_attribute("data-state", "lost")
        rows = len(running.daemon.rows)
        running.daemon = running._resources.enter_context(
            Daemon(tmp_path, "--dashboard-port", str(running._page_port), *QUICK)
        )
        until_live(page)
        page.wait_for_timeout(1500)
        assert rows
        assert running.daemon.rows == []
        expect(page.locator("#verdict-sentence")).to_contain_text("No slot was due")
        page.get_by_role("button", name="Resume").click()
        expect(page.locator("#target-head .state")).to_have_text(re.compile("collecting|waiting|late|incomplete"))
        expect(page.locator("#grid td.backfilled").first).to_be_visible()
        expect(page.locator("#grid td.missing")).to_have_count(0)
        page.close()


@pytest.mark.parametrize("option", ["--no-dashboard", "--dashboard-port"])
def test_the_dashboard_can_be_left_out_and_never_keeps_up_from_collecting(tmp_path: Path, option: str) -> None:
    with MockServer(port=0) as mock:
        (tmp_path / "kizami.toml").write_text(toml([{"name": "calls", "url": mock.url, "interval": 1}]))
        arguments = [option] if option == "--no-dashboard" else [option, str(mock.port)]
        with Daemon(tmp_path, *arguments) as daemon:
            if option == "--no-dashboard":
                daemon.wait_for_rows(1)
                assert not any(line["event"].startswith("dashboard.") for line in daemon.log())
            else:
                # Whoever asks for a port wants that one.
                assert daemon.wait() == 3
                assert "choose another with --dashboard-port" in daemon.log_file.read_text()
