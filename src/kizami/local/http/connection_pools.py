"""libcurl's transfers and their sockets: a multi handle for every thousand hosts, all of them on one poller.

A multi handle finds a host's connection in a table of 97 lists, and once a second looks at each idle connection:
with all hosts in one, a request would cost the more the more hosts there are, and wait while that is done.
"""

from __future__ import annotations

import time
from typing import Any

import pycurl

from kizami.local.http.socket_poller import Poller

HOSTS_A_POOL = 1000
_NEVER = float("inf")

Failure = tuple[int, str]


class Pool:
    """One multi handle; `timer` is when it wants to be run though no socket is ready."""

    def __init__(self, pools: Pools, max_connections: int, *, named: bool) -> None:
        self._pools = pools
        self.named = named
        self.hosts = 0
        self.timer = _NEVER
        self.multi = pycurl.CurlMulti()
        self.multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self.multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        # Never reached, or all of them would be searched for the oldest after every request.
        self.multi.setopt(pycurl.M_MAXCONNECTS, max_connections)

    def add(self, curl: Any) -> None:
        """Begin a transfer."""
        self.multi.add_handle(curl)

    def remove(self, curl: Any) -> None:
        """It is over."""
        self.multi.remove_handle(curl)

    def _watch(self, what: int, descriptor: int, multi: Any, data: Any) -> None:
        # libcurl's numbers for "in" and "out" are the poller's.
        if what == pycurl.POLL_REMOVE:
            self._pools.poller.forget(descriptor)
        else:
            self._pools.by_descriptor[descriptor] = self
            self._pools.poller.watch(descriptor, what)

    def _set_timer(self, milliseconds: int) -> None:
        self.timer = _NEVER if milliseconds < 0 else time.monotonic() + milliseconds / 1000


class Pools:
    """All of them."""

    def __init__(self, poller: Poller, max_connections: int) -> None:
        self.poller = poller
        self.by_descriptor: dict[int, Pool] = {}
        self._max_connections = max_connections
        self._pools: list[Pool] = []
        self._run: set[Pool] = set()

    def __len__(self) -> int:
        return len(self._pools)

    def place(self, *, named: bool) -> Pool:
        """Where one more host belongs; those whose names libcurl is told have their own, because it looks through
        all of them at the end of a transfer to a host without a name."""
        pool = next((each for each in self._pools if each.named == named and each.hosts < HOSTS_A_POOL), None)
        if pool is None:
            pool = Pool(self, self._max_connections, named=named)
            self._pools.append(pool)
        pool.hosts += 1
        return pool

    @property
    def timer(self) -> float:
        """The moment (monotonic) by which `run_timers` is to be called."""
        return min([pool.timer for pool in self._pools], default=_NEVER)

    def run(self, descriptor: int, ready: int) -> None:
        """Go on with what waits for this socket."""
        pool = self.by_descriptor[descriptor]
        pool.multi.socket_action(descriptor, ready)
        self._run.add(pool)

    def run_timers(self) -> None:
        now = time.monotonic()
        for pool in self._pools:
            if pool.timer <= now:
                pool.timer = _NEVER
                pool.multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
                self._run.add(pool)

    def ended(self) -> list[tuple[Any, Failure | None]]:
        """The transfers that have ended since, each with its failure."""
        ended: list[tuple[Any, Failure | None]] = []
        while self._run:
            multi = self._run.pop().multi
            more = True
            while more:
                more, succeeded, failed = multi.info_read()
                ended += [(curl, None) for curl in succeeded]
                ended += [(curl, (code, words)) for curl, code, words in failed]
        return ended

    def close(self) -> None:
        for pool in self._pools:
            pool.multi.close()
