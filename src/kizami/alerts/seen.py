"""What a look has seen, whichever backend it was taken of, and what can be asked besides (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from kizami.alerts.findings import AlertFinding, Findings
from kizami.alerts.rules.conditions import AlertCondition
from kizami.backend.health import SlotTally
from kizami.backend.incidents import Member
from kizami.backend.targets import KnownTarget
from kizami.core.coverage import Completeness

REFILL_SECONDS = 300  # one machine has asked for all missing slots by then


@dataclass(frozen=True, slots=True)
class Holes:
    """Where the slots are that a member of an incident lacked, and whether missing ones are asked for again.

    After the recovery that takes at most `refill_seconds`; where dead ones are asked for, too, they `return`.
    """

    slots: SlotTally
    is_refilled: bool = True
    dead_return: bool = False
    refill_seconds: int = REFILL_SECONDS

    @property
    def lacking(self) -> int:
        return self.slots.expected - self.slots.stored

    @property
    def awaited(self) -> int:
        """How many are on their way, or will be."""
        return self.slots.pending + (self.slots.dead if self.dead_return else 0)


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of a backend at a moment."""

    now: datetime
    findings: Findings = field(default_factory=Findings)
    targets: Mapping[str, KnownTarget] = field(default_factory=dict)


class SlotCounter(Protocol):
    """Where slots are; it is asked only where a message, or an end, depends on it."""

    def holes(self, members: Collection[Member]) -> Mapping[str, Holes]:
        """Where the slots are that each member lacked, from its first one until it was well again."""

    def coverage(self, members: Collection[Member]) -> Completeness | None:
        """The coverage of 24 hours of all of them together; None if none of them is a target."""


def low_coverage(condition: AlertCondition, name: str, covered: Completeness) -> Iterator[AlertFinding]:
    """That a target has fewer of its slots than the condition asks for, if that is so."""
    if covered.expected and covered.stored * 100 < condition.bound * Decimal(covered.expected):
        yield of_condition(condition, name, f"{_percent(covered)}%")


def _percent(covered: Completeness) -> str:
    return f"{int(covered.ratio * 1000) / 10:g}"  # cut, not rounded: 99.96% is not whole


def of_condition(condition: AlertCondition, name: str, detail: str) -> AlertFinding:
    """That a target meets a condition about coverage or numbers."""
    return AlertFinding(condition.text, "", name, frozenset({condition.kind}), condition.text, detail)
