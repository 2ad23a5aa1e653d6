"""Recovery: which slots of a bundle lack members, and which of them a run of the reconciler asks for again (pure).

    sealed_until      complete_until                       seen_until            horizon
    ──────┼─────────────────┼── open run ── dead run ── open run ─┼─────────────────────┼──▶ slots
                            └ members are missing from here on    └ looked at next      └ due, and grace is over

A tick is perfect if every member answered. A run of the reconciler looks once at the slots between `seen_until`
and the horizon: it counts perfect ticks, and reads ticks only where the count is short. Neighbouring ticks that
lack the same members become a run in the mark; what lies between runs is perfect and is never read again.

A run is open as long as members are missing in it: they have no value, were not given up and are not held. What
an open run lacks is asked for

- oldest first: APIs forget the oldest windows first, hours are sealed in order, and live polls bring the newest;
- at most `TIMES_LIVE` times as fast as live ticks come, less what still waits on the queue;
- again after an hour, and given up after `MOST_ROUNDS` times. With `backfill = false` slots are given up at once:
  their runs stay in the mark, so that readers see what is missing, and nothing waits for them.

A mark holds at most `MOST_RUNS` runs. Where there would be more, neighbours are joined and called mixed: their
sets of members are unions then, and only the ticks tell exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from math import ceil
from types import MappingProxyType

from kizami.core.bundles import MINUTE, Bundle, Period
from kizami.core.coverage import Span, next_slot
from kizami.core.epoch import to_seconds
from kizami.core.messages import BACKFILL, BundleMessage
from kizami.core.slots import Window, floor_to_slot, shift
from kizami.core.ticks import Tick

GRACE_SECONDS = 960  # after its tick a slot may still be on its way
ROUND_SECONDS = 3600  # until a slot is asked for again
MOST_ROUNDS = 24  # after which a slot is given up
GIVEN_UP = MOST_ROUNDS + 1  # as the rounds of a run whose missing slots are asked for no more
TIMES_LIVE = 4  # as many old slots as live ones, at most, in the same time
MOST_SLOTS = 12  # of a message
MOST_RUNS = 32  # of a mark
LOOK_SLOTS = 17_280  # that one run of the reconciler looks at: a day of five-second slots

Places = frozenset[int]

_NO_PLACES: Places = frozenset()


@dataclass(frozen=True, slots=True)
class LiveRange:
    """The slots [start, end) that a bundle's plan sends live; None stands for an open end."""

    start: datetime
    end: datetime | None = None


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


def live_ranges(bundle: Bundle, periods: Iterable[Period]) -> list[LiveRange]:
    """Return the slots that the bundle's plan sends live, oldest range first.

    A deployment that goes back to a former plan uses its bundles again, so there may be several ranges.
    """
    ahead = 0 if bundle.backfill else MINUTE  # sent a minute before its ticks
    found = []
    for period in periods:
        if period.plan == bundle.plan:
            start, end = (
                edge and next_slot(shift(edge, ahead - bundle.lag_seconds), bundle.interval_seconds)
                for edge in (period.start, period.end)
            )
            assert start is not None
            if end is None or start < end:
                found.append(LiveRange(start, end))
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
    return _tidied(found)


def put_runs(mark: Mark, start: datetime, end: datetime, runs: Iterable[TickRun]) -> Mark:
    """Return the mark with these runs in place of what it knew of [start, end)."""
    before = [part for run in mark.runs if (part := _cut(run, None, start))]
    after = [part for run in mark.runs if (part := _cut(run, end, None))]
    return replace(mark, runs=_tidied([*before, *runs, *after]))


def seal_mark(mark: Mark, until: datetime) -> Mark:
    """Return the mark of a bundle that is sealed up to there: of what was sealed only open runs are kept.

    The states of sealed slots are in the summaries of their bundle.
    """
    runs = (run if run.is_open else _cut(run, until, None) for run in mark.runs)
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


def _cut(run: TickRun, start: datetime | None, end: datetime | None) -> TickRun | None:
    """Return the part of a run within bounds, None if there is none."""
    first = run.start if start is None else max(run.start, start)
    last = run.end if end is None else min(run.end, end)
    if (first, last) == (run.start, run.end):
        return run
    return replace(run, start=first, end=last) if first < last else None


