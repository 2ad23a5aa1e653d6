"""One request on its way through libcurl: an easy handle, set up once for what its requests have in common."""

from __future__ import annotations

import math
import re
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from errno import errorcode
from itertools import takewhile
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pycurl

from kizami import __version__
from kizami.core.access.certificates import explain
from kizami.core.access.failures import kind_of_errno, place_of, unreachable
from kizami.core.access.proxy import Proxy
from kizami.core.answers.rate_limits import LIMITING, read_rate_limit
from kizami.core.collector import TOO_LARGE, Response
from kizami.core.errors import ApiError, ApiPayloadError, ApiUnreachable
from kizami.core.messages import NO_HEADERS
from kizami.core.requests.query import add_query
from kizami.core.targets.target import DEFAULT_MAX_BODY_BYTES
from kizami.local.http.connections import Origin

_FOR_EVER = -1
# How long libcurl believes what it has read of a file of authorities; pycurl has no name for that option.
_CA_CACHE_TIMEOUT, _CA_SECONDS = 321, 60
_HTTP2_STREAM, _TOO_LARGE = 92, 100  # CURLE_…, likewise
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class SentSecrets(NamedTuple):
    """Headers and parameters that may be others next time, and so are no part of a profile."""

    headers: tuple[str, ...] = ()
    query: str = ""

    def __repr__(self) -> str:
        return "SentSecrets(…)"


NO_SECRETS = SentSecrets()


