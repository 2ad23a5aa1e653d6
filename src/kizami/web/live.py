"""Live updates: one poller reads the backend and sends every open page what has changed (server-sent events).

While no page is open nothing is asked. Pages that show the same are looked at, rendered and written once. A page
that does not keep up is let go; its browser connects again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from math import inf
from typing import Any

from kizami.backend.port import Backend
from kizami.core.errors import InvalidInput, KizamiError
from kizami.core.ports import Clock
from kizami.web.backend_threads import BackendThreads
from kizami.web.problems import detail_of
from kizami.web.view.address import View
from kizami.web.view.render import Parts, render_parts
from kizami.web.view.screen import Screen, look, told_of
from kizami.web.view.words import words_in
from kizami.web.wall.columns import Columns, changes_of, columns_of, in_language
from kizami.web.wall.watch import Watch

log = logging.getLogger(__name__)

TICK_SECONDS = 1.0
# Looking may take a tenth of the time: a large backend is looked at less often.
REST_FOR_WORK = 9
# However often browsers connect anew.
MIN_TICK_SECONDS = 0.2
BACKLOG = 8
# A look that is no older than this is good enough for a page that has just been opened.
NEWCOMER_SECONDS = 2.0
# The targets' counts are told so often that they are about as many bytes a minute however many targets there are.
TARGETS_A_SECOND = 320


class Event:
    """What is told to pages, as it is and compressed: once, whoever hears it."""

    def __init__(self, text: bytes) -> None:
        self.text = text

    @cached_property
    def deflated(self) -> bytes:
        """Blocks of deflate that refer to nothing before them, none of them the last, up to the end of a byte."""
        maker = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
        return maker.compress(self.text) + maker.flush(zlib.Z_SYNC_FLUSH)


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
    events: asyncio.Queue[Event | None] = field(default_factory=lambda: asyncio.Queue(BACKLOG))


class Live:
    """The open pages, and the one task that looks for all of them; lives in one event loop."""

    def __init__(
        self,
        backend_threads: BackendThreads,
        clock: Clock,
        tick_seconds: float = TICK_SECONDS,
        watch: Watch | None = None,
    ) -> None:
        self._backend_threads = backend_threads
        self._clock = clock
        self._tick_seconds = tick_seconds
        self._watch = watch or Watch()
        self._subscribers: set[Subscriber] = set()
        self._told: dict[Scene, Shown] = {}
        self._columns: tuple[float, Columns] = (-inf, Columns([], [], [], [], [], [], []))
        self._poller: asyncio.Task[None] | None = None
        self._renewal: asyncio.Task[None] | None = None
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

    def hurry(self, scene: Scene | None = None) -> None:
        """Look again soon: something has changed that every open page shows.

        Pages of the `scene` in which an action was done are sent all of it. Its answer has shown them more than
        the events did, so that what has changed since the last event may not be enough.
        """
        for subscriber in self._subscribers:
            subscriber.is_new |= subscriber.scene == scene
        if scene is not None:
            self._columns = -inf, self._columns[1]
        self._has_newcomer.set()

    async def keep_warm(self, seconds: float) -> None:
        """Look now and then while no page is open, so that the first one need not wait for the day's figures."""
        while not self._is_closed:
            if not self._subscribers:
                with suppress(Exception):  # whoever opens a page is told of it there
                    await self._backend_threads.ask(lambda backend: self._watch.look(backend, self._clock.now()))
                await self._renew()
            await asyncio.sleep(seconds)

    async def close(self) -> None:
        """End the events of all pages, also of those that come later."""
        self._is_closed = True
        for subscriber in list(self._subscribers):
            self.dismiss(subscriber)
        for task in filter(None, (self._poller, self._renewal)):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _renew(self) -> None:
        """Beside the looks, which tell what was kept meanwhile; they also tell of trouble."""
        with suppress(Exception):
            await self._backend_threads.ask(lambda backend: self._watch.renew(backend, self._clock.now()))

    async def _poll(self) -> None:
        while self._subscribers:
            began, is_opening = time.monotonic(), self._has_newcomer.is_set()
            self._has_newcomer.clear()
            await self._tick()
            # Whoever has just come asks for more than events, and is not to wait behind what takes long.
            if not is_opening and (self._renewal is None or self._renewal.done()):
                self._renewal = asyncio.create_task(self._renew())
            rest = max(self._tick_seconds, REST_FOR_WORK * (time.monotonic() - began))
            await asyncio.sleep(MIN_TICK_SECONDS)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_newcomer.wait(), rest - MIN_TICK_SECONDS)
        self._told.clear()

    async def _tick(self) -> None:
        scenes = {subscriber.scene for subscriber in self._subscribers}
        # Who has just got a page need not wait for a new look: a moment later there is one anyway.
        good_for = NEWCOMER_SECONDS if any(each.is_new for each in self._subscribers) else 0.0
        try:
            shown = await self._backend_threads.ask(
                lambda backend: look_at(self._watch, backend, scenes, self._clock.now(), good_for)
            )
        except KizamiError as error:
            self._told = {}  # whoever was told of trouble is told everything when it is over
            self._broadcast(trouble_event(error))
        except Exception:
            self._told = {}
            log.exception("looking for the open pages failed", extra={"event": "page.failed"})
            self._broadcast(trouble_event(Exception()))
        else:
            self._tell(shown)

    def _tell(self, shown: dict[Scene, Shown | InvalidInput]) -> None:
        every, changed = self._tell_columns(shown.values())
        for scene, now in shown.items():
            audience = [each for each in self._subscribers if each.scene == scene]
            if isinstance(now, InvalidInput):
                self._send(audience, trouble_event(now))
                continue
            is_wall = now.screen.status is None
            before = self._told.get(scene)
            for is_new, told, wall in ((True, None, every), (False, before, changed)):
                wall = in_language(wall, scene.language) if is_wall else {}
                self._tell_those(audience, is_new, page_event(now, told, wall))
            for each in audience:
                each.is_new = False
        self._told = {scene: now for scene, now in shown.items() if isinstance(now, Shown)}

    def _tell_those(self, audience: Iterable[Subscriber], is_new: bool, event: Event | None) -> None:
        if event is not None:
            self._send([each for each in audience if each.is_new is is_new], event)

    def _tell_columns(self, shown: Iterable[Shown | InvalidInput]) -> tuple[dict[str, Any], dict[str, Any]]:
        """All that pages know of the targets by now, and what is new in it; many are told of less often."""
        snapshot = next((now.screen.snapshot for now in shown if isinstance(now, Shown)), None)
        told_at, told = self._columns
        changed: dict[str, Any] = {}
        if snapshot and time.monotonic() - told_at >= len(snapshot.targets) / TARGETS_A_SECOND:
            columns = columns_of(snapshot)
            changed = changes_of(columns, told)
            self._columns = time.monotonic(), columns
        return changes_of(self._columns[1], None), changed

    def _broadcast(self, event: Event) -> None:
        self._send(list(self._subscribers), event)

    def _send(self, subscribers: Iterable[Subscriber], event: Event) -> None:
        for subscriber in subscribers:
            try:
                subscriber.events.put_nowait(event)
            except asyncio.QueueFull:
                self.dismiss(subscriber)


