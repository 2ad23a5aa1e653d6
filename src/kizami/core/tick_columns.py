"""Ticks read in bulk: the states of members by bits, and the slots of single metrics as columns (pure).

A reader wants counts of a hundred members, or the values of one, from thousands of ticks. So a tick is taken apart
no further than asked: states need its head alone, and a metric's numbers are picked out of all ticks at once.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from kizami.core.answers.numbers import Exact
from kizami.core.bundles import Bundle
from kizami.core.epoch import from_seconds
from kizami.core.merging import MetricSlots, columns_of, merge
from kizami.core.packing import read_number
from kizami.core.sealed_spans import SlotColumns
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


class _OneTick(NamedTuple):
    """First answers, cut into numbers; the place of each member's first number is by the bits that answered."""

    slot: int
    late_ms: int
    offsets: Sequence[int]
    numbers: Sequence[bytes]


class TickColumns:
    """The ticks of a bundle, ascending; ValueError if they are not of it."""

    def __init__(self, bundle: Bundle, ticks: Sequence[PackedTick]) -> None:
        self._bundle = bundle
        self._ticks = ticks
        self._heads = [_head(tick, bundle) for tick in ticks]
        self._cut: list[_OneTick] | None = None
        self._offsets: dict[int, Sequence[int]] = {}

    def states(self) -> Iterator[TickStates]:
        """Return what each tick says of the members."""
        for tick, head in zip(self._ticks, self._heads, strict=True):
            stored = head.bits | _bits_of(tick.later) if tick.later else head.bits
            yield TickStates(tick.slot, stored, *tick[3:])

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
        width = self._bundle.widths[place]
        found = [
            (tick.slot, tick.late_ms, tick.numbers[at + number], tick.numbers[at + width])
            for tick in self._first_answers()
            if (at := tick.offsets[place]) >= 0
        ]
        decimals = self._bundle.members[place].decimals
        first = None
        if found:
            slots, late, values, steps = zip(*found, strict=True)
            lag_ms = 1000 * self._bundle.lag_seconds
            collected = [
                1000 * slot + lag_ms + STEP_MS * _NUMBERS[step] for slot, step in zip(slots, steps, strict=True)
            ]
            units = [_NUMBERS[value] for value in values]
            ones, zeros = [1] * len(slots), [0] * len(slots)
            first = MetricSlots(SlotColumns(slots, units, collected, late, ones, zeros), decimals)
        return self._with_later(first, place, number)

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

    def _first_answers(self) -> list[_OneTick]:
        if self._cut is None:
            self._cut = [
                _OneTick(
                    tick.slot,
                    head.late_ms - head.late_ms % STEP_MS,
                    self._offsets_of(head.bits),
                    _NUMBER.findall(tick.first, head.at),
                )
                for tick, head in zip(self._ticks, self._heads, strict=True)
                if head.bits
            ]
        return self._cut

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
