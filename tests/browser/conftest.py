"""One real browser for all browser tests of a run; a page that complains, looks elsewhere or is ever drawn wider
than its window fails its test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Dialog, Page, expect, sync_playwright

from conftest import skip_for_lack_of
from programs import chromium

# Nobody sees the browser's own windows: what it would prepare in them costs twice as much as the page itself.
UNSEEN = ("WebUIOmniboxPopup", "WebUIOmniboxAimPopup")
# Of two such options Chromium heeds the last, so what Playwright leaves out stands here too.
LEFT_OUT = (
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades", "LensOverlay"),
    *("HttpsFirstBalancedModeAutoEnable", "MediaRouter", "PaintHolding", "ThirdPartyStoragePartitioning"),
    *("AvoidCorsURLLoaderRestartOnRedirect", "OptimizationHints", "NetworkTimeServiceQuerying", "AimEnabled"),
    *("PreconnectToSearch", *UNSEEN),
)
ARGUMENTS = ["--no-sandbox", "--renderer-process-limit=1", f"--disable-features={','.join(LEFT_OUT)}"]

PATIENCE_MS = 60_000  # of a machine that is busy with something else; nothing waits longer than it must
expect.set_options(timeout=PATIENCE_MS)

OpenPage = Callable[..., Page]

# A colour that is on its way from one theme to the other is none that somebody reads.
_END_TRANSITIONS = "document.getAnimations().filter(a => a instanceof CSSTransition).forEach(a => a.finish())"

# Looks at each frame in which something may have changed, once it is drawn. Before the stylesheet nothing is.
WATCHED_WIDTH = """(() => {
  const { requestAnimationFrame, setTimeout } = window; // the real ones, also where a test holds the clock
  const beside = (element) => element.getBoundingClientRect().right > innerWidth + 1;
  const named = ({ nodeName, id, className }) => `${nodeName}#${id}.${className}`;
  const look = () => {
    const over = document.documentElement.scrollWidth - innerWidth;
    if (over > 0) console.error(`${over} px wider than its window`, location.pathname, document.readyState,
      [...document.querySelectorAll("body *")].filter(beside).slice(0, 5).map(named).join(", "));
  };
  let frame = 0;
  const changed = () => { frame ||= requestAnimationFrame(() => { frame = 0; setTimeout(look); }); };
  const anything = { subtree: true, childList: true, attributes: true, characterData: true };
  new MutationObserver(changed).observe(document, anything);
  for (const event of ["load", "resize", "toggle"]) addEventListener(event, changed, true);
})()"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The machine's own Chromium: nothing is downloaded. Its loop ends with the module."""
    found = chromium.find_chromium()
    if found is None:
        skip_for_lack_of("Chromium", chromium.REMEDY)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield browser
        browser.close()


class Complaints:
    """Whatever a page should never do: log an error, fail, open an alert, ask another host."""

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).netloc
        self.found: list[str] = []
        self.expected: tuple[str, ...] = ()

    def listen_to(self, page: Page) -> None:
        page.on("console", lambda message: self._add(message.type in ("error", "warning"), message.text))
        page.on("pageerror", lambda error: self._add(True, f"uncaught: {error}"))
        page.on("request", lambda request: self._add(not self._is_ours(request.url), f"elsewhere: {request.url}"))
        page.on("dialog", self._refuse)

    def _refuse(self, dialog: Dialog) -> None:
        self._add(True, f"alert: {dialog.message}")
        dialog.dismiss()

    def _is_ours(self, url: str) -> bool:
        parts = urlsplit(url)
        return parts.netloc == self._host or parts.scheme in ("data", "blob", "about")

    def _add(self, is_complaint: bool, words: str) -> None:
        if is_complaint and not any(part in words for part in self.expected):
            self.found.append(words)


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens a page in a fresh profile: `open_page(url, locale="ja-JP", color_scheme="dark")`."""
    complaints: list[Complaints] = []
    with ExitStack() as contexts:

        def open_one(url: str, expected: tuple[str, ...] = (), **options: Any) -> Page:
            options = {"locale": "en-US", "timezone_id": "Asia/Tokyo", **options}
            context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
            contexts.callback(context.close)
            context.set_default_timeout(PATIENCE_MS)
            context.add_init_script(WATCHED_WIDTH)
            page = context.new_page()
            heard = Complaints(url)
            heard.expected = expected
            heard.listen_to(page)
            complaints.append(heard)
            page.goto(url)
            return page

        yield open_one
    assert [words for heard in complaints for words in heard.found] == []


def overflow(page: Page) -> int:
    """By how many pixels a page is wider than its window, once it is drawn as it is now."""
    return int(page.evaluate(OVERFLOW))


# A frame comes only when the stylesheets are there; until then a page without any style would be measured.
OVERFLOW = """() => new Promise((tell) => requestAnimationFrame(() => setTimeout(() => {
  tell(document.documentElement.scrollWidth - innerWidth);
})))"""


def until_the_chart_fits(page: Page) -> None:
    """Once a chart, if there is one, has the width of a window that has just been changed."""
    page.wait_for_function(CHART_FITS)


# A function: to ask again, an expression would be evaluated in the page, whose security policy forbids that.
CHART_FITS = """() => !window.chart
  || document.querySelector("#chart .uplot").clientWidth <= window.chart.clientWidth"""


@pytest.fixture(scope="session")
def axe() -> Callable[[Page], list[str]]:
    """Runs axe-core on a page; gives what it finds, one line each."""
    import axe_playwright_python

    script = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")

    def findings(page: Page) -> list[str]:
        if not page.evaluate("'axe' in window"):
            page.evaluate(script)
        page.evaluate(_END_TRANSITIONS)
        result = page.evaluate("axe.run(document, {resultTypes: ['violations'], preload: false})")
        return [
            f"{violation['id']} ({violation['impact']}): {node['target']} {node['failureSummary']}"
            for violation in result["violations"]
            for node in violation["nodes"]
        ]

    return findings
