"""How the dashboard is watched itself: `/metrics`, `/healthz` (it runs) and `/readyz` (its home answers)."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from kizami.core.ports import Clock
from kizami.home.snapshot import take_snapshot
from kizami.web.home_threads import HomeThreads
from kizami.web.live import Live
from kizami.web.prometheus.exposition import OPENMETRICS, PLAIN, metrics_text, wants_openmetrics


def metrics_routes(home_threads: HomeThreads, clock: Clock, live: Live) -> list[BaseRoute]:
    """The route for monitoring systems."""
    return [Route("/metrics", partial(_metrics, home_threads, clock, live))]


def readiness_routes(home_threads: HomeThreads, clock: Clock) -> list[BaseRoute]:
    """The routes for load balancers and whoever else watches the process."""
    return [Route("/healthz", _health), Route("/readyz", partial(_readiness, home_threads, clock))]


async def _metrics(home_threads: HomeThreads, clock: Clock, live: Live, request: Request) -> Response:
    text = await home_threads.ask(
        lambda home: metrics_text(take_snapshot(home, clock.now()), live.pages, home.incident_log)
    )
    if wants_openmetrics(request.headers.get("accept", "")):
        return Response(text + "# EOF\n", headers={"Content-Type": OPENMETRICS})
    return Response(text, headers={"Content-Type": PLAIN})


async def _health(request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _readiness(home_threads: HomeThreads, clock: Clock, request: Request) -> Response:
    await home_threads.ask(lambda home: home.queue_depth(clock.now()))
    return JSONResponse({"status": "ok"})
