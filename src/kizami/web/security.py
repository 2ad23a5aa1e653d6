"""Who may come in and what a page may do: Host, token, same origin, and the headers of every answer."""

from __future__ import annotations

import hmac
import ipaddress
import logging
import math
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from time import monotonic

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kizami.core.errors import ConfigurationError
from kizami.web.guesses import Client, Guesses
from kizami.web.problems import problem

log = logging.getLogger(__name__)

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
MIN_TOKEN_LENGTH = 16
SESSION_COOKIE = "kizami_session"
# A browser takes a cookie of this name over TLS only, and only from this very host.
TLS_SESSION_COOKIE = "__Host-kizami_session"

# Scripts and styles from our own files only: what an API answers or a metric is called can never become code.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

# What is opened by a link; whoever has no token is asked for it there.
PAGES = re.compile(r"/(targets/.+|calendar)?")
# Without a token: how it is, but nothing of what it has.
_OPEN_PATHS = re.compile(r"/(healthz|readyz|login|static/.*)")
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+))(?::\d{1,5})?")
_ORIGIN = re.compile(r"https?://(\*\.)?[A-Za-z0-9.-]+(:\d{1,5})?")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_READS_BY_POST = "/prometheus/"  # Grafana posts its queries


@dataclass(frozen=True, slots=True)
class Access:
    """Under what names the dashboard is reached, and the token that it asks for, if any."""

    hosts: frozenset[str] = LOOPBACK_NAMES
    any_address: bool = False
    token: str | None = None
    read_token: str | None = None  # whoever has this one may look and not act
    frame_ancestors: tuple[str, ...] = ()
    # What a browser that knows the token keeps in its cookie, until the server ends. Nothing that follows from the
    # token: who could guess a session would have guessed the token, as often as he likes.
    session: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
    read_session: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
    guesses: Guesses = field(default_factory=Guesses, repr=False, compare=False)

    def knows_host(self, header: str | None) -> bool:
        """Whether a Host header names us; a foreign name may be a page that had its name re-bound to us."""
        match = _HOST.fullmatch(header or "")
        if match is None:
            return False
        name = (match[1] or match[2]).lower().rstrip(".")
        return name in self.hosts or (self.any_address and is_address(name))

    def knows_token(self, token: str) -> bool:
        """Whether it is one of the tokens, told in constant time."""
        return _is_one_of(token, self.token, self.read_token)

    def session_of(self, token: str) -> str:
        """What a browser that has shown the token keeps: with that for reading it may do no more than that."""
        return self.session if _is_one_of(token, self.token) else self.read_session

    def lets_in(self, headers: Headers) -> bool:
        """Whether a request may see anything."""
        return self.token is None or self.has_bearer(headers) or self.has_session(headers)

    def may_act(self, headers: Headers) -> bool:
        """Whether a request may change anything: the token for reading does not do."""
        if self.token is None:
            return True
        return _is_one_of(bearer_of(headers) or "", self.token) or _has_cookie(headers, self.session)

    def has_bearer(self, headers: Headers) -> bool:
        """Whether a request carries a token itself."""
        token = bearer_of(headers)
        return token is not None and self.knows_token(token)

    def has_session(self, headers: Headers) -> bool:
        """Whether a browser has shown a token before."""
        return _has_cookie(headers, self.session) or _has_cookie(headers, self.read_session)

    def wait_seconds(self, client: Client) -> float:
        """How long no token of this client will be looked at, because too many were wrong."""
        return self.guesses.wait_seconds(client, monotonic())

    def check(self, client: Client, token: str) -> bool:
        """Whether it is the token; a wrong one counts as a guess, and is logged without itself."""
        if self.knows_token(token):
            self.guesses.welcome(client)
            return True
        guessed = self.guesses.add(client, token, monotonic())
        if guessed is not None:
            wait = math.ceil(self.wait_seconds(client))
            details = {
                "event": "token.refused",
                "client": client.address,
                "way": client.way,
                "guesses": guessed,
                "wait_seconds": wait,
            }
            log.warning("a wrong token was refused", extra=details)
        return False


def _is_one_of(token: str, *known: str | None) -> bool:
    found = [hmac.compare_digest(token.encode(), each.encode()) for each in known if each is not None]
    return any(found)


def _has_cookie(headers: Headers, session: str) -> bool:
    cookies = cookie_parser(headers.get("cookie", ""))
    found = [cookies.get(name, "").encode() for name in (TLS_SESSION_COOKIE, SESSION_COOKIE)]
    return any(hmac.compare_digest(each, session.encode()) for each in found)


def access_for(
    host: str,
    token: str | None,
    allowed_hosts: Iterable[str] = (),
    *,
    read_token: str | None = None,
    frame_ancestors: Iterable[str] = (),
) -> Access:
    """The access of a server that listens on `host`; any address but this machine's own asks for a token."""
    for each in (token, read_token):
        if each is not None and (len(each) < MIN_TOKEN_LENGTH or not each.isascii() or not each.isprintable()):
            raise ConfigurationError("token", f"must be at least {MIN_TOKEN_LENGTH} printable ASCII characters")
    if read_token is not None and (token is None or token == read_token):
        raise ConfigurationError("--read-token-env", "stands beside --token-env, with another token")
    ancestors = tuple(frame_ancestors)
    for origin in ancestors:
        if not _ORIGIN.fullmatch(origin):
            raise ConfigurationError("--frame-ancestor", f"{origin} is no origin; one is https://wiki.example.com")
    if token is None and not is_loopback(host):
        raise ConfigurationError(
            "--host", f"{host} is open to others: set a token and name its variable in --token-env"
        )
    names = {name.lower() for name in (host, *allowed_hosts)}
    unspecified = is_address(host) and ipaddress.ip_address(host).is_unspecified
    hosts = LOOPBACK_NAMES | names
    return Access(hosts, unspecified, token, read_token, ancestors)


