"""What is wrong at a moment, target by target: what incidents are made of (pure)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kizami.backend.incidents import Kind

# What differs from target to target in one and the same error: hosts, addresses, numbers, but for a status.
_WORD = re.compile(r"(status )?(\S+)")
_OWN = re.compile(r"\d|\w\.\w|://")
_TOPIC_LENGTH = 200


@dataclass(frozen=True, slots=True)
class AlertFinding:
    """Something that is wrong with a target, a company or the backend itself.

    Findings of one group and topic are one incident; `cause` is how the first of them puts it. `since` is when the
    target's state began, where that is known.
    """

    group: str
    topic: str
    name: str
    kinds: frozenset[Kind]
    cause: str = ""
    detail: str = ""
    first_slot: datetime | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Findings:
    """All that is wrong, by group and name, and of whom that cannot be said at the moment."""

    bad: Mapping[tuple[str, str], AlertFinding] = field(default_factory=dict)
    unjudged: Collection[tuple[str, str]] = frozenset()

    def joined(self, others: Findings) -> Findings:
        """These and others."""
        return Findings({**self.bad, **others.bad}, {*self.unjudged, *others.unjudged})


def collect(found: Iterable[AlertFinding], unjudged: Iterable[tuple[str, str]] = ()) -> Findings:
    """Single findings as one."""
    return Findings({(each.group, each.name): each for each in found}, frozenset(unjudged))


def topic_of(error: str) -> str:
    """An error without its remedy and without what is its target's own, so that one cause has one topic."""
    problem = error.partition("; ")[0][:_TOPIC_LENGTH]
    return _WORD.sub(lambda word: word[0] if word[1] or not _OWN.search(word[2]) else "…", problem)
