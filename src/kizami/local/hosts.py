"""Who may send now: limits of requests in flight, in all and per host, live ones before old ones (no I/O)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

Request = TypeVar("Request")


class Entry(Enum):
    """What became of a request at its host."""

    SENT = "sent"
    WAITING = "waiting"
    REFUSED = "refused"


LONGEST_WAIT_MS = 30_000  # a line whose first has stood there for longer takes nobody more
OLD_LINE_LIMIT = 128
_OLD_SHARE = 8  # of a host's requests in flight, one in so many may be an old one (but always one)


@dataclass(slots=True)
class _Host(Generic[Request]):
    in_flight: int = 0
    old_in_flight: int = 0
    live: deque[tuple[float, Request]] = field(default_factory=deque)  # since when, and who
    old: deque[Request] = field(default_factory=deque)


class Hosts(Generic[Request]):
    """The lines before the hosts. A slow or dead host fills its own line and nobody else's."""

    def __init__(self, max_in_flight: int, max_per_host: int) -> None:
        self._max_in_flight = max_in_flight
        self._max_per_host = max_per_host
        self._max_old_per_host = max(1, max_per_host // _OLD_SHARE)
        self._hosts: dict[str, _Host[Request]] = {}
        self._kept_back: dict[str, None] = {}  # hosts whose line may move, those that waited longest first
        self.in_flight = 0
        self.old = 0  # old requests, waiting or in flight

    def enter(self, host: str, request: Request, *, live: bool, now_ms: float) -> Entry:
        """Send it at once where nobody is in the way, else stand in the host's line."""
        lines = self._hosts.get(host)
        if lines is None:
            lines = self._hosts[host] = _Host()
        if live:
            if not lines.live and lines.in_flight < self._max_per_host and self.in_flight < self._max_in_flight:
                lines.in_flight += 1
                self.in_flight += 1
                return Entry.SENT
            if lines.live and now_ms - lines.live[0][0] > LONGEST_WAIT_MS:
                return Entry.REFUSED
            lines.live.append((now_ms, request))
        elif len(lines.old) >= OLD_LINE_LIMIT:
            return Entry.REFUSED
        else:
            lines.old.append(request)
            self.old += 1
        self._kept_back[host] = None
        return Entry.WAITING

    def done(self, host: str, *, live: bool) -> bool:
        """A request is over; True if somebody may be waiting for that."""
        lines = self._hosts[host]
        lines.in_flight -= 1
        self.in_flight -= 1
        if not live:
            lines.old_in_flight -= 1
            self.old -= 1
        if lines.live or lines.old:
            self._kept_back[host] = None
        return bool(self._kept_back)

    def advance(self) -> Iterator[Request]:
        """The requests that may leave their lines now, host by host in turn; each is in flight from here on."""
        while self._kept_back and self.in_flight < self._max_in_flight:
            first = next(iter(self._kept_back))
            del self._kept_back[first]
            while (request := self._next(first)) is not None:
                yield request

    def drain(self) -> list[Request]:
        """Everything that still waits; the lines are empty then."""
        waiting = [request for lines in self._hosts.values() for _, request in lines.live]
        waiting += [request for lines in self._hosts.values() for request in lines.old]
        for lines in self._hosts.values():
            self.old -= len(lines.old)
            lines.live.clear()
            lines.old.clear()
        return waiting

    def _next(self, host: str) -> Request | None:
        lines = self._hosts[host]
        may_old = lines.old and lines.old_in_flight < self._max_old_per_host
        if not (lines.live or may_old) or lines.in_flight >= self._max_per_host:
            return None
        if self.in_flight >= self._max_in_flight:
            self._kept_back[host] = None
            return None
        return self._send(lines)

    def _send(self, lines: _Host[Request]) -> Request:
        self.in_flight += 1
        lines.in_flight += 1
        if lines.live:
            return lines.live.popleft()[1]
        lines.old_in_flight += 1
        return lines.old.popleft()
