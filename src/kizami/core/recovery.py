"""Recovery: how far a bundle's ticks were looked at, and which slots lack members (pure).

    sealed_until      complete_until                       seen_until            horizon
    ──────┼─────────────────┼── open run ── dead run ── open run ─┼─────────────────────┼──▶ slots
                            └ members are missing from here on    └ looked at next      └ due, and grace is over

A tick is perfect if every member answered. A run of the reconciler looks once at the slots between `seen_until`
and the horizon: it counts perfect ticks, and reads ticks only where the count is short. Neighbouring ticks that
lack the same members become a run in the mark; what lies between runs is perfect and is never read again.

A run is open as long as members are missing in it: they have no value, were not given up and are not held. Rounds
(`core/rounds.py`) ask for what open runs lack and give it up in the end. With `backfill = false` runs are given up
at once: they stay in the mark, so that readers see what is missing, and nothing waits for them.

A mark holds at most `MOST_RUNS` runs. Where there would be more, neighbours are joined and called mixed: their
sets of members are unions then, and only the ticks tell exactly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from types import MappingProxyType

from kizami.core.bundles import MINUTE, Bundle, BundlePlan, Period
from kizami.core.coverage import Completeness, Span, add_up, next_slot
from kizami.core.slots import floor_to_slot, shift
from kizami.core.ticks import Tick

GRACE_SECONDS = 960  # after its tick a slot may still be on its way
ROUND_SECONDS = 3600  # until a slot is asked for again
MOST_ROUNDS = 24  # after which a slot is given up
GIVEN_UP = MOST_ROUNDS + 1  # as the rounds of a run whose missing slots are asked for no more
MOST_SLOTS = 12  # of a message
MOST_RUNS = 32  # of a mark
LOOK_SLOTS = 17_280  # that one run of the reconciler looks at: a day of five-second slots

Places = frozenset[int]

_NO_PLACES: Places = frozenset()


@dataclass(frozen=True, slots=True)
class LiveRange:
    """The slots [start, end) that a bundle's plan sends live; None stands for an open end.

    `former` are metrics whose slots before that time belong to bundles of former plans, which sent them first
    because their lag was shorter.
    """

    start: datetime
    end: datetime | None = None
    former: Mapping[str, datetime] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class TickRun:
    """Neighbouring slots whose ticks lack the same members, by their places.

    A place is in one of the sets at most, unless the run is mixed: then the sets are those of all its ticks, some
    of which may be perfect.
    """

    start: datetime
    end: datetime
    missing: Places = _NO_PLACES  # neither a value nor given up nor held
    dead: Places = _NO_PLACES  # given up
    held: Places = _NO_PLACES  # not asked, because the target is held
    rounds: int = 0  # how often the missing ones were asked for
    asked_at: datetime | None = None
    is_mixed: bool = False

    @property
    def is_open(self) -> bool:
        """Return True if something is missing that has not been given up."""
        return bool(self.missing) and self.rounds <= MOST_ROUNDS

    def is_due(self, now: datetime) -> bool:
        """Return True if it may be asked for; a clock that was set back delays that by an hour at most."""
        return self.asked_at is None or not self.asked_at <= now < shift(self.asked_at, ROUND_SECONDS)


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a bundle's ticks were looked at and sealed, and where they are not perfect.

    Every slot before `seen_until` is perfect unless it lies in a run; runs that end before `sealed_until` are open
    ones only. `late_days` are days in which a tick was written long after its slot, with the time of the newest
    such write. A mark of version 0 has not begun: nothing is known of its bundle but late days.
    """

    bundle: str
    seen_until: datetime
    sealed_until: datetime
    runs: tuple[TickRun, ...] = ()  # ascending; they do not overlap
    late_days: Mapping[date, datetime] = field(default_factory=dict)
    version: int = 0
    late_notes: int = 0  # how often late days were noted

    @property
    def complete_until(self) -> datetime:
        """From `sealed_until` up to here nothing is missing that may still come."""
        starts = (run.start for run in self.open_runs if run.end > self.sealed_until)
        return max(next(starts, self.seen_until), self.sealed_until)

    @property
    def open_runs(self) -> list[TickRun]:
        """The runs in which something is missing that has not been given up."""
        return [run for run in self.runs if run.is_open]

    def may_delete(self, slot: datetime) -> bool:
        """Return True if the tick of a slot may be deleted once it is sealed: no recovery will read it again."""
        return slot < self.seen_until and not any(run.start <= slot < run.end for run in self.open_runs)


