"""The pages themselves, the way in with a token, and the choice of language."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from functools import partial
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from kizami.backend.port import Backend
from kizami.core.errors import KizamiError
from kizami.core.ports import Clock
from kizami.web.backend_threads import BackendThreads
from kizami.web.problems import detail_of, status_of
from kizami.web.security import PAGES, SESSION_COOKIE, TLS_SESSION_COOKIE, Access, client_of, is_over_tls
from kizami.web.view.address import View, read_view
from kizami.web.view.render import render, render_calendar, render_page
from kizami.web.view.screen import Screen, look, told_of
from kizami.web.view.words import LANGUAGES, Words, choose_language, words_in
from kizami.web.wall.orders import Order
from kizami.web.wall.watch import Watch

_YEAR_SECONDS = 365 * 86_400
# A page shows what other pages have just been told; a moment later it is told what is new.
GOOD_FOR_SECONDS = 2.0
# The first day that is counted as a whole, in any zone, is that of so long after the first moment.
FIRST_DAY = timedelta(hours=25)


def page_routes(backend_threads: BackendThreads, clock: Clock, access: Access, watch: Watch) -> list[BaseRoute]:
    """The routes that answer with HTML."""
    page = partial(_page, backend_threads, clock, access, watch)
    return [
        Route("/", page),
        Route("/targets/{metric:path}", page),
        Route("/calendar", partial(_calendar, backend_threads, clock, access, watch)),
        Route("/login", partial(_login, access), methods=["POST"]),
    ]


async def _page(
    backend_threads: BackendThreads, clock: Clock, access: Access, watch: Watch, request: Request
) -> Response:
    if early := _answer_early(access, request):
        return early
    words, theme = words_for(request), theme_of(request)
    try:
        view = read_view({**request.query_params, **request.path_params})
        if "metric" in request.query_params:  # as addresses were when there was one page
            return RedirectResponse(view.url(), 308)
        screen = await backend_threads.ask(partial(see, view=view, clock=clock, watch=watch))
        if only := _only_target(screen):
            return RedirectResponse(view.url(metric=only), 307)
        reads_only = not access.may_act(request.headers)
        page = render_page(screen, words, theme, str(request.base_url).rstrip("/"), reads_only)
        return HTMLResponse(page)
    except KizamiError as error:
        return HTMLResponse(render("error.html", words, theme, detail=detail_of(error)), status_of(error))


def _only_target(screen: Screen) -> str | None:
    """Who has one target wants to see it, and no list of one."""
    names = list(screen.snapshot.targets)
    is_plain = screen.status is None and not screen.view.search and not screen.view.condition
    return names[0] if is_plain and len(names) == 1 and names[0].isprintable() else None


async def _calendar(
    backend_threads: BackendThreads, clock: Clock, access: Access, watch: Watch, request: Request
) -> Response:
    if early := _answer_early(access, request):
        return early
    words, theme = words_for(request), theme_of(request)

    def look_at(backend: Backend) -> tuple[list[Order], datetime | None, bool]:
        now = clock.now()
        since = backend.counted_since(now)
        first_slots = [target.first_slot for target in backend.targets(recent=True)]
        first = (
            max(min(first_slots), since + FIRST_DAY) if since and first_slots else min(first_slots, default=None)
        )
        return watch.orders.look(backend, now), first, since is not None

    try:
        orders, first_slot, is_cut = await backend_threads.ask(look_at)
    except KizamiError as error:
        return HTMLResponse(render("error.html", words, theme, detail=detail_of(error)), status_of(error))
    reads_only = not access.may_act(request.headers)
    return HTMLResponse(render_calendar(words, theme, orders, first_slot, reads_only, is_cut))


def _answer_early(access: Access, request: Request) -> Response | None:
    """What is answered before anything is looked at: the way in, or a choice of language."""
    if not access.lets_in(request.headers):
        page = render("login.html", words_for(request), theme_of(request), next=_here(request), problem=None)
        return HTMLResponse(page, 401)
    return _remember_language(request) if request.query_params.get("lang") in LANGUAGES else None


def see(backend: Backend, view: View, clock: Clock, watch: Watch) -> Screen:
    """What a view shows now."""
    now = clock.now()
    snapshot, orders = watch.look(backend, now, GOOD_FOR_SECONDS), watch.orders.look(backend, now)
    news = watch.incidents.look(backend, now, told_of(snapshot, view.metric))
    return look(backend, view, snapshot, orders, news, opens=True)


async def _login(access: Access, request: Request) -> Response:
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    (onward,), (token,) = form.get("next", ["/"])[:1], form.get("token", [""])[:1]
    # Only back to a page of ours: an address of elsewhere begins with two slashes or a scheme.
    onward = onward if PAGES.fullmatch(onward.partition("?")[0]) else "/"
    client = client_of(request, "page")
    if access.token is None:
        return RedirectResponse(onward, 303)
    if wait := access.wait_seconds(client):
        return _ask_again(request, onward, wait)
    if not access.check(client, token):
        return _ask_again(request, onward)
    response = RedirectResponse(onward, 303)
    is_secure = is_over_tls(request)
    name = TLS_SESSION_COOKIE if is_secure else SESSION_COOKIE
    response.set_cookie(
        name, access.session_of(token), max_age=_YEAR_SECONDS, secure=is_secure, httponly=True, samesite="strict"
    )
    return response


def _ask_again(request: Request, onward: str, wait_seconds: float = 0) -> Response:
    """The login once more: the token was wrong, or so many were that it was not looked at."""
    seconds, words = math.ceil(wait_seconds), words_for(request)
    problem = words("login.later", wait=words.duration(seconds)) if seconds else words("login.wrong")
    page = render("login.html", words, theme_of(request), next=onward, problem=problem)
    return HTMLResponse(page, 429, {"Retry-After": str(seconds)}) if seconds else HTMLResponse(page, 401)


def _remember_language(request: Request) -> Response:
    """The choice goes into a cookie, so that the address stays the view alone and can be shared."""
    url = request.url.remove_query_params("lang")
    response = RedirectResponse(f"{_path(request)}?{url.query}" if url.query else _path(request), 303)
    response.set_cookie("lang", request.query_params["lang"], max_age=_YEAR_SECONDS, samesite="lax")
    return response


def _here(request: Request) -> str:
    return f"{_path(request)}?{request.url.query}" if request.url.query else _path(request)


def _path(request: Request) -> str:
    return quote(request.url.path, safe="/:")


def words_for(request: Request) -> Words:
    """The words of the language that was chosen, else of the one that the browser asks for."""
    header = request.headers.get("accept-language", "")
    return words_in(choose_language(request.cookies.get("lang"), accept_language=header))


def theme_of(request: Request) -> str | None:
    """The theme that was chosen; None leaves it to the system's."""
    theme = request.cookies.get("theme")
    return theme if theme in ("light", "dark") else None
