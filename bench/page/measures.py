"""What is measured of a page in a real browser: how soon it is there, and what it costs while it is open."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from programs import chromium

# Pages that listen, without browsers around them; each says when it has heard the first event.
LISTEN = """
import sys, threading, urllib.request

def listen():
    request = urllib.request.Request(sys.argv[1], headers={"Accept-Encoding": "gzip"})
    answer = urllib.request.urlopen(request)
    heard = 0
    while part := answer.read1(65536):
        if heard < 1000 <= heard + len(part):
            print("heard", flush=True)
        heard += len(part)

for _ in range(int(sys.argv[2])):
    threading.Thread(target=listen).start()
"""
SETTLING_SECONDS = 2  # after the last page has opened


class Dashboard:
    """`kizami dashboard`, and what it takes of CPU and memory."""

    def __init__(self, options: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "kizami.cli.main", "dashboard", *options, "--port", "0"]
        self._process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr
        self.url = self._process.stderr.readline().split(" is on ")[1].split(" ")[0]

    @property
    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def peak_mb(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1000

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


@contextmanager
def browsing() -> Iterator[Browser]:
    """A real browser."""
    found = chromium.find_chromium()
    if found is None:
        sys.exit(f"make bench-page needs Chromium: {chromium.REMEDY}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


def open_wall(browser: Browser, url: str) -> tuple[Page, float]:
    """A page that lives, and after how many milliseconds it did: it has all rows, and calls itself live.

    It has nothing of pages that were open before.
    """
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    page.goto("about:blank")
    began = time.perf_counter()
    page.goto(url, wait_until="commit")
    page.locator("#rows.virtual .row").first.wait_for()
    page.locator("#live[data-state=connected]").wait_for()
    return page, (time.perf_counter() - began) * 1000


def first_byte_ms(url: str) -> float:
    began = time.perf_counter()
    with urllib.request.urlopen(url, timeout=60) as answer:
        answer.read(1)
    return (time.perf_counter() - began) * 1000


def main_thread_seconds(session: CDPSession) -> float:
    found = session.send("Performance.getMetrics")["metrics"]
    return next(float(each["value"]) for each in found if each["name"] == "TaskDuration")


def stream_bytes(url: str, seconds: float) -> int:
    """What one page's event stream takes on the wire."""
    request = urllib.request.Request(f"{url}/api/v1/live", headers={"Accept-Encoding": "gzip"})
    total, until = 0, time.monotonic() + seconds
    with urllib.request.urlopen(request, timeout=60) as answer:
        while time.monotonic() < until:
            total += len(answer.read1(65_536))
    return total


@contextmanager
def listening(url: str, pages: int) -> Iterator[None]:
    """So many open pages; to open one costs more than to keep it open, so all are when the block begins."""
    command = [sys.executable, "-c", LISTEN, f"{url}/api/v1/live", str(pages)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as listeners:
        try:
            assert listeners.stdout
            for _ in range(pages):
                listeners.stdout.readline()
            time.sleep(SETTLING_SECONDS)
            yield
        finally:
            listeners.kill()


def pages_ratio(dashboard: Dashboard, pages: int, seconds: float) -> float:
    """What so many pages cost of CPU, in times of what one costs."""
    costs = []
    for count in (1, pages):
        with listening(dashboard.url, count):
            before = dashboard.cpu_seconds
            time.sleep(seconds)
            costs.append(dashboard.cpu_seconds - before)
    return costs[1] / costs[0]


# By the browser's own clock: what Playwright does around a click takes a fifth of a second.
CLICKED = """() => addEventListener("click", () => {
  sessionStorage.setItem("clicked", performance.timeOrigin + performance.now());
}, true)"""
PAINTED = """async () => {
  let painted;
  while (!(painted = performance.getEntriesByName("first-contentful-paint")[0])) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return performance.timeOrigin + painted.startTime - sessionStorage.getItem("clicked");
}"""


def click_ms(page: Page, url: str, name: str) -> float:
    """From a click on a target to the first picture of its page, which has all but the chart."""
    page.goto(f"{url}/?search={name}")
    link = page.locator("#rows .target", has_text=name)
    link.wait_for()
    page.evaluate(CLICKED)
    link.click()
    page.locator("h1", has_text=name).wait_for()
    return float(page.evaluate(PAINTED))