def begin_mark(bundle: str, start: datetime) -> Mark:
    """Return the mark of a bundle whose first live slot is `start`."""
    return Mark(bundle, start, start)


def slots_between_plans(mark: Mark, bundle: Bundle, minute: datetime, former: BundlePlan) -> Mark:
    """Return a mark that has just begun, with the slots before it that no plan has sent live.

    A deployment that shortens a lag leaves such slots: at the minute of the change their turn had not come yet by
    the former plan, and is over by the new one.
    """
    for place, member in enumerate(bundle.members):
        if found := former.of_metric.get(member.metrics[0]):
            start = next_slot(_first_live(found[0], minute), bundle.interval_seconds)
            mark = _added(mark, frozenset({place}), start, mark.seen_until)
    return mark if bundle.backfill else replace(mark, runs=())


def live_ranges(bundle: Bundle, periods: Iterable[Period]) -> list[LiveRange]:
    """Return the slots that the bundle's plan sends live, oldest range first.

    A deployment that goes back to a former plan uses its bundles again, so there may be several ranges.
    """
    found = []
    for period in periods:
        if period.plan == bundle.plan:
            start = next_slot(_first_live(bundle, period.start), bundle.interval_seconds)
            end = period.end and next_slot(_first_live(bundle, period.end), bundle.interval_seconds)
            if end is None or start < end:
                found.append(LiveRange(start, end))
    return found


def _first_live(bundle: Bundle, minute: datetime) -> datetime:
    """Return the beginning of the slots that are sent live from a minute on."""
    ahead = 0 if bundle.backfill else MINUTE  # sent a minute before its ticks
    return shift(minute, ahead - bundle.lag_seconds)


def former_slots(
    bundle: Bundle, start: datetime, former: Iterable[tuple[Period, BundlePlan]]
) -> dict[str, datetime]:
    """Return the metrics of a bundle whose slots from `start` on belong to former plans, and until when."""
    found: dict[str, datetime] = {}
    for period, plan in former:
        for metric in (metric for member in bundle.members for metric in member.metrics):
            if period.end is not None and metric in plan.of_metric:
                until = _first_live(plan.of_metric[metric][0], period.end)
                if until > found.get(metric, start):
                    found[metric] = until
    return found


def is_finished(mark: Mark, live: Sequence[LiveRange]) -> bool:
    """Return True if the bundle's plan has ended, all of its slots are sealed, and none is asked for any more."""
    end = max((part.end for part in live if part.end is not None), default=mark.seen_until)
    is_ended = all(part.end is not None for part in live)
    return is_ended and min(mark.seen_until, mark.sealed_until) >= end and not mark.open_runs


# Looking


def horizon(bundle: Bundle, now: datetime) -> datetime:
    """Return the end of the slots that were due and whose grace is over."""
    last = floor_to_slot(shift(now, -bundle.lag_seconds - GRACE_SECONDS), bundle.interval_seconds)
    return shift(last, bundle.interval_seconds)


def next_look(mark: Mark, bundle: Bundle, live: Iterable[LiveRange], now: datetime) -> Span | None:
    """Return the slots to look at next, LOOK_SLOTS at most; between two live ranges there are none."""
    for part in live:
        if part.end is not None and part.end <= mark.seen_until:
            continue
        start = max(part.start, mark.seen_until)
        ends = [horizon(bundle, now), shift(start, LOOK_SLOTS * bundle.interval_seconds)]
        end = min(ends if part.end is None else [*ends, part.end])
        return Span(start, end, bundle.interval_seconds) if start < end else None
    return None


def runs_to_read(mark: Mark, bundle: Bundle) -> list[TickRun]:
    """Return the open runs to read again, up to LOOK_SLOTS: those that were asked for, and mixed ones."""
    left = timedelta(seconds=LOOK_SLOTS * bundle.interval_seconds)
    found = []
    for run in mark.open_runs:
        if left and (run.rounds or run.is_mixed):
            found.append(replace(run, end=min(run.end, run.start + left)))
            left -= found[-1].end - run.start
    return found


