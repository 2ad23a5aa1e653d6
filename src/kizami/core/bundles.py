"""Bundles: targets of one timing whose slots one message asks for and one item stores on AWS (pure).

A plan is all bundles of a deployment. Its name is a hash of all that says how a tick is read: names, values,
decimals and timing. Two deployments with the same plan store the same way, and a changed plan never reuses a name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from typing import Any

from kizami.core.slots import shift
from kizami.core.targets.target import Target

MOST_VALUES = 100  # of a bundle, so that a tick stays within one write unit of DynamoDB
MINUTE = 60
ROWS = "rows"  # stands for a plan where the original target is handled like a bundle
_PLAN_LETTERS = 8

_Timing = tuple[int, int, bool]


@dataclass(frozen=True, slots=True)
class BundleMember:
    """A target in a bundle: its metrics, one for each value of its answer, and the decimals of its values."""

    name: str
    decimals: int
    metrics: tuple[str, ...]


@dataclass(frozen=True)
class Bundle:
    """Targets that are asked together, `offset_seconds` after each tick; a member's place is its number."""

    name: str
    interval_seconds: int
    lag_seconds: int
    backfill: bool
    offset_seconds: int
    members: tuple[BundleMember, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of its members, in their places."""
        return tuple(member.name for member in self.members)

    @cached_property
    def places(self) -> dict[str, int]:
        """The place of each member by its name."""
        return {member.name: place for place, member in enumerate(self.members)}

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """How many values each member has."""
        return tuple(len(member.metrics) for member in self.members)

    @property
    def plan(self) -> str:
        """The name of its plan."""
        return self.name.partition(".")[0]

    @property
    def is_rows(self) -> bool:
        """Return True for the original target, whose ticks are rows of the table."""
        return self.plan == ROWS

    def due(self, slot: datetime) -> datetime:
        """The tick at which a slot is due, which times of answers are counted from."""
        return shift(slot, self.lag_seconds)


_Members = tuple[BundleMember, ...]


@dataclass(frozen=True)
class BundlePlan:
    """All bundles of a deployment."""

    name: str
    bundles: tuple[Bundle, ...]

    @cached_property
    def of_metric(self) -> dict[str, tuple[Bundle, int, int]]:
        """For each metric its bundle, its target's place in it, and its own place among the target's values."""
        return {
            metric: (bundle, place, number)
            for bundle in self.bundles
            for place, member in enumerate(bundle.members)
            for number, metric in enumerate(member.metrics)
        }


def make_plan(targets: Iterable[Target]) -> BundlePlan:
    """Cut targets into bundles of up to MOST_VALUES values, whatever the order of the targets."""
    groups: dict[_Timing, list[BundleMember]] = {}
    for target in targets:
        timing = target.interval_seconds, target.lag_seconds, target.backfill
        groups.setdefault(timing, []).append(BundleMember(target.name, target.answer.decimals, target.metrics))
    parts = [
        (timing, offset, members)
        for timing, group in sorted(groups.items())
        for offset, members in _spread(timing, list(_cut(group)))
    ]
    text = json.dumps([[timing, [write_member(member) for member in members]] for timing, _, members in parts])
    name = sha256(text.encode()).hexdigest()[:_PLAN_LETTERS]
    bundles = (
        Bundle(f"{name}.{number}", *timing, offset, members)
        for number, (timing, offset, members) in enumerate(parts)
    )
    return BundlePlan(name, tuple(bundles))


def row_bundle(target: Target) -> Bundle:
    """Return the original target as a bundle of one, whose ticks are rows of the table."""
    member = BundleMember(target.name, target.answer.decimals, target.metrics)
    timing = target.interval_seconds, target.lag_seconds, target.backfill
    return Bundle(f"{ROWS}.{target.name}", *timing, 0, (member,))


def _cut(members: Iterable[BundleMember]) -> Iterator[_Members]:
    """Fill bundles to the brim in the order of hashes: 1,000 targets of one value make ten."""
    part: list[BundleMember] = []
    values = 0
    for member in sorted(members, key=lambda member: sha256(member.name.encode()).digest()):
        if part and values + len(member.metrics) > MOST_VALUES:
            yield tuple(part)
            part, values = [], 0
        part.append(member)
        values += len(member.metrics)
    yield tuple(part)


def _spread(timing: _Timing, parts: Sequence[_Members]) -> Iterator[tuple[int, _Members]]:
    """Each part with its offset within the interval; an API that can only say "now" is asked in its first half."""
    interval, _, backfill = timing
    seconds = min(interval, MINUTE) if backfill else min(interval, MINUTE) // 2
    for number, members in enumerate(parts):
        yield number * seconds // len(parts), members


def write_member(member: BundleMember) -> list[Any]:
    """Write a member as JSON; the metric of a target with one value follows from its name."""
    if member.metrics == (member.name,):
        return [member.name, member.decimals]
    return [member.name, member.decimals, [metric.removeprefix(f"{member.name}/") for metric in member.metrics]]


def read_member(row: Sequence[Any]) -> BundleMember:
    """Read what `write_member` wrote."""
    name, decimals, *values = row
    metrics = tuple(f"{name}/{value}" for value in values[0]) if values else (name,)
    return BundleMember(name, decimals, metrics)


@dataclass(frozen=True, slots=True)
class Period:
    """The trigger minutes [start, end) whose messages one plan has sent; the present one has no end."""

    plan: str
    start: datetime
    end: datetime | None = None


@dataclass(frozen=True, slots=True)
class OwnedRange:
    """The slots [start, end) of a metric that one bundle holds; None stands for an open end."""

    start: datetime | None
    end: datetime | None
    bundle: Bundle
    place: int  # of the target in the bundle
    number: int = field(default=0)  # of the value in the target's answer

    def owns(self, slot: datetime) -> bool:
        """Return True if the slot lies in the range."""
        return (self.start is None or slot >= self.start) and (self.end is None or slot < self.end)


def owned_ranges(metric: str, periods: Iterable[tuple[Period, BundlePlan]]) -> list[OwnedRange]:
    """Return who holds the slots of a metric, oldest range first; the ranges touch and do not overlap.

    A slot belongs to the first period that could have sent it live. Two bundles never own one slot, so the first
    answer wins within one item and no comparison across items is needed.
    """
    found: list[OwnedRange] = []
    start: datetime | None = None
    for period, plan in periods:
        if metric not in plan.of_metric:
            continue
        bundle, place, number = plan.of_metric[metric]
        ahead = 0 if bundle.backfill else MINUTE  # sent a minute before its ticks
        end = None if period.end is None else shift(period.end, ahead - bundle.lag_seconds)
        if start is not None and end is not None and end <= start:
            continue
        found.append(OwnedRange(start, end, bundle, place, number))
        start = end
    return found
