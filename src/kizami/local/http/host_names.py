"""Host names become addresses in threads of their own, so that a name server that is slow holds nobody up.

libcurl's own threads are twenty for all, and it waits for each of them at its end: sixty names that hang would
keep every other name waiting, and a stop, too. Here a lookup that takes long no longer counts, a name that failed
waits before it is looked up again, and nobody waits for a thread.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue

FRESH_SECONDS = 60.0  # so long an address is used for new connections, as libcurl does
STALE_SECONDS = 3600.0  # so long the last one known is used while the name server does not answer
_SLOW_SECONDS = 1.0  # a lookup that takes longer makes room for another
_QUICK_LOOKUPS, _DOUBTFUL_LOOKUPS = (
    32,
    16,
)  # that may run at once: all, and those of names that failed or were slow
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 2.0, 30.0

LookUp = Callable[[str], tuple[str, ...]]


class NameFailure(Exception):
    """A name that has no address, or none now (`for_now`)."""

    def __init__(self, words: str, *, for_now: bool) -> None:
        super().__init__(words)
        self.for_now = for_now


_NO_ANSWER = NameFailure("no name server has answered yet", for_now=True)


def look_up(name: str) -> tuple[str, ...]:
    """Its addresses, by the system's resolver; may take as long as that takes."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise NameFailure(error.strerror or "unknown", for_now=error.errno == socket.EAI_AGAIN) from None
    except (OSError, UnicodeError) as error:
        raise NameFailure(str(error), for_now=isinstance(error, OSError)) from None
    addresses = dict.fromkeys(str(address[0]) for *_, address in found)
    return tuple(f"[{each}]" if ":" in each else each for each in addresses if "%" not in each)


Found = tuple[str, ...] | NameFailure


@dataclass(slots=True)
class _Known:
    addresses: tuple[str, ...] = ()
    found_at: float = 0.0
    until: float = 0.0
    failure: NameFailure | None = None
    wait_seconds: float = 0.0  # until it is looked up again; 0 unless it failed or was slow last time
    running_since: float | None = None
    queued: bool = False

    def is_slow(self, now: float) -> bool:
        return self.running_since is not None and now - self.running_since > _SLOW_SECONDS

    def is_usable(self, now: float) -> bool:
        """Whether its last addresses can be used while no others are to be had."""
        return bool(self.addresses) and now - self.found_at < STALE_SECONDS


@dataclass(frozen=True, slots=True)
class _Answer:
    name: str
    found: Found


class Names:
    """What is known about names; all methods are called on one thread, `wake` on any."""

    def __init__(self, wake: Callable[[], None], max_lookups: int, look_up: LookUp = look_up) -> None:
        self._wake = wake
        self._max_lookups = max(2, max_lookups)
        self._look_up = look_up
        self._known: dict[str, _Known] = {}
        self._running: dict[str, _Known] = {}
        self._queued: deque[str] = deque()
        self._doubtful: deque[str] = deque()
        self._answers: SimpleQueue[_Answer] = SimpleQueue()

    def get(self, name: str) -> Found | None:
        """What is known of it now; None if it has to be asked for."""
        known = self._known.get(name)
        now = time.monotonic()
        if known is None or (now >= known.until and not known.is_slow(now)):
            return None
        if now < known.until:
            return known.failure or known.addresses
        return known.addresses if known.is_usable(now) else _NO_ANSWER

    def ask(self, name: str) -> None:
        """Have it looked up; `answered` will tell."""
        known = self._known.setdefault(name, _Known())
        if known.queued or known.running_since is not None:
            return
        known.queued = True
        (self._doubtful if known.wait_seconds else self._queued).append(name)
        self._advance()

    def answered(self) -> dict[str, Found]:
        """What has been found out since."""
        found: dict[str, Found] = {}
        try:
            while True:
                answer = self._answers.get_nowait()
                found[answer.name] = self._note(answer, time.monotonic())
        except Empty:
            self._advance()
            return found

    @property
    def pause_seconds(self) -> float | None:
        """When to call `answered` though nobody was woken: a slow lookup may make room for another."""
        return _SLOW_SECONDS / 4 if self._queued or self._doubtful else None

    def _note(self, answer: _Answer, now: float) -> Found:
        known = self._running.pop(answer.name)
        was_slow, known.running_since = known.is_slow(now), None
        if isinstance(answer.found, NameFailure):
            self._note_failure(known, answer.found, now)
        else:
            known.addresses, known.found_at, known.until = answer.found, now, now + FRESH_SECONDS
            known.failure = None
            known.wait_seconds = _FIRST_WAIT_SECONDS if was_slow else 0.0
        return known.failure or known.addresses

    @staticmethod
    def _note_failure(known: _Known, failure: NameFailure, now: float) -> None:
        known.wait_seconds = min(max(_FIRST_WAIT_SECONDS, known.wait_seconds * 2), _LONGEST_WAIT_SECONDS)
        known.until = now + known.wait_seconds
        known.failure = None if failure.for_now and known.is_usable(now) else failure

    def _advance(self) -> None:
        while self._queued and self._has_room():
            self._begin(self._queued.popleft())
        while self._doubtful and self._has_room() and self._doubtful_running() < _DOUBTFUL_LOOKUPS:
            self._begin(self._doubtful.popleft())

    def _has_room(self) -> bool:
        if len(self._running) >= self._max_lookups:
            return False
        since = time.monotonic() - _SLOW_SECONDS
        return sum((known.running_since or since) > since for known in self._running.values()) < _QUICK_LOOKUPS

    def _doubtful_running(self) -> int:
        return sum(known.wait_seconds > 0 for known in self._running.values())

    def _begin(self, name: str) -> None:
        known = self._running[name] = self._known[name]
        known.queued, known.running_since = False, time.monotonic()
        # A daemon, because nobody waits for it: a stop would take as long as the name server.
        try:
            threading.Thread(target=self._run, args=[name], name=f"lookup {name}", daemon=True).start()
        except RuntimeError as error:  # the system gives no more threads
            self._answers.put(_Answer(name, NameFailure(str(error), for_now=True)))
            self._wake()

    def _run(self, name: str) -> None:
        found: Found
        try:
            found = self._look_up(name) or NameFailure("it has no address", for_now=False)
        except NameFailure as failure:
            found = failure
        self._answers.put(_Answer(name, found))
        self._wake()
