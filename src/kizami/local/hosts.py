"""Who may send now: limits of requests in flight, in all and per host, live ones before old ones (no I/O)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Request = TypeVar("Request")

LINE_LIMIT = 1024  # live requests that may wait for one host
OLD_LINE_LIMIT = 128
_OLD_SHARE = 8  # of a host's requests in flight, one in so many may be an old one (but always one)


@dataclass(slots=True)
class _Host(Generic[Request]):
    in_flight: int = 0
    old_in_flight: int = 0
    live: deque[Request] = field(default_factory=deque)
    old: deque[Request] = field(default_factory=deque)


class Hosts(Generic[Request]):
    """The lines before the hosts. A slow or dead host fills its own line and nobody else's."""

    def __init__(self, max_in_flight: int, max_per_host: int) -> None:
        self._max_in_flight = max_in_flight
        self._max_per_host = max_per_host
        self._max_old_per_host = max(1, max_per_host // _OLD_SHARE)
        self._hosts: dict[str, _Host[Request]] = {}
        self._kept_back: dict[str, None] = {}  # hosts with a line that only the limit in all keeps back
        self.in_flight = 0
        self.old = 0  # old requests, waiting or in flight

    def join(self, host: str, request: Request, *, live: bool) -> bool:
        """Stand in the host's line; False if that is too long already."""
        lines = self._hosts.setdefault(host, _Host())
        line, limit = (lines.live, LINE_LIMIT) if live else (lines.old, OLD_LINE_LIMIT)
        if len(line) >= limit:
            return False
        line.append(request)
        self.old += not live
        return True

    def done(self, host: str, *, live: bool) -> None:
        """A request is over."""
        lines = self._hosts[host]
        lines.in_flight -= 1
        lines.old_in_flight -= not live
        self.in_flight -= 1
        self.old -= not live

    def advance(self, host: str) -> Iterator[Request]:
        """The requests to be sent now that somebody has joined this host's line or is done with it.

        Hosts that only the limit in all has kept back come first, in turn.
        """
        self._kept_back[host] = None
        while self._kept_back and self.in_flight < self._max_in_flight:
            first = next(iter(self._kept_back))
            del self._kept_back[first]
            while (request := self._next(first)) is not None:
                yield request

    def drain(self) -> list[Request]:
        """Everything that still waits; the lines are empty then."""
        waiting = [request for lines in self._hosts.values() for request in (*lines.live, *lines.old)]
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
            return lines.live.popleft()
        lines.old_in_flight += 1
        return lines.old.popleft()