def is_address(name: str) -> bool:
    """Whether `name` is an address and not a name that some DNS server decides about."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server on `host`."""
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)


def bearer_of(headers: Headers) -> str | None:
    """The token that a request carries in its header, if any."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def is_same_origin(headers: Headers) -> bool:
    """Whether a page of ours sent the request: the browser says so, no script can."""
    scheme, _, place = headers.get("origin", "").partition("://")
    return scheme in ("http", "https") and place == headers.get("host")


def is_foreign(headers: Headers) -> bool:
    """Whether a page of somebody else made the browser ask; a program that is no browser says nothing of it."""
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return True
    return "origin" in headers and not is_same_origin(headers)


def is_visit(request: Request, may_be_framed: bool = False) -> bool:
    """Whether somebody follows a link to a page, and nobody puts it into a page of his own unless that may be."""
    is_page = request.method == "GET" and PAGES.fullmatch(request.url.path) is not None
    places = ("document", "iframe") if may_be_framed else ("document",)
    modes = request.headers.get("sec-fetch-mode"), request.headers.get("sec-fetch-dest")
    return is_page and modes in [("navigate", place) for place in places]


def client_of(request: Request, way: str) -> Client:
    """Who asks; of a proxy on this machine we believe whom it asks for."""
    peer = request.client.host if request.client else ""
    forwarded = _told_by_proxy(request, "x-forwarded-for")
    if forwarded and is_address(forwarded):
        return Client(forwarded, way)
    return Client(peer, way, is_this_machine=is_loopback(peer))


def is_over_tls(request: Request) -> bool:
    """Whether the browser has the page over TLS: it says so itself, or a proxy on this machine does."""
    origin = request.headers.get("origin", "").partition("://")[0]
    return "https" in (request.url.scheme, origin, _told_by_proxy(request, "x-forwarded-proto").lower())


def _told_by_proxy(request: Request, header: str) -> str:
    """The last entry of a header, which the nearest proxy wrote; nothing if it is not on this machine."""
    told = request.headers.getlist(header)
    is_near = request.client is not None and is_loopback(request.client.host)
    return told[-1].rpartition(",")[2].strip() if told and is_near else ""


def _acts(request: Request) -> bool:
    path = request.url.path
    return request.method not in _SAFE_METHODS and not path.startswith(_READS_BY_POST) and path != "/login"


def headers_for(frame_ancestors: Sequence[str]) -> dict[str, str]:
    """The headers of every answer; the sites that are named may show the page in a frame."""
    if not frame_ancestors:
        return HEADERS
    policy = CONTENT_SECURITY_POLICY.replace(
        "frame-ancestors 'none'", f"frame-ancestors {' '.join(frame_ancestors)}"
    )
    kept = {name: value for name, value in HEADERS.items() if name != "X-Frame-Options"}
    return {**kept, "Content-Security-Policy": policy, "Cross-Origin-Resource-Policy": "cross-origin"}


class Guard:
    """ASGI middleware: refuses who may not come in, and puts the safe headers on every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self._headers = headers_for(access.frame_ancestors)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self._headers)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        request = Request(scope, receive)
        refusal = self._refuse(request)
        await (refusal or self._app)(scope, receive, send_guarded)

    def _refuse(self, request: Request) -> ASGIApp | None:
        headers, path = request.headers, request.url.path
        if not self._access.knows_host(headers.get("host")) or len(headers.getlist("host")) != 1:
            return problem(421, "the Host header names somebody else; use the address that kizami printed")
        if wait := self._wait_for_bearer(request):
            return refuse_for(wait)
        if not self._access.lets_in(headers) and not _OPEN_PATHS.fullmatch(path) and not PAGES.fullmatch(path):
            response = problem(401, "a token is needed: send it as `Authorization: Bearer …`")
            response.headers["WWW-Authenticate"] = 'Bearer realm="kizami"'
            return response
        if _acts(request) and self._access.lets_in(headers) and not self._access.may_act(headers):
            return problem(403, "this token may only look; an action needs the full one")
        if self._access.has_bearer(headers) or self._is_own(request):
            return None
        return problem(403, "a page of another site asks; open the dashboard's own page, or send its token")

    def _wait_for_bearer(self, request: Request) -> float:
        """How long the request's token is not looked at; 0 if it was, or if there is none to be looked at."""
        token = bearer_of(request.headers)
        if token is None or self._access.token is None or self._access.has_session(request.headers):
            return 0
        client = client_of(request, "header")
        if wait := self._access.wait_seconds(client):
            return wait
        self._access.check(client, token)
        return 0

    def _is_own(self, request: Request) -> bool:
        """Whether our own page asks, or no page at all; an action must come from our own."""
        if request.method in _SAFE_METHODS or request.url.path.startswith(_READS_BY_POST):
            return not is_foreign(request.headers) or is_visit(request, bool(self._access.frame_ancestors))
        return is_same_origin(request.headers) and not is_foreign(request.headers)


def refuse_for(wait_seconds: float) -> ASGIApp:
    """The answer to a token that is not looked at."""
    response = problem(429, f"too many wrong tokens; the next one is looked at in {math.ceil(wait_seconds)} s")
    response.headers["Retry-After"] = str(math.ceil(wait_seconds))
    return response
