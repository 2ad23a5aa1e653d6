"""The page itself, the way in with a token, and the choice of language."""

from __future__ import annotations

import math
from functools import partial
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from kizami.core.errors import KizamiError
from kizami.core.ports import Clock
from kizami.home.port import Home
from kizami.home.snapshot import take_snapshot
from kizami.web.home_threads import HomeThreads
from kizami.web.problems import detail_of, status_of
from kizami.web.security import SESSION_COOKIE, TLS_SESSION_COOKIE, Access, client_of, is_over_tls
from kizami.web.view.address import View, read_view
from kizami.web.view.render import render, render_page
from kizami.web.view.screen import Screen, look
from kizami.web.view.words import LANGUAGES, Words, choose_language, words_in

_YEAR_SECONDS = 365 * 86_400


def page_routes(home_threads: HomeThreads, clock: Clock, access: Access) -> list[BaseRoute]:
    """The routes that answer with HTML."""
    return [
        Route("/", partial(_page, home_threads, clock, access)),
        Route("/login", partial(_login, access), methods=["POST"]),
    ]


async def _page(home_threads: HomeThreads, clock: Clock, access: Access, request: Request) -> Response:
    words, theme = words_for(request), theme_of(request)
    if not access.lets_in(request.headers):
        return HTMLResponse(render("login.html", words, theme, next=_here(request), problem=None), 401)
    if request.query_params.get("lang") in LANGUAGES:
        return _remember_language(request)
    try:
        view = read_view(request.query_params)
        screen = await home_threads.ask(partial(see, view=view, clock=clock))
        return HTMLResponse(render_page(screen, words, theme))
    except KizamiError as error:
        return HTMLResponse(render("error.html", words, theme, detail=detail_of(error)), status_of(error))


def see(home: Home, view: View, clock: Clock) -> Screen:
    """What a view shows now."""
    return look(home, view, take_snapshot(home, clock.now()))


async def _login(access: Access, request: Request) -> Response:
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    (onward,), (token,) = form.get("next", ["/"])[:1], form.get("token", [""])[:1]
    # Only back to this page: an address of elsewhere begins with two slashes or a scheme.
    onward = onward if onward.startswith("/?") else "/"
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
        name, access.session, max_age=_YEAR_SECONDS, secure=is_secure, httponly=True, samesite="strict"
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
    response = RedirectResponse(f"/?{url.query}" if url.query else "/", 303)
    response.set_cookie("lang", request.query_params["lang"], max_age=_YEAR_SECONDS, samesite="lax")
    return response


def _here(request: Request) -> str:
    return f"/?{request.url.query}" if request.url.query else "/"


def words_for(request: Request) -> Words:
    """The words of the language that was chosen, else of the one that the browser asks for."""
    header = request.headers.get("accept-language", "")
    return words_in(choose_language(request.cookies.get("lang"), accept_language=header))


def theme_of(request: Request) -> str | None:
    """The theme that was chosen; None leaves it to the system's."""
    theme = request.cookies.get("theme")
    return theme if theme in ("light", "dark") else None
