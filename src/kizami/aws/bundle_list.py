"""The bundles that a run of the reconciler looks after: those of all plans that are not finished.

    #plans ─▶ periods ─┐
    #marks ────────────┼─▶ bundles: of the present plan (packaged), of former ones (`#plan`), the original target
    rows (the first) ──┘

A former plan is finished when all of its bundles are sealed to their ends. That is noted in one item, and one run
later the marks of its bundles are forgotten. Such a bundle is only looked after if slots of it are still asked for
or were written late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from math import inf

from kizami.aws.files import PackagedTargets
from kizami.aws.invocation import TimeLeft
from kizami.aws.marks import KnownMarks, Marks
from kizami.aws.plans import Plans
from kizami.aws.rows import RowTicks
from kizami.core.bundles import MINUTE, Bundle, BundlePlan, Period, row_bundle
from kizami.core.recovery import (
    LiveRange,
    Mark,
    former_slots,
    horizon,
    is_finished,
    live_ranges,
    slots_between_plans,
)
from kizami.core.slots import shift
from kizami.core.targets.target import Target

_PLANS: dict[str, BundlePlan] = {}  # former plans never change


@dataclass(slots=True)
class ListedBundle:
    """A bundle, the slots that its plan sends live, and its mark as it is kept."""

    bundle: Bundle
    live: Sequence[LiveRange]
    mark: Mark


class BundleList:
    """The bundles of a table at the beginning of a run. StoreError.

    `rows` is the original target, if that is what is polled. Without a row it lacks what was due in
    `look_back_seconds`: a deployment that never worked is not complete.
    """

    def __init__(
        self,
        table: str,
        targets: PackagedTargets | None,
        rows: Target | None,
        look_back_seconds: int,
        time_left: TimeLeft = lambda: inf,
    ) -> None:
        self._targets = targets
        self._rows = rows
        self._look_back_seconds = look_back_seconds
        self._plans = Plans(table, time_left)
        self._row_ticks = RowTicks(table, time_left)
        self._marks = Marks(table, time_left)
        self._periods: list[Period] = []
        self._ends: dict[str, list[datetime | None]] = {}  # of a plan's periods; a deployment may go back to one
        self._known = KnownMarks()
        self._listed: dict[str, ListedBundle] = {}

    def read(self, now: datetime) -> None:
        """Read periods and marks, and list the bundles."""
        self._known = self._marks.all()
        self._periods = self._plans.periods() if self._targets else []
        for period in self._periods:
            self._ends.setdefault(period.plan, []).append(period.end)
        for each in (*self._of_plans(), *self._of_rows(now)):
            self._listed[each.bundle.name] = each

    @property
    def all(self) -> list[ListedBundle]:
        """The bundles that are looked after."""
        return list(self._listed.values())

    def held_since(self, first: datetime) -> Iterator[Bundle]:
        """Return all bundles that hold slots from `first` on, also of plans that are finished."""
        for plan, ends in self._ends.items():
            if any(end is None or end > first for end in ends):
                yield from self._plan(plan).bundles

    def listed(self, bundle: Bundle) -> ListedBundle:
        """Return a bundle as it is listed; one that is not yet is listed by that."""
        return self._listed.setdefault(bundle.name, self._listed_bundle(bundle))

    def begun(self, listed: ListedBundle) -> Mark:
        """Return the mark; if it has not begun, one that begins with the first live slot that is not sealed."""
        bundle, mark = listed.bundle, listed.mark
        for part in listed.live if not mark.version else ():
            if part.end is None or part.end > mark.seen_until:
                start = max(part.start, mark.seen_until)
                mark = replace(mark, seen_until=start, sealed_until=start)
                for former, period in pairwise(self._periods):
                    if part in live_ranges(bundle, [period]):
                        mark = slots_between_plans(mark, bundle, period.start, self._plan(former.plan))
                break
        return mark

    def save(self, listed: ListedBundle, mark: Mark) -> bool:
        """Write a mark that has changed; return False if another run was quicker, whose mark stays."""
        if mark == listed.mark:
            return True
        kept = self._marks.save(mark) if mark.version else self._marks.begin(mark)
        listed.mark = kept or listed.mark
        return kept is not None

    def forget_finished(self) -> None:
        """Note which plans are finished, and forget the marks of those that were noted before this run."""
        finished = set()
        for plan, ends in self._ends.items():
            if self._is_finished(plan):
                finished.add(plan)
            elif None not in ends:
                bundles = self._plan(plan).bundles
                if all(is_finished(self._known.of(each.name), self._live(each)) for each in bundles):
                    self._marks.finish(plan, _end_of(ends))
        for mark in self._known.marks.values():
            if mark.bundle.partition(".")[0] in finished and not mark.open_runs:
                self._marks.forget(mark)

    def _of_plans(self) -> Iterator[ListedBundle]:
        names = {mark.bundle for mark in self._known.marks.values() if mark.open_runs or mark.late_days}
        for plan in self._ends:
            is_over = self._is_finished(plan)
            if is_over and not any(name.startswith(f"{plan}.") for name in names):
                continue
            for bundle in self._plan(plan).bundles:
                if not is_over or bundle.name in names:
                    yield self._listed_bundle(bundle)

    def _of_rows(self, now: datetime) -> Iterator[ListedBundle]:
        if self._rows is not None:
            bundle = row_bundle(self._rows)
            mark, first = self._known.of(bundle.name), self._row_ticks.first(bundle, now)
            if first is None:
                past = horizon(bundle, shift(now, -self._look_back_seconds))
                first = mark.sealed_until if mark.version else past
            yield ListedBundle(bundle, [LiveRange(first)], mark)

    def _listed_bundle(self, bundle: Bundle) -> ListedBundle:
        mark = self._known.of(bundle.name)
        live = [
            part
            if part.start < mark.sealed_until and not mark.late_days
            else self._with_former(part, bundle, number)
            for number, period in enumerate(self._periods)
            for part in live_ranges(bundle, [period])
        ]
        return ListedBundle(bundle, live, mark)

    def _with_former(self, part: LiveRange, bundle: Bundle, number: int) -> LiveRange:
        """Return a range of the period of that number with the slots in it that former plans sent first."""
        former = []
        for period in reversed(self._periods[:number]):
            if period.end is None or period.end <= part.start:
                break
            former.append((period, self._plan(period.plan)))
        return replace(part, former=former_slots(bundle, part.start, former))

    def _live(self, bundle: Bundle) -> list[LiveRange]:
        return live_ranges(bundle, self._periods)

    def _plan(self, name: str) -> BundlePlan:
        if self._targets is not None and self._targets.plan.name == name:
            return self._targets.plan
        if name not in _PLANS:
            _PLANS[name] = self._plans.plan(name)
        return _PLANS[name]

    def _is_finished(self, plan: str) -> bool:
        """Return True if a plan sends no more, and it was noted that all of its bundles are sealed."""
        ends, until = self._ends[plan], self._known.finished.get(plan)
        return None not in ends and until is not None and until >= _end_of(ends)


def _end_of(ends: Iterable[datetime | None]) -> datetime:
    """Return an end of all live slots of a plan whose periods end so: some are sent a minute ahead."""
    return shift(max(end for end in ends if end is not None), MINUTE)
