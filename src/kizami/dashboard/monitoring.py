"""How the dashboard is watched itself: `/metrics`, `/healthz` (it runs) and `/readyz` (its home answers)."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from kizami.dashboard.desk import Desk
from kizami.dashboard.live import Live
from kizami.dashboard.metrics_text import OPENMETRICS, PLAIN, metrics_text, wants_openmetrics
from kizami.dashboard.snapshot import take_snapshot
from kizami.ports import Clock


def metrics_routes(desk: Desk, clock: Clock, live: Live) -> list[BaseRoute]:
    """The route for monitoring systems."""
    return [Route("/metrics", partial(_metrics, desk, clock, live))]


def readiness_routes(desk: Desk, clock: Clock) -> list[BaseRoute]:
    """The routes for load balancers and whoever else watches the process."""
    return [Route("/healthz", _health), Route("/readyz", partial(_readiness, desk, clock))]


async def _metrics(desk: Desk, clock: Clock, live: Live, request: Request) -> Response:
    text = await desk.ask(lambda source: metrics_text(take_snapshot(source, clock.now()), live.pages))
    if wants_openmetrics(request.headers.get("accept", "")):
        return Response(text + "# EOF\n", headers={"Content-Type": OPENMETRICS})
    return Response(text, headers={"Content-Type": PLAIN})


async def _health(request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _readiness(desk: Desk, clock: Clock, request: Request) -> Response:
    await desk.ask(lambda source: source.queue_depth(clock.now()))
    return JSONResponse({"status": "ok"})
