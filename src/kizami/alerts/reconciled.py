"""A look made of what a run of the reconciler has seen, for a backend where nobody looks every 15 seconds (pure).

A run on AWS sees of each target which of its newest settled slots are stored, why requests for it failed lately
and what has died since the run before; the rest is the same as on one machine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kizami.alerts.findings import Findings, collect
from kizami.alerts.rules.conditions import AlertCondition
from kizami.alerts.rules.settings import AlertSettings
from kizami.alerts.seen import Holes, Look, low_coverage
from kizami.alerts.troubles import find_troubles
from kizami.backend.health import DAY, SlotTally, TargetStatus
from kizami.backend.incidents import TROUBLE, Member
from kizami.backend.targets import KnownTarget
from kizami.backend.values import Deaths, TargetTrouble
from kizami.core.coverage import Completeness, Span, add_up, next_slot
from kizami.core.reconcile import ReconcilePolicy
from kizami.core.slots import shift

# How much of a span of each target is stored, by name; one that could not be counted is left out.
CountSlots = Callable[[Mapping[str, Span]], Mapping[str, Completeness]]

_NOTHING = Completeness(0, 0)


@dataclass(frozen=True, slots=True)
class SeenTarget:
    """A target with which something may be wrong: how many of its newest slots are stored, the first one that is
    not, why requests for it fail, what has died lately."""

    target: KnownTarget
    recent: Completeness
    first_lacking: datetime | None = None
    trouble: TargetTrouble | None = None
    deaths: Deaths | None = None

    @property
    def trouble_since(self) -> datetime | None:
        """Since when it is blocked."""
        return self.trouble.blocked_since if self.trouble else None

    def status(self, now: datetime) -> TargetStatus:
        """It as `find_troubles` takes it."""
        minute = SlotTally(self.recent.stored, missing=self.recent.missing)
        lacking = self.first_lacking or self.target.settled(now).end
        newest = shift(lacking, -self.target.interval_seconds)
        is_failing = self.trouble is not None and (self.trouble.is_blocked or bool(self.recent.missing))
        trouble = self.trouble if is_failing else None
        since = self.first_lacking
        return TargetStatus(self.target, newest, minute, _NOTHING, _NOTHING, 0, trouble, incident_since=since)


def recent_span(target: KnownTarget, policy: ReconcilePolicy, now: datetime) -> Span:
    """The settled slots since the run before, at least the newest one: they tell how the target does."""
    return target.recent(timedelta(seconds=max(policy.period_seconds, target.interval_seconds)), now)


def look_of_run(
    seen: Sequence[SeenTarget],
    settings: AlertSettings,
    now: datetime,
    unread: Collection[str] = (),
    others: Findings | None = None,
) -> Look:
    """What a run of the reconciler has seen, with what else was found; it knows nothing of `unread` targets."""
    statuses = {each.target.name: each.status(now) for each in seen}
    deaths = {each.target.name: each.deaths for each in seen if each.deaths is not None}
    groups = [TROUBLE, *(condition.text for condition, _ in settings.conditions())]
    unknown = collect((), [(group, name) for group in groups for name in unread])
    found = find_troubles(statuses, deaths, now)
    # A run sees only the newest slots: where none of them is stored, it does not see when that began.
    blind = {each.target.name for each in seen if not each.recent.stored and each.trouble_since is None}
    bad = {key: replace(each, since=None) if each.name in blind else each for key, each in found.bad.items()}
    findings = replace(found, bad=bad).joined(unknown)
    return Look(now, findings.joined(others or Findings()), {each.target.name: each.target for each in seen})


def find_low_coverage(
    condition: AlertCondition, targets: Sequence[KnownTarget], count: CountSlots, now: datetime
) -> Findings:
    """Which of the targets have fewer slots than a condition asks for; nothing is said of who was not counted."""
    spans = {each.name: each.recent(timedelta(seconds=condition.seconds), now) for each in targets}
    counted = count(spans)
    found = (each for name, covered in counted.items() for each in low_coverage(condition, name, covered))
    return collect(found, [(condition.text, name) for name in spans.keys() - counted.keys()])


class RunSlotCounter:
    """`SlotCounter` for a run: what is stored is counted by the store, and the rest is asked for again by the
    reconciler, dead or not, as far back as it looks.

    `dead` is how many slots of each target are known to have died lately.
    """

    def __init__(
        self,
        known: Callable[[str], KnownTarget | None],
        policy: ReconcilePolicy,
        now: datetime,
        count: CountSlots,
        dead: Mapping[str, int],
    ) -> None:
        self._known = known
        self._policy = policy
        self._now = now
        self._count = count
        self._dead = dead

    def holes(self, members: Collection[Member]) -> Mapping[str, Holes]:
        targets = {each.name: target for each, target in self._targets(members) if each.first_slot is not None}
        spans = {each.name: self._span(targets[each.name], each) for each in members if each.name in targets}
        counted = self._count(spans)
        old = {name: span for name in counted if (span := self._too_old(targets[name], spans[name])).expected}
        given_up = self._count(old) if old else {}
        return {
            name: self._holes(target, spans[name], counted.get(name), given_up.get(name, _NOTHING))
            for name, target in targets.items()
        }

    def coverage(self, members: Collection[Member]) -> Completeness | None:
        spans = {each.name: target.recent(DAY, self._now) for each, target in self._targets(members)}
        return add_up(self._count(spans).values()) if spans else None

    def _targets(self, members: Collection[Member]) -> Iterator[tuple[Member, KnownTarget]]:
        for member in members:
            target = self._known(member.name)
            if target is not None:
                yield member, target

    def _span(self, target: KnownTarget, member: Member) -> Span:
        end = shift(member.well_since or self._now, -target.lag_seconds)
        return target.due_within(member.first_slot or end, end, self._now)

    def _holes(self, target: KnownTarget, span: Span, counted: Completeness | None, old: Completeness) -> Holes:
        """What was not counted is not known to be stored, so that nothing is called whole too early."""
        found = counted or Completeness(0, span.expected)
        given_up = old.missing if target.backfill else found.missing
        asked = found.missing - given_up
        dead = min(self._dead.get(target.name, 0), asked)
        return Holes(SlotTally(found.stored, asked - dead, dead, given_up), target.backfill, dead_return=True)

    def _too_old(self, target: KnownTarget, span: Span) -> Span:
        """The part of a span that no run looks at any more."""
        oldest = shift(self._now, -self._policy.look_back_seconds - target.lag_seconds)
        end = min(max(next_slot(oldest, span.interval_seconds), span.start), span.end)
        return Span(span.start, end, span.interval_seconds)
