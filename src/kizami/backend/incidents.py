"""Incidents of a backend, the notices sent about them, and events (values)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

TROUBLE = "trouble"  # the group of what keeps a target from its records: it is in one such incident at a time
BACKEND = ""  # the name under which the backend itself is in an incident, and no target of it


class Kind(Enum):
    """What is wrong."""

    FAILS = "fails"
    SILENT = "silent"
    LATE = "late"
    DEAD = "dead"
    COVERAGE = "coverage"
    NUMBER = "number"
    DISK_FULL = "disk full"
    QUEUE_STUCK = "queue stuck"
    AGGREGATION_FAILED = "aggregation failed"


@dataclass(frozen=True, slots=True)
class Member:
    """A target, a company or the backend itself in an incident: what is wrong, and since when it is over.

    `first_slot` is the first slot that it lacks because of it, where it lacks any. It `answers_since` then if all
    that is still wrong is that slots have died lately. `since` is when it was first seen; `began` and `cause` are
    those of its state as pages and verbs show it, which may have begun before that and change during an incident.
    """

    name: str
    kinds: frozenset[Kind]
    since: datetime
    detail: str = ""
    first_slot: datetime | None = None
    clear_since: datetime | None = None
    answers_since: datetime | None = None
    began: datetime | None = None
    cause: str | None = None

    @property
    def shown_since(self) -> datetime:
        """When the state began that it is in."""
        return self.began or self.since

    @property
    def well_since(self) -> datetime | None:
        """From when on it lacked no more slots."""
        return self.answers_since or self.clear_since


@dataclass(frozen=True, slots=True)
class Notice:
    """What one receiver was told of an incident: so many messages, the last of them when and about how many."""

    messages: int = 0
    last_at: datetime | None = None
    told_since: datetime | None = None  # None: it was told nothing, or that it is over
    members: int = 0


NOTHING_TOLD = Notice()


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that is wrong, with a beginning, a cause and an end.

    Of one `group` a target is in one open incident at a time; `topic` is the cause without what differs from
    target to target, so that those which fail together are together. It is over when all its members are well, and
    what they lack is filled or will not be.
    """

    number: int
    group: str
    topic: str
    cause: str
    since: datetime
    members: Mapping[str, Member] = field(default_factory=dict)
    notices: Mapping[str, Notice] = field(default_factory=dict)
    over_since: datetime | None = None
    acknowledged_at: datetime | None = None
    acknowledged_by: str = ""
    silenced_until: datetime | None = None

    @property
    def is_open(self) -> bool:
        return self.over_since is None

    @property
    def kinds(self) -> frozenset[Kind]:
        """All that is wrong with any of its members."""
        return frozenset(kind for member in self.members.values() for kind in member.kinds)

    @property
    def wrong(self) -> list[Member]:
        """Those with which something is still wrong; all of them once they are well."""
        every = list(self.members.values())
        return [member for member in every if member.clear_since is None] or every

    @property
    def shown_since(self) -> datetime:
        """When the state began that is shown for it: that of the member that has been in it for the longest."""
        return min((member.shown_since for member in self.wrong), default=self.since)

    @property
    def shown_cause(self) -> str:
        """Why its members fail now; empty where no error tells."""
        causes = [member.cause for member in self.wrong if member.cause is not None]
        return next(filter(None, causes), "") if causes else self.cause

    def is_about(self, targets: Collection[str]) -> bool:
        """True if one of the targets is a member; where members are companies, none is."""
        is_of_companies = self.group == Kind.AGGREGATION_FAILED.value
        return not is_of_companies and not self.members.keys().isdisjoint(targets)

    def is_silenced(self, now: datetime) -> bool:
        """Whether nobody is told of it at `now`."""
        return self.silenced_until is not None and now < self.silenced_until


@dataclass(frozen=True, slots=True)
class BackendEvent:
    """Something that happened: started, stopped, reloaded, backfilled by whom, a clock that jumped.

    `targets` are all that it is about, of which `details` may name the first ones; None if `details` tells.
    """

    number: int
    at: datetime
    event: str
    by: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    targets: Collection[str] | None = field(default=None, compare=False)