def find_runs(
    span: Span, bundle: Bundle, ticks: Iterable[Tick], held_from: Mapping[int, datetime] = MappingProxyType({})
) -> tuple[TickRun, ...]:
    """Return the runs of slots that are not perfect; `ticks` are those of the span, oldest first.

    A member counts as held in a tick only from `held_from` of its place on: a target that is not held any more is
    asked again for the slots that were left out.
    """
    every = frozenset(range(len(bundle.members)))
    whole = TickRun(span.start, span.end, every, rounds=0 if bundle.backfill else GIVEN_UP)
    return _runs_within(whole, bundle, ticks, held_from)


def read_again(
    run: TickRun, bundle: Bundle, ticks: Iterable[Tick], held_from: Mapping[int, datetime] = MappingProxyType({})
) -> tuple[TickRun, ...]:
    """Return what is left of a run, by the ticks of its slots, oldest first.

    Only what was not perfect is looked at. A slot without a tick lacks what it lacked before: the tick of a sealed
    slot is gone, and only members whose target was held are asked for there.
    """
    return _runs_within(run, bundle, ticks, held_from)


def _runs_within(
    run: TickRun, bundle: Bundle, ticks: Iterable[Tick], held_from: Mapping[int, datetime]
) -> tuple[TickRun, ...]:
    absent = replace(run, dead=_NO_PLACES, held=_NO_PLACES, is_mixed=False)
    lacking = run.missing | run.dead | run.held
    step = timedelta(seconds=bundle.interval_seconds)
    found, expected = [], run.start
    for tick in ticks:
        if tick.slot < expected or tick.slot >= run.end or (tick.slot - expected) % step:
            continue  # a row of a former interval
        if tick.slot > expected:
            found.append(replace(absent, start=expected, end=tick.slot))
        expected = tick.slot + step
        held = frozenset(place for place in tick.held & held_from.keys() if held_from[place] <= tick.slot)
        dead = (tick.dead & lacking) - tick.answers.keys()
        held = (held & lacking) - tick.answers.keys() - dead
        missing = lacking - tick.answers.keys() - dead - held
        found.append(replace(absent, start=tick.slot, end=expected, missing=missing, dead=dead, held=held))
    if expected < run.end:
        found.append(replace(absent, start=expected))
    return tidy_runs(found)


def put_runs(mark: Mark, start: datetime, end: datetime, runs: Iterable[TickRun]) -> Mark:
    """Return the mark with these runs in place of what it knew of [start, end)."""
    before = [part for run in mark.runs if (part := cut_run(run, None, start))]
    after = [part for run in mark.runs if (part := cut_run(run, end, None))]
    return replace(mark, runs=tidy_runs([*before, *runs, *after]))


def seal_mark(mark: Mark, until: datetime) -> Mark:
    """Return the mark of a bundle that is sealed up to there: of what was sealed only open runs are kept.

    The states of sealed slots are in the summaries of their bundle.
    """
    runs = (run if run.is_open else cut_run(run, until, None) for run in mark.runs)
    return replace(mark, sealed_until=until, runs=tuple(run for run in runs if run is not None))


def fit_runs(mark: Mark) -> Mark:
    """Return the mark as it is kept: sealed runs left out that are not open, and MOST_RUNS runs at most.

    Neighbours are joined that lie closest to each other, if possible such as were asked for together.
    """
    runs = seal_mark(mark, mark.sealed_until).runs
    if len(runs) <= MOST_RUNS:
        return replace(mark, runs=runs)

    def distance(number: int) -> tuple[bool, timedelta]:
        left, right = runs[number - 1], runs[number]
        return (left.rounds, left.asked_at) != (right.rounds, right.asked_at), right.start - left.end

    cuts = sorted(sorted(range(1, len(runs)), key=distance)[-(MOST_RUNS - 1) :])
    groups = zip([0, *cuts], [*cuts, len(runs)], strict=True)
    return replace(mark, runs=tuple(_joined(runs[first:end]) for first, end in groups))


