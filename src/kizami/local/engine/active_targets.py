"""Active targets: what the loop needs to know about each target that is polled now."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from kizami.core.errors import StoreError
from kizami.core.targets.target import Target
from kizami.home.targets import LONGEST_SPREAD_SECONDS
from kizami.local.engine.failures.backoff import longest_delay_seconds
from kizami.local.engine.options import Options
from kizami.local.http.target_access import TargetAccess
from kizami.local.store.database import open_database, sqlite_errors, transaction
from kizami.local.store.metrics import ID_SPACE, KnownMetric, register_targets
from kizami.local.store.rows import PlanKey

LEAST_WAITING = 60  # slots that any host may have waiting to be tried again
_WAITING_SECONDS = 300.0  # what a host may have waiting is so much of its polls' time, or what its attempts take
_MOST_WAITING_SECONDS = 3600.0
_QUANTUM_MS = 20  # polls due within one quantum leave together: fewer wake-ups, less CPU a poll


@dataclass(frozen=True, slots=True)
class ActiveTarget:
    """A target that is polled: its id, its place within the interval, its host, and how its requests are made."""

    target: Target
    metric_id: int
    offset_ms: int
    host: str
    access: TargetAccess
    value_ids: tuple[int, ...] = ()  # whose records its answers are, in their order

    @property
    def plan_key(self) -> PlanKey:
        """What all of its live messages have in common."""
        target = self.target
        return self.metric_id, target.interval_seconds, target.lag_seconds * 1000 + self.offset_ms


def activate_targets(
    path: Path, accesses: Iterable[TargetAccess], now: datetime, *, spread: bool
) -> dict[int, ActiveTarget]:
    """The targets by metric id, each made known to the database."""
    accesses = list(accesses)
    connection = open_database(path)
    try:
        with sqlite_errors(StoreError, path), transaction(connection):
            known = register_targets(connection, [access.target for access in accesses], now)
    finally:
        connection.close()
    found = (_active(access, known, spread=spread) for access in accesses)
    return {active.metric_id: active for active in found}


def waiting_limits(targets: Iterable[ActiveTarget], options: Options) -> dict[str, int]:
    """How many slots each host may have waiting to be tried again: more than wait for one that fails at once."""
    waits = sum(longest_delay_seconds(n, options.retry_seconds) for n in range(1, options.receive_limit))
    polls: dict[str, float] = {}
    for active in targets:
        target = active.target
        attempts = waits + options.receive_limit * target.timeout_seconds
        seconds = min(max(_WAITING_SECONDS, attempts * 1.25), _MOST_WAITING_SECONDS)
        polls[active.host] = polls.get(active.host, 0.0) + max(1.0, seconds / target.interval_seconds)
    return {host: max(LEAST_WAITING, math.ceil(slots)) for host, slots in polls.items()}


def over_after_seconds(targets: Iterable[ActiveTarget]) -> dict[int, int]:
    """How long after its start a slot is over, for each metric whose slots can only be asked for live."""
    return {
        active.metric_id: active.target.lag_seconds + active.target.interval_seconds
        for active in targets
        if not active.target.backfill
    }


def _active(access: TargetAccess, known: Mapping[str, KnownMetric], *, spread: bool) -> ActiveTarget:
    target = access.target
    metric_id = known[target.name].id
    return ActiveTarget(
        target=target,
        metric_id=metric_id,
        offset_ms=offset_ms(target, metric_id) if spread else 0,
        host=urlsplit(target.url).netloc,
        access=access,
        value_ids=tuple(known[name].id for name in target.metrics),
    )


def offset_ms(target: Target, metric_id: int) -> int:
    """How long after the tick the target is asked, the same for ever.

    Only a window that has ended is the same whenever it is asked for: with a lag below the interval it is 0, and
    so it is where the API can only say "now".
    """
    if target.asks_too_early or not target.backfill:
        return 0
    offset = metric_id * min(target.interval_seconds, LONGEST_SPREAD_SECONDS) * 1000 // ID_SPACE
    return offset - offset % _QUANTUM_MS
