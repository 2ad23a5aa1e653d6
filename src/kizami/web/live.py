"""Live updates: one poller looks at the home and tells every open page, by server-sent events, what has changed.

While no page is open nothing is asked. Pages that show the same are looked at, rendered and written once. A page
that does not keep up is let go; its browser connects again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from kizami.core.errors import InvalidInput, KizamiError
from kizami.core.ports import Clock
from kizami.home.port import Home
from kizami.home.snapshot import take_snapshot
from kizami.web.home_threads import HomeThreads
from kizami.web.problems import detail_of
from kizami.web.view.address import View
from kizami.web.view.render import Parts, render_parts
from kizami.web.view.screen import Screen, look
from kizami.web.view.words import words_in

log = logging.getLogger(__name__)

TICK_SECONDS = 1.0
# Looking may take a tenth of the time: a large home is looked at less often.
REST_FOR_WORK = 9
# However often browsers connect anew.
MIN_TICK_SECONDS = 0.2
BACKLOG = 8


@dataclass(frozen=True, slots=True)
class Scene:
    """What a page shows, and in which language."""

    view: View
    language: str


@dataclass(frozen=True, slots=True)
class Shown:
    """How a scene looks now."""

    screen: Screen
    parts: Parts


@dataclass(eq=False, slots=True)
class Subscriber:
    """One open page: the events that it has not yet taken. None is the last of them."""

    scene: Scene
    is_new: bool = True
    events: asyncio.Queue[bytes | None] = field(default_factory=lambda: asyncio.Queue(BACKLOG))


class Live:
    """The open pages, and the one task that looks for all of them; lives in one event loop."""

    def __init__(self, home_threads: HomeThreads, clock: Clock, tick_seconds: float = TICK_SECONDS) -> None:
        self._home_threads = home_threads
        self._clock = clock
        self._tick_seconds = tick_seconds
        self._subscribers: set[Subscriber] = set()
        self._told: dict[Scene, Parts] = {}
        self._poller: asyncio.Task[None] | None = None
        self._has_newcomer = asyncio.Event()
        self._is_closed = False

    @property
    def pages(self) -> int:
        """How many pages are open."""
        return len(self._subscribers)

    def join(self, scene: Scene) -> Subscriber:
        """A page has been opened: it is told everything at once, and then what changes."""
        subscriber = Subscriber(scene)
        if self._is_closed:
            self.dismiss(subscriber)
            return subscriber
        self._subscribers.add(subscriber)
        self._has_newcomer.set()
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())
        return subscriber

    def leave(self, subscriber: Subscriber) -> None:
        """The page is gone."""
        self._subscribers.discard(subscriber)

    def dismiss(self, subscriber: Subscriber) -> None:
        """End the page's events."""
        self.leave(subscriber)
        while subscriber.events.full():
            subscriber.events.get_nowait()
        subscriber.events.put_nowait(None)

    async def close(self) -> None:
        """End the events of all pages, also of those that come later."""
        self._is_closed = True
        for subscriber in list(self._subscribers):
            self.dismiss(subscriber)
        if self._poller is not None:
            self._poller.cancel()
            with suppress(asyncio.CancelledError):
                await self._poller

    async def _poll(self) -> None:
        while self._subscribers:
            began = time.monotonic()
            self._has_newcomer.clear()
            await self._tick()
            rest = max(self._tick_seconds, REST_FOR_WORK * (time.monotonic() - began))
            await asyncio.sleep(MIN_TICK_SECONDS)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_newcomer.wait(), rest - MIN_TICK_SECONDS)
        self._told.clear()

    async def _tick(self) -> None:
        scenes = {subscriber.scene for subscriber in self._subscribers}
        try:
            shown = await self._home_threads.ask(lambda home: _look_at(home, scenes, self._clock.now()))
        except KizamiError as error:
            self._broadcast(trouble_event(error))
        except Exception:
            log.exception("looking for the open pages failed", extra={"event": "page.failed"})
            self._broadcast(trouble_event(Exception()))
        else:
            self._tell(shown)

    def _tell(self, shown: dict[Scene, Shown | InvalidInput]) -> None:
        for scene, now in shown.items():
            audience = [each for each in self._subscribers if each.scene == scene]
            if isinstance(now, InvalidInput):
                self._send(audience, trouble_event(now))
                continue
            before = self._told.get(scene)
            self._send([each for each in audience if each.is_new], page_event(now, None))
            self._send([each for each in audience if not each.is_new], page_event(now, before))
            for each in audience:
                each.is_new = False
        self._told = {scene: now.parts for scene, now in shown.items() if isinstance(now, Shown)}

    def _broadcast(self, event: bytes) -> None:
        self._send(list(self._subscribers), event)

    def _send(self, subscribers: Iterable[Subscriber], event: bytes) -> None:
        for subscriber in subscribers:
            try:
                subscriber.events.put_nowait(event)
            except asyncio.QueueFull:
                self.dismiss(subscriber)


def _look_at(home: Home, scenes: Iterable[Scene], now: datetime) -> dict[Scene, Shown | InvalidInput]:
    """How each scene looks now; one snapshot serves them all."""
    snapshot = take_snapshot(home, now)
    screens: dict[View, Screen | InvalidInput] = {}
    shown: dict[Scene, Shown | InvalidInput] = {}
    for scene in scenes:
        if scene.view not in screens:
            try:
                screens[scene.view] = look(home, scene.view, snapshot)
            except InvalidInput as error:
                screens[scene.view] = error
        screen = screens[scene.view]
        if isinstance(screen, InvalidInput):
            shown[scene] = screen
        else:
            shown[scene] = Shown(screen, render_parts(screen, words_in(scene.language)))
    return shown


def page_event(shown: Shown, told: Parts | None) -> bytes:
    """What a page must know: all of it if it was told nothing, else what has changed since."""
    parts = shown.parts
    old_parts, old_rows = (told.parts, told.rows) if told else ({}, {})
    return _event(
        "page",
        {
            "title": parts.title,
            "level": parts.level,
            "parts": {name: html for name, html in parts.parts.items() if old_parts.get(name) != html},
            "rows": {name: html for name, html in parts.rows.items() if old_rows.get(name) != html},
            "order": list(parts.rows),
            "tail": shown.screen.tail,
            "holes": shown.screen.holes,
        },
    )


def trouble_event(error: Exception) -> bytes:
    """That the home cannot be looked at, and why."""
    return _event("trouble", {"detail": detail_of(error)})


def _event(kind: str, data: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
