"""How the dashboard is watched itself: `/metrics`, `/healthz` (it runs) and `/readyz` (its backend answers)."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from kizami.backend.snapshot import take_snapshot
from kizami.core.ports import Clock
from kizami.web.backend_threads import BackendThreads
from kizami.web.live import Live
from kizami.web.prometheus.exposition import OPENMETRICS, PLAIN, metrics_text, wants_openmetrics


def metrics_routes(backend_threads: BackendThreads, clock: Clock, live: Live) -> list[BaseRoute]:
    """The route for monitoring systems."""
    return [Route("/metrics", partial(_metrics, backend_threads, clock, live))]


def readiness_routes(backend_threads: BackendThreads, clock: Clock) -> list[BaseRoute]:
    """The routes for load balancers and whoever else watches the process."""
    return [Route("/healthz", _health), Route("/readyz", partial(_readiness, backend_threads, clock))]


async def _metrics(backend_threads: BackendThreads, clock: Clock, live: Live, request: Request) -> Response:
    text = await backend_threads.ask(
        lambda backend: metrics_text(take_snapshot(backend, clock.now()), live.pages, backend.incident_log)
    )
    if wants_openmetrics(request.headers.get("accept", "")):
        return Response(text + "# EOF\n", headers={"Content-Type": OPENMETRICS})
    return Response(text, headers={"Content-Type": PLAIN})


async def _health(request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _readiness(backend_threads: BackendThreads, clock: Clock, request: Request) -> Response:
    await backend_threads.ask(lambda backend: backend.queue_depth(clock.now()))
    return JSONResponse({"status": "ok"})
