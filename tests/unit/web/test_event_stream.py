"""A browser that does not read its events is let go: it fills no memory and keeps nobody waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, MutableMapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kizami.local.backend import LocalBackend
from kizami.web import event_stream, live
from kizami.web.backend_threads import BackendThreads
from kizami.web.event_stream import EventStream
from kizami.web.live import BACKLOG, Live, Scene
from kizami.web.view.address import View
from samples.page_database import CALLS, RunningClock, build_backend

NOW = datetime(2025, 12, 2, 10, 0, tzinfo=UTC)


SCENE = Scene(View(metric=CALLS), "en")

Message = MutableMapping[str, Any]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(live, "MIN_TICK_SECONDS", 0.01)
    monkeypatch.setattr(live, "REST_FOR_WORK", 0)
    build_backend(tmp_path / "kizami.db", NOW)
    return tmp_path / "kizami.db"


def run(path: Path, test: Callable[[Live], Coroutine[Any, Any, None]]) -> None:
    async def with_live() -> None:
        desk = BackendThreads(lambda: LocalBackend(path))
        pages = Live(desk, RunningClock(NOW), tick_seconds=0.02)
        try:
            async with asyncio.timeout(120):
                await test(pages)
        finally:
            await pages.close()
            desk.close()

    asyncio.run(with_live())


async def never(*_: Any) -> Any:
    await asyncio.Event().wait()


def events_of(sent: list[Message]) -> int:
    return sum(message.get("body", b"").startswith(b"event: page") for message in sent)


def test_a_page_that_does_not_take_its_events_is_let_go_while_another_goes_on(path: Path) -> None:
    async def test(pages: Live) -> None:
        deaf = pages.join(SCENE)
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        reader = asyncio.create_task(EventStream(pages, SCENE)({}, never, send))
        while pages.pages < 2:
            await asyncio.sleep(0)
        while pages.pages > 1:
            await asyncio.sleep(0.01)
        taken = events_of(sent)
        assert taken >= BACKLOG
        # What it had not taken is cut short by the end of its events.
        waiting = [deaf.events.get_nowait() for _ in range(deaf.events.qsize())]
        assert waiting[-1] is None
        assert len(waiting) <= BACKLOG
        while events_of(sent) < taken + 3:
            await asyncio.sleep(0.01)
        reader.cancel()

    run(path, test)


def test_a_connection_that_takes_nothing_is_given_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "SEND_TIMEOUT_SECONDS", 0.05)

    async def test(pages: Live) -> None:
        async def send(message: Message) -> None:
            if b"event: page" in message.get("body", b""):
                await never()

        await EventStream(pages, SCENE)({}, never, send)
        assert pages.pages == 0

    run(path, test)


def test_a_browser_that_is_gone_is_noticed_at_once(path: Path) -> None:
    async def test(pages: Live) -> None:
        gone = asyncio.Event()

        async def receive() -> Message:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if b"event: page" in message.get("body", b""):
                gone.set()

        await EventStream(pages, SCENE)({}, receive, send)
        assert pages.pages == 0

    run(path, test)


def test_nobody_looks_while_no_page_is_open(path: Path) -> None:
    async def test(pages: Live) -> None:
        first = pages.join(SCENE)
        await first.events.get()
        pages.leave(first)
        poller = pages._poller
        assert poller is not None
        await poller
        second = pages.join(SCENE)
        assert await second.events.get() is not None

    run(path, test)


def test_a_page_that_has_nothing_to_be_told_is_given_a_sign_of_life(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "BEAT_SECONDS", 0.01)
    monkeypatch.setattr(live, "MIN_TICK_SECONDS", 20)

    async def test(pages: Live) -> None:
        sent: list[bytes] = []

        async def send(message: Message) -> None:
            sent.append(message.get("body", b""))

        reader = asyncio.create_task(EventStream(pages, SCENE)({}, never, send))
        while sum(body.startswith(b"event: beat\ndata:") for body in sent) < 2:
            await asyncio.sleep(0.01)
        assert pages.pages == 1
        reader.cancel()

    run(path, test)
