"""Rounds: what a run of the reconciler asks for again, at which pace, and what it gives up (pure).

    the mark's open runs ─▶ plan_recovery ─▶ asked: a message for each minute ─▶ note_asked ─▶ the mark
                                          └▶ given up, after MOST_ROUNDS       ─▶ note_given_up

Slots are asked for

- oldest first: APIs forget the oldest windows first, hours are sealed in order, and live polls bring the newest;
- at most TIMES_LIVE times as fast as live ticks come, less what still waits on the queue;
- once a round, which is an hour, and MOST_ROUNDS times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil

from kizami.core.bundles import MINUTE, Bundle
from kizami.core.epoch import to_seconds
from kizami.core.messages import BACKFILL, BundleMessage
from kizami.core.recovery import (
    GIVEN_UP,
    MOST_ROUNDS,
    MOST_SLOTS,
    Mark,
    Places,
    TickRun,
    cut_run,
    tidy_runs,
)
from kizami.core.slots import Window, shift

TIMES_LIVE = 4  # as many old slots as live ones, at most, in the same time


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


def slots_a_message(bundle: Bundle) -> int:
    """Return how many slots a message asks for: a minute of them, up to MOST_SLOTS; of a longer interval one."""
    return 1 if bundle.is_rows else max(1, min(MOST_SLOTS, MINUTE // bundle.interval_seconds))


def pace(bundle: Bundle, period_seconds: int, waiting: int = 0, sharing: int = 1) -> int:
    """Return how many slots one run of the reconciler may ask for, if there is one each period.

    `waiting` messages are still on the queue, about `sharing` bundles.
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

    return _changed(mark, asked, now, lambda run: replace(run, rounds=run.rounds + 1, asked_at=now))


def note_given_up(mark: Mark, bundle: Bundle, given_up: Iterable[LackingSlots], now: datetime) -> Mark:
    """Return the mark after slots were given up. Rows have no place for that: only the mark says so."""

    def change(run: TickRun) -> TickRun:
        if bundle.is_rows:
            return replace(run, rounds=GIVEN_UP)
        return replace(run, dead=run.dead | run.missing, missing=frozenset())

    return _changed(mark, given_up, now, change)


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
            if before := cut_run(rest, None, slots_now.start):
                runs.append(before)
            inside = cut_run(rest, slots_now.start, slots_now.end)
            assert inside is not None
            runs.append(change(inside))
            rest = cut_run(rest, slots_now.end, None)
        if rest is not None:
            runs.append(rest)
    return replace(mark, runs=tidy_runs(runs))
