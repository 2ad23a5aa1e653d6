"""Which connections are kept: as many as there are descriptors for, decided host by host (no I/O but the limit).

libcurl's pool is never allowed to fill up: a full one is searched from end to end after every request. A host that
finds no place among the kept connections gets a new one for each request, and nobody else pays for that.
"""

from __future__ import annotations

import logging
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from kizami.core.access.proxy import Proxy
from kizami.local.http.connection_pools import Pool, Pools

_SPARE_FILES = 256  # left for everything but connections: the database, the dashboard's clients, lookups of names
_MAX_FILES = 65_536
_MAX_UNKEPT = 1024  # connections that last for one request, at once
# libcurl does not use a connection again that was idle for longer (its MAXAGE_CONN), and closes it.
_IDLE_SECONDS = 118
_PORTS = {"http": 80, "https": 443}

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Origin:
    """A scheme, host and port that requests go to.

    `name` is there if it has to be looked up for a new connection, and `told` are the addresses that libcurl has
    been told for it; a host behind a proxy is left to libcurl. `kept` is how many connections it may keep.
    """

    pool: Pool
    name: str | None
    port: int
    kept: int = 0
    in_flight: int = 0
    used_at: float = 0.0
    told: tuple[str, ...] | None = None


class Connections:
    """Gives the places among the kept connections to the hosts in the order in which they are first asked."""

    def __init__(self, pools: Pools, files: int) -> None:
        self._pools = pools
        usable = files - spare_files(files)
        self.max_unkept = max(1, min(_MAX_UNKEPT, usable // 2))
        self._places = self.max_kept = max(1, usable - self.max_unkept)
        self._files = files
        self.unkept = 0
        self._origins: dict[str, Origin] = {}
        self._swept_at = 0.0
        self._told = False

    def origin(self, url: str, *, direct: bool, proxy: Proxy | None = None) -> Origin:
        """Where a request for this URL goes."""
        end = url.find("/", 8)
        base = url[:end] if end > 0 else url.partition("?")[0]
        key = base if proxy is None else f"{base} by {proxy!r}"
        found = self._origins.get(key)
        if found is None:
            found = self._origins[key] = self._new(base, direct=direct, proxy=proxy)
        return found

    def _new(self, base: str, *, direct: bool, proxy: Proxy | None) -> Origin:
        parts = urlsplit(base)
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
        by_proxy = proxy is not None or (not direct and _has_proxy(parts.scheme, host))
        has_name = not by_proxy and not _is_known(host)
        return Origin(self._pools.place(named=has_name), host if has_name else None, port)

    def is_kept(self, origin: Origin) -> bool:
        """Take up one more request to it: whether its connection is kept. `release` ends it."""
        origin.in_flight += 1
        if origin.in_flight > origin.kept:
            if not self._places and not self._sweep():
                return False
            self._places -= 1
            origin.kept += 1
        return True

    def take_place(self) -> bool:
        """Whether one more connection that is not kept may be open; then it counts."""
        free = self.unkept < self.max_unkept
        self.unkept += free
        return free

    def release(self, origin: Origin) -> None:
        origin.in_flight -= 1
        origin.used_at = time.monotonic()

    def _sweep(self) -> bool:
        """Take back the places of hosts that are not asked any more, or so rarely that nothing is kept."""
        now = time.monotonic()
        if now - self._swept_at < _IDLE_SECONDS:
            return False
        self._swept_at = now
        for key in list(self._idle(now - _IDLE_SECONDS)):
            origin = self._origins.pop(key)
            origin.pool.hosts -= 1
            self._places += origin.kept
        if not self._places and not self._told:
            self._told = True
            details = {
                "event": "connections.scarce",
                "files": self._files,
                "kept": self.max_kept,
                "hosts": len(self._origins),
                "remedy": "raise the limit of open files (ulimit -n, or LimitNOFILE= of the service)",
            }
            words = "more hosts than connections that can be kept; the rest connect for each poll"
            logger.warning(words, extra=details)
        return self._places > 0

    def _idle(self, since: float) -> Iterator[str]:
        for key, origin in self._origins.items():
            if not origin.in_flight and origin.used_at < since:
                yield key


def _is_known(host: str) -> bool:
    """Whether libcurl knows its address without asking anybody."""
    try:
        return bool(ip_address(host))
    except ValueError:
        return host == "" or host.rstrip(".").rpartition(".")[2] == "localhost"


def _has_proxy(scheme: str, host: str) -> bool:
    """Whether libcurl will find a proxy for it in the environment."""
    proxies = getproxies()
    return bool(proxies.get(scheme) or proxies.get("all")) and not proxy_bypass(host)


def spare_files(files: int) -> int:
    """How many descriptors are left alone."""
    return min(_SPARE_FILES, files // 2)


def allowed_files() -> int:
    """How many descriptors this process may have, after asking for as many as is sensible."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return min(soft, _MAX_FILES) if soft > 0 else _MAX_FILES
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
