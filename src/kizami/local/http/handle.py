"""One request on its way through libcurl: an easy handle, set up once for what its requests have in common."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pycurl

from kizami import __version__
from kizami.core.collector import MAX_BODY_BYTES, Response
from kizami.core.errors import ApiError, ApiPayloadError, ApiUnreachable
from kizami.local.http.connections import Origin

_FOR_EVER = -1
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class RequestProfile:
    """What requests have in common: a handle set up for one then serves the next. Headers hold secrets."""

    timeout_seconds: float
    headers: tuple[str, ...]
    direct: bool
    max_body_bytes: int = MAX_BODY_BYTES

    @classmethod
    def of(
        cls, url: str, timeout_seconds: float, headers: tuple[str, ...], max_body_bytes: int = MAX_BODY_BYTES
    ) -> RequestProfile:
        """Proxies are those of the environment, as curl reads it; what runs on this machine needs none."""
        return cls(timeout_seconds, headers, urlsplit(url).hostname in _LOOPBACK, max_body_bytes)

    def __repr__(self) -> str:
        return f"RequestProfile({self.timeout_seconds:g} s, {len(self.headers)} headers)"


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
        self._chunks: list[bytes] = []
        self._size = 0
        for option, value in _options(profile, self._take).items():
            self.curl.setopt(option, value)
        self.curl.setopt(pycurl.RESOLVER_START_FUNCTION, self._keep_from_resolving)

    def begin(self, url: str, tag: object, origin: Origin, *, kept: bool) -> None:
        self.tag = tag
        self.origin = origin
        self.deadline = time.monotonic() + self.profile.timeout_seconds
        self.lacks_address = False
        self._chunks.clear()
        self._size = 0
        self.curl.setopt(pycurl.URL, url)
        if kept is not self.kept:
            self.kept = kept
            self.curl.setopt(pycurl.FORBID_REUSE, int(not kept))
        if self.went_on:
            self.went_on = False
            self.curl.setopt(pycurl.TIMEOUT_MS, round(self.profile.timeout_seconds * 1000))
        self._mind_names()

    def tell(self, name: str, port: int, addresses: tuple[str, ...] | None) -> None:
        """What libcurl is to know of the name from now on."""
        entry = f"-{name}:{port}" if addresses is None else f"{name}:{port}:{','.join(addresses)}"
        self.curl.setopt(pycurl.RESOLVE, [entry])

    def go_on(self) -> None:
        """Try the request again, in the time that is left."""
        self.went_on = True
        self.lacks_address = False
        left = max(0.001, self.deadline - time.monotonic())
        self.curl.setopt(pycurl.TIMEOUT_MS, round(left * 1000))
        self._mind_names()

    def response(self) -> Response:
        status = self.curl.getinfo(pycurl.RESPONSE_CODE)
        retry_after = None if status == 200 else str(self.curl.getinfo(pycurl.RETRY_AFTER))
        return Response(status, b"".join(self._chunks), retry_after)

    def error(self, code: int, words: str) -> ApiError:
        if code == pycurl.E_OPERATION_TIMEDOUT:
            return self.too_late("no whole answer")
        limit = self.profile.max_body_bytes
        if code == pycurl.E_FILESIZE_EXCEEDED or self._size > limit:
            return ApiPayloadError(f"the body is larger than {limit} bytes")
        return ApiUnreachable(" ".join(words.split()) or f"libcurl error {code}")

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
        pycurl.HTTPHEADER: list(profile.headers),
        pycurl.WRITEFUNCTION: take,
    }
    # The wheel's libcurl looks for certificates where its own build machine had them.
    trusted = ssl.get_default_verify_paths()
    options |= {pycurl.CAINFO: trusted.cafile} if trusted.cafile else {}
    options |= {pycurl.CAPATH: trusted.capath} if trusted.capath else {}
    return options | ({pycurl.PROXY: "", pycurl.NOPROXY: "*"} if profile.direct else {})
