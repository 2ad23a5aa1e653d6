"""What is wrong with targets and with the backend itself, from the figures that the page shows (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kizami.alerts.findings import AlertFinding, Findings, collect, topic_of
from kizami.backend.health import TargetCondition, TargetStatus
from kizami.backend.incidents import BACKEND, TROUBLE, Kind
from kizami.backend.values import Deaths, Lateness, QueueDepth
from kizami.core.slots import shift

NO_LATENESS = Lateness(0, 0, 0, 0)
STUCK_SECONDS = 300
LEAST_POLLS = 10


@dataclass(frozen=True, slots=True)
class MachineTrouble:
    """What only who runs there knows: why nothing can be written, and which companies' last run failed."""

    disk_full: str | None = None
    failed_companies: Mapping[str, str] = field(default_factory=dict)


NO_MACHINE_TROUBLE = MachineTrouble()


def find_troubles(
    statuses: Mapping[str, TargetStatus],
    deaths: Mapping[str, Deaths],
    now: datetime,
    running_since: datetime | None = None,
) -> Findings:
    """Which targets fail, are silent or late, or have lost slots.

    That nothing is stored says something about a target only if its slots came due while somebody collected.
    """
    polled = [status for status in statuses.values() if status.target.is_on]
    found = (_trouble(status, deaths.get(status.target.name), now, running_since) for status in polled)
    unjudged = ((TROUBLE, status.target.name) for status in polled if not _is_judged(status, now, running_since))
    return collect(filter(None, found), unjudged)


def _is_judged(status: TargetStatus, now: datetime, running_since: datetime | None) -> bool:
    if running_since is None or status.condition in (TargetCondition.COLLECTING, TargetCondition.INCOMPLETE):
        return True
    target = status.target
    return shift(target.current(now).start, target.lag_seconds) >= running_since


def _trouble(
    status: TargetStatus, deaths: Deaths | None, now: datetime, running_since: datetime | None
) -> AlertFinding | None:
    kinds = frozenset(_kinds(status, deaths, _is_judged(status, now, running_since)))
    if not kinds:
        return None
    name, error = status.target.name, _error(status, deaths)
    topic = topic_of(error) if error else next(kind.value for kind in (Kind.SILENT, Kind.LATE) if kind in kinds)
    detail = "" if error else f"{status.minute.stored}/{status.minute.expected}"
    first_slot = _first_slot(status, deaths, kinds, now)
    return AlertFinding(TROUBLE, topic, name, kinds, error, detail, first_slot, status.since)


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
    status: TargetStatus, deaths: Deaths | None, kinds: frozenset[Kind], now: datetime
) -> datetime | None:
    """The first slot that it lacks: behind its newest one, or one that died or is late among the others."""
    target, newest = status.target, status.newest_slot
    firsts = [target.first_slot if newest is None else shift(newest, target.interval_seconds)]
    if deaths is not None:
        firsts.append(deaths.first_slot)
    if Kind.LATE in kinds:
        firsts.append(target.current(now).start)
    return max(target.first_slot, min(firsts))


def find_backend_troubles(
    queue: QueueDepth, lateness: Lateness, late_after_ms: int, is_storing: bool, machine: MachineTrouble
) -> Findings:
    """What is wrong with the backend itself, and with the companies of its batch."""
    found = []
    if machine.disk_full is not None:
        found.append(_of_backend(Kind.DISK_FULL, machine.disk_full))
    if queue.waiting and (queue.oldest_age_seconds or 0) > STUCK_SECONDS and not is_storing:
        found.append(_of_backend(Kind.QUEUE_STUCK, detail=f"{queue.waiting}"))
    if lateness.polls >= LEAST_POLLS and lateness.p50_ms > late_after_ms:
        found.append(_of_backend(Kind.LATE, detail=f"{lateness.p50_ms / 1000:.1f} s"))
    for company, reason in machine.failed_companies.items():
        failed = Kind.AGGREGATION_FAILED
        found.append(AlertFinding(failed.value, topic_of(reason), company, frozenset({failed}), reason))
    return collect(found)


def _of_backend(kind: Kind, cause: str = "", detail: str = "") -> AlertFinding:
    return AlertFinding(kind.value, "", BACKEND, frozenset({kind}), cause, detail)
