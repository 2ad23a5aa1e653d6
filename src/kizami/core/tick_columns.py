"""Ticks read in bulk: the states of members by bits, and the slots of single metrics as columns (pure).

A reader wants counts of a hundred members, or the values of one, from thousands of ticks. So a tick is taken apart
no further than asked: states need its head alone, and a metric's numbers are picked out of all ticks at once.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from kizami.core.answers.numbers import Exact
from kizami.core.bundles import Bundle
from kizami.core.epoch import from_seconds
from kizami.core.merging import MetricSlots, columns_of, merge
from kizami.core.packing import read_number
from kizami.core.sealed_spans import MomentsAfter, SlotColumns
from kizami.core.slot_states import HORIZON_SECONDS, TickStates
from kizami.core.ticks import STEP_MS, FirstHead, Tick, read_head, read_late

_NUMBER = re.compile(rb"[\x80-\xff]*[\x00-\x7f]")
_NUMBERS_KEPT = 1 << 16


class PackedTick(NamedTuple):
    """A tick as it is stored; members are bits."""

    slot: int  # seconds since 1970
    first: bytes = b""  # first answers; none where the tick is a row
    later: Mapping[int, bytes] = {}  # by place
    dead: int = 0
    outstanding: int = 0
    held: int = 0
    asked: int | None = None
    is_partial: bool = False


class _Numbers(dict[bytes, int]):
    """The numbers that bytes stand for: most of them occur again and again."""

    def __missing__(self, data: bytes) -> int:
        if len(self) >= _NUMBERS_KEPT:
            self.clear()
        self[data] = number = read_number(data, 0)[0]
        return number


_NUMBERS = _Numbers()


class _FirstAnswers(NamedTuple):
    """First answers cut into numbers, tick by tick, as columns."""

    slots: Sequence[int]
    late_ms: Sequence[int]
    offsets: Sequence[Sequence[int]]  # where the numbers of each member begin, by the members that answered
    numbers: Sequence[Sequence[bytes]]
    ones: Sequence[int]
    zeros: Sequence[int]


class TickColumns:
    """The ticks of a bundle, ascending; ValueError if they are not of it."""

    def __init__(self, bundle: Bundle, ticks: Sequence[PackedTick]) -> None:
        self._bundle = bundle
        self._ticks = ticks
        self._heads = [_head(tick, bundle) for tick in ticks]
        self._first: _FirstAnswers | None = None
        self._offsets: dict[int, Sequence[int]] = {}

    @cached_property
    def states(self) -> Sequence[TickStates]:
        """What each tick says of the members."""
        return [
            TickStates(tick.slot, head.bits | _bits_of(tick.later) if tick.later else head.bits, *tick[3:])
            for tick, head in zip(self._ticks, self._heads, strict=True)
        ]

    def late_polls(self) -> Iterator[tuple[int, int, int]]:
        """Return slot, lateness and the members that did not answer to a backfill, of each tick that has any.

        A row is as late as its answer; where that is more than any message takes, it answered to a backfill.
        """
        for tick, head in zip(self._ticks, self._heads, strict=True):
            if self._bundle.is_rows:
                late_ms = max(0, read_late(tick.later[0]).after_ms)
                if late_ms <= 1000 * HORIZON_SECONDS:
                    yield tick.slot, late_ms, 1
                continue
            live = head.bits
            for place, data in tick.later.items():
                live |= 0 if read_late(data).backfill else 1 << place
            if live:
                yield tick.slot, head.late_ms, live

    def of(self, place: int, number: int) -> MetricSlots | None:
        """Return the slots of a value of a member, None if there are none.

        They are what sealing makes of them: times in steps of 10 ms, and the lateness of a slot is its tick's.
        """
        first = self._first_answers()
        offsets = {id(each): each for each in first.offsets}
        found = None
        if len(offsets) == 1:  # the same members have answered to each
            (places,) = offsets.values()
            found = self._column(first, places[place], place, number) if places[place] >= 0 else None
        elif offsets:
            chosen = [(at, start) for at, each in enumerate(first.offsets) if (start := each[place]) >= 0]
            size = self._bundle.widths[place] + 1
            mine = _FirstAnswers(
                [first.slots[at] for at, _ in chosen],
                [first.late_ms[at] for at, _ in chosen],
                (),
                [first.numbers[at][start : start + size] for at, start in chosen],
                first.ones[: len(chosen)],
                first.zeros[: len(chosen)],
            )
            found = self._column(mine, 0, place, number) if chosen else None
        return self._with_later(found, place, number)

    def has(self, slot: int) -> bool:
        """Return True if there is a tick of this slot."""
        at = bisect_left(self._ticks, slot, key=_slot_of)
        return at < len(self._ticks) and self._ticks[at].slot == slot

    def value(self, slot: int, place: int, number: int) -> Exact | None:
        """Return a value in units, and its decimals; None if it is not in a tick."""
        if not self.has(slot):
            return None
        at = bisect_left(self._ticks, slot, key=_slot_of)
        tick, head = self._ticks[at], self._heads[at]
        if head.bits >> place & 1:
            first = self._offsets_of(head.bits)[place] + number
            return _NUMBERS[_NUMBER.findall(tick.first, head.at)[first]], self._bundle.members[place].decimals
        if place in tick.later:
            answer = read_late(tick.later[place])
            return answer.values[number], answer.decimals
        return None

    def _column(self, rows: _FirstAnswers, at: int, place: int, number: int) -> MetricSlots:
        value, step = at + number, at + self._bundle.widths[place]
        lag_ms = 1000 * self._bundle.lag_seconds
        units = [_NUMBERS[row[value]] for row in rows.numbers]
        after = [lag_ms + STEP_MS * _NUMBERS[row[step]] for row in rows.numbers]
        collected = MomentsAfter(rows.slots, after)
        columns = SlotColumns(rows.slots, units, collected, rows.late_ms, rows.ones, rows.zeros)
        return MetricSlots(columns, self._bundle.members[place].decimals)

    def _first_answers(self) -> _FirstAnswers:
        if self._first is None:
            pairs = [pair for pair in zip(self._ticks, self._heads, strict=True) if pair[1].bits]
            self._first = _FirstAnswers(
                [tick.slot for tick, _ in pairs],
                [head.late_ms - head.late_ms % STEP_MS for _, head in pairs],
                [self._offsets_of(head.bits) for _, head in pairs],
                [_NUMBER.findall(tick.first, head.at) for tick, head in pairs],
                [1] * len(pairs),
                [0] * len(pairs),
            )
        return self._first

    def _offsets_of(self, bits: int) -> Sequence[int]:
        """Return where the numbers of each member begin if these have answered; -1 for the others."""
        if bits not in self._offsets:
            sizes = [width + 1 if bits >> place & 1 else 0 for place, width in enumerate(self._bundle.widths)]
            starts = accumulate(sizes, initial=0)
            self._offsets[bits] = [at if size else -1 for at, size in zip(starts, sizes, strict=False)]
        return self._offsets[bits]

    def _with_later(self, first: MetricSlots | None, place: int, number: int) -> MetricSlots | None:
        late = [
            Tick(from_seconds(tick.slot), {place: read_late(tick.later[place])}, head.late_ms)
            for tick, head in zip(self._ticks, self._heads, strict=True)
            if place in tick.later
        ]
        if not late:
            return first
        metric = self._bundle.members[place].metrics[number]
        return merge(first, columns_of(self._bundle, late)[metric])


def _slot_of(tick: PackedTick) -> int:
    return tick.slot


def _head(tick: PackedTick, bundle: Bundle) -> FirstHead:
    return read_head(tick.first, bundle) if tick.first else FirstHead(0, 0, 0)


def _bits_of(places: Mapping[int, bytes]) -> int:
    bits = 0
    for place in places:
        bits |= 1 << place
    return bits
