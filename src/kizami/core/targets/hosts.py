"""What a `[[hosts]]` table of kizami.toml says: how many requests a host may get in a period of time (pure)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from urllib.parse import urlsplit

from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.core.slots import parse_duration, shorten
from kizami.core.targets.target import Target
from kizami.core.targets.unknown_names import refuse_unknown

HOST_SETTINGS = ("host", "requests")
MOST_REQUESTS, LONGEST_PERIOD_SECONDS = 100_000, 86_400

_RATE = re.compile(r"(\d{1,6})/(\d{1,9}[smhd])", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_NAMED = 5


@dataclass(frozen=True, slots=True)
class RequestLimit:
    """At most so many requests to a host in any period of so many seconds; its live polls need `live` of them."""

    host: str
    requests: int
    period_seconds: int
    live: Fraction = Fraction(0)

    @property
    def old(self) -> int:
        """How many of them retries and backfill may have: what live polls leave, and one at least."""
        return max(1, int(self.requests - self.live))


def host_of(url: str) -> str:
    """The host that a URL asks, with its port unless it is the scheme's own."""
    parts = urlsplit(url)
    name, port = (parts.hostname or "").lower(), parts.port
    name = f"[{name}]" if ":" in name else name
    return name if port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f"{name}:{port}"


def parse_hosts(value: object, targets: Iterable[Target], place: str) -> tuple[RequestLimit, ...]:
    """The limits that the file states; ConfigurationError for one that cannot be kept."""
    if not isinstance(value, list):
        raise ConfigurationError(place, "must be tables: write [[hosts]], in double brackets")
    by_host: dict[str, list[Target]] = {}
    for target in targets:
        by_host.setdefault(host_of(target.url), []).append(target)
    found: dict[str, RequestLimit] = {}
    for index, entry in enumerate(value):
        limit = _parse_limit(entry, by_host, f"{place}[{index}]")
        if limit.host in found:
            raise ConfigurationError(f"{place}[{index}].host", f"{limit.host} is used twice")
        found[limit.host] = limit
    return tuple(found.values())


def _parse_limit(entry: object, by_host: dict[str, list[Target]], place: str) -> RequestLimit:
    if not isinstance(entry, dict):
        raise ConfigurationError(place, "must be a table: write [[hosts]], in double brackets")
    refuse_unknown(entry, HOST_SETTINGS, place)
    try:
        host = _host(entry.get("host"), by_host)
        requests, period = _rate(entry.get("requests"))
        polled = [target for target in by_host[host] if target.enabled]
        live = sum((Fraction(period, target.interval_seconds) for target in polled), Fraction(0))
        if live >= requests:
            raise InvalidInput("requests", _too_low(polled, live, requests, period))
    except InvalidInput as error:
        raise ConfigurationError(f"{place}.{error.field}", error.problem) from None
    return RequestLimit(host, requests, period, live)


def _host(value: object, by_host: dict[str, list[Target]]) -> str:
    known = ", ".join(sorted(by_host)[:_NAMED])
    if not isinstance(value, str):
        raise InvalidInput("host", f"is required: a host as in the url of a target; known: {known}")
    if value.lower() not in by_host:
        raise InvalidInput("host", f"{shorten(value)} is the host of no target; known: {known}")
    return value.lower()


def _rate(value: object) -> tuple[int, int]:
    found = _RATE.fullmatch(value) if isinstance(value, str) else None
    period = parse_duration(found[2], "requests") if found else 0
    if not found or not 1 <= int(found[1]) <= MOST_REQUESTS or not 1 <= period <= LONGEST_PERIOD_SECONDS:
        raise InvalidInput(
            "requests",
            f'must be like "60/1m": 1 to {MOST_REQUESTS:,} requests in a period of 1s to 1d',
        )
    return int(found[1]), period


def _too_low(targets: Sequence[Target], live: Fraction, requests: int, period: int) -> str:
    counts = Counter(target.interval_seconds for target in targets)
    asked = " and ".join(
        f"{count} {'target' if count == 1 else 'targets'} every {seconds} s"
        for seconds, count in counts.most_common()
    )
    needed = f"{float(live):,.4g}" if live < 10_000 else f"{int(live):,}"
    verb = "needs" if len(targets) == 1 else "need"
    return (
        f"{asked} {verb} {needed} requests in {period} s, and retries some more; the limit is {requests:,}: "
        "poll less often, or raise it"
    )
