"""The dashboard put together: its routes, its guard, and what it lets go of when it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import resources

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from kizami.core.errors import KizamiError
from kizami.core.ports import Clock
from kizami.home.port import Home
from kizami.platform.clock import SystemClock
from kizami.web.actions import action_routes
from kizami.web.api import api_routes, chart_routes
from kizami.web.event_stream import live_routes
from kizami.web.home_threads import HomeThreads
from kizami.web.live import TICK_SECONDS, Live
from kizami.web.monitoring import metrics_routes, readiness_routes
from kizami.web.pages import page_routes
from kizami.web.problems import answer_with_problem
from kizami.web.prometheus.routes import prometheus_routes
from kizami.web.security import Access, Guard

MAX_BODY_BYTES = 256 * 1024
# Every open page has one for its events; in `kizami up` the collecting needs descriptors, too.
MAX_CONNECTIONS = 400
# What programs ask for may take long, so it is asked apart: the page never waits for it.
PROGRAMS_THREADS = 2


def dashboard(
    open_home: Callable[[], Home],
    access: Access | None = None,
    clock: Clock | None = None,
    look_seconds: float = TICK_SECONDS,
) -> Starlette:
    """The ASGI application over the home that `open_home` opens; open pages look every `look_seconds`."""
    access, clock = access or Access(), clock or SystemClock()
    home_threads, programs_desk = HomeThreads(open_home), HomeThreads(open_home, PROGRAMS_THREADS)
    live = Live(home_threads, clock, look_seconds)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await live.close()
        home_threads.close()
        programs_desk.close()

    application = Starlette(
        routes=_routes(home_threads, programs_desk, clock, access, live),
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
    home_threads: HomeThreads, programs_desk: HomeThreads, clock: Clock, access: Access, live: Live
) -> list[BaseRoute]:
    return [
        *page_routes(home_threads, clock, access),
        *chart_routes(home_threads, clock),
        *action_routes(home_threads, clock),
        *live_routes(live),
        *readiness_routes(home_threads, clock),
        *api_routes(programs_desk, clock),
        *prometheus_routes(programs_desk, clock),
        *metrics_routes(programs_desk, clock, live),
        Route("/api/v1/openapi.json", _openapi),
        Mount("/static", Assets(directory=str(resources.files("kizami.web").joinpath("static")))),
    ]


async def _openapi(request: Request) -> Response:
    text = resources.files("kizami.web").joinpath("openapi.json").read_bytes()
    return Response(text, media_type="application/json")


async def _answer_nobody(request: Request, error: Exception) -> Response:
    """Whoever breaks off in the middle of a request is gone: nothing to tell, and nothing to log."""
    return Response(status_code=400)


class Assets(StaticFiles):
    """Our own files; a browser asks each time whether they have changed, so an upgrade is seen at once."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response
