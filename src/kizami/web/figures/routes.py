"""`/api/v1/figures`: the figures of metrics by stretches of a range, as JSON or CSV."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from kizami.backend.figures.report import FigureQuestion, Report, read_report
from kizami.backend.figures.summary import Aggregate
from kizami.backend.figures.wire import answer_json, csv_columns, csv_rows
from kizami.backend.port import Backend
from kizami.core.errors import InvalidInput
from kizami.core.ports import Clock
from kizami.core.slots import Window
from kizami.web.api import csv_response, read_query, wants_csv
from kizami.web.backend_threads import BackendThreads
from kizami.web.figures.asked import read_aggregates, read_question, read_targets
from kizami.web.paging import csv_line
from kizami.web.view.address import read_range

MAX_BUCKETS = 50_000  # of all metrics together
MAX_SECONDS = 20 * 366 * 86_400
_KNOWN = {"metric", "from", "to", "last", "every", "tz", "compare", "figures", "format"}
_STRETCHES = 24  # that are told if no range is named


def figure_routes(backend_threads: BackendThreads, clock: Clock) -> list[BaseRoute]:
    """What programs read of figures."""
    return [Route("/api/v1/figures", partial(_figures, backend_threads, clock))]


async def _figures(backend_threads: BackendThreads, clock: Clock, request: Request) -> Response:
    query, now = read_query(request, _KNOWN), clock.now()
    question, aggregates, is_csv = read_question(query), read_aggregates(query), wants_csv(query)
    window = _window(query, question, now)
    edges = question.edges(window)
    question.edges_before(edges)  # a mistake is told before anything is read

    def answer(backend: Backend) -> Response:
        reports = _reports(backend, query, question, edges, now)
        if is_csv:
            return _csv(reports, aggregates, compared=question.compare is not None)
        return JSONResponse(answer_json(window, question, reports, aggregates))

    return await backend_threads.ask(answer)


def _window(query: dict[str, str], question: FigureQuestion, now: datetime) -> Window:
    """The range; unless it is said where it begins, its first stretch is whole."""
    last = f"{_STRETCHES * int(question.every.length.total_seconds())}s" if question.every else "24h"
    window = read_range(query, now, last, MAX_SECONDS)
    return window if query.get("from") else question.whole(window)


def _reports(
    backend: Backend, query: dict[str, str], question: FigureQuestion, edges: Sequence[datetime], now: datetime
) -> list[Report]:
    targets = read_targets(backend, query)
    if len(targets) * (len(edges) - 1) > MAX_BUCKETS:
        words = f"{len(targets):,} metrics in {len(edges) - 1:,} stretches are more than {MAX_BUCKETS:,}"
        raise InvalidInput("every", f"{words}; ask for longer stretches, a shorter range or fewer metrics")
    return [read_report(backend, target, question, edges, now) for target in targets]


def _csv(reports: Sequence[Report], aggregates: Sequence[Aggregate], *, compared: bool) -> Response:
    rows = (row for report in reports for row in csv_rows(report, aggregates))
    return csv_response("".join(map(csv_line, [csv_columns(aggregates, compared=compared), *rows])), "figures")
