"""HTTP at scale: many requests in flight on one thread, by libcurl's multi interface.

The caller owns the loop: it starts requests, waits in `wait`, and gets back what has finished. Connections and
handles are used again. Every request has one total deadline and a cap on the body's size; redirects are not
followed, and the cap is on what a body unpacks to: an answer can neither take longer nor grow larger than allowed.

    start ──▶ a connection that is kept, or one of those that are not (connections.py) ──▶ libcurl ──▶ wait
                 ▲                                                                          │
                 └── with its addresses ◀── its name is looked up (host_names.py) ◀── a new connection is needed
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any, NamedTuple, Self

from kizami.core.access.failures import unreachable
from kizami.core.collector import Response
from kizami.core.errors import ApiError
from kizami.local.http.connection_pools import Pools
from kizami.local.http.connections import Connections, allowed_files, spare_files
from kizami.local.http.handle import NO_SECRETS, Handle, RequestProfile, SentSecrets
from kizami.local.http.host_names import Found, LookUp, NameFailure, Names, look_up
from kizami.local.http.socket_poller import IN, new_poller
from kizami.local.http.wakeup import WakeUp

_NEVER = float("inf")
_NO_DESCRIPTORS = "the limit of open files left no connection for it (raise it: ulimit -n, LimitNOFILE=)"


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
        self._idle: dict[RequestProfile, list[Handle]] = {}
        self._pools = Pools(self._poller, files)
        self._connections = Connections(self._pools, files)
        self._without_place: deque[Handle] = deque()
        self._unresolved: dict[str, list[Handle]] = {}
        self._expiry = _NEVER  # the earliest deadline of those two
        self._found: WakeUp | None = None
        self._names = Names(self._wake_for_found, spare_files(files) // 2, look_up)
        self.max_connections = self._connections.max_kept + self._connections.max_unkept
        self.in_flight = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(
        self,
        url: str,
        profile: RequestProfile,
        tag: object,
        body: bytes | None = None,
        secrets: SentSecrets = NO_SECRETS,
        spent_seconds: float = 0.0,
    ) -> None:
        """Send a request; `wait` will give `tag` back with its outcome.

        `secrets` are those that may be others next time; of its time, `spent_seconds` are gone already.
        """
        idle = self._idle.get(profile)
        if idle is None:
            idle = self._idle[profile] = []
        handle = idle.pop() if idle else Handle(profile, idle)
        origin = self._connections.origin(url, direct=profile.direct, proxy=profile.proxy)
        handle.begin(
            url,
            tag,
            origin,
            kept=self._connections.is_kept(origin),
            body=body,
            secrets=secrets,
            spent_seconds=spent_seconds,
        )
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

    def _send(self, handle: Handle) -> None:
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
            handle: Handle = curl.handle
            handle.origin.pool.remove(curl)
            if failure is None:
                finished.append(self._over(handle, handle.response()))
            elif handle.lacks_address:
                finished += self._look_up(handle)
            else:
                finished.append(self._over(handle, handle.failure(*failure)))
        return finished

    def _over(self, handle: Handle, outcome: Response | ApiError) -> Finished:
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

    def _look_up(self, handle: Handle) -> list[Finished]:
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

    def _go_on(self, handle: Handle, name: str, known: Found) -> list[Finished]:
        if isinstance(known, NameFailure):
            kind = "no name server" if known.for_now else "unknown name"
            return [self._over(handle, unreachable(kind, name))]
        handle.go_on()
        handle.tell(name, handle.origin.port, known)
        handle.origin.told = known
        handle.origin.pool.add(handle.curl)
        return []

    def _leave_to_libcurl(self, handle: Handle) -> list[Finished]:
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
                self._over(handle, handle.too_late(f"host name {name} was not resolved")) for handle in late
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