def reopen(
    mark: Mark,
    bundle: Bundle,
    places: Collection[int],
    sealed: Iterable[tuple[int, datetime, datetime]] = (),
) -> Mark:
    """Return the mark after targets that were held have answered again: slots that were left out are missing now.

    Those that are not sealed are in its runs. `sealed` are the others: places, each with neighbouring slots.
    """
    opened, rounds = frozenset(places), 0 if bundle.backfill else GIVEN_UP
    runs: list[TickRun] = []
    for run in mark.runs:
        if released := run.held & opened:
            missing, held = run.missing | released, run.held - released
            run = replace(run, missing=missing, held=held, rounds=rounds, asked_at=None)
        runs.append(run)
    mark = replace(mark, runs=tidy_runs(runs))
    together: dict[tuple[datetime, datetime], set[int]] = {}
    for place, start, end in sealed if bundle.backfill else ():
        together.setdefault((start, end), set()).add(place)
    for (start, end), some in together.items():
        mark = _added(mark, frozenset(some), start, min(end, mark.sealed_until))
    return mark


def find_lost(mark: Mark, bundle: Bundle, ticks: Iterable[Tick], now: datetime) -> Mark:
    """Return the mark with what is outstanding in ticks of sealed slots, and no message can be about any more."""
    for tick in ticks:
        lost = tick.outstanding - tick.answers.keys() - tick.dead - tick.held
        is_open = any(run.start <= tick.slot < run.end for run in mark.open_runs)
        if lost and not is_open and (tick.asked is None or now >= shift(tick.asked, GRACE_SECONDS)):
            mark = _added(mark, lost, tick.slot, shift(tick.slot, bundle.interval_seconds))
    return mark


def leave_expired(mark: Mark, kept_from: Mapping[int, datetime]) -> Mark:
    """Return the mark without the slots that members keep no more: they are neither missing nor asked for."""
    for until in sorted(set(kept_from.values())):
        places = frozenset(place for place, start in kept_from.items() if start == until)
        runs: list[TickRun] = []
        for run in mark.runs:
            before, after = cut_run(run, None, until), cut_run(run, until, None)
            if before is not None:
                sets = (each - places for each in (before.missing, before.dead, before.held))
                missing, dead, held = sets
                runs.append(replace(before, missing=missing, dead=dead, held=held))
            runs += [after] if after is not None else []
        mark = replace(mark, runs=tidy_runs(runs))
    return mark


def _joined(runs: Sequence[TickRun]) -> TickRun:
    """Join neighbours. They count as asked as seldom and as long ago as the one that was asked least."""
    if len(runs) == 1:
        return runs[0]
    lacking = [run for run in runs if run.missing]
    asked = [run.asked_at for run in lacking if run.asked_at is not None]
    return TickRun(
        runs[0].start,
        runs[-1].end,
        frozenset().union(*(run.missing for run in runs)),
        frozenset().union(*(run.dead for run in runs)),
        frozenset().union(*(run.held for run in runs)),
        min((run.rounds for run in lacking), default=0),
        min(asked) if asked and len(asked) == len(lacking) else None,
        is_mixed=True,
    )


def cut_run(run: TickRun, start: datetime | None, end: datetime | None) -> TickRun | None:
    """Return the part of a run within bounds, None if there is none."""
    first = run.start if start is None else max(run.start, start)
    last = run.end if end is None else min(run.end, end)
    if (first, last) == (run.start, run.end):
        return run
    return replace(run, start=first, end=last) if first < last else None


def tidy_runs(runs: Iterable[TickRun]) -> tuple[TickRun, ...]:
    """Leave out runs that lack nothing, and make one of those that touch and are alike."""
    found: list[TickRun] = []
    for run in runs:
        if not (run.missing or run.dead or run.held):
            continue
        if not run.missing and (run.rounds or run.asked_at):
            run = replace(run, rounds=0, asked_at=None)
        if found and found[-1].end == run.start and replace(found[-1], start=run.start, end=run.end) == run:
            found[-1] = replace(found[-1], end=run.end)
        else:
            found.append(run)
    return tuple(found)


