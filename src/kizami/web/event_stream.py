"""The wire of the live updates: server-sent events to one browser, for as long as it listens."""

from __future__ import annotations

import asyncio
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from kizami.web.live import Live, Scene, Subscriber
from kizami.web.problems import problem
from kizami.web.view.address import read_view
from kizami.web.view.words import choose_language

MAX_PAGES = 200
SEND_TIMEOUT_SECONDS = 20.0
# A page that hears nothing for three of these knows that what it shows is old, and connects again.
BEAT_SECONDS = 5.0
_BEAT = b"event: beat\ndata:\n\n"
# How long a browser waits before it connects again.
_RETRY = b"retry: 2000\n\n"


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
    return EventStream(live, Scene(read_view(request.query_params), language))


class EventStream(Response):
    """A response that goes on until the browser is gone, does not read, or is let go."""

    media_type = "text/event-stream"

    def __init__(self, live: Live, scene: Scene) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._live = live
        self._scene = scene

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        subscriber = self._live.join(self._scene)
        watcher = asyncio.create_task(self._dismiss_when_gone(receive, subscriber))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await _send_body(send, _RETRY)
            while (event := await _next_event(subscriber)) is not None:
                await _send_body(send, event)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (OSError, TimeoutError):
            pass  # Gone, or not reading: the connection is closed, and a browser that is there comes back.
        finally:
            watcher.cancel()
            self._live.leave(subscriber)

    async def _dismiss_when_gone(self, receive: Receive, subscriber: Subscriber) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._live.dismiss(subscriber)


async def _next_event(subscriber: Subscriber) -> bytes | None:
    """What comes next, or a sign of life if nothing does."""
    try:
        async with asyncio.timeout(BEAT_SECONDS):
            return await subscriber.events.get()
    except TimeoutError:
        return _BEAT


async def _send_body(send: Send, body: bytes) -> None:
    async with asyncio.timeout(SEND_TIMEOUT_SECONDS):
        await send({"type": "http.response.body", "body": body, "more_body": True})
