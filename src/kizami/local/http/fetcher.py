"""HTTP at scale: many requests in flight on one thread, by libcurl's multi interface.

The caller owns the loop: it starts requests, waits in `wait`, and gets back what has finished. Connections and
handles are used again. Every request has one total deadline and a cap on the body's size; redirects are not
followed and nothing is decompressed, so an answer can neither take longer nor grow larger than allowed.

    start ──▶ a connection that is kept, or one of those that are not (connections.py) ──▶ libcurl ──▶ wait
                 ▲                                                                          │
                 └── with its addresses ◀── its name is looked up (host_names.py) ◀── a new connection is needed
"""

from __future__ import annotations

import ssl
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import pycurl

from kizami import __version__
from kizami.core.collector import MAX_BODY_BYTES, Response
from kizami.core.errors import ApiError, ApiPayloadError, ApiUnreachable
from kizami.local.http.connection_pools import Pools
from kizami.local.http.connections import Connections, Origin, allowed_files, spare_files
from kizami.local.http.host_names import Found, LookUp, NameFailure, Names, look_up
from kizami.local.http.socket_poller import IN, new_poller
from kizami.local.http.wakeup import WakeUp

_FOR_EVER = -1
_NEVER = float("inf")
_NO_DESCRIPTORS = "the limit of open files left no connection for it (raise it: ulimit -n, LimitNOFILE=)"
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


class Finished(NamedTuple):
    """A request that is over: what it was started with, and what came of it."""

    tag: Any
    outcome: Response | ApiError


