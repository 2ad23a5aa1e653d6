"""The wall: all targets in groups, the worst first, and who is to blame for the verdict (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from kizami.home.health import TargetCondition, TargetStatus

WORST_FIRST = (
    TargetCondition.BLOCKED,
    TargetCondition.SILENT,
    TargetCondition.STRUGGLING,
    TargetCondition.WAITING,
    TargetCondition.PAUSED,
    TargetCondition.DISABLED,
    TargetCondition.REMOVED,
    TargetCondition.COLLECTING,
)
RANK = {condition: rank for rank, condition in enumerate(WORST_FIRST)}
# What somebody should look at; the other conditions are as somebody wished.
BAD = frozenset(WORST_FIRST[:3])


@dataclass(frozen=True, slots=True)
class Group:
    """The targets whose names have the same part before the first slash."""

    name: str
    statuses: Sequence[TargetStatus]

    @property
    def bad(self) -> int:
        return sum(status.condition in BAD for status in self.statuses)


def group_name(metric: str) -> str:
    """The part before the first slash, if there is one."""
    before, slash, _ = metric.partition("/")
    return before if slash else ""


def groups_of(statuses: Iterable[TargetStatus]) -> list[Group]:
    """The groups, those with the worst target first; so are the targets of each."""
    ordered = sorted(statuses, key=lambda status: group_name(status.target.name))
    groups = [
        Group(name, sorted(each, key=lambda status: (RANK[status.condition], status.target.name)))
        for name, each in groupby(ordered, lambda status: group_name(status.target.name))
    ]
    return sorted(groups, key=lambda group: (_rank(group), -group.bad, not group.name, group.name))


def _rank(group: Group) -> int:
    """Groups in which nobody is bad stand in the order of their names."""
    worst = group.statuses[0].condition
    return RANK[worst] if worst in BAD else len(RANK)


@dataclass(frozen=True, slots=True)
class Culprits:
    """The targets in the worst condition: the first of them, how many more there are, and since when."""

    condition: TargetCondition
    metric: str
    more: int
    since: datetime


def find_culprits(statuses: Mapping[str, TargetStatus]) -> Culprits | None:
    """Who is to blame, if somebody is."""
    for condition in WORST_FIRST[:3]:
        found = [status for status in statuses.values() if status.condition is condition]
        if found:
            first = min(found, key=lambda status: (since(status), status.target.name))
            return Culprits(condition, first.target.name, len(found) - 1, since(first))
    return None


def since(status: TargetStatus) -> datetime:
    """Since when a target lacks what it should have."""
    if status.trouble is not None and status.trouble.blocked_since is not None:
        return status.trouble.blocked_since
    if status.newest_slot is None:
        return status.target.first_slot
    return status.newest_slot + timedelta(seconds=status.target.interval_seconds)
