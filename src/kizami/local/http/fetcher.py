"""HTTP at scale: many requests in flight on one thread, by libcurl's multi interface.

The caller owns the loop: it starts requests, waits in `wait`, and gets back what has finished. Connections and
handles are used again. Every request has one total deadline and a cap on the body's size; redirects are not
followed and nothing is decompressed, so an answer can neither take longer nor grow larger than allowed.
"""

from __future__ import annotations

import resource
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import pycurl

from kizami import __version__
from kizami.core.collector import MAX_BODY_BYTES, Response
from kizami.core.errors import ApiError, ApiPayloadError, ApiUnreachable
from kizami.local.http.socket_poller import IN, new_poller
from kizami.local.http.wakeup import WakeUp

_SPARE_FILES = 128  # descriptors left for everything but connections
_MAX_FILES = 65_536
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
        return f"Profile({self.timeout_seconds:g} s, {len(self.headers)} headers)"


class Finished(NamedTuple):
    """A request that is over: what it was started with, and what came of it."""

    tag: Any
    outcome: Response | ApiError


class Fetcher:
    """The requests in flight; `wait` also returns early when somebody rings the `wakeup`."""

    def __init__(self, wakeup: WakeUp | None = None) -> None:
        self._wakeup = wakeup
        self._wakeup_descriptor = wakeup.fileno() if wakeup else None
        self._poller = new_poller()
        if wakeup:
            self._poller.watch(wakeup.fileno(), IN)
        self._idle: dict[RequestProfile, list[_Handle]] = {}
        self._timer: float | None = None
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self.max_connections = _allowed_files() - _SPARE_FILES
        self._multi.setopt(pycurl.M_MAXCONNECTS, self.max_connections)
        self.in_flight = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, url: str, profile: RequestProfile, tag: object) -> None:
        """Send a GET; `wait` will give `tag` back with its outcome."""
        idle = self._idle.get(profile)
        if idle is None:
            idle = self._idle[profile] = []
        handle = idle.pop() if idle else _Handle(profile, idle)
        handle.begin(url, tag)
        self._multi.add_handle(handle.curl)
        self.in_flight += 1

    def wait(self, seconds: float) -> list[Finished]:
        """Wait for something to happen, at most `seconds`; what has finished since."""
        if self._timer is not None:
            seconds = min(seconds, self._timer - time.monotonic())
        for descriptor, ready in self._poller.wait(max(0.0, seconds)):
            if self._wakeup and descriptor == self._wakeup_descriptor:
                self._wakeup.clear_wakes()
            else:
                self._multi.socket_action(descriptor, ready)
        if self._timer is not None and self._timer <= time.monotonic():
            self._timer = None
            self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        return self._finished()

    def close(self) -> None:
        """Let go of every connection; requests in flight are dropped."""
        self._multi.close()
        self._poller.close()

    def _finished(self) -> list[Finished]:
        finished = []
        more = True
        while more:
            more, succeeded, failed = self._multi.info_read()
            finished += [self._settle(curl, None) for curl in succeeded]
            finished += [self._settle(curl, (code, words)) for curl, code, words in failed]
        return finished

    def _settle(self, curl: Any, failure: tuple[int, str] | None) -> Finished:
        self._multi.remove_handle(curl)
        self.in_flight -= 1
        handle: _Handle = curl.handle
        finished = Finished(handle.tag, handle.response() if failure is None else handle.error(*failure))
        handle.tag = None
        handle.idle.append(handle)
        return finished

    def _watch(self, what: int, descriptor: int, multi: Any, data: Any) -> None:
        # libcurl's numbers for "in" and "out" are the poller's.
        if what == pycurl.POLL_REMOVE:
            self._poller.forget(descriptor)
        else:
            self._poller.watch(descriptor, what)

    def _set_timer(self, milliseconds: int) -> None:
        self._timer = None if milliseconds < 0 else time.monotonic() + milliseconds / 1000


class _Handle:
    """A libcurl easy handle, set up once for its profile; `idle` is where it waits for its next request."""

    def __init__(self, profile: RequestProfile, idle: list[_Handle]) -> None:
        self.profile = profile
        self.idle = idle
        self.tag: Any = None
        self.curl = pycurl.Curl()
        self.curl.handle = self
        self._chunks: list[bytes] = []
        self._size = 0
        for option, value in _options(profile, self._take).items():
            self.curl.setopt(option, value)

    def begin(self, url: str, tag: object) -> None:
        self.tag = tag
        self._chunks.clear()
        self._size = 0
        self.curl.setopt(pycurl.URL, url)

    def response(self) -> Response:
        status = self.curl.getinfo(pycurl.RESPONSE_CODE)
        retry_after = None if status == 200 else str(self.curl.getinfo(pycurl.RETRY_AFTER))
        return Response(status, b"".join(self._chunks), retry_after)

    def error(self, code: int, words: str) -> ApiError:
        if code == pycurl.E_OPERATION_TIMEDOUT:
            return ApiUnreachable(f"no whole answer within {self.profile.timeout_seconds:g} s")
        limit = self.profile.max_body_bytes
        if code == pycurl.E_FILESIZE_EXCEEDED or self._size > limit:
            return ApiPayloadError(f"the body is larger than {limit} bytes")
        return ApiUnreachable(" ".join(words.split()) or f"libcurl error {code}")

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


def _allowed_files() -> int:
    """How many descriptors this process may have, after asking for as many as is sensible."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return min(soft, _MAX_FILES) if soft > 0 else _MAX_FILES
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
