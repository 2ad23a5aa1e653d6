"""Targets in service: what the loop needs to know about each target that is polled now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from kizami.errors import StoreError
from kizami.local.batches import PlanKey
from kizami.local.database import open_database, sqlite_errors, transaction
from kizami.local.fetch import Profile
from kizami.local.metrics import ID_SPACE, register_targets
from kizami.local.secrets import resolve_headers
from kizami.targets import Target

_QUANTUM_MS = 20  # polls due within one quantum leave together: fewer wake-ups, less CPU a poll


@dataclass(frozen=True, slots=True)
class Polled:
    """A target in service: its id, its place within the interval, its host, and how requests to it are made."""

    target: Target
    metric_id: int
    offset_ms: int
    host: str
    profile: Profile

    @property
    def plan_key(self) -> PlanKey:
        """What all of its live messages have in common."""
        target = self.target
        return self.metric_id, target.interval_seconds, target.lag_seconds * 1000 + self.offset_ms


def enter_service(path: Path, targets: Iterable[Target], now: datetime, *, spread: bool) -> dict[int, Polled]:
    """The targets by metric id, each made known to the database.

    ConfigurationError if a secret cannot be resolved; then nothing has changed.
    """
    headers = {target: resolve_headers(target) for target in targets}
    connection = open_database(path)
    try:
        with sqlite_errors(StoreError, path), transaction(connection):
            known = register_targets(connection, headers, now)
    finally:
        connection.close()
    service = (_polled(target, known[target.name].id, lines, spread=spread) for target, lines in headers.items())
    return {polled.metric_id: polled for polled in service}


def _polled(target: Target, metric_id: int, headers: tuple[str, ...], *, spread: bool) -> Polled:
    return Polled(
        target=target,
        metric_id=metric_id,
        offset_ms=offset_ms(target, metric_id) if spread else 0,
        host=urlsplit(target.url).netloc,
        profile=Profile.of(target.url, target.timeout_seconds, headers),
    )


def offset_ms(target: Target, metric_id: int) -> int:
    """How long after the tick the target is asked, the same for ever.

    Only a window that has ended is the same whenever it is asked for: with a lag below the interval it is 0.
    """
    if target.asks_too_early:
        return 0
    offset = metric_id * target.interval_seconds * 1000 // ID_SPACE
    return offset - offset % _QUANTUM_MS
