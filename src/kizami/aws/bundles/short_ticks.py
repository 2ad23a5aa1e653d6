"""Ticks of a bundle that lack somebody, and which of those slots a run of the reconciler asks for again (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar
from zlib import crc32

from kizami.core.coverage import Completeness, Gap, Span
from kizami.core.messages import BundleMessage
from kizami.core.reconcile import ReconcilePolicy, is_turn
from kizami.core.slots import Window, shift
from kizami.core.targets.bundles import NamedBundle

Each = TypeVar("Each")
Lacking = Mapping[datetime, Set[str]]  # whom a tick lacks


@dataclass(frozen=True, slots=True)
class BundleFinding:
    """What a run found about one bundle: whom its ticks lack, and who of them gives answers at present."""

    bundle: NamedBundle
    expected: int  # slots, of all members
    lacking: Lacking = field(default_factory=dict)
    answering: frozenset[str] = frozenset()

    @property
    def completeness(self) -> Completeness:
        missing = sum(map(len, self.lacking.values()))
        return Completeness(self.expected - missing, self.expected)

    @property
    def silent(self) -> list[str]:
        """Those that lack slots and give no answers."""
        return sorted(set().union(*self.lacking.values()) - self.answering) if self.lacking else []

    @property
    def lowest(self) -> Completeness:
        """That of the member that lacks most."""
        counts = Counter(name for names in self.lacking.values() for name in names)
        expected = self.expected // len(self.bundle.members)
        return Completeness(max(0, expected - max(counts.values(), default=0)), expected)


def lacking_of(
    bundle: NamedBundle, gaps: Iterable[Gap], noted: Mapping[datetime, Set[int]]
) -> dict[datetime, Set[str]]:
    """Whom the ticks of gaps lack: those that are noted as lacking, and everybody where nothing is noted."""
    everybody = frozenset(bundle.members)
    return {
        slot: frozenset(bundle.members[place] for place in noted[slot]) if slot in noted else everybody
        for gap in gaps
        for slot in Span(gap.start, gap.end, bundle.interval_seconds).slots()
    }


def plan_bundle(finding: BundleFinding, now: datetime, policy: ReconcilePolicy) -> Iterator[BundleMessage]:
    """What this run asks for again, oldest first: of who answers the slots whose turn it is, of others the newest.

    A target that is down would only turn every slot into one more dead letter. Each bundle has turns of its own.
    """
    bundle = finding.bundle
    if not bundle.backfill:
        return
    newest = _newest_of_silent(finding)
    phase = crc32(bundle.name.encode())
    for slot in sorted(finding.lacking):
        names = newest.get(slot, set())
        if is_turn(shift(slot, bundle.lag_seconds), now, policy, phase):
            names = names | (finding.lacking[slot] & finding.answering)
        if names:
            metrics = tuple(name for name in bundle.members if name in names)
            yield BundleMessage(Window.of_slot(slot, bundle.interval_seconds), metrics)


def _newest_of_silent(finding: BundleFinding) -> dict[datetime, set[str]]:
    found: dict[datetime, set[str]] = {}
    seen: set[str] = set()
    for slot in sorted(finding.lacking, reverse=True):
        silent = {name for name in finding.lacking[slot] if name not in finding.answering} - seen
        if silent:
            found[slot] = silent
            seen |= silent
    return found


def rotated(bundles: Sequence[Each], run: int) -> list[Each]:
    """The bundles with another one in front each time: if a run ends early, the next begins elsewhere."""
    start = run * 0x9E3779B1 % len(bundles) if bundles else 0
    return [*bundles[start:], *bundles[:start]]
