"""Installations on AWS in memory: configured targets in ticks, and the original target in rows.

What a test stores is written by the functions' own writers. Marks come from the reconciler, sealed items from
sealing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from random import Random
from unittest.mock import patch

from aws_here.memory_aws import led_to, memory_aws
from kizami.aws.history.keeping import KeptMetric, kept_metrics
from kizami.aws.marks import LATE_SECONDS, Marks
from kizami.aws.ownership import Ownership
from kizami.aws.plans import Plans
from kizami.aws.reconcile import Recovery, RecoverySettings
from kizami.aws.rows import RowTicks
from kizami.aws.sealing import BundleToSeal, Sealing
from kizami.aws.settings import QueueUrls
from kizami.aws.shared_reads import SharedAnswers
from kizami.aws.slot_answers import AwsSlotAnswers
from kizami.aws.ticks import TickFacts, Ticks
from kizami.backend.slots import Answer, Asked, SlotView
from kizami.core.answers.numbers import Number, exact_of, to_units
from kizami.core.bundles import BundlePlan, OwnedRange, make_plan, owned_ranges, row_bundle
from kizami.core.epoch import from_seconds, to_ms, to_seconds
from kizami.core.recovery import LiveRange, Mark, live_ranges
from kizami.core.sealing import span_of
from kizami.core.slots import floor_to_minute, shift
from kizami.core.targets.target import Target
from kizami.core.ticks import Answered, steps_after
from samples.installation import DAY, START, TARGETS, Ability, Kind

TABLE = "Metrics"
URLS = QueueUrls(*(f"https://sqs.test/1/{name}" for name in ("live", "retry", "backfill", "dead")))
RUNS = 100  # of the reconciler, at most, before a span can be sealed


@dataclass(frozen=True)
class Packaged:
    """The configuration as the reconciler finds it packaged."""

    plan: BundlePlan
    targets: Mapping[str, Target]

    def knows(self, name: str) -> bool:
        return name in self.targets

    def target(self, name: str) -> Target:
        return self.targets[name]

    def kept(self) -> dict[str, KeptMetric]:
        return {each.name: each for each in kept_metrics(self.targets.values())}


class AwsInstallation:
    """An `Installation` on AWS; `rows` is the original target, if it is one of that."""

    def __init__(self, targets: Iterable[Target], rows: Target | None = None) -> None:
        self.aws = memory_aws()
        self._now = self._newest = START
        self._rows = rows
        self._row_ticks = RowTicks(TABLE, keep_seconds=rows.keep_seconds if rows else None)
        self._marks, self._ticks, self._plans = Marks(TABLE), Ticks(TABLE), Plans(TABLE)
        self._targets: dict[str, Target] = {}
        self._configure(targets, START)

    def now(self) -> datetime:
        return self._now

    def milliseconds(self) -> int:
        return to_ms(self._now)

    def move_to(self, moment: datetime) -> None:
        assert moment >= self._now
        self._now = moment
        if self._rows is None:
            self._plans.claim(self._plan, floor_to_minute(moment))

    def store(
        self,
        name: str,
        slot: datetime,
        *values: Number,
        at: datetime | None = None,
        late_ms: int = 0,
        attempts: int = 1,
        backfill: bool = False,
    ) -> None:
        owned = self._owner(name, slot)
        bundle, member = owned.bundle, owned.bundle.members[owned.place]
        units = tuple(to_units(exact_of(value), member.decimals) for value in values)
        due = bundle.due(slot)
        steps = steps_after(due, at or shift(due, late_ms / 1000))
        answer = Answered(units, member.decimals, steps, attempts, backfill)
        self._record(owned, slot, TickFacts({owned.place: answer}), late_ms)

    def kill(self, name: str, slot: datetime, reason: str = "status 500") -> None:
        owned = self._owner(name, slot)
        self._record(owned, slot, TickFacts(dead=frozenset([owned.place])))

    def ask(self, name: str, slots: Iterable[datetime]) -> None:
        for slot in slots:
            owned = self._owner(name, slot)
            self._marks.note_late(owned.bundle.name, slot, self._now)
            self._ticks.ask_again(owned.bundle, slot, [owned.place], self._now)

    def seal(self) -> None:
        later = shift(self._now, 1200)  # a late day is sealed when nothing was written to it for a while
        self._reconcile(min(later, shift(self._newest, 2 * DAY)))
        kept = {each.name: each for each in kept_metrics(self._targets.values())}
        Sealing(TABLE, self._marks, kept).run(map(self._as_far_as_stored, self._works()), later)
        self._marks = Marks(TABLE)  # which has noted no late day yet: the clock stands still meanwhile

    def expire(self) -> None:
        chance = Random(0)
        for _ in range(60):  # each time some of what has expired goes
            self.aws.dynamodb.expire(to_seconds(self._now), chance)

    def reconfigure(self, *targets: Target) -> None:
        # The present minute was sent already.
        self._configure(targets, shift(floor_to_minute(self._now), 60))

    def reads(self) -> int:
        return sum(self.aws.calls.values())

    def slots(self, asked: Asked, view: SlotView[Answer]) -> Answer:
        return self._answers.slots(asked, view)

    def look(self) -> SharedAnswers:
        """Return what answers the questions of one look, all at the present moment."""
        return SharedAnswers(TABLE, self._ownership, self._targets.values(), self)

    def _configure(self, targets: Iterable[Target], minute: datetime) -> None:
        self._targets = {target.name: target for target in targets}
        self._plan = make_plan(self._targets.values())
        with led_to(self.aws):
            if self._rows is None:
                self._plans.register(self._plan)
                assert self._plans.claim(self._plan, minute)
        self._ownership = Ownership(TABLE, self._targets.values(), self._rows)
        self._answers = AwsSlotAnswers(TABLE, self._ownership, self._targets.values(), self)

    def _owner(self, name: str, slot: datetime) -> OwnedRange:
        if self._rows is not None:
            return OwnedRange(None, None, row_bundle(self._rows), 0)
        plans = [(period, self._plans.plan(period.plan)) for period in self._plans.periods()]
        metric = self._targets[name].metrics[0] if name in self._targets else name
        return next(each for each in owned_ranges(metric, plans) if each.owns(slot))

    def _record(self, owned: OwnedRange, slot: datetime, facts: TickFacts, late_ms: int = 0) -> None:
        self._newest = max(self._newest, slot)
        live = live_ranges(owned.bundle, self._plans.periods())
        is_backfill = any(each.backfill for each in facts.answers.values()) or (live and slot < live[0].start)
        if is_backfill or (self._now - owned.bundle.due(slot)).total_seconds() > LATE_SECONDS:
            self._marks.note_late(owned.bundle.name, slot, self._now)
        ticks = self._row_ticks if self._rows else self._ticks
        ticks.record(owned.bundle, slot, facts, late_ms)

    def _reconcile(self, now: datetime) -> None:
        """Run the reconciler until it has looked at everything."""
        packaged = None if self._rows else Packaged(self._plan, self._targets)
        settings = RecoverySettings(TABLE, URLS, packaged, self._rows)  # type: ignore[arg-type]
        before: list[Mark] = []
        for _ in range(RUNS):
            Recovery(settings).run(now)
            marks = [work.mark for work in self._works()]
            if [mark.seen_until for mark in marks] == [mark.seen_until for mark in before]:
                return
            before = marks
        raise AssertionError("the reconciler does not come to an end")

    def _as_far_as_stored(self, work: BundleToSeal) -> BundleToSeal:
        """Leave out spans after the newest slot of which something became: there may be hundreds."""
        end = from_seconds(span_of(work.bundle, to_seconds(self._newest)).end)
        live = [LiveRange(each.start, min(each.end or end, end)) for each in work.live if each.start < end]
        return replace(work, live=live)

    def _works(self) -> list[BundleToSeal]:
        known = self._marks.all()
        if self._rows is not None:
            bundle = row_bundle(self._rows)
            first = self._row_ticks.first(bundle, self._now)
            return [BundleToSeal(bundle, known.of(bundle.name), [LiveRange(first)])] if first else []
        periods = self._plans.periods()
        plans = [self._plans.plan(name) for name in dict.fromkeys(each.plan for each in periods)]
        bundles = [bundle for plan in plans for bundle in plan.bundles]
        return [BundleToSeal(each, known.of(each.name), live_ranges(each, periods)) for each in bundles]


@contextmanager
def aws_installation(targets: Iterable[Target], rows: Target | None = None) -> Iterator[AwsInstallation]:
    """Provide an empty installation of these targets, or of one in rows."""
    found = AwsInstallation(targets, rows)
    in_turn = patch("kizami.aws.client.machine.map_in_threads", lambda call, items, at_once: map(call, items))
    with led_to(found.aws), patch("kizami.aws.client.machine.now", found.now), in_turn:
        yield found


@contextmanager
def aws_ticks(folder: Path) -> Iterator[AwsInstallation]:
    """Provide an empty installation of configured targets."""
    with aws_installation(TARGETS) as found:
        yield found


AWS_TICKS = Kind("aws-ticks", aws_ticks, abilities=frozenset(Ability) - {Ability.STORE_ONE_VALUE})
