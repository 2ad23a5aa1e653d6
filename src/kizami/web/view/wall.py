"""The wall: all targets in groups, the worst first (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from kizami.backend.health import RANK, WRONG, TargetStatus


@dataclass(frozen=True, slots=True)
class Group:
    """The targets whose names have the same part before the first slash."""

    name: str
    statuses: Sequence[TargetStatus]

    @property
    def bad(self) -> int:
        return sum(status.condition in WRONG for status in self.statuses)


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
    return RANK[worst] if worst in WRONG else len(RANK)
