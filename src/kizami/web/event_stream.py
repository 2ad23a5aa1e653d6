"""The wire of the live updates: server-sent events to one browser, for as long as it listens.

An event is compressed once for all pages that hear it. For that, each is a stretch of deflate that refers to
nothing before it and ends at a byte: so they can stand one after the other in the gzip stream of every page.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from kizami.web.live import Event, Live, Scene, Subscriber
from kizami.web.problems import problem
from kizami.web.view.address import read_view
from kizami.web.view.words import choose_language

MAX_PAGES = 200
SEND_TIMEOUT_SECONDS = 20.0
# A page that hears nothing for three of these knows that what it shows is old, and connects again.
BEAT_SECONDS = 5.0
_BEAT = Event(b"event: beat\ndata:\n\n")
# How long a browser waits before it connects again.
_RETRY = Event(b"retry: 2000\n\n")
# gzip's head (RFC 1952): no name, no time; and the empty last block of a deflate stream.
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_LAST_BLOCK = b"\x03\x00"


def live_routes(live: Live) -> list[BaseRoute]:
    """The route of the live updates."""
    return [Route("/api/v1/live", partial(_live, live))]


async def _live(live: Live, request: Request) -> Response:
    if live.pages >= MAX_PAGES:
        return problem(503, f"{MAX_PAGES} pages are open already")
    header = request.headers.get("accept-language", "")
    language = choose_language(
        request.query_params.get("lang"), request.cookies.get("lang"), accept_language=header
    )
    wire = Gzip() if accepts_gzip(request.headers.get("accept-encoding", "")) else Plain()
    return EventStream(live, Scene(read_view(request.query_params), language), wire)


def accepts_gzip(header: str) -> bool:
    """Whether an Accept-Encoding header lets us compress."""
    wishes = (entry.strip().lower().replace(" ", "") for entry in header.split(","))
    return any(wish == "gzip" or (wish.startswith("gzip;q=") and not wish.endswith("=0")) for wish in wishes)


class Plain:
    """Events as they are."""

    encoding: str | None = None
    head = b""

    def write(self, event: Event) -> bytes:
        """The event as it is sent."""
        return event.text

    def end(self) -> bytes:
        """What is sent after the last one."""
        return b""


class Gzip(Plain):
    """Events as parts of one gzip stream; its own are the checksum and the length at its end."""

    encoding = "gzip"
    head = _GZIP_HEAD

    def __init__(self) -> None:
        self._checksum = self._length = 0

    def write(self, event: Event) -> bytes:
        self._checksum = zlib.crc32(event.text, self._checksum)
        self._length += len(event.text)
        return event.deflated

    def end(self) -> bytes:
        return _LAST_BLOCK + struct.pack("<II", self._checksum, self._length & 0xFFFFFFFF)


class EventStream(Response):
    """A response that goes on until the browser is gone, does not read, or is let go."""

    media_type = "text/event-stream"

    def __init__(self, live: Live, scene: Scene, wire: Plain | None = None) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._live = live
        self._scene = scene
        self._wire = wire or Plain()
        if self._wire.encoding:
            self.headers["Content-Encoding"] = self._wire.encoding
            self.headers["Vary"] = "Accept-Encoding"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        subscriber = self._live.join(self._scene)
        watcher = asyncio.create_task(self._dismiss_when_gone(receive, subscriber))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await _send_body(send, self._wire.head + self._wire.write(_RETRY))
            while (event := await _next_event(subscriber)) is not None:
                await _send_body(send, self._wire.write(event))
            await send({"type": "http.response.body", "body": self._wire.end(), "more_body": False})
        except (OSError, TimeoutError):
            pass  # Gone, or not reading: the connection is closed, and a browser that is there comes back.
        finally:
            watcher.cancel()
            self._live.leave(subscriber)

    async def _dismiss_when_gone(self, receive: Receive, subscriber: Subscriber) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._live.dismiss(subscriber)


async def _next_event(subscriber: Subscriber) -> Event | None:
    """What comes next, or a sign of life if nothing does."""
    try:
        async with asyncio.timeout(BEAT_SECONDS):
            return await subscriber.events.get()
    except TimeoutError:
        return _BEAT


async def _send_body(send: Send, body: bytes) -> None:
    async with asyncio.timeout(SEND_TIMEOUT_SECONDS):
        await send({"type": "http.response.body", "body": body, "more_body": True})
