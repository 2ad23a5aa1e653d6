"""The dashboard put together: its routes, its guard, and what it lets go of when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import resources

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from kizami.backend.port import Backend
from kizami.core.errors import KizamiError
from kizami.core.ports import Clock
from kizami.platform.clock import SystemClock
from kizami.web.actions import action_routes
from kizami.web.api import api_routes, chart_routes
from kizami.web.backend_threads import BackendThreads
from kizami.web.event_stream import live_routes
from kizami.web.figures.routes import figure_routes
from kizami.web.live import TICK_SECONDS, Live
from kizami.web.monitoring import metrics_routes, readiness_routes
from kizami.web.pages import page_routes
from kizami.web.problems import answer_with_problem
from kizami.web.prometheus.routes import prometheus_routes
from kizami.web.security import Access, Guard
from kizami.web.view.assets import asset_routes
from kizami.web.view.render import compile_templates
from kizami.web.wall.watch import Watch

MAX_BODY_BYTES = 256 * 1024
# Every open page has one for its events; in `kizami up` the collecting needs descriptors, too.
MAX_CONNECTIONS = 400
# What programs ask for may take long, so it is asked apart: the page never waits for it.
PROGRAMS_THREADS = 2
# How often the figures of the day are read while no page is open.
WARM_SECONDS = 60.0


def dashboard(
    open_backend: Callable[[], Backend],
    access: Access | None = None,
    clock: Clock | None = None,
    look_seconds: float = TICK_SECONDS,
) -> Starlette:
    """The ASGI application over the backend that `open_backend` opens; open pages look every `look_seconds`."""
    access, clock = access or Access(), clock or SystemClock()
    backend_threads, programs_desk = BackendThreads(open_backend), BackendThreads(open_backend, PROGRAMS_THREADS)
    watch = Watch()
    live = Live(backend_threads, clock, look_seconds, watch)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        compiling = asyncio.create_task(asyncio.to_thread(compile_templates))
        # A look at AWS costs money, so nobody looks there unless a page is open.
        warm = asyncio.create_task(live.keep_warm(WARM_SECONDS)) if look_seconds <= TICK_SECONDS else None
        yield
        for task in filter(None, (compiling, warm)):
            task.cancel()
        await live.close()
        backend_threads.close()
        programs_desk.close()

    application = Starlette(
        routes=_routes(backend_threads, programs_desk, clock, access, live, watch),
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={
            ClientDisconnect: _answer_nobody,
            HTTPException: answer_with_problem,
            KizamiError: answer_with_problem,
            Exception: answer_with_problem,
        },
        lifespan=lifespan,
        max_body_size=MAX_BODY_BYTES,
    )
    application.state.live = live
    return application


def _routes(
    backend_threads: BackendThreads,
    programs_desk: BackendThreads,
    clock: Clock,
    access: Access,
    live: Live,
    watch: Watch,
) -> list[BaseRoute]:
    return [
        *page_routes(backend_threads, clock, access, watch),
        *chart_routes(backend_threads, clock, watch),
        *action_routes(backend_threads, clock, watch, live),
        *live_routes(live),
        *readiness_routes(backend_threads, clock),
        *api_routes(programs_desk, clock),
        *figure_routes(programs_desk, clock),
        *prometheus_routes(programs_desk, clock),
        *metrics_routes(programs_desk, clock, live),
        Route("/api/v1/openapi.json", _openapi),
        *asset_routes(),
    ]


async def _openapi(request: Request) -> Response:
    text = resources.files("kizami.web").joinpath("openapi.json").read_bytes()
    return Response(text, media_type="application/json")


async def _answer_nobody(request: Request, error: Exception) -> Response:
    """Whoever breaks off in the middle of a request is gone: nothing to tell, and nothing to log."""
    return Response(status_code=400)
