"""Who may send now: limits of requests in flight, in all and per host, live ones before old ones (no I/O)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import Generic, TypeVar

Request = TypeVar("Request")

# A line whose first has stood there for longer takes nobody more: the host is too slow for what it is asked.
LIVE_WAIT_MS, OLD_WAIT_MS = 30_000, 2_000
OLD_SHARE = 8  # of a host's requests in flight, one in so many may be an old one (but always one)


class Entry(Enum):
    """What became of a request at its host."""

    SENT = "sent"
    WAITING = "waiting"
    REFUSED = "refused"


class _Line(Generic[Request]):
    """Requests in the order in which they came, each with the moment."""

    def __init__(self, longest_wait_ms: float) -> None:
        self._longest_wait_ms = longest_wait_ms
        self._waiting: deque[tuple[float, Request]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def stands_still(self, now_ms: float) -> bool:
        return bool(self._waiting) and now_ms - self._waiting[0][0] > self._longest_wait_ms

    def join(self, request: Request, now_ms: float) -> None:
        self._waiting.append((now_ms, request))

    def next(self) -> Request:
        return self._waiting.popleft()[1]

    def empty(self) -> list[Request]:
        waiting = [request for _, request in self._waiting]
        self._waiting.clear()
        return waiting


class _Host(Generic[Request]):
    __slots__ = ("in_flight", "live", "old", "old_in_flight")

    def __init__(self) -> None:
        self.in_flight = 0
        self.old_in_flight = 0
        self.live: _Line[Request] = _Line(LIVE_WAIT_MS)
        self.old: _Line[Request] = _Line(OLD_WAIT_MS)


class Hosts(Generic[Request]):
    """The lines before the hosts. A slow or dead host fills its own line and nobody else's."""

    def __init__(self, max_in_flight: int, max_per_host: int) -> None:
        self._max_in_flight = max_in_flight
        self._max_per_host = max_per_host
        self._max_old_per_host = max(1, max_per_host // OLD_SHARE)
        self._hosts: dict[str, _Host[Request]] = {}
        self._movable: dict[str, None] = {}  # hosts whose line may move, those that waited longest first
        self.in_flight = 0
        self.old = 0  # old requests, waiting or in flight

    def enter(self, name: str, request: Request, *, live: bool, now_ms: float) -> Entry:
        """Send it at once where nobody is in the way, else stand in the host's line."""
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = _Host()
        if live and not host.live and host.in_flight < self._max_per_host and self.in_flight < self._max_in_flight:
            host.in_flight += 1
            self.in_flight += 1
            return Entry.SENT
        line = host.live if live else host.old
        if line.stands_still(now_ms):
            return Entry.REFUSED
        line.join(request, now_ms)
        self.old += not live
        self._movable[name] = None
        return Entry.WAITING

    def done(self, name: str, *, live: bool) -> bool:
        """A request is over; True if somebody may be waiting for that."""
        host = self._hosts[name]
        host.in_flight -= 1
        self.in_flight -= 1
        if not live:
            host.old_in_flight -= 1
            self.old -= 1
        if host.live or host.old:
            self._movable[name] = None
        return bool(self._movable)

    def advance(self) -> Iterator[Request]:
        """The requests that may leave their lines now, host by host in turn; each is in flight from here on."""
        while self._movable and self.in_flight < self._max_in_flight:
            name = next(iter(self._movable))
            del self._movable[name]
            while (request := self._next(name)) is not None:
                yield request

    def stranded(self, now_ms: float) -> list[Request]:
        """The old requests in lines that stand still, taken out: others can be asked for meanwhile."""
        return [
            request
            for host in self._hosts.values()
            if host.old.stands_still(now_ms)
            for request in self._drained(host.old)
        ]

    def drain(self) -> list[Request]:
        """Everything that still waits, taken out."""
        live = [request for host in self._hosts.values() for request in host.live.empty()]
        return live + [request for host in self._hosts.values() for request in self._drained(host.old)]

    def _drained(self, old: _Line[Request]) -> list[Request]:
        self.old -= len(old)
        return old.empty()

    def _next(self, name: str) -> Request | None:
        host = self._hosts[name]
        may_old = host.old and host.old_in_flight < self._max_old_per_host
        if not (host.live or may_old) or host.in_flight >= self._max_per_host:
            return None
        if self.in_flight >= self._max_in_flight:
            self._movable[name] = None
            return None
        self.in_flight += 1
        host.in_flight += 1
        if host.live:
            return host.live.next()
        host.old_in_flight += 1
        return host.old.next()
