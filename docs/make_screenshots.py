"""Makes the pictures in docs/images: minutes of a real `kizami up`, with what can go wrong really going wrong.

    make screenshots        # about nine minutes; needs Chromium

Some two dozen targets are polled from a server in this script. In the course of it the server fails, the daemon is
held up, is down for some minutes, is started again, and part of what it missed is backfilled. Then a browser
looks at it.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, sync_playwright

from kizami.core.slots import format_instant, parse_instant
from kizami.mock_api.server import MockServer
from programs import chromium

IMAGES = Path(__file__).parent / "images"
KIZAMI = [sys.executable, "-m", "kizami.cli.main"]
HISTORY = "3h"

MAIN = "ai_response_count"
# name, interval, level of its counts
TARGETS = (
    (MAIN, 5, 60),
    ("checkout/payments", 5, 14),
    ("logins", 10, 30),
    ("orders/osaka", 5, 8),
    ("orders/tokyo", 5, 22),
    ("search/queries", 1, 9),
    *(
        (f"chat/{city}-{number}", 5, 12 + 3 * number)
        for city in ("kyoto", "nara", "sapporo")
        for number in (1, 2, 3)
    ),
    *((f"mail/{kind}", 10, 25) for kind in ("bounced", "delivered", "opened", "queued", "sent")),
    *((f"video/{region}", 5, 40) for region in ("apne1", "euw1", "use1", "usw2")),
)
PAUSED = "logins"


class CountingApi:
    """Answers with counts that come and go in waves, until it is told to fail for a target."""

    def __init__(self) -> None:
        self.failing: set[str] = set()
        self.silent: set[str] = set()
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                name, query = parts.path.removesuffix("/response_count").strip("/"), parse_qs(parts.query)
                status, body = api.answer(name, query["from"][0], query["to"][0])
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, name: str, start: str, end: str) -> tuple[int, bytes]:
        if name in self.failing | self.silent:
            return 503, b"{}"
        level = next(level for target, _, level in TARGETS if target == name)
        return 200, json.dumps({"from": start, "to": end, "count": wave(start, level)}).encode()

    @contextmanager
    def serving(self) -> Iterator[CountingApi]:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        try:
            yield self
        finally:
            self.server.shutdown()
            self.server.server_close()


def wave(start: str, level: int) -> int:
    """A count for the slot: slow and quick waves, and what looks like chance but is the same each time."""
    seconds = parse_instant(start).timestamp()
    slow, quick = math.sin(seconds / 2400), math.sin(seconds / 190)
    chance = math.sin(seconds * 12.9898) * 43_758.5453 % 1
    return max(0, round(level * (1 + 0.45 * slow + 0.2 * quick + 0.35 * (chance - 0.5))))


class Site:
    """A directory with a configuration, and the `kizami up` that runs in it."""

    def __init__(self, directory: Path, api: CountingApi, users_url: str) -> None:
        self.directory, self.api = directory, api
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._daemon: subprocess.Popen[bytes] | None = None
        (directory / "kizami.toml").write_text(configuration(api.url, users_url))

    def start(self) -> None:
        options = ("--dashboard-port", str(self.port), "--receive-limit", "3", "--retry-seconds", "1")
        with (self.directory / "log").open("ab") as log:
            self._daemon = subprocess.Popen(
                [*KIZAMI, "up", *options], cwd=self.directory, env=environment(), stdout=log, stderr=log
            )
        wait_for(f"{self.url}/readyz")

    def stop(self) -> None:
        if self._daemon is not None:
            self._daemon.terminate()
            self._daemon.wait(timeout=30)
            self._daemon = None

    def hold_up(self, seconds: float) -> None:
        """As when a machine is busy with something else for a while."""
        assert self._daemon
        self._daemon.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._daemon.send_signal(signal.SIGCONT)

    def fail(self, seconds: float, *names: str) -> None:
        self.api.failing = set(names)
        time.sleep(seconds)
        self.api.failing = set()

    def kizami(self, *arguments: str) -> None:
        subprocess.run(
            [*KIZAMI, *arguments], cwd=self.directory, env=environment(), capture_output=True, check=True
        )

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return json.load(answer)

    def order(self, path: str, **body: object) -> None:
        headers = {"Content-Type": "application/json", "Origin": self.url}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        urllib.request.urlopen(request, timeout=10).close()


def configuration(api_url: str, users_url: str) -> str:
    targets = [
        f'[[targets]]\nname = "{name}"\nurl = "{api_url}/{name}"\ninterval = {interval}\ncatch_up = 0\n'
        for name, interval, _ in TARGETS
    ]
    companies = [
        f'[[aggregation.companies]]\nid = "{company}"\nkey = "env:COMPANY_KEY"\n' for company in ("acme", "globex")
    ]
    return "\n".join([*targets, f'[aggregation]\nurl = "{users_url}"\n', *companies])


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KIZAMI_", "AWS_"))}
    return kept | {"COMPANY_KEY": "mock-aggregation-key"}


def live_through(site: Site) -> None:
    """Ten minutes in the life of a collector."""
    site.start()
    time.sleep(15)
    for name, *_ in TARGETS:
        site.kizami("backfill", name, "--last", HISTORY)
    time.sleep(60)
    say("the API fails for one target")
    site.fail(27, MAIN)
    time.sleep(45)
    say("two targets fall silent for good")
    site.api.silent = {"chat/kyoto-2", "chat/kyoto-3"}
    say("the daemon is held up")
    site.hold_up(9)
    time.sleep(60)
    say("the daemon is down")
    site.stop()
    time.sleep(180)
    site.start()
    site.order("/api/v1/targets/pause", metric=PAUSED)
    time.sleep(75)
    say("part of what it missed is backfilled")
    for gap in site.get("/api/v1/gaps?last=1h")["items"]:
        site.order("/api/v1/backfill", **part_of(gap))
    time.sleep(80)
    for order in range(1, 60):  # nobody leaves them all on the page; one is ordered in the picture of the calendar
        site.order("/api/v1/orders/dismiss", order=order)


def part_of(gap: dict[str, Any]) -> dict[str, str]:
    """A whole gap; of the target in the pictures only the first minute, so that there is something left to see."""
    end = parse_instant(gap["to"])
    if gap["metricName"] == MAIN:
        end = min(end, parse_instant(gap["from"]) + timedelta(minutes=1))
    return {"metric": gap["metricName"], "from": gap["from"], "to": format_instant(end)}


def take_pictures(url: str) -> None:
    found = chromium.find_chromium()
    if found is None:
        sys.exit(f"make screenshots needs Chromium: {chromium.REMEDY}")
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for shot in PICTURES:
            context = browser.new_context(
                viewport={"width": shot.width, "height": shot.height},
                locale=shot.locale,
                color_scheme=shot.theme,
                timezone_id="UTC",
            )
            take(context.new_page(), url, shot)
            context.close()
        browser.close()


@dataclass(frozen=True, slots=True)
class Picture:
    """What a browser shows, and what is done there before it is taken."""

    name: str
    theme: Literal["light", "dark"] = "light"
    locale: str = "en-US"
    width: int = 1440
    height: int = 1290
    path: str = ""
    whole: bool = False
    begins_at: str | None = None
    asks_for_backfill: bool = False


TARGET = f"targets/{MAIN}?range=1h&minutes=10"
PICTURES = (
    Picture("dashboard-wall", height=1180),
    Picture("dashboard-wall-dark", theme="dark", height=1180),
    Picture("dashboard-ja", locale="ja-JP", height=1180),
    Picture("dashboard-target", path=TARGET, height=1400),
    Picture("dashboard-numbers", path="targets/orders/tokyo?range=6h&every=1m&with=orders/osaka", height=760),
    Picture("dashboard-backfill", path=TARGET, theme="dark", height=900, asks_for_backfill=True),
    Picture("dashboard-calendar", path="calendar?day={today}", height=520),
    Picture("dashboard-phone", width=390, height=1500),
)


def take(page: Page, url: str, shot: Picture) -> None:
    today = datetime.now(UTC).strftime("%Y-%m-%dT00:00:00Z")
    page.goto(f"{url}/{shot.path.format(today=today)}")
    page.locator('#live[data-state="connected"]').wait_for()
    if "targets/" in shot.path:
        page.locator("#chart canvas").wait_for()
    if shot.asks_for_backfill:
        page.locator("#select-missing").click()
        page.locator("#slots").scroll_into_view_if_needed()
        page.locator("#backfill-selected").click()
        page.locator("#dialog").wait_for()
    if shot.begins_at:
        page.locator(shot.begins_at).evaluate("element => element.scrollIntoView()")
    page.wait_for_timeout(1500)
    path = IMAGES / f"{shot.name}.png"
    page.screenshot(path=path, full_page=shot.whole)
    say(f"docs/images/{path.name}, {path.stat().st_size // 1024} KB")


def wait_for(url: str) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def free_port() -> int:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as probe:
        return probe.server_port


def say(words: str) -> None:
    sys.stderr.write(f"{words}\n")


def main() -> None:
    with ExitStack() as resources:
        directory = Path(resources.enter_context(tempfile.TemporaryDirectory(prefix="kizami-pictures-")))
        api = resources.enter_context(CountingApi().serving())
        users = resources.enter_context(MockServer(port=0))
        site = Site(directory, api, users.url)
        resources.callback(site.stop)
        live_through(site)
        take_pictures(site.url)


if __name__ == "__main__":
    main()