def look_at(
    watch: Watch, backend: Backend, scenes: Iterable[Scene], now: datetime, good_for: float
) -> dict[Scene, Shown | InvalidInput]:
    """How each scene looks now; one snapshot serves them all."""
    snapshot, orders = watch.look(backend, now, good_for), watch.orders.look(backend, now)
    screens: dict[View, Screen | InvalidInput] = {}
    shown: dict[Scene, Shown | InvalidInput] = {}
    for scene in scenes:
        if scene.view not in screens:
            try:
                news = watch.incidents.look(backend, now, told_of(snapshot, scene.view.metric))
                screens[scene.view] = look(backend, scene.view, snapshot, orders, news)
            except InvalidInput as error:
                screens[scene.view] = error
        screen = screens[scene.view]
        if isinstance(screen, InvalidInput):
            shown[scene] = screen
        else:
            shown[scene] = Shown(screen, render_parts(screen, words_in(scene.language)))
    return shown


def page_event(shown: Shown, told: Shown | None, wall: dict[str, Any]) -> Event | None:
    """What a page must know: all of it if it was told nothing, else what has changed since, if anything has."""
    data = page_data(shown, told, wall)
    return None if data is None else _event("page", data)


def page_data(shown: Shown, told: Shown | None, wall: dict[str, Any]) -> dict[str, Any] | None:
    """What an event says, and the answer to an action: the parts that have changed, as HTML."""
    parts, screen = shown.parts, shown.screen
    old_parts, old_rows = (told.parts.parts, told.parts.rows) if told else ({}, {})
    news: dict[str, Any] = {
        "parts": {name: html for name, html in parts.parts.items() if old_parts.get(name) != html},
        "rows": {name: html for name, html in parts.rows.items() if old_rows.get(name) != html},
        "wall": wall,
    }
    is_same = told is not None and (told.screen.tail, told.screen.holes) == (screen.tail, screen.holes)
    if is_same and told is not None and not any(news.values()) and list(told.parts.rows) == list(parts.rows):
        return None
    about = {"title": parts.title, "level": parts.level, "order": list(parts.rows)}
    return {**about, **news, "tail": screen.tail, "holes": screen.holes}


def trouble_event(error: Exception) -> Event:
    """That the backend cannot be looked at, and why."""
    return _event("trouble", {"detail": detail_of(error)})


def _event(kind: str, data: object) -> Event:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return Event(f"event: {kind}\ndata: {text}\n\n".encode())
