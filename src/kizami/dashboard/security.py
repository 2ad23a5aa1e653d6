"""Who may come in and what a page may do: Host, token, same origin, and the headers of every answer."""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kizami.dashboard.problems import problem
from kizami.errors import ConfigurationError

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
MIN_TOKEN_LENGTH = 16
SESSION_COOKIE = "kizami_session"

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

# Without a token: how it is, but nothing of what it has.
_OPEN_PATHS = re.compile(r"/(healthz|readyz|login|static/.*)")
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+))(?::\d{1,5})?")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_READS_BY_POST = "/prometheus/"  # Grafana posts its queries


@dataclass(frozen=True, slots=True)
class Access:
    """Under what names the dashboard is reached, and the token that it asks for, if any."""

    hosts: frozenset[str] = LOOPBACK_NAMES
    any_address: bool = False
    token: str | None = None

    @property
    def session(self) -> str:
        """What a browser that knows the token keeps in its cookie: not the token itself."""
        return hmac.digest((self.token or "").encode(), b"kizami dashboard session", "sha256").hex()

    def knows_host(self, header: str | None) -> bool:
        """Whether a Host header names us; a foreign name may be a page that had its name re-bound to us."""
        match = _HOST.fullmatch(header or "")
        if match is None:
            return False
        name = (match[1] or match[2]).lower().rstrip(".")
        return name in self.hosts or (self.any_address and is_address(name))

    def knows_token(self, token: str) -> bool:
        """Whether it is the token, told in constant time."""
        return self.token is not None and hmac.compare_digest(token.encode(), self.token.encode())

    def lets_in(self, headers: Headers) -> bool:
        """Whether a request may see anything."""
        return self.token is None or self.has_bearer(headers) or self._has_session(headers)

    def has_bearer(self, headers: Headers) -> bool:
        """Whether a request carries the token itself."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self.knows_token(token.strip())

    def _has_session(self, headers: Headers) -> bool:
        cookies = cookie_parser(headers.get("cookie", ""))
        return hmac.compare_digest(cookies.get(SESSION_COOKIE, "").encode(), self.session.encode())


def access_for(host: str, token: str | None, allowed_hosts: Iterable[str] = ()) -> Access:
    """The access of a server that listens on `host`; any address but this machine's own asks for a token."""
    if token is not None and (len(token) < MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable()):
        raise ConfigurationError("token", f"must be at least {MIN_TOKEN_LENGTH} printable ASCII characters")
    if token is None and not is_loopback(host):
        raise ConfigurationError(
            "--host", f"{host} is open to others: set a token and name its variable in --token-env"
        )
    names = {name.lower() for name in (host, *allowed_hosts)}
    unspecified = is_address(host) and ipaddress.ip_address(host).is_unspecified
    return Access(LOOPBACK_NAMES | names, any_address=unspecified, token=token)


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


def is_same_origin(headers: Headers) -> bool:
    """Whether a page of ours sent the request: the browser says so, no script can."""
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc == headers.get("host")


class Guard:
    """ASGI middleware: refuses who may not come in, and puts the safe headers on every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        request = Request(scope, receive)
        refusal = self._refuse(request)
        await (refusal or self._app)(scope, receive, send_guarded)

    def _refuse(self, request: Request) -> ASGIApp | None:
        headers, path = request.headers, request.url.path
        if not self._access.knows_host(headers.get("host")) or len(headers.getlist("host")) != 1:
            return problem(421, "the Host header names somebody else; use the address that kizami printed")
        if not self._access.lets_in(headers) and not _OPEN_PATHS.fullmatch(path) and path != "/":
            response = problem(401, "a token is needed: send it as `Authorization: Bearer …`")
            response.headers["WWW-Authenticate"] = 'Bearer realm="kizami"'
            return response
        if request.method in _SAFE_METHODS or path.startswith(_READS_BY_POST):
            return None
        if self._access.has_bearer(headers) or is_same_origin(headers):
            return None
        return problem(403, "an action must come from the dashboard's own page or carry its token")