class TlsFiles(NamedTuple):
    """The files of a target's certificates; without `ca` the system's authorities are believed."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class RequestProfile:
    """What requests have in common: a handle set up for one then serves the next.

    The headers and `secret_query`, which is added to every URL, hold secrets: those that stay the same. Without a
    `proxy` the environment says whether there is one, unless requests are to be `direct`.
    """

    timeout_seconds: float
    headers: tuple[str, ...]
    direct: bool
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    wanted_headers: frozenset[str] = frozenset()
    method: str = "GET"
    has_body: bool = False
    secret_query: str = ""
    tls: TlsFiles | None = None
    proxy: Proxy | None = None
    trace: Callable[[int, bytes], None] | None = None  # told all that libcurl sends and receives

    @classmethod
    def of(
        cls,
        url: str,
        timeout_seconds: float,
        headers: tuple[str, ...],
        max_body_bytes: int = DEFAULT_MAX_BODY_BYTES,
        wanted_headers: frozenset[str] = frozenset(),
    ) -> RequestProfile:
        """Proxies are those of the environment, as curl reads it; what runs on this machine needs none."""
        return cls(timeout_seconds, headers, is_loopback(url), max_body_bytes, wanted_headers)

    def __repr__(self) -> str:
        return f"RequestProfile({self.timeout_seconds:g} s, {len(self.headers)} headers)"


def is_loopback(url: str) -> bool:
    """Whether it is on this machine: no proxy of the environment is on the way there."""
    return urlsplit(url).hostname in _LOOPBACK


_KINDS = {
    pycurl.E_COULDNT_RESOLVE_HOST: "unknown name",
    pycurl.E_COULDNT_RESOLVE_PROXY: "unknown name",
    pycurl.E_COULDNT_CONNECT: "no connection",
    pycurl.E_UNSUPPORTED_PROTOCOL: "other protocol",
    pycurl.E_FTP_WEIRD_SERVER_REPLY: "broken answer",
    pycurl.E_BAD_CONTENT_ENCODING: "broken answer",
    pycurl.E_GOT_NOTHING: "no answer",
    pycurl.E_PARTIAL_FILE: "cut short",
    pycurl.E_HTTP2: "cut short",
    _HTTP2_STREAM: "cut short",
    pycurl.E_SSL_CONNECT_ERROR: "no handshake",
    _TOO_LARGE: "large headers",
}
_SAID = (("response headers", "large headers"), ("chunk", "broken answer"), ("Proxy CONNECT aborted", "no answer"))


def explain_failure(curl: Any, code: int, words: str, proxy: Proxy | None = None) -> ApiUnreachable:
    """What libcurl's error means, in the words that every client has for it."""
    words = " ".join(words.split())
    if refused := explain(words):
        return refused
    parts = urlsplit(curl.getinfo(pycurl.EFFECTIVE_URL))
    at = place_of(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    if status := re.search(r"CONNECT tunnel failed, response (\d+)", words):
        return unreachable("refused by proxy", at, status[1])
    if by := re.search(r" over proxy (\S+)|^Proxy ", words):
        at = place_of(proxy.host, proxy.port) if proxy else f"the proxy {by[1] or ''}".rstrip()
    kind = _KINDS.get(code)
    if kind in (None, "no connection"):  # else the number may be that of another address, which was tried before
        kind = kind_of_errno(errorcode.get(curl.getinfo(pycurl.OS_ERRNO))) or kind
    kind = next((each for said, each in _SAID if said in words), kind)
    name = re.fullmatch(r"Could(?:n't| not) resolve \w+:? '?([^ ']+)'?.*", words)
    if kind is None or (kind == "unknown name" and name is None):  # else, a proxy's URL that libcurl cannot read
        return ApiUnreachable(words or f"libcurl error {code}")
    setting = "proxy" if by or "resolve proxy" in words else "url"
    return unreachable(kind, name[1] if name else at, setting=setting)


class Handle:
    """A libcurl easy handle, set up once for its profile; `idle` is where it waits for its next request."""

    def __init__(self, profile: RequestProfile, idle: list[Handle]) -> None:
        self.profile = profile
        self.idle = idle
        self.tag: Any = None
        self.curl = pycurl.Curl()
        self.curl.handle = self
        self.origin: Origin
        self.kept = self.has_place = True
        self.deadline = 0.0
        self.lacks_address = False
        self.went_on = False
        self._named = False
        self._has_body = profile.has_body
        self._secret_query = profile.secret_query
        self._secrets = NO_SECRETS
        self._chunks: list[bytes] = []
        self._size = 0
        self._header_lines: list[bytes] = []
        self._is_late = False
        for option, value in _options(profile, self._take).items():
            self.curl.setopt(option, value)
        self.curl.setopt(pycurl.RESOLVER_START_FUNCTION, self._keep_from_resolving)
        self.curl.setopt(pycurl.HEADERFUNCTION, self._header_lines.append)  # no code of ours runs for each line
        if profile.trace:
            self.curl.setopt(pycurl.VERBOSE, 1)
            self.curl.setopt(pycurl.DEBUGFUNCTION, profile.trace)

    def begin(
        self,
        url: str,
        tag: object,
        origin: Origin,
        *,
        kept: bool,
        body: bytes | None = None,
        secrets: SentSecrets = NO_SECRETS,
        spent_seconds: float = 0.0,
    ) -> None:
        self.tag = tag
        self.origin = origin
        self.deadline = time.monotonic() + self.profile.timeout_seconds - spent_seconds
        self.lacks_address = False
        self._chunks.clear()
        self._header_lines.clear()
        self._size = 0
        if secrets is not self._secrets:
            self._use_secrets(secrets)
        self.curl.setopt(pycurl.URL, add_query(url, self._secret_query) if self._secret_query else url)
        if self._has_body:
            self.curl.setopt(pycurl.POSTFIELDS, body or b"")
        if kept is not self.kept:
            self.kept = kept
            self.curl.setopt(pycurl.FORBID_REUSE, int(not kept))
        if self.went_on or self._is_late or spent_seconds:
            self.went_on, self._is_late = False, spent_seconds > 0
            self._set_timeout()
        self._mind_names()

    def _use_secrets(self, secrets: SentSecrets) -> None:
        self._secrets = secrets
        self._secret_query = secrets.query or self.profile.secret_query
        self.curl.setopt(pycurl.HTTPHEADER, _header_lines(self.profile, secrets.headers))

    def tell(self, name: str, port: int, addresses: tuple[str, ...] | None) -> None:
        """What libcurl is to know of the name from now on."""
        entry = f"-{name}:{port}" if addresses is None else f"{name}:{port}:{','.join(addresses)}"
        self.curl.setopt(pycurl.RESOLVE, [entry])

    def go_on(self) -> None:
        """Try the request again, in the time that is left."""
        self.went_on = True
        self.lacks_address = False
        self._set_timeout()
        self._mind_names()

    def _set_timeout(self) -> None:
        left = max(0.001, self.deadline - time.monotonic())
        self.curl.setopt(pycurl.TIMEOUT_MS, math.ceil(left * 1000))

    def response(self) -> Response:
        status = self.curl.getinfo(pycurl.RESPONSE_CODE)
        retry_after = None if status == 200 else str(self.curl.getinfo(pycurl.RETRY_AFTER))
        body = b"".join(self._chunks)
        content_type = (self.curl.getinfo_raw(pycurl.CONTENT_TYPE) or b"").decode("latin-1")
        if status not in LIMITING and not self.profile.wanted_headers:
            return Response(status, body, retry_after, NO_HEADERS, content_type)
        headers = self._headers()
        limit = read_rate_limit(status, headers, datetime.now(UTC))
        return Response(status, body, retry_after, self._wanted(headers), content_type, limit)

    def failure(self, code: int, words: str) -> Response | ApiError:
        """What has become of a request that libcurl gave up; of an error only its status counts, not its body."""
        if code == pycurl.E_OPERATION_TIMEDOUT:
            return self.too_late("no complete answer")
        is_too_large = code == pycurl.E_FILESIZE_EXCEEDED or self._size > self.profile.max_body_bytes
        if is_too_large or code in (pycurl.E_BAD_CONTENT_ENCODING, pycurl.E_WRITE_ERROR):
            if self.curl.getinfo(pycurl.RESPONSE_CODE) >= 300:
                return self.response()
            if is_too_large:
                limit = self.profile.max_body_bytes
                return ApiPayloadError(f"the body is larger than {limit} bytes", TOO_LARGE)
            return ApiPayloadError("the body is not what its Content-Encoding says")
        return explain_failure(self.curl, code, words, self.profile.proxy)

    def too_late(self, what: str) -> ApiError:
        return ApiUnreachable(f"{what} within {self.profile.timeout_seconds:g} s")

    def _keep_from_resolving(self) -> int:
        self.lacks_address = self.origin.name is not None
        return int(self.lacks_address)

    def _mind_names(self) -> None:
        """What libcurl was told stays until it is told otherwise; what it found out itself it forgets at once.

        Else it would search all it knows for old ones at the end of every request.
        """
        named = self.origin.name is not None
        if named is not self._named:
            self._named = named
            self.curl.setopt(pycurl.DNS_CACHE_TIMEOUT, _FOR_EVER if named else 0)

    def _headers(self) -> list[tuple[str, str]]:
        """Names in small letters, and values; no trailers, and none of a proxy or a provisional answer."""
        lines = [line.decode("latin-1") for line in self._header_lines]
        first = max((number for number, line in enumerate(lines) if line.startswith("HTTP/")), default=0)
        pairs = (line.partition(":") for line in takewhile(str.strip, lines[first:]))
        return [(name.lower(), value.strip()) for name, _, value in pairs]

    def _wanted(self, headers: list[tuple[str, str]]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, value in headers:
            if name in self.profile.wanted_headers:
                found[name] = f"{found[name]}, {value}" if name in found else value
        return found

    def _take(self, chunk: bytes) -> int:
        self._size += len(chunk)
        if self._size > self.profile.max_body_bytes:
            return 0  # fewer than were offered: libcurl gives up
        self._chunks.append(chunk)
        return len(chunk)


def _options(profile: RequestProfile, take: Callable[[bytes], int]) -> dict[int, Any]:
    options = {
        pycurl.NOSIGNAL: 1,
        pycurl.PROTOCOLS: pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS,
        pycurl.FOLLOWLOCATION: 0,
        pycurl.DNS_CACHE_TIMEOUT: 0,
        pycurl.TIMEOUT_MS: round(profile.timeout_seconds * 1000),
        pycurl.MAXFILESIZE: profile.max_body_bytes,
        pycurl.USERAGENT: f"kizami/{__version__}",
        pycurl.HTTPHEADER: _header_lines(profile),
        pycurl.ACCEPT_ENCODING: "gzip",
        pycurl.WRITEFUNCTION: take,
    }
    options |= _method_options(profile)
    return options | _tls_options(profile.tls or TlsFiles()) | _proxy_options(profile)


def _header_lines(profile: RequestProfile, secret: tuple[str, ...] = ()) -> list[str]:
    lines = [*profile.headers, *secret]
    if profile.has_body and not any(line.lower().startswith("content-type:") for line in lines):
        lines.append("Content-Type:")  # libcurl would call it a form
    return lines


def _method_options(profile: RequestProfile) -> dict[int, Any]:
    """A handle has the one method of its profile, so that nothing of a former request can stay on it."""
    if profile.method == "HEAD":
        return {pycurl.NOBODY: 1}
    options: dict[int, Any] = {pycurl.POST: 1} if profile.has_body else {}
    usual = "POST" if profile.has_body else "GET"
    return options | ({pycurl.CUSTOMREQUEST: profile.method} if profile.method != usual else {})


def _tls_options(tls: TlsFiles) -> dict[int, Any]:
    options: dict[int, Any] = {pycurl.SSLCERT: tls.cert, pycurl.SSLKEY: tls.key or tls.cert} if tls.cert else {}
    if tls.ca:
        return options | {pycurl.CAINFO: tls.ca, pycurl.CAPATH: None, _CA_CACHE_TIMEOUT: _CA_SECONDS}
    return options | system_authorities()


def system_authorities() -> dict[int, Any]:
    """Whom the system believes; the wheel's libcurl looks for them where its own build machine had them."""
    trusted = ssl.get_default_verify_paths()
    options: dict[int, Any] = {pycurl.CAINFO: trusted.cafile} if trusted.cafile else {}
    return options | ({pycurl.CAPATH: trusted.capath} if trusted.capath else {})


def _proxy_options(profile: RequestProfile) -> dict[int, Any]:
    """What a target says of its proxy is meant: the environment's exceptions are for the environment's proxies."""
    if proxy := profile.proxy:
        host = f"[{proxy.host}]" if ":" in proxy.host else proxy.host
        options: dict[int, Any] = {pycurl.PROXY: f"http://{host}:{proxy.port}", pycurl.NOPROXY: ""}
        who = {pycurl.PROXYUSERNAME: proxy.user, pycurl.PROXYPASSWORD: proxy.password}
        return options | (who if proxy.authorization else {})
    return {pycurl.PROXY: "", pycurl.NOPROXY: "*"} if profile.direct else {}
