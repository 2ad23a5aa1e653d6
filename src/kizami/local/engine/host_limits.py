"""Decides which request may leave now: limits on requests in flight, in all, per host and per target (no I/O).

Live requests go before old ones, which are those of retried and backfilled messages; waiting_lines decides which
old messages come here at all. Each target has its own lines, live and old, and the lines of a host take turns. A
host that has stopped answering gets a few requests at a time until it answers, and so does a target that has
stopped answering while its host answers others: a hanging target delays neither other hosts nor its neighbours.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from enum import Enum
from typing import Generic, TypeVar

from kizami.core.targets.hosts import RequestLimit
from kizami.local.http.request_window import RequestWindow

Waiting = TypeVar("Waiting")

# A line whose first request has waited for longer takes no more: the host is too slow for what it is asked.
LIVE_WAIT_MS, OLD_WAIT_MS = 30_000, 2_000
OLD_SHARE = 8  # one in so many of a host's requests in flight may be an old one (but always one)
OLD_LIMIT = 1024  # old requests, waiting or in flight, above which a host gets no second one
OLD_LINE = 512  # old requests of one host, waiting or in flight, so that it never runs out of them for a turn
OLD_UNTRIED = 64  # of them those of a target that has just been found silent, or was asked for none yet
SILENT_AFTER = 3  # requests in a row without an answer
SILENT_LIVE, SILENT_OLD = 8, 1  # what a host or target that does not answer may have in flight


class Entry(Enum):
    """What became of a request at its host."""

    SENT = "sent"
    WAITING = "waiting"
    REFUSED = "refused"


class _Line(Generic[Waiting]):
    """The live or the old requests of one target: those in flight, and those that wait, each with its moment."""

    __slots__ = ("_waiting", "in_flight", "unanswered")

    def __init__(self, unanswered: int) -> None:
        self.in_flight = 0
        self.unanswered = unanswered  # requests in a row
        self._waiting: deque[tuple[float, Waiting]] | None = None  # most lines never have one waiting

    @property
    def is_silent(self) -> bool:
        return self.unanswered >= SILENT_AFTER

    @property
    def waiting(self) -> int:
        return len(self._waiting) if self._waiting else 0

    def stands_still(self, now_ms: float, longest_wait_ms: float) -> bool:
        return now_ms - self._waiting[0][0] > longest_wait_ms if self._waiting else False

    def join(self, request: Waiting, now_ms: float) -> None:
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append((now_ms, request))

    def next(self) -> Waiting:
        assert self._waiting
        return self._waiting.popleft()[1]

    def empty(self) -> list[Waiting]:
        waiting, self._waiting = self._waiting or (), None
        return [request for _, request in waiting]


class _TargetLines(Generic[Waiting]):
    """The lines of a host's targets, live or old, which take turns.

    `most` of their requests are in flight, at most half of them of targets that do not answer. A host that does
    not answer has `few` of those targets and `few` of the others. `unanswered` says how a new line begins.
    """

    __slots__ = ("_few", "_first", "_most", "_of_target", "_ready", "_silent", "in_flight", "silent_in_flight")

    def __init__(self, most: int, few: int, unanswered: int = 0) -> None:
        self._first = unanswered
        self._most = most
        self._few = min(few, most)
        self._of_target: dict[Hashable, _Line[Waiting]] = {}
        # Lines with a request that waits, below their own limit; the one whose turn is next stands first.
        self._ready: dict[_Line[Waiting], None] = {}
        self._silent: dict[_Line[Waiting], None] = {}
        self.in_flight = 0
        self.silent_in_flight = 0

    def __iter__(self) -> Iterator[_Line[Waiting]]:
        return iter(self._of_target.values())

    @property
    def has_ready(self) -> bool:
        """True if a target that answers waits for a place."""
        return bool(self._ready)

    @property
    def may_move(self) -> bool:
        return bool(self._ready or self._silent)

    @property
    def are_shared(self) -> bool:
        return len(self._of_target) > 1

    def get(self, target: Hashable) -> _Line[Waiting] | None:
        return self._of_target.get(target)

    def line(self, target: Hashable) -> _Line[Waiting]:
        line = self._of_target.get(target)
        if line is None:
            line = self._of_target[target] = _Line(self._first)
        return line

    def may_leave_at_once(self, line: _Line[Waiting], *, host_silent: bool) -> bool:
        """True if a new request of the line has to wait for no other one."""
        if self._ready or line.waiting or line.in_flight >= self._limit(line):
            return False
        if line.is_silent:
            return not self._silent and self._has_silent_place(host_silent=host_silent)
        return self._has_place(host_silent=host_silent)

    def join(self, line: _Line[Waiting], request: Waiting, now_ms: float) -> None:
        line.join(request, now_ms)
        if line not in self._ready and line not in self._silent:
            self._place(line)

    def turn(self, *, host_silent: bool) -> _Line[Waiting] | None:
        """The line whose turn it is, if there is a place for it."""
        may_wait = self._ready and self.silent_in_flight
        if self._silent and not may_wait and self._has_silent_place(host_silent=host_silent):
            return next(iter(self._silent))
        return next(iter(self._ready), None) if self._has_place(host_silent=host_silent) else None

    def take(self, line: _Line[Waiting]) -> Waiting:
        """The line's next request, which leaves now; the other lines have their turns before its next one."""
        request = line.next()
        self.leave(line)
        self._place(line)
        return request

    def leave(self, line: _Line[Waiting]) -> None:
        """A request of the line leaves."""
        line.in_flight += 1
        self.in_flight += 1
        self.silent_in_flight += line.is_silent

    def done(self, line: _Line[Waiting], *, answered: bool | None) -> None:
        """A request of the line is over, with an answer or without; None if it was not sent after all."""
        was_silent = line.is_silent
        line.in_flight -= 1
        self.in_flight -= 1
        self.silent_in_flight -= was_silent
        if answered is not None:
            line.unanswered = 0 if answered else line.unanswered + 1
        if line.is_silent is not was_silent:
            self.silent_in_flight += line.in_flight if line.is_silent else -line.in_flight
        if line.waiting and (line.is_silent is not was_silent or line not in self._ready):
            self._place(line)

    def empty(self, line: _Line[Waiting]) -> list[Waiting]:
        """Everything that waits in the line, taken out."""
        found = line.empty()
        self._place(line)
        return found

    def _place(self, line: _Line[Waiting]) -> None:
        self._ready.pop(line, None)
        self._silent.pop(line, None)
        if line.waiting and line.in_flight < self._limit(line):
            (self._silent if line.is_silent else self._ready)[line] = None

    def _limit(self, line: _Line[Waiting]) -> int:
        """How many requests a line may have in flight: beside others, three quarters of the host's places."""
        if line.is_silent:
            return self._few
        return self._most - self._most // 4 if self.are_shared else self._most

    def _has_place(self, *, host_silent: bool) -> bool:
        """True if a target that answers may have one more request in flight."""
        if host_silent and self.in_flight - self.silent_in_flight >= self._few:
            return False
        return self.in_flight < self._most

    def _has_silent_place(self, *, host_silent: bool) -> bool:
        """True if a target that does not answer may."""
        if host_silent:
            return self.silent_in_flight < self._few
        return self.in_flight < self._most and self.silent_in_flight < max(1, self._most // 2)


class _Host(Generic[Waiting]):
    __slots__ = ("answered_ms", "in_flight", "live", "old", "old_waiting", "unanswered", "window")

    def __init__(self, most: int, most_old: int) -> None:
        self.in_flight = 0
        self.window: RequestWindow | None = None
        self.old_waiting = 0
        self.answered_ms = 0.0  # the last time
        self.unanswered = 0  # requests in a row that were sent since
        self.live: _TargetLines[Waiting] = _TargetLines(most, SILENT_LIVE)
        # All old requests of a target may come at once: one goes ahead to find out whether the target answers.
        self.old: _TargetLines[Waiting] = _TargetLines(most_old, SILENT_OLD, SILENT_AFTER)

    @property
    def is_silent(self) -> bool:
        return self.unanswered >= SILENT_AFTER

    def note(self, *, answered: bool, sent_ms: float, now_ms: float) -> None:
        """A request is over. If the host answered others while it hung, it tells nothing of the host."""
        if answered:
            self.unanswered, self.answered_ms = 0, now_ms
        elif sent_ms >= self.answered_ms or now_ms < self.answered_ms:  # or the clock was set back
            self.unanswered += 1


class HostLimits(Generic[Waiting]):
    """The lines before the hosts. A slow or dead host or target fills its own line only."""

    def __init__(self, max_in_flight: int, max_per_host: int, now: Callable[[], float] = time.monotonic) -> None:
        self._now_ms: Callable[[], float] = lambda: now() * 1000
        self._limited: list[RequestWindow] = []
        self._held: dict[str, float] = {}  # hosts that have had all their requests, and until when
        self._max_in_flight = max_in_flight
        self._max_per_host = max_per_host
        self._max_old_per_host = max(1, max_per_host // OLD_SHARE)
        self._hosts: dict[str, _Host[Waiting]] = {}
        self._movable: dict[str, None] = {}  # hosts whose line may move, those that waited longest first
        self.in_flight = 0
        self.old = 0  # old requests, waiting or in flight

    def use_limits(self, limits: Iterable[RequestLimit], sent: Iterable[tuple[float, str, int]] = ()) -> None:
        """Keep these limits from now on; `sent` are requests of an earlier run: ms ago, host, how many."""
        now_ms = self._now_ms()
        windows = {limit.host: RequestWindow(limit, self._host(limit.host).window) for limit in limits}
        for ago_ms, name, requests in sent:
            if name in windows:
                windows[name].restore(now_ms - ago_ms, requests, now_ms)
        for name, host in self._hosts.items():
            host.window = windows.get(name)
            self._movable[name] = None
        self._limited = list(windows.values())

    def pause_seconds(self) -> float:
        """How long no host that has had all its requests may get another one."""
        now_ms = self._now_ms()
        for window in self._limited:
            window.offered = window.old_room(now_ms)
        over = [name for name, until_ms in self._held.items() if until_ms <= now_ms]
        for name in over:
            del self._held[name]
            self._movable[name] = None
        return 0.0 if over else (min(self._held.values(), default=math.inf) - now_ms) / 1000

    def enter(self, name: str, target: Hashable, request: Waiting, *, live: bool, now_ms: float) -> Entry:
        """Send it at once where no other request is in the way, else let it wait in the target's line."""
        host = self._host(name)
        lines = host.live if live else host.old
        line = lines.line(target)
        has_place = self.in_flight < self._max_in_flight and host.in_flight < self._max_per_host
        if host.window is not None:
            has_place = has_place and host.window.room(self._now_ms()) > 0
        if live and has_place and lines.may_leave_at_once(line, host_silent=host.is_silent):
            self._note(host, live=live)
            lines.leave(line)
            host.in_flight += 1
            self.in_flight += 1
            return Entry.SENT
        if line.stands_still(now_ms, LIVE_WAIT_MS if live else OLD_WAIT_MS):
            return Entry.REFUSED
        lines.join(line, request, now_ms)
        if not live:
            host.old_waiting += 1
            self.old += 1
        self._movable[name] = None
        return Entry.WAITING

    def done(
        self, name: str, target: Hashable, *, live: bool, answered: bool, sent_ms: float, now_ms: float
    ) -> bool:
        """A request is over, with an answer or without; True if another one may be waiting for that."""
        self._hosts[name].note(answered=answered, sent_ms=sent_ms, now_ms=now_ms)
        return self._leave(name, target, live=live, answered=answered)

    def unsent(self, name: str, target: Hashable, *, live: bool) -> None:
        """The request that was let through last was not sent after all."""
        if (window := self._hosts[name].window) is not None:
            window.take_back(live=live)
        self._leave(name, target, live=live, answered=None)

    def has_limit(self, name: str) -> bool:
        """True if the host may get so many requests in a period and no more."""
        return self._hosts[name].window is not None

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
        taken = host.old.in_flight + host.old_waiting if host else 0
        alone = self.old >= OLD_LIMIT or (host is not None and host.is_silent)
        room = (SILENT_OLD if alone else OLD_LINE) - taken
        window = host.window if host else None  # once: another thread may take it away in between
        return min(room, window.offered - host.old_waiting) if host and window else room

    def old_room_of(self, name: str, target: Hashable) -> int:
        """How many more of them the target may have; likewise."""
        host = self._hosts.get(name)
        line = host.old.get(target) if host else None
        if host is None or line is None:
            return OLD_UNTRIED
        most = OLD_LINE // 2 if host.old.are_shared else OLD_LINE
        if line.is_silent:
            most = OLD_UNTRIED if line.unanswered == SILENT_AFTER else SILENT_OLD
        return most - line.in_flight - line.waiting

    def stranded(self, now_ms: float) -> list[Waiting]:
        """The old requests in lines that stand still, taken out: others can be asked for meanwhile."""
        return [
            request
            for host in self._hosts.values()
            if host.old_waiting
            for line in host.old
            if line.stands_still(now_ms, OLD_WAIT_MS)
            for request in self._drained(host, line)
        ]

    def drain(self) -> list[Waiting]:
        """Everything that still waits, taken out."""
        hosts = self._hosts.values()
        live = [request for host in hosts for line in host.live for request in host.live.empty(line)]
        return live + [request for host in hosts for line in host.old for request in self._drained(host, line)]

    def _drained(self, host: _Host[Waiting], line: _Line[Waiting]) -> list[Waiting]:
        host.old_waiting -= line.waiting
        self.old -= line.waiting
        return host.old.empty(line)

    def _leave(self, name: str, target: Hashable, *, live: bool, answered: bool | None) -> bool:
        host = self._hosts[name]
        lines = host.live if live else host.old
        lines.done(lines.line(target), answered=answered)
        host.in_flight -= 1
        self.in_flight -= 1
        if not live:
            self.old -= 1
        if host.live.may_move or host.old.may_move:
            self._movable[name] = None
        return bool(self._movable)

    def _next(self, name: str) -> Waiting | None:
        host = self._hosts[name]
        if host.in_flight >= self._max_per_host:
            return None
        lines = host.live
        line = lines.turn(host_silent=host.is_silent)
        if line is None and not lines.has_ready:
            lines = host.old
            line = lines.turn(host_silent=host.is_silent)
        if line is None:
            return None
        if host.window is not None and not self._is_allowed(host.window, name, live=lines is host.live):
            return None
        if self.in_flight >= self._max_in_flight:
            self._movable[name] = None
            return None
        self.in_flight += 1
        host.in_flight += 1
        host.old_waiting -= lines is host.old
        self._note(host, live=lines is host.live)
        return lines.take(line)

    def _host(self, name: str) -> _Host[Waiting]:
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = _Host(self._max_per_host, self._max_old_per_host)
        return host

    def _is_allowed(self, window: RequestWindow, name: str, *, live: bool) -> bool:
        now_ms = self._now_ms()
        if (window.room(now_ms) if live else window.old_room(now_ms)) > 0:
            return True
        self._held[name] = window.next_ms(now_ms)
        return False

    def _note(self, host: _Host[Waiting], *, live: bool) -> None:
        if host.window is not None:
            host.window.note(self._now_ms(), live=live)