def _added(mark: Mark, places: Places, start: datetime, end: datetime) -> Mark:
    """Let places be missing in all slots of a range: in its runs, and between them."""
    runs: list[TickRun] = []
    at = start
    for run in mark.runs:
        if (inside := cut_run(run, start, end)) is None:
            continue
        if at < inside.start:
            runs.append(TickRun(at, inside.start, places))
        runs.append(replace(inside, missing=inside.missing | places, rounds=0, asked_at=None))
        at = inside.end
    if at < end:
        runs.append(TickRun(at, end, places))
    return put_runs(mark, start, end, runs) if start < end else mark


# What is known


@dataclass(frozen=True, slots=True)
class LookedAfter:
    """A bundle in one run: its mark as it is kept, and what is known about its slots.

    `expected` slots of each member were looked at that are not sealed and not older than the look-back; `lacking`
    of them have no value, by place. `missing` values may still come, whatever their age; `asked` of them were
    asked for by this run, and for `failed` ones the queue did not take the message.
    """

    bundle: Bundle
    live: Sequence[LiveRange]
    mark: Mark
    is_examined: bool = False
    expected: int = 0
    lacking: Mapping[int, int] = field(default_factory=dict)
    missing: int = 0
    asked: int = 0
    failed: int = 0

    def completeness_of(self, place: int) -> Completeness:
        """How many of a member's slots are stored."""
        return Completeness(self.expected - self.lacking.get(place, 0), self.expected)

    @property
    def completeness(self) -> Completeness:
        """That of all members together."""
        expected = self.expected * len(self.bundle.members)
        return Completeness(expected - sum(self.lacking.values()), expected)

    @property
    def lowest(self) -> Completeness:
        """That of the member that lacks most."""
        return Completeness(self.expected - max(self.lacking.values(), default=0), self.expected)


@dataclass(frozen=True, slots=True)
class Recovered:
    """What one run found and did; also bundles that were not examined are in `bundles`, with their marks."""

    bundles: Sequence[LookedAfter]

    @property
    def examined(self) -> list[LookedAfter]:
        """The bundles that this run has seen."""
        return [each for each in self.bundles if each.is_examined]

    @property
    def completeness(self) -> Completeness:
        """That of all members of all bundles that this run has seen."""
        return add_up(each.completeness for each in self.examined)

    @property
    def lowest(self) -> Completeness:
        """That of the member that lacks most."""
        parts = (each.lowest for each in self.examined)
        return min(parts, key=lambda part: part.ratio, default=Completeness(0, 0))

    @property
    def missing(self) -> int:
        """How many values are missing that may still come."""
        return sum(each.missing for each in self.examined)

    @property
    def asked(self) -> int:
        """How many values were asked for again."""
        return sum(each.asked for each in self.examined)

    @property
    def failed(self) -> int:
        """How many values could not be asked for, because the queue did not take their messages."""
        return sum(each.failed for each in self.examined)


def lacking_slots(
    mark: Mark, bundle: Bundle, live: Iterable[LiveRange], since: datetime
) -> tuple[int, dict[int, int]]:
    """Return how many live slots from `since` on were looked at, and how many of them each place lacks, if any.

    What is sealed is left out, because the mark does not know any more what it lacks.
    """
    since, step = max(since, mark.sealed_until), timedelta(seconds=bundle.interval_seconds)
    expected, lacking = 0, dict[int, int]()
    for part in live:
        start = next_slot(max(part.start, since), bundle.interval_seconds)
        end = mark.seen_until if part.end is None else min(part.end, mark.seen_until)
        expected += max(0, (end - start) // step)
    for run in mark.runs:
        if inside := cut_run(run, since, None):
            slots = -((inside.start - inside.end) // step)
            for place in inside.missing | inside.dead | inside.held:
                lacking[place] = lacking.get(place, 0) + slots
    return expected, lacking


def missing_values(mark: Mark, bundle: Bundle) -> int:
    """Return how many answers are missing that may still come; of mixed runs it is an upper bound."""
    step = timedelta(seconds=bundle.interval_seconds)
    return sum((run.end - run.start) // step * len(run.missing) for run in mark.open_runs)
