"""Bundles: targets of one interval and lag, up to a hundred, whose slots one message asks for on AWS (pure).

Which targets are together follows from their names alone: the hash of a name is a way through a tree, and a branch
with more than a hundred names is cut in two. So a target that comes or goes changes its own bundle and no other. A
bundle's name is made of what it holds: what was noted about one never means another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from kizami.core.messages import MOST_MEMBERS
from kizami.core.targets.target import Timed

_MINUTE = 60

_Timing = tuple[int, int, bool]
_HashedNames = list[tuple[int, str]]


class Polled(Timed, Protocol):
    """What a bundle needs to know of a target."""

    @property
    def backfill(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class NamedBundle:
    """Targets that are asked together, by their names in a fixed order, `offset_seconds` after each tick."""

    name: str
    interval_seconds: int
    lag_seconds: int
    backfill: bool
    offset_seconds: int
    members: tuple[str, ...]


def make_bundles(targets: Iterable[Polled]) -> list[NamedBundle]:
    """The bundles of these targets, whatever their order."""
    groups: dict[_Timing, list[str]] = {}
    for target in targets:
        timing = target.interval_seconds, target.lag_seconds, target.backfill
        groups.setdefault(timing, []).append(target.name)
    return [bundle for timing, names in sorted(groups.items()) for bundle in _bundles_of(timing, names)]


def _bundles_of(timing: _Timing, names: list[str]) -> Iterator[NamedBundle]:
    hashed = sorted((int.from_bytes(sha256(name.encode()).digest(), "big"), name) for name in names)
    parts = list(_cut(hashed, 255))
    for number, members in enumerate(parts):
        yield NamedBundle(_name(timing, members), *timing, number * _spread(timing) // len(parts), members)


def _cut(hashed: _HashedNames, bit: int) -> Iterator[tuple[str, ...]]:
    if len(hashed) > MOST_MEMBERS:
        for half in (0, 1):
            yield from _cut([entry for entry in hashed if entry[0] >> bit & 1 == half], bit - 1)
    elif hashed:
        yield tuple(name for _, name in hashed)


def _spread(timing: _Timing) -> int:
    """Over how many seconds bundles are spread; an API that can only say "now" is asked while its slot lasts."""
    interval, _, backfill = timing
    return min(interval, _MINUTE) if backfill else min(interval, _MINUTE) // 2


def _name(timing: _Timing, members: tuple[str, ...]) -> str:
    return sha256("\n".join([repr(timing), *members]).encode()).hexdigest()[:16]
