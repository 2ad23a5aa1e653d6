"""States of a bundle's slots in runs: which members are stored, given up or on their way, told by bits (pure).

A healthy day of a hundred members is one run, so counting is quick where nothing is amiss. Several sources tell of
the same slots: ticks, marks, summaries. `join` unites them: a value wins over any state, the state in a tick over
that in a summary, and a slot that was given up over one that is on its way. What no source tells of is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from kizami.core.bundles import Bundle
from kizami.core.summaries import Absence, BundleSummary
from kizami.core.ticks import places_of

HORIZON_SECONDS = 960  # for which a message about a slot may be on its way


class StateRun(NamedTuple):
    """Slots of [start, end), in seconds since 1970: bit n stands for the member at place n."""

    start: int
    end: int
    stored: int
    dead: int = 0
    pending: int = 0
    alive: int = 0  # a tick says that they are not given up, whatever a summary says that was made before


class TickStates(NamedTuple):
    """What a tick says of its members, by bits."""

    slot: int
    stored: int
    dead: int = 0
    outstanding: int = 0
    held: int = 0
    asked: int | None = None  # when a backfill last asked
    is_partial: bool = False


class Grid(NamedTuple):
    """The slots of a bundle, as numbers."""

    interval: int
    lag: int
    every: int  # the bits of all members

    @classmethod
    def of(cls, bundle: Bundle) -> Grid:
        """Return the grid of a bundle."""
        return cls(bundle.interval_seconds, bundle.lag_seconds, (1 << len(bundle.members)) - 1)

    def first(self, second: int) -> int:
        """Return the first slot that begins at `second` or after it."""
        return -(-second // self.interval) * self.interval

    def slots(self, start: int, end: int) -> int:
        """Return how many slots begin in [start, end)."""
        return max(0, -(-end // self.interval) + (-start // self.interval))

    def on_their_way(self, now: int) -> tuple[int, int]:
        """Return [start, end) of the slots that are due and whose live message may be on its way."""
        return tuple(self.first(now - self.lag - back + 1) for back in (HORIZON_SECONDS, 0))  # type: ignore[return-value]


def states_of_ticks(
    ticks: Iterable[TickStates], start: int, end: int, grid: Grid, now: int, live_from: int
) -> Iterator[StateRun]:
    """Return the runs of the slots of [start, end), of which `ticks` are all there are, oldest first.

    Slots before `live_from` are asked for by backfills only.
    """
    on_their_way = grid.on_their_way(now)
    live = max(on_their_way[0], live_from), on_their_way[1]
    last: StateRun | None = None
    at = start
    for tick in ticks:
        is_live = live[0] <= tick.slot < live[1]
        for each in (*_absent(at, tick.slot, live, grid), _states_of_tick(tick, grid, is_live, now)):
            if last is not None and last.end == each.start and last[2:] == each[2:]:
                last = last._replace(end=each.end)
                continue
            if last is not None:
                yield last
            last = each
        at = tick.slot + grid.interval
    if last is not None:
        yield last
    yield from _absent(at, end, live, grid)


def _absent(start: int, end: int, live: tuple[int, int], grid: Grid) -> Iterator[StateRun]:
    """The part of slots without ticks whose messages may be on their way; the others are missing."""
    first, last = max(start, live[0]), min(end, live[1])
    if first < last:
        yield StateRun(first, last, 0, 0, grid.every)


def _states_of_tick(tick: TickStates, grid: Grid, is_live: bool, now: int) -> StateRun:
    is_asked = is_live or (tick.asked is not None and now < tick.asked + HORIZON_SECONDS)
    pending = tick.outstanding if is_asked else 0
    if is_live and tick.is_partial:
        pending |= grid.every & ~tick.held  # the others are asked by messages of their own
    named = tick.outstanding | tick.held if tick.is_partial else grid.every
    dead = tick.dead & ~tick.stored
    return StateRun(tick.slot, tick.slot + grid.interval, tick.stored, dead, pending & ~dead, named & ~dead)


def states_of_summary(summary: BundleSummary, grid: Grid) -> list[StateRun]:
    """Return the runs of a sealed span; a slot that was held or is missing is just not stored."""
    bits: dict[int, list[int]] = {summary.begin: [0, 0], summary.end: [0, 0]}
    for place, runs in summary.absent.items():
        for run in runs:
            for edge in run.start, run.end:
                changed = bits.setdefault(edge, [0, 0])
                changed[0] ^= 1 << place
                changed[1] ^= (run.state is Absence.DEAD) << place
    found = []
    absent = dead = 0
    for start, end in pairwise(sorted(bits)):
        absent, dead = absent ^ bits[start][0], dead ^ bits[start][1]
        found.append(StateRun(start, end, grid.every & ~absent, dead))
    return found


def join(sources: Iterable[Sequence[StateRun]], start: int, end: int) -> list[StateRun]:
    """Unite sources, whose runs ascend without overlap, into runs that tile [start, end)."""
    used = [source for source in sources if source]
    bounds = {start, end}
    for source in used:
        bounds.update(bound for run in source for bound in (run.start, run.end) if start < bound < end)
    places = [0] * len(used)
    found: list[StateRun] = []
    for first, last in pairwise(sorted(bounds)):
        stored = dead = pending = alive = 0
        for number, source in enumerate(used):
            while places[number] < len(source) and source[places[number]].end <= first:
                places[number] += 1
            if places[number] < len(source) and source[places[number]].start <= first:
                run = source[places[number]]
                stored, dead = stored | run.stored, dead | run.dead
                pending, alive = pending | run.pending, alive | run.alive
        dead &= ~(stored | alive)
        states = stored, dead, pending & ~(stored | dead)
        if found and found[-1][2:5] == states:
            found[-1] = found[-1]._replace(end=last)
        else:
            found.append(StateRun(first, last, *states))
    return found


@dataclass(frozen=True, slots=True)
class StateCounts:
    """How many slots a stretch has, and how many of them each member lacks; places with none are left out."""

    slots: int = 0
    absent: Mapping[int, int] = field(default_factory=dict)
    dead: Mapping[int, int] = field(default_factory=dict)
    pending: Mapping[int, int] = field(default_factory=dict)

    def stored(self, place: int) -> int:
        """Return how many slots a member has stored."""
        return self.slots - self.absent.get(place, 0)


def count_states(runs: Sequence[StateRun], edges: Sequence[int], grid: Grid) -> list[StateCounts]:
    """Count the slots between each two edges; what lies outside the runs is not counted."""
    found, at = [], 0
    for start, end in pairwise(edges):
        slots = 0
        absent, dead, pending = Counter[int](), Counter[int](), Counter[int]()
        while at and runs[at - 1].end > start:  # of equal or touching edges
            at -= 1
        while at < len(runs) and runs[at].start < end:
            run = runs[at]
            count = grid.slots(max(run.start, start), min(run.end, end))
            if count > 0:
                slots += count
                if lacking := grid.every & ~run.stored:
                    absent[lacking] += count
                    dead[run.dead] += count
                    pending[run.pending] += count
            at += 1
        found.append(StateCounts(slots, *map(_by_place, (absent, dead, pending))))
    return found


def _by_place(counts: Mapping[int, int]) -> Mapping[int, int]:
    """Turn counts of groups of members into those of each member."""
    found = Counter[int]()
    for bits, count in counts.items():
        for place in places_of(bits):
            found[place] += count
    return found
