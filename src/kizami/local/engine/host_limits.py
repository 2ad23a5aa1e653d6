"""Which request may be sent now: limits of those in flight, in all and per host, live before old ones (no I/O).

Old are those of retried and backfilled messages; waiting_lines decides which of them come here at all.
What hangs at one host must not be in another's way: each has its own lines, and one that has stopped answering is
asked for a few slots at a time until it answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import Generic, TypeVar

Waiting = TypeVar("Waiting")

# A line whose first has stood there for longer takes nobody more: the host is too slow for what it is asked.
LIVE_WAIT_MS, OLD_WAIT_MS = 30_000, 2_000
OLD_SHARE = 8  # of a host's requests in flight, one in so many may be an old one (but always one)
OLD_LIMIT = 1024  # old requests, waiting or in flight, above which a host gets no second one
OLD_LINE = 512  # old requests of one host, waiting or in flight, so that it never runs out of them for a turn
SILENT_AFTER = 3  # requests in a row without an answer
SILENT_LIVE, SILENT_OLD = 8, 1  # what a host that does not answer may have in flight


class Entry(Enum):
    """What became of a request at its host."""

    SENT = "sent"
    WAITING = "waiting"
    REFUSED = "refused"


class _Line(Generic[Waiting]):
    """Requests in the order in which they came, each with the moment."""

    def __init__(self, longest_wait_ms: float) -> None:
        self._longest_wait_ms = longest_wait_ms
        self._waiting: deque[tuple[float, Waiting]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def stands_still(self, now_ms: float) -> bool:
        return bool(self._waiting) and now_ms - self._waiting[0][0] > self._longest_wait_ms

    def join(self, request: Waiting, now_ms: float) -> None:
        self._waiting.append((now_ms, request))

    def next(self) -> Waiting:
        return self._waiting.popleft()[1]

    def empty(self) -> list[Waiting]:
        waiting = [request for _, request in self._waiting]
        self._waiting.clear()
        return waiting


class _Host(Generic[Waiting]):
    __slots__ = ("in_flight", "live", "old", "old_in_flight", "unanswered")

    def __init__(self) -> None:
        self.in_flight = 0
        self.old_in_flight = 0
        self.unanswered = 0  # requests in a row
        self.live: _Line[Waiting] = _Line(LIVE_WAIT_MS)
        self.old: _Line[Waiting] = _Line(OLD_WAIT_MS)

    @property
    def is_silent(self) -> bool:
        return self.unanswered >= SILENT_AFTER

    @property
    def old_taken(self) -> int:
        return self.old_in_flight + len(self.old)


class HostLimits(Generic[Waiting]):
    """The lines before the hosts. A slow or dead host fills its own line and nobody else's."""

    def __init__(self, max_in_flight: int, max_per_host: int) -> None:
        self._max_in_flight = max_in_flight
        self._max_per_host = max_per_host
        self._max_old_per_host = max(1, max_per_host // OLD_SHARE)
        self._hosts: dict[str, _Host[Waiting]] = {}
        self._movable: dict[str, None] = {}  # hosts whose line may move, those that waited longest first
        self.in_flight = 0
        self.old = 0  # old requests, waiting or in flight

    def enter(self, name: str, request: Waiting, *, live: bool, now_ms: float) -> Entry:
        """Send it at once where nobody is in the way, else stand in the host's line."""
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = _Host()
        if live and not host.live and self._may_live(host) and self.in_flight < self._max_in_flight:
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

    def done(self, name: str, *, live: bool, answered: bool) -> bool:
        """A request is over, with an answer or without; True if somebody may be waiting for that."""
        host = self._hosts[name]
        host.unanswered = 0 if answered else host.unanswered + 1
        return self._leave(host, name, live=live)

    def unsent(self, name: str, *, live: bool) -> None:
        """A request that was let through was not sent after all."""
        self._leave(self._hosts[name], name, live=live)

    def advance(self) -> Iterator[Waiting]:
        """The requests that may leave their lines now, host by host in turn; each is in flight from here on."""
        while self._movable and self.in_flight < self._max_in_flight:
            name = next(iter(self._movable))
            del self._movable[name]
            while (request := self._next(name)) is not None:
                yield request

    def old_room(self, name: str) -> int:
        """How many more old requests of the host may come; asked by another thread."""
        host = self._hosts.get(name)
        taken = host.old_taken if host else 0
        alone = self.old >= OLD_LIMIT or (host is not None and host.is_silent)
        return (SILENT_OLD if alone else OLD_LINE) - taken

    def stranded(self, now_ms: float) -> list[Waiting]:
        """The old requests in lines that stand still, taken out: others can be asked for meanwhile."""
        return [
            request
            for host in self._hosts.values()
            if host.old.stands_still(now_ms)
            for request in self._drained(host.old)
        ]

    def drain(self) -> list[Waiting]:
        """Everything that still waits, taken out."""
        live = [request for host in self._hosts.values() for request in host.live.empty()]
        return live + [request for host in self._hosts.values() for request in self._drained(host.old)]

    def _drained(self, old: _Line[Waiting]) -> list[Waiting]:
        self.old -= len(old)
        return old.empty()

    def _leave(self, host: _Host[Waiting], name: str, *, live: bool) -> bool:
        host.in_flight -= 1
        self.in_flight -= 1
        if not live:
            host.old_in_flight -= 1
            self.old -= 1
        if host.live or host.old:
            self._movable[name] = None
        return bool(self._movable)

    def _next(self, name: str) -> Waiting | None:
        host = self._hosts[name]
        live = bool(host.live) and self._may_live(host)
        if not live and not (host.old and self._may_old(host)):
            return None
        if self.in_flight >= self._max_in_flight:
            self._movable[name] = None
            return None
        self.in_flight += 1
        host.in_flight += 1
        if live:
            return host.live.next()
        host.old_in_flight += 1
        return host.old.next()

    def _may_live(self, host: _Host[Waiting]) -> bool:
        return host.in_flight < (SILENT_LIVE if host.is_silent else self._max_per_host)

    def _may_old(self, host: _Host[Waiting]) -> bool:
        most = SILENT_OLD if host.is_silent else self._max_old_per_host
        return not host.live and host.old_in_flight < most and host.in_flight < self._max_per_host
