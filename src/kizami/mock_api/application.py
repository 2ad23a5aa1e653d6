"""The responder as an ASGI application: what uvicorn has read becomes a request, the response goes back."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from kizami.aggregation.signing import ApiKey
from kizami.mock_api.requests_log import log_answer
from kizami.mock_api.responder import MockResponse, Surroundings, refuse, respond
from kizami.mock_api.users import MOCK_USERS_KEY

MAX_BODY_BYTES = 64 * 1024
BODY_DEADLINE_SECONDS = 5

# A server must also take the form of the request line that is meant for proxies (RFC 9112, 3.2.2).
_SCHEME_AND_HOST = re.compile(r"^https?://[^/]*", re.IGNORECASE)

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


async def application(scope: Scope, receive: Receive, send: Send, users_key: ApiKey = MOCK_USERS_KEY) -> None:
    """Answer one request."""
    try:
        async with asyncio.timeout(BODY_DEADLINE_SECONDS):
            size = await _discard_body(receive)
    except TimeoutError:
        await _send(refuse(408, f"no end of the body in {BODY_DEADLINE_SECONDS} s", connection="close"), send)
        return
    if size is None:
        return
    if size > MAX_BODY_BYTES:
        await _send(refuse(413, f"the body has more than {MAX_BODY_BYTES} bytes", connection="close"), send)
        return
    await _send(_answer(scope, Surroundings(datetime.now(UTC), users_key)), send)


async def _discard_body(receive: Receive) -> int | None:
    """Read the request to its end, as no endpoint takes a body: its size, or None if the client went away.

    A response before the end would leave the rest on the connection, where it may be malformed or endless.
    """
    size = 0
    while size <= MAX_BODY_BYTES:
        event = await receive()
        if event["type"] == "http.disconnect":
            return None
        size += len(event["body"])
        if not event["more_body"]:
            break
    return size


def _answer(scope: Scope, surroundings: Surroundings) -> MockResponse:
    method, path = scope["method"], _SCHEME_AND_HOST.sub("", scope["path"])
    parameters = parse_qs(scope["query_string"].decode(), keep_blank_values=True)
    response = respond(method, path, parameters, surroundings)
    log_answer(method, path, parameters, response)
    return response


async def _send(response: MockResponse, send: Send) -> None:
    """Send the response; uvicorn itself leaves out the body of a HEAD."""
    headers = {**response.headers, "content-length": str(len(response.body))}
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": response.status, "headers": encoded})
    await send({"type": "http.response.body", "body": response.body})
