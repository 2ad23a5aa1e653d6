"""What is wrong with targets and with the backend itself, from the figures that the page shows (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kizami.alerts.findings import AlertFinding, Findings, collect, topic_of
from kizami.alerts.seen import REFILL_SECONDS
from kizami.backend.health import TargetCondition, TargetStatus
from kizami.backend.incidents import BACKEND, TROUBLE, Kind
from kizami.backend.targets import KnownTarget
from kizami.backend.values import Deaths, Lateness, QueueDepth
from kizami.core.coverage import Span
from kizami.core.epoch import EPOCH
from kizami.core.slots import shift

NO_LATENESS = Lateness(0, 0, 0, 0)
STUCK_SECONDS = 300
LEAST_POLLS = 10
LEAST_WINDOW_SECONDS = 60


@dataclass(frozen=True, slots=True)
class MachineTrouble:
    """Problems that no backend knows of: why nothing can be written, and companies whose last run failed."""

    disk_full: str | None = None
    failed_companies: Mapping[str, str] = field(default_factory=dict)


NO_MACHINE_TROUBLE = MachineTrouble()


@dataclass(frozen=True, slots=True)
class WatchRun:
    """How a look differs from place to place; the defaults are those of the daemon."""

    period_seconds: int = 15  # since the look before: slots and deaths of that time are judged, if not of more
    running_since: datetime | None = None  # nothing was polled before; None: not known, or long ago
    polled_seconds: int = 0  # for which a target must have been polled before it can be silent or late
    refill_seconds: int = REFILL_SECONDS  # after a recovery, within which missing slots are asked for again
    times_polls: bool = True  # it is judged how late requests leave
    machine: MachineTrouble = NO_MACHINE_TROUBLE
    live_queue: Callable[[], QueueDepth] | None = None  # where old slots have a queue of their own, which may wait
    rest: Callable[[], object] | None = None  # called between pieces of a look, so that polls have their turn

    @property
    def window_seconds(self) -> int:
        """The time whose slots tell how a target does."""
        return max(LEAST_WINDOW_SECONDS, self.period_seconds)

    def window(self, target: KnownTarget, now: datetime) -> Span:
        """Return the settled slots that tell how a target does."""
        return target.current(now, self.window_seconds)

    def first_due(self, target: KnownTarget, now: datetime) -> datetime:
        """Return when the first of these slots was due."""
        return shift(self.window(target, now).start, target.lag_seconds)

    def can_judge(self, target: KnownTarget, now: datetime) -> bool:
        """Return True if missing slots say something about the target: they came due while it could be polled."""
        polled_long_enough = shift(target.first_slot, target.lag_seconds + self.polled_seconds)
        if self.polled_seconds and now < polled_long_enough:
            return False
        return self.running_since is None or self.first_due(target, now) >= self.running_since


def find_troubles(
    statuses: Mapping[str, TargetStatus],
    deaths: Mapping[str, Deaths],
    now: datetime,
    run: WatchRun | None = None,
) -> Findings:
    """Return which targets fail, are silent or late, or have lost slots."""
    run = run or WatchRun()
    found, unjudged = [], []
    for name, status in statuses.items():
        if not status.target.is_on:
            continue
        is_judged = _is_judged(status, now, run)
        if not is_judged:
            unjudged.append((TROUBLE, name))
        if kinds := frozenset(_kinds(status, deaths.get(name), is_judged)):
            found.append(_trouble(status, deaths.get(name), kinds, now, run))
    return collect(found, unjudged)


def _is_judged(status: TargetStatus, now: datetime, run: WatchRun) -> bool:
    is_whole = status.condition in (TargetCondition.COLLECTING, TargetCondition.INCOMPLETE)
    return is_whole or run.can_judge(status.target, now)


def _trouble(
    status: TargetStatus, deaths: Deaths | None, kinds: frozenset[Kind], now: datetime, run: WatchRun
) -> AlertFinding:
    name, error = status.target.name, _error(status, deaths)
    states = (kind.value for kind in (Kind.SILENT, Kind.LATE, Kind.DEAD, Kind.FAILS) if kind in kinds)
    topic = topic_of(error) if error else next(states)
    detail = "" if error else f"{status.minute.stored}/{status.minute.expected}"
    first_slot = _first_slot(status, deaths, kinds, now, run)
    since = None if _never_began(status) else status.since
    return AlertFinding(TROUBLE, topic, name, kinds, error, detail, first_slot, since)


def _kinds(status: TargetStatus, deaths: Deaths | None, is_judged: bool) -> Iterator[Kind]:
    if status.trouble is not None:
        yield Kind.FAILS
    if deaths is not None:
        yield Kind.DEAD
    if is_judged and status.condition is TargetCondition.SILENT:
        yield Kind.SILENT
    if is_judged and status.condition is TargetCondition.LATE and status.trouble is None and not deaths:
        yield Kind.LATE


def _error(status: TargetStatus, deaths: Deaths | None) -> str:
    if status.trouble is not None:
        return status.trouble.error
    return deaths.reason if deaths is not None else ""


def _first_slot(
    status: TargetStatus, deaths: Deaths | None, kinds: frozenset[Kind], now: datetime, run: WatchRun
) -> datetime:
    """Return the first slot that a target lacks: behind its newest one, or one that died or is late before it."""
    target, behind = status.target, status.collected_until
    if _never_began(status):
        behind = run.window(target, now).start
    firsts = [behind]
    if deaths is not None:
        firsts.append(deaths.first_slot)
    if Kind.LATE in kinds:
        start = run.window(target, now).start
        if shift(start, status.minute.stored * target.interval_seconds) < behind:
            firsts.append(start)
    return max(target.first_slot, min(firsts))


def _never_began(status: TargetStatus) -> bool:
    """Return True if nothing was ever stored of a target, and the backend cannot tell since when it is polled."""
    return status.newest_slot is None and status.target.first_slot <= EPOCH


def is_overdue(target: KnownTarget, now: datetime, run: WatchRun) -> bool:
    """Return True if slots that can be judged have been due for so long that messages about them must be over."""
    return run.can_judge(target, now) and shift(run.first_due(target, now), STUCK_SECONDS) <= now


def find_backend_troubles(
    queue: QueueDepth,
    lateness: Lateness,
    late_after_ms: int,
    is_storing: bool,
    machine: MachineTrouble,
    has_overdue: bool = False,
) -> Findings:
    """Return what is wrong with the backend itself, and with the companies of its batch.

    The queue is stuck if messages wait and nothing comes of them: for STUCK_SECONDS or, where SQS does not say how
    long, while slots are overdue; `is_storing` says that records come or requests at least fail.
    """
    found = []
    if machine.disk_full is not None:
        found.append(_of_backend(Kind.DISK_FULL, machine.disk_full))
    age = queue.oldest_age_seconds
    has_waited = has_overdue if age is None else age > STUCK_SECONDS
    if queue.waiting and has_waited and not is_storing:
        found.append(_of_backend(Kind.QUEUE_STUCK, detail=f"{queue.waiting}"))
    if lateness.polls >= LEAST_POLLS and lateness.p50_ms > late_after_ms:
        found.append(_of_backend(Kind.LATE, detail=f"{lateness.p50_ms / 1000:.1f} s"))
    for company, reason in machine.failed_companies.items():
        failed = Kind.AGGREGATION_FAILED
        found.append(AlertFinding(failed.value, topic_of(reason), company, frozenset({failed}), reason))
    return collect(found)


def _of_backend(kind: Kind, cause: str = "", detail: str = "") -> AlertFinding:
    return AlertFinding(kind.value, "", BACKEND, frozenset({kind}), cause, detail)
