"""Polled APIs asked side by side on one event loop: a target's answer, with its secrets and who asks.

loop_client ─▶ plain targets and those with secrets
polled_api, in a thread ─▶ those behind a proxy or with certificates
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import TypeVar

from kizami.aws.client import machine
from kizami.aws.client.http_client import HttpFailure
from kizami.aws.client.loop_client import LoopClient
from kizami.aws.client.polled_api import NOBODY, api_client, fetch, read, unreachable, written
from kizami.core.collector import Request, Response
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target

Answer = TypeVar("Answer")

# Names are looked up in threads, too: a hundred that hang must not keep the others waiting.
MOST_THREADS = 256


@lru_cache(maxsize=1)
def event_loop() -> asyncio.AbstractEventLoop:
    """The one loop of a function, kept from one invocation to the next with its connections."""
    loop = asyncio.new_event_loop()
    loop.set_default_executor(ThreadPoolExecutor(MOST_THREADS))
    return loop


@lru_cache(maxsize=1)
def loop_client() -> LoopClient:
    """The client of that loop."""
    return LoopClient()


async def in_thread(call: Callable[[], Answer]) -> Answer:
    """What a call gives that may have to wait, while the loop goes on."""
    return await asyncio.get_running_loop().run_in_executor(None, call)


async def fetch_beside(request: Request, seconds_left: float, target: Target) -> Response:
    """The API's answer within the request's deadline and the time left, else ApiError."""
    seconds = min(request.timeout_seconds, seconds_left)
    if target.tls or target.proxy:
        return await in_thread(lambda: fetch(api_client(), request, seconds, target))
    if next(target.references(), None):
        return await _fetch_as(request, seconds, target)
    return await _exchange(request, seconds)


async def _fetch_as(request: Request, seconds: float, target: Target) -> Response:
    """Once more with other secrets if the target refuses those that were kept."""
    from kizami.aws.client.target_access import UNAUTHORIZED, authorize, has_other_secrets

    deadline, http = machine.monotonic() + seconds, api_client()
    who = await in_thread(lambda: authorize(target, http, deadline)) if target.auth else {}
    response = await _exchange(request, deadline - machine.monotonic(), who)
    if response.status == UNAUTHORIZED and await in_thread(lambda: has_other_secrets(target, who, http)):
        who = await in_thread(lambda: authorize(target, http, deadline)) if target.auth else {}
        response = await _exchange(request, deadline - machine.monotonic(), who)
    return response


async def _exchange(request: Request, seconds: float, who: Mapping[str, str] = NOBODY) -> Response:
    deadline = machine.monotonic() + seconds
    await _look_up(request)
    try:
        answer = await loop_client().exchange(written(request, max(0.0, deadline - machine.monotonic()), who))
    except HttpFailure as failure:
        raise unreachable(failure) from None
    return read(answer, request)


async def _look_up(request: Request) -> None:
    """Let the secrets of a request be there before it is written: AWS is not asked for them on the loop."""
    values = (*request.headers.values(), *(reference for _, reference in request.secret_query))
    references = [value for value in values if isinstance(value, SecretReference)]
    if references:
        from kizami.aws.client.secrets import is_kept, resolve

        for reference in references:
            if not is_kept(reference):
                await in_thread(partial(resolve, reference))