class Fetcher:
    """The requests in flight; `wait` also returns early when somebody calls `wakeup.wake`.

    `files` is how many descriptors there are, if not as many as the system allows.
    """

    def __init__(self, wakeup: WakeUp | None = None, files: int | None = None, look_up: LookUp = look_up) -> None:
        files = files or allowed_files()
        self._wakeups = {wakeup.fileno(): wakeup} if wakeup else {}
        self._poller = new_poller()
        if wakeup:
            self._poller.watch(wakeup.fileno(), IN)
        self._idle: dict[RequestProfile, list[_Handle]] = {}
        self._pools = Pools(self._poller, files)
        self._connections = Connections(self._pools, files)
        self._without_place: deque[_Handle] = deque()
        self._unresolved: dict[str, list[_Handle]] = {}
        self._expiry = _NEVER  # the earliest deadline of those two
        self._found: WakeUp | None = None
        self._names = Names(self._wake_for_found, spare_files(files) // 2, look_up)
        self.max_connections = self._connections.max_kept + self._connections.max_unkept
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
        origin = self._connections.origin(url, direct=profile.direct)
        handle.begin(url, tag, origin, kept=self._connections.is_kept(origin))
        self.in_flight += 1
        handle.has_place = handle.kept or self._connections.take_place()
        if handle.has_place:
            self._send(handle)
        else:
            self._without_place.append(handle)
            self._expiry = min(self._expiry, handle.deadline)

    def wait(self, seconds: float) -> list[Finished]:
        """Wait for something to happen, at most `seconds`; what has finished since."""
        for descriptor, ready in self._poller.wait(self._pause_seconds(seconds)):
            if descriptor in self._wakeups:
                self._wakeups[descriptor].clear_wakes()
            else:
                self._pools.run(descriptor, ready)
        self._pools.run_timers()
        finished = self._finished()
        if self._unresolved:
            finished += self._resolved()
        if self._expiry < _NEVER and self._expiry <= time.monotonic():
            finished += self._expired()
        return finished

    def close(self) -> None:
        """Let go of every connection; requests in flight are dropped."""
        self._pools.close()
        self._poller.close()
        if self._found:
            self._found.close()

    def _pause_seconds(self, seconds: float) -> float:
        if self._unresolved:
            seconds = min(seconds, self._names.pause_seconds or seconds)
        return max(0.0, min(seconds, min(self._pools.timer, self._expiry) - time.monotonic()))

    def _send(self, handle: _Handle) -> None:
        origin = handle.origin
        if origin.name is not None:
            addresses = self._names.get(origin.name)
            if isinstance(addresses, NameFailure):
                addresses = None
            if addresses != origin.told:
                handle.tell(origin.name, origin.port, addresses)
                origin.told = addresses
        handle.origin.pool.add(handle.curl)

    def _finished(self) -> list[Finished]:
        finished: list[Finished] = []
        for curl, failure in self._pools.ended():
            handle: _Handle = curl.handle
            handle.origin.pool.remove(curl)
            if failure is None:
                finished.append(self._over(handle, handle.response()))
            elif handle.lacks_address:
                finished += self._look_up(handle)
            else:
                finished.append(self._over(handle, handle.error(*failure)))
        return finished

    def _over(self, handle: _Handle, outcome: Response | ApiError) -> Finished:
        self.in_flight -= 1
        self._connections.release(handle.origin)
        finished = Finished(handle.tag, outcome)
        handle.tag = None
        handle.idle.append(handle)
        if handle.has_place and not handle.kept:
            self._pass_place_on()
        return finished

    def _pass_place_on(self) -> None:
        """A connection that is not kept is closed: the next one may be opened."""
        if not self._without_place:
            self._connections.unkept -= 1
            return
        handle = self._without_place.popleft()
        handle.has_place = True
        handle.deadline = time.monotonic() + handle.profile.timeout_seconds
        self._send(handle)

    def _look_up(self, handle: _Handle) -> list[Finished]:
        """libcurl needs a new connection and was kept from looking up the host itself."""
        name = handle.origin.name
        if name is None or handle.went_on:
            return self._leave_to_libcurl(handle)
        known = self._names.get(name)
        if known is None:
            self._open_found()
            self._unresolved.setdefault(name, []).append(handle)
            self._expiry = min(self._expiry, handle.deadline)
            self._names.ask(name)
            return []
        return self._go_on(handle, name, known)

    def _go_on(self, handle: _Handle, name: str, known: Found) -> list[Finished]:
        if isinstance(known, NameFailure):
            return [self._over(handle, ApiUnreachable(f"the name {name} can't be resolved: {known}"))]
        handle.go_on()
        handle.tell(name, handle.origin.port, known)
        handle.origin.told = known
        handle.origin.pool.add(handle.curl)
        return []

    def _leave_to_libcurl(self, handle: _Handle) -> list[Finished]:
        """It was told the host's addresses and asks for others: of a proxy that only libcurl knows of."""
        handle.origin.name = None
        handle.go_on()
        handle.origin.pool.add(handle.curl)
        return []

    def _resolved(self) -> list[Finished]:
        finished = []
        for name, found in self._names.answered().items():
            for handle in self._unresolved.pop(name, []):
                finished += self._go_on(handle, name, found)
        return finished

    def _expired(self) -> list[Finished]:
        """Those whose time is over before they could be sent."""
        now = time.monotonic()
        finished = []
        for name, handles in list(self._unresolved.items()):
            left = self._unresolved[name] = [handle for handle in handles if handle.deadline > now]
            late = [handle for handle in handles if handle.deadline <= now]
            finished += [
                self._over(handle, handle.too_late(f"the name {name} was not resolved")) for handle in late
            ]
            if not left:
                del self._unresolved[name]
        while self._without_place and self._without_place[0].deadline <= now:
            handle = self._without_place.popleft()
            finished.append(self._over(handle, handle.too_late(_NO_DESCRIPTORS)))
        waiting = [handle.deadline for handles in self._unresolved.values() for handle in handles]
        self._expiry = min([*waiting, *(handle.deadline for handle in self._without_place)], default=_NEVER)
        return finished

    def _open_found(self) -> None:
        if self._found is None:
            self._found = WakeUp()
            self._wakeups[self._found.fileno()] = self._found
            self._poller.watch(self._found.fileno(), IN)

    def _wake_for_found(self) -> None:
        """Called on a lookup's thread, which may outlive this."""
        if self._found:
            self._found.wake()


class _Handle:
    """A libcurl easy handle, set up once for its profile; `idle` is where it waits for its next request."""

    def __init__(self, profile: RequestProfile, idle: list[_Handle]) -> None:
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
