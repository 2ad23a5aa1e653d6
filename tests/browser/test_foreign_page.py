"""A page of another site in a real browser: whatever it tries, the dashboard does not work for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from starlette.requests import Request
from starlette.types import ASGIApp

from browser.conftest import PATIENCE_MS
from kizami.web.security import Guard
from samples.page_database import CALLS, build_backend, served, this_slot

# Everything that a page may send to another site without asking it first.
ATTACK = """
async (dashboard) => {
  const send = (path, body) =>
    fetch(dashboard + path, { mode: "no-cors", method: body ? "POST" : "GET", body }).catch(() => null);
  const query = "query=calls&start=0&end=10&step=1";
  await send("/prometheus/api/v1/query_range", new URLSearchParams(query));
  await send(`/prometheus/api/v1/query_range?${query}`);
  await send("/api/v1/gaps?last=31d&format=csv");
  await send("/login", new URLSearchParams("token=guess"));
  await send("/api/v1/backfill", '{"allGaps": true}');
  for (const [name, path] of [["img", "/metrics"], ["script", "/api/v1/status"], ["iframe", "/?range=30d"]]) {
    const element = document.createElement(name);
    const over = new Promise((resolve) => { element.onload = element.onerror = resolve; });
    element.src = dashboard + path;
    document.body.append(element);
    await over;
  }
  const events = new EventSource(`${dashboard}/api/v1/live`);
  await new Promise((resolve) => { events.onopen = events.onerror = resolve; });
  events.close();
}
"""
TRIED = 9


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, bool]]:
    """The method and path of each request that comes to the dashboard, and whether it is let in."""
    found: list[tuple[str, str, bool]] = []
    refuse = Guard._refuse

    def watched(guard: Guard, request: Request) -> ASGIApp | None:
        refusal = refuse(guard, request)
        found.append((request.method, request.url.path, refusal is None))
        return refusal

    monkeypatch.setattr(Guard, "_refuse", watched)
    return found


@pytest.fixture
def foreign_url(tmp_path: Path) -> Iterator[str]:
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text("<!doctype html><title>elsewhere</title><body><a id=link>look</a>")
    handler = partial(SimpleHTTPRequestHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_foreign_page_is_refused_whatever_it_tries_but_a_link_works(
    browser: Browser, foreign_url: str, tmp_path: Path, asked: list[tuple[str, str, bool]]
) -> None:
    now = this_slot()
    with served(build_backend(tmp_path / "kizami.db", now), now) as server:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(foreign_url)
        page.evaluate(ATTACK, server.url)
        assert [(method, path) for method, path, is_let_in in asked if is_let_in] == []
        assert len(asked) == TRIED, asked
        page.evaluate("(url) => { link.href = url }", f"{server.url}/?metric={CALLS}")
        page.click("#link")
        expect(page.locator("#verdict-sentence")).to_be_visible()
        page.close()
