"""Active targets: what the loop needs to know about each target that is polled, and the thread that finds it out.

    kizami.toml ──▶ parsed ──▶ secrets and certificates read ──▶ known to the database ──▶ the loop

Files may be slow, huge or on a mount that hangs: TargetLoader waits for them, and the loop polls meanwhile.
"""

from __future__ import annotations

import gc
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kizami.backend.targets import LONGEST_SPREAD_SECONDS
from kizami.core.config import Config
from kizami.core.errors import KizamiError, StoreError
from kizami.core.ports import WallClock
from kizami.core.targets.hosts import RequestLimit, host_of
from kizami.core.targets.target import Target
from kizami.local.engine.failures.backoff import longest_delay_seconds
from kizami.local.engine.machine import Alarm, Machine
from kizami.local.engine.options import Options
from kizami.local.engine.writer import when_unlocked
from kizami.local.http.requester import Requester
from kizami.local.http.target_access import TargetAccess
from kizami.local.store.database import open_database, sqlite_errors, transaction
from kizami.local.store.metrics import ID_SPACE, KnownMetric, register_targets
from kizami.local.store.rows import PlanKey

LEAST_WAITING = 60  # slots that any host may have waiting to be tried again
_WAITING_SECONDS = 300.0  # what a host may have waiting is so much of its polls' time, or what its attempts take
_MOST_WAITING_SECONDS = 3600.0
_QUANTUM_MS = 20  # polls due within one quantum leave together: fewer wake-ups, less CPU a poll
_LOOK_SECONDS = 1.0
_REPEAT_SECONDS = 10.0  # the same refusal is logged no more often
_CLOSE_SECONDS = 0.5  # whatever hangs ends with the process

logger = logging.getLogger(__name__)


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


@dataclass(frozen=True, slots=True)
class LoadedTargets:
    """Targets that are ready to be polled, by metric id, and what the loop keeps of them."""

    active: Mapping[int, ActiveTarget]
    changed: frozenset[int]  # new, or not as they were
    plan: frozenset[PlanKey]
    shown_as: Mapping[int, tuple[str, int]]  # names and decimal places of their values
    limits: Sequence[RequestLimit] = ()


class TargetLoader:
    """Looks each second for another configuration, and for secrets that have changed, in a thread of its own.

    `new_config` and `settled` are called there; `settled` gets the reason if a configuration was refused.
    """

    def __init__(
        self,
        path: Path,
        clock: WallClock,
        machine: Machine,
        requester: Requester,
        alarm: Alarm,
        new_config: Callable[[], Config | None],
        settled: Callable[[str | None], None],
        *,
        spread: bool,
    ) -> None:
        self._path = path
        self._clock = clock
        self._requester = requester
        self._alarm = alarm
        self._new_config = new_config
        self._settled = settled
        self._spread = spread
        self._first = Config(())
        self._before: Mapping[int, ActiveTarget] = {}
        self._postponed: Config | None = None  # it could not be applied yet, and is tried again
        self._loaded: deque[LoadedTargets | Exception] = deque()
        self._refused = "", -math.inf  # why, and when
        self._stopping = False
        self._machine = machine
        self._news = machine.signal()
        self._has_loaded = machine.signal()
        self._thread = machine.thread(self._run, "kizami-config")
        requester.want_look = self._news.set

    def start(self, config: Config) -> None:
        """Load these targets, and whatever comes after them."""
        self._first = config
        self._thread.start()

    def wait(self, seconds: float) -> LoadedTargets | None:
        """What was loaded first, if that is so within `seconds`, or raise what keeps it from being loaded."""
        self._has_loaded.wait(seconds)
        loaded = self._loaded.popleft() if self._loaded else None
        if isinstance(loaded, Exception):
            raise loaded
        return loaded

    def take(self) -> LoadedTargets | None:
        """What was loaded since, the oldest first."""
        return self.wait(0) if self._loaded else None

    def close(self) -> None:
        """End soon, unless a file hangs."""
        self._stopping = True
        self._news.set()
        if self._thread.ident is not None:
            self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        try:
            first = when_unlocked(lambda: self._load(self._first), self._path, lambda: self._stopping)
            self._loaded.append(first)
        except Exception as error:  # noqa: BLE001 -- whatever it is ends the process: `wait` raises it
            self._loaded.append(error)
            return
        finally:
            self._has_loaded.set()
            self._alarm.wake()
        while not self._stopping:
            self._news.wait(_LOOK_SECONDS)
            self._news.clear()
            if not self._stopping:
                self._look()

    def _look(self) -> None:
        try:
            if self._requester.look_at_files():
                self._alarm.wake()
            with _uncollected():
                config = None if self._stopping else self._new_config() or self._postponed
                if config is not None and not self._stopping:
                    self._reload(config)
        except Exception:  # the top of the thread: polling goes on
            if not self._stopping:  # what it uses may be closed by then
                logger.exception("a look at the configuration failed", extra={"event": "config.failed"})

    def _reload(self, config: Config) -> None:
        was_postponed, self._postponed = config is self._postponed, None
        try:
            loaded = self._load(config)
        except Exception as error:
            if self._stopping:
                return
            if isinstance(error, KizamiError) and not isinstance(error, StoreError):
                self._refuse(str(error))
                return
            self._postponed = config
            if not was_postponed:
                logger.error(
                    "the new configuration has to wait",
                    extra={"event": "config.postponed", "reason": str(error) or repr(error)},
                    exc_info=not isinstance(error, StoreError),  # what nobody expects
                )
        else:
            if self._stopping:
                return
            gc.freeze()
            self._loaded.append(loaded)
            self._alarm.wake()
            self._settled(None)

    def _refuse(self, reason: str) -> None:
        self._settled(reason)
        before, self._refused = self._refused, (reason, self._machine.monotonic())
        if before[0] == reason and self._refused[1] - before[1] < _REPEAT_SECONDS:
            return  # a pause is tried again each second
        logger.error(
            "the new configuration is refused; the old one goes on",
            extra={"event": "config.refused", "reason": reason},
        )

    def _load(self, config: Config) -> LoadedTargets:
        accesses = self._requester.read_accesses(config.enabled_targets)
        active = activate_targets(self._path, accesses, self._clock.now(), spread=self._spread)
        self._requester.note_read(accesses)
        before, self._before = self._before, active
        return LoadedTargets(
            active,
            frozenset(number for number, each in active.items() if each != before.get(number)),
            frozenset(each.plan_key for each in active.values()),
            {
                number: (name, each.target.answer.decimals)
                for each in active.values()
                for number, name in zip(each.value_ids, each.target.metrics, strict=True)
            },
            config.hosts,
        )


@contextmanager
def _uncollected() -> Iterator[None]:
    """A full collection among a hundred thousand new targets would hold up the loop; they stay for good."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


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
        host=host_of(target.url),
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