def _tidied(runs: Iterable[TickRun]) -> tuple[TickRun, ...]:
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


# Asking again


@dataclass(frozen=True, slots=True)
class LackingSlots:
    """The slots that one message is about, and the members that lack them."""

    start: datetime
    end: datetime
    places: Places


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """What a run of the reconciler does about one bundle: ask again, and give up; oldest first each."""

    asked: tuple[LackingSlots, ...] = ()
    given_up: tuple[LackingSlots, ...] = ()


def runs_to_read(mark: Mark, bundle: Bundle) -> list[TickRun]:
    """Return the open runs to read again, up to LOOK_SLOTS: those that were asked for, and mixed ones."""
    left = timedelta(seconds=LOOK_SLOTS * bundle.interval_seconds)
    found = []
    for run in mark.open_runs:
        if left and (run.rounds or run.is_mixed):
            found.append(replace(run, end=min(run.end, run.start + left)))
            left -= found[-1].end - run.start
    return found


def slots_a_message(bundle: Bundle) -> int:
    """Return how many slots a message asks for: a minute of them, up to MOST_SLOTS; of a longer interval one."""
    return 1 if bundle.is_rows else max(1, min(MOST_SLOTS, MINUTE // bundle.interval_seconds))


def pace(bundle: Bundle, period_seconds: int, waiting: int = 0, sharing: int = 1) -> int:
    """Return how many slots one run of the reconciler may ask for, if there is one each period.

    What waits on the queue counts: so many messages, of so many bundles.
    """
    size = slots_a_message(bundle)
    most = max(size, TIMES_LIVE * period_seconds // bundle.interval_seconds)
    return max(0, most - ceil(waiting * size / max(1, sharing)))


def plan_recovery(mark: Mark, bundle: Bundle, now: datetime, most: int) -> RecoveryPlan:
    """Return what to ask for and what to give up, `most` slots in all; mixed runs must be read again first."""
    size = slots_a_message(bundle) * bundle.interval_seconds
    asked: list[LackingSlots] = []
    given_up: list[LackingSlots] = []
    before: TickRun | None = None
    for run in mark.runs:
        if not _is_turn(run, now):
            before = None
            continue
        # All ticks between two unsealed runs are perfect, so one message may be about both runs.
        is_next = before is not None and before.missing == run.missing and run.rounds < MOST_ROUNDS
        for start, end in _messages(run, size):
            most -= (end - start) // timedelta(seconds=bundle.interval_seconds)
            if most < 0:
                return RecoveryPlan(tuple(asked), tuple(given_up))
            if run.rounds >= MOST_ROUNDS:
                given_up.append(LackingSlots(start, end, run.missing))
            elif is_next and to_seconds(asked[-1].start) // size == to_seconds(start) // size:
                asked[-1] = replace(asked[-1], end=end)
            else:
                asked.append(LackingSlots(start, end, run.missing))
        before = run if run.rounds < MOST_ROUNDS and run.start >= mark.sealed_until else None
    return RecoveryPlan(tuple(asked), tuple(given_up))


def newest_slot(mark: Mark, bundle: Bundle, now: datetime) -> RecoveryPlan:
    """Return the plan for a target that gives no answers at present: one slot, the newest, shows when it does."""
    for run in reversed(mark.runs):
        if _is_turn(run, now) and run.rounds < MOST_ROUNDS:
            start = shift(run.end, -bundle.interval_seconds)
            return RecoveryPlan((LackingSlots(start, run.end, run.missing),))
    return RecoveryPlan()


def message_of(slots: LackingSlots, bundle: Bundle) -> BundleMessage:
    """Return the message that asks for slots again; that of the original target is as a live one."""
    names = tuple(bundle.members[place].name for place in sorted(slots.places))
    window = Window(slots.start, slots.end)
    return BundleMessage(window, names) if bundle.is_rows else BundleMessage(window, names, bundle.name, BACKFILL)


def note_asked(mark: Mark, asked: Iterable[LackingSlots], now: datetime) -> Mark:
    """Return the mark after messages about these slots were sent."""

    def change(run: TickRun) -> TickRun:
        return replace(run, rounds=run.rounds + 1, asked_at=now) if run.rounds < MOST_ROUNDS else run

    return _changed(mark, asked, now, change)


def note_given_up(mark: Mark, bundle: Bundle, given_up: Iterable[LackingSlots], now: datetime) -> Mark:
    """Return the mark after slots were given up. Rows have no place for that: only the mark says so."""

    def change(run: TickRun) -> TickRun:
        if run.rounds < MOST_ROUNDS:
            return run
        if bundle.is_rows:
            return replace(run, rounds=GIVEN_UP)
        return replace(run, dead=run.dead | run.missing, missing=_NO_PLACES)

    return _changed(mark, given_up, now, change)


def reopen(
    mark: Mark, bundle: Bundle, places: Collection[int], start: datetime, end: datetime, live: Iterable[LiveRange]
) -> Mark:
    """Return the mark after targets have answered again whose slots were left out in [start, end).

    In runs of unsealed slots they were held and are missing now. Of sealed slots it is not known any more which of
    them were held, so all count as missing; a value that is there already stays the first one.
    """
    opened, rounds = frozenset(places), 0 if bundle.backfill else GIVEN_UP
    runs: list[TickRun] = []
    for run in mark.runs:
        if released := run.held & opened:
            missing, held = run.missing | released, run.held - released
            run = replace(run, missing=missing, held=held, rounds=rounds, asked_at=None)
        runs.append(run)
    mark = replace(mark, runs=_tidied(runs))
    if not bundle.backfill:
        return mark
    for part in live:
        first = next_slot(max(start, part.start), bundle.interval_seconds)
        last = min(each for each in (end, mark.sealed_until, part.end) if each is not None)
        mark = _added(mark, opened, first, last)
    return mark


def leave_expired(mark: Mark, kept_from: Mapping[int, datetime]) -> Mark:
    """Return the mark without the slots that members keep no more: they are neither missing nor asked for."""
    for until in sorted(set(kept_from.values())):
        places = frozenset(place for place, start in kept_from.items() if start == until)
        runs: list[TickRun] = []
        for run in mark.runs:
            before, after = _cut(run, None, until), _cut(run, until, None)
            if before is not None:
                sets = (each - places for each in (before.missing, before.dead, before.held))
                missing, dead, held = sets
                runs.append(replace(before, missing=missing, dead=dead, held=held))
            runs += [after] if after is not None else []
        mark = replace(mark, runs=_tidied(runs))
    return mark


def _is_turn(run: TickRun, now: datetime) -> bool:
    return run.is_open and not run.is_mixed and run.is_due(now)


def _messages(run: TickRun, size: int) -> Iterator[tuple[datetime, datetime]]:
    """Cut a run at the multiples of so many seconds."""
    start = run.start
    while start < run.end:
        end = min(run.end, shift(start, size - to_seconds(start) % size))
        yield start, end
        start = end


def _changed(
    mark: Mark, slots: Iterable[LackingSlots], now: datetime, change: Callable[[TickRun], TickRun]
) -> Mark:
    """Change the parts of due runs that lie in these slots, which ascend."""
    left = list(slots)
    left.reverse()
    runs: list[TickRun] = []
    for run in mark.runs:
        rest: TickRun | None = run
        while rest is not None and left and _is_turn(run, now):
            slots_now = left[-1]
            if slots_now.end <= rest.start:
                left.pop()
                continue
            if slots_now.start >= rest.end:
                break
            if before := _cut(rest, None, slots_now.start):
                runs.append(before)
            inside = _cut(rest, slots_now.start, slots_now.end)
            assert inside is not None
            runs.append(change(inside))
            rest = _cut(rest, slots_now.end, None)
        if rest is not None:
            runs.append(rest)
    return replace(mark, runs=_tidied(runs))


def _added(mark: Mark, places: Places, start: datetime, end: datetime) -> Mark:
    """Let places be missing in all slots of a range: in its runs, and between them."""
    runs: list[TickRun] = []
    at = start
    for run in mark.runs:
        if (inside := _cut(run, start, end)) is None:
            continue
        if at < inside.start:
            runs.append(TickRun(at, inside.start, places))
        runs.append(replace(inside, missing=inside.missing | places, rounds=0, asked_at=None))
        at = inside.end
    if at < end:
        runs.append(TickRun(at, end, places))
    return put_runs(mark, start, end, runs) if start < end else mark
