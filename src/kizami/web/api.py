"""The JSON API: everything on the page as data, in bounded pages, as JSON or CSV."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from kizami.core.errors import InvalidInput
from kizami.core.ports import Clock
from kizami.core.slots import Window, shorten
from kizami.home.chart import choose_grain, draw
from kizami.home.health import judge
from kizami.home.port import Home
from kizami.home.snapshot import take_snapshot
from kizami.home.wire import (
    COMPANY_COLUMNS,
    DEAD_LETTER_COLUMNS,
    GAP_COLUMNS,
    RECORD_COLUMNS,
    SLOT_COLUMNS,
    STATUS_COLUMNS,
    TARGET_COLUMNS,
    chart_json,
    status_json,
)
from kizami.web.api_lists import (
    Query,
    list_companies,
    list_dead_letters,
    list_gaps,
    list_records,
    list_slots,
    list_targets,
    require_target,
)
from kizami.web.home_threads import HomeThreads
from kizami.web.paging import DEFAULT_LIMIT, MAX_LIMIT, CsvPage, Page, csv_line, csv_of, csv_page, write_cursor
from kizami.web.view.address import read_number, read_range
from kizami.web.view.phrasing import verdict_sentence
from kizami.web.view.words import LANGUAGES, choose_language, words_in

# Reads one page of a list: the home, the query, now, where to begin, and how many items at most.
ReadList = Callable[[Home, Query, datetime, str | None, int], Page]

_KNOWN = {"format", "limit", "cursor", "lang", "metric", "from", "to", "last", "search", "condition"}


def chart_routes(home_threads: HomeThreads, clock: Clock) -> list[BaseRoute]:
    """What the page itself reads of `/api/v1`."""
    return [Route("/api/v1/chart", partial(_chart, home_threads, clock))]


def api_routes(home_threads: HomeThreads, clock: Clock) -> list[BaseRoute]:
    """What programs read of `/api/v1`."""
    lists: dict[str, tuple[ReadList, Sequence[str]]] = {
        "records": (list_records, RECORD_COLUMNS),
        "slots": (list_slots, SLOT_COLUMNS),
        "gaps": (list_gaps, GAP_COLUMNS),
        "dead-letters": (list_dead_letters, DEAD_LETTER_COLUMNS),
        "targets": (list_targets, TARGET_COLUMNS),
        "companies": (list_companies, COMPANY_COLUMNS),
    }
    routes: list[BaseRoute] = [Route("/api/v1/status", partial(_status, home_threads, clock))]
    for name, (read, columns) in lists.items():
        routes.append(Route(f"/api/v1/{name}", partial(_list, home_threads, clock, read, columns)))
    return routes


async def _status(home_threads: HomeThreads, clock: Clock, request: Request) -> Response:
    query = read_query(request)
    snapshot = await home_threads.ask(lambda home: take_snapshot(home, clock.now()))
    if query.get("lang", "en") not in LANGUAGES:
        raise InvalidInput("lang", f"{shorten(query['lang'])} is none of {', '.join(LANGUAGES)}")
    language = choose_language(query.get("lang"), accept_language=request.headers.get("accept-language", ""))
    verdict = judge(snapshot.overview)
    body = status_json(
        snapshot.overview, verdict, verdict_sentence(snapshot.overview, verdict, words_in(language))
    )
    if _wants_csv(query):
        return _csv_response(csv_line(STATUS_COLUMNS) + csv_line(list(body.values())), "status")
    return JSONResponse(body)


async def _chart(home_threads: HomeThreads, clock: Clock, request: Request) -> Response:
    query, now = read_query(request), clock.now()
    window = read_range(query, now)
    return await home_threads.ask(lambda home: JSONResponse(read_chart(home, query.get("metric"), window, now)))


def read_chart(home: Home, metric: str | None, window: Window, now: datetime) -> dict[str, object]:
    """The chart of one metric as JSON."""
    target = require_target(home, metric)
    grain = choose_grain(window.start, window.end, target.interval_seconds)
    buckets = home.buckets(target.name, window.start, window.end, grain)
    return chart_json(target.name, target.interval_seconds, draw(target, window, grain, buckets, now))


async def _list(
    home_threads: HomeThreads, clock: Clock, read: ReadList, columns: Sequence[str], request: Request
) -> Response:
    query, now = read_query(request), clock.now()
    is_csv = _wants_csv(query)
    limit = read_number(query, "limit", MAX_LIMIT if is_csv else DEFAULT_LIMIT, MAX_LIMIT)

    # Written where it is read, and not in the event loop, which a large page would hold up.
    def read_json(home: Home) -> Response:
        page = read(home, query, now, query.get("cursor"), limit)
        following = None if page.next is None else write_cursor(page.next)
        return JSONResponse({"items": list(page.items), "next": following})

    async def read_csv(cursor: str | None) -> CsvPage:
        return await home_threads.ask(lambda home: csv_page(read(home, query, now, cursor, limit), columns))

    if not is_csv:
        return await home_threads.ask(read_json)
    # The first page is read before the status is sent: a mistake still gets its problem.
    first = await read_csv(query.get("cursor"))
    return _csv_response(csv_of(first, read_csv, columns), request.url.path.rpartition("/")[2])


def _csv_response(text: str | AsyncIterator[str], name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="kizami-{name}.csv"'}
    content = iter((text,)) if isinstance(text, str) else text
    return StreamingResponse(content, headers=headers, media_type="text/csv")


def _wants_csv(query: Query) -> bool:
    wanted = query.get("format", "json")
    if wanted not in ("json", "csv"):
        raise InvalidInput("format", f"{shorten(wanted)} is neither json nor csv")
    return wanted == "csv"


def read_query(request: Request) -> dict[str, str]:
    """The query's parameters; one that is unknown or repeated is refused, for it would be ignored in silence."""
    query: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in _KNOWN:
            raise InvalidInput(name[:40], f"is not a parameter; known: {', '.join(sorted(_KNOWN))}")
        if name in query:
            raise InvalidInput(name, "is given twice")
        query[name] = value
    return query
