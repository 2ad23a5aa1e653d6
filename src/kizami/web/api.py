"""The JSON API: everything on the page as data, in bounded pages, as JSON or CSV."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from kizami.backend.calendar import calendar_edges, read_cells
from kizami.backend.chart import (
    MAX_POINTS,
    Chart,
    choose_grain,
    default_range,
    draw,
    draw_report,
    edges_of_grain,
    live_window,
)
from kizami.backend.figures.report import FigureQuestion, read_report
from kizami.backend.health import judge
from kizami.backend.port import Backend
from kizami.backend.snapshot import take_snapshot
from kizami.backend.targets import KnownTarget
from kizami.backend.wire import (
    COMPANY_COLUMNS,
    DEAD_LETTER_COLUMNS,
    EVENT_COLUMNS,
    GAP_COLUMNS,
    INCIDENT_COLUMNS,
    RECORD_COLUMNS,
    SLOT_COLUMNS,
    STATUS_COLUMNS,
    TARGET_COLUMNS,
    cell_json,
    chart_json,
    status_json,
)
from kizami.core.errors import InvalidInput
from kizami.core.ports import Clock
from kizami.core.slots import Window, format_second, shorten
from kizami.web.api_lists import (
    Query,
    list_companies,
    list_dead_letters,
    list_events,
    list_gaps,
    list_incidents,
    list_records,
    list_slots,
    list_targets,
    require_target,
)
from kizami.web.backend_threads import BackendThreads
from kizami.web.figures.asked import read_question
from kizami.web.paging import DEFAULT_LIMIT, MAX_LIMIT, MAX_RECORDS, CsvPage, Page, csv_line, csv_of, csv_page
from kizami.web.view.address import (
    MAX_SEARCH,
    read_asked_zone,
    read_calendar_range,
    read_cell_length,
    read_number,
    read_range,
)
from kizami.web.view.phrasing import verdict_sentence
from kizami.web.view.words import LANGUAGES, choose_language, words_in
from kizami.web.wall.watch import Watch

# Reads one page of a list: the backend, the query, now, where to begin, and how many items at most.
ReadList = Callable[[Backend, Query, datetime, str | None, int], Page]

MAX_TRENDS = 60
MAX_CELLS, MAX_CELLS_OF_ALL = 400, 31
AROUND = timedelta(hours=1)  # a page that is open for a while asks as it did at first
_OF_CHART = {"metric", "from", "to", "last", "tz", "every", "compare"}
_KNOWN = {
    *("format", "limit", "cursor", "lang", "metric", "from", "to", "last"),
    *("search", "condition", "by", "state", "tz"),
}


def chart_routes(backend_threads: BackendThreads, clock: Clock, watch: Watch) -> list[BaseRoute]:
    """What the pages themselves read of `/api/v1`."""
    return [
        Route("/api/v1/chart", partial(_chart, backend_threads, clock)),
        Route("/api/v1/trends", partial(_trends, backend_threads, clock, watch)),
        Route("/api/v1/calendar", partial(_calendar, backend_threads, clock, watch)),
    ]


def api_routes(backend_threads: BackendThreads, clock: Clock) -> list[BaseRoute]:
    """What programs read of `/api/v1`."""
    lists: dict[str, tuple[ReadList, Sequence[str]]] = {
        "records": (list_records, RECORD_COLUMNS),
        "slots": (list_slots, SLOT_COLUMNS),
        "gaps": (list_gaps, GAP_COLUMNS),
        "dead-letters": (list_dead_letters, DEAD_LETTER_COLUMNS),
        "targets": (list_targets, TARGET_COLUMNS),
        "companies": (list_companies, COMPANY_COLUMNS),
        "incidents": (list_incidents, INCIDENT_COLUMNS),
        "events": (list_events, EVENT_COLUMNS),
    }
    routes: list[BaseRoute] = [Route("/api/v1/status", partial(_status, backend_threads, clock))]
    for name, (read, columns) in lists.items():
        routes.append(Route(f"/api/v1/{name}", partial(_list, backend_threads, clock, read, columns)))
    return routes


async def _status(backend_threads: BackendThreads, clock: Clock, request: Request) -> Response:
    query = read_query(request)
    snapshot = await backend_threads.ask(lambda backend: take_snapshot(backend, clock.now()))
    if query.get("lang", "en") not in LANGUAGES:
        raise InvalidInput("lang", f"{shorten(query['lang'])} is none of {', '.join(LANGUAGES)}")
    language = choose_language(query.get("lang"), accept_language=request.headers.get("accept-language", ""))
    verdict = judge(snapshot.overview)
    body = status_json(
        snapshot.overview, verdict, verdict_sentence(snapshot.overview, verdict, words_in(language))
    )
    if wants_csv(query):
        return csv_response(csv_line(STATUS_COLUMNS) + csv_line(list(body.values())), "status")
    return JSONResponse(body)


async def _chart(backend_threads: BackendThreads, clock: Clock, request: Request) -> Response:
    query, now = read_query(request, _OF_CHART), clock.now()
    read_range(query, now)  # a mistake in it is told before anything is read
    question = read_question(query)

    def answer(backend: Backend) -> Response:
        target = require_target(backend, query.get("metric"))
        return JSONResponse(read_chart(backend, target, _chart_window(query, target, now), now, question))

    return await backend_threads.ask(answer)


async def _trends(backend_threads: BackendThreads, clock: Clock, watch: Watch, request: Request) -> Response:
    names = [name for key, name in request.query_params.multi_items() if key == "metric"]
    if not 1 <= len(names) <= MAX_TRENDS or len(request.query_params.multi_items()) > len(names):
        raise InvalidInput("metric", f"must be given 1 to {MAX_TRENDS} times, and nothing else")
    if not all(1 <= len(name) <= MAX_SEARCH for name in names):
        raise InvalidInput("metric", f"must have 1 to {MAX_SEARCH} characters")

    def answer(backend: Backend) -> Response:
        trends = watch.trends.read(backend, backend.targets(names), clock.now())
        return JSONResponse({"items": [{"metricName": name, **each.as_json()} for name, each in trends.items()]})

    return await backend_threads.ask(answer)


async def _calendar(backend_threads: BackendThreads, clock: Clock, watch: Watch, request: Request) -> Response:
    query, now = read_query(request), clock.now()
    length, zone, window = read_cell_length(query), read_asked_zone(query) or UTC, read_calendar_range(query)

    def answer(backend: Backend) -> Response:
        edges = calendar_edges(window, length, zone)
        if len(edges) > (MAX_CELLS if "metric" in query else MAX_CELLS_OF_ALL) + 1:
            raise InvalidInput("to", f"is too far: at most {MAX_CELLS} cells, {MAX_CELLS_OF_ALL} of all targets")
        if "metric" in query:
            cells = read_cells(backend, [require_target(backend, query["metric"])], edges, now)
        else:
            _require_counted(backend, window, now)
            cells = watch.calendars.read(backend, backend.targets(recent=True), edges, now)
        return JSONResponse({"metricName": query.get("metric"), "cells": [cell_json(cell) for cell in cells]})

    return await backend_threads.ask(answer)


def _require_counted(backend: Backend, window: Window, now: datetime) -> None:
    """InvalidInput where all targets together would have to be counted one by one."""
    since = backend.counted_since(now)
    if since is not None and window.start < since - AROUND:
        problem = f"is too long ago for all targets together, which are counted since {format_second(since)}"
        raise InvalidInput("from", f"{problem}; ask for one metric")


def _chart_window(query: Query, target: KnownTarget, now: datetime) -> Window:
    window = read_range(query, now, default_range(target.interval_seconds))
    return window if "from" in query else live_window(target, window.seconds, now)


def read_chart(
    backend: Backend, target: KnownTarget, window: Window, now: datetime, question: FigureQuestion | None = None
) -> dict[str, object]:
    """The chart of one metric as JSON."""
    grain = choose_grain(window.start, window.end, target.interval_seconds)
    if question and (question.every or question.compare):
        chart = _chart_of_figures(backend, target, window, grain, question, now)
    else:
        buckets = backend.buckets(target.name, window.start, window.end, grain)
        chart = draw(target, window, grain, buckets, now)
    return chart_json(target.name, target.interval_seconds, chart)


def _chart_of_figures(
    backend: Backend, target: KnownTarget, window: Window, grain: int, question: FigureQuestion, now: datetime
) -> Chart:
    """By the hours or days that are asked for, or beside the same time before."""
    if question.every is None:
        edges = edges_of_grain(window, grain)
    else:
        grain = int(question.every.length.total_seconds())
        edges = question.edges(question.whole(window))
    if len(edges) - 1 > MAX_POINTS + 1:
        problem = f"{len(edges) - 1:,} points are more than {MAX_POINTS:,}"
        raise InvalidInput("every", f"{problem}; ask for longer stretches or a shorter range")
    return draw_report(read_report(backend, target, question, edges, now), window, grain)


async def _list(
    backend_threads: BackendThreads, clock: Clock, read: ReadList, columns: Sequence[str], request: Request
) -> Response:
    query, now = read_query(request), clock.now()
    is_csv, most = wants_csv(query), MAX_RECORDS if read is list_records else MAX_LIMIT
    limit = read_number(query, "limit", most if is_csv else DEFAULT_LIMIT, most)

    # Written where it is read, and not in the event loop, which a large page would hold up.
    def read_json(backend: Backend) -> Response:
        page = read(backend, query, now, query.get("cursor"), limit)
        return Response(page.json_body(), media_type="application/json")

    async def read_csv(cursor: str | None) -> CsvPage:
        return await backend_threads.ask(
            lambda backend: csv_page(read(backend, query, now, cursor, limit), columns)
        )

    if not is_csv:
        return await backend_threads.ask(read_json)
    # The first page is read before the status is sent: a mistake still gets its problem.
    first = await read_csv(query.get("cursor"))
    return csv_response(csv_of(first, read_csv, columns), request.url.path.rpartition("/")[2])


def csv_response(text: str | AsyncIterator[str], name: str) -> Response:
    """A file of that name."""
    headers = {"Content-Disposition": f'attachment; filename="kizami-{name}.csv"'}
    content = iter((text,)) if isinstance(text, str) else text
    return StreamingResponse(content, headers=headers, media_type="text/csv")


def wants_csv(query: Query) -> bool:
    """Whether `format` says so."""
    wanted = query.get("format", "json")
    if wanted not in ("json", "csv"):
        raise InvalidInput("format", f"{shorten(wanted)} is neither json nor csv")
    return wanted == "csv"


def read_query(request: Request, known: Collection[str] = _KNOWN) -> dict[str, str]:
    """The query's parameters; one that is unknown or repeated is refused, for it would be ignored in silence."""
    query: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in known:
            raise InvalidInput(name[:40], f"is not a parameter; known: {', '.join(sorted(known))}")
        if name in query:
            raise InvalidInput(name, "is given twice")
        query[name] = value
    return query
