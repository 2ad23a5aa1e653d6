"""Bundle summaries: the slots of a span that members of a bundle lack, and how late its live ticks were (pure).

A summary keeps what ticks say beside values, so that ticks can be deleted. Between the bundle's first and last
slot of the span every member has every slot, except for runs of absent ones. An absent slot is missing, held (not
asked, because the target was held) or dead (given up). A slot that is stored never becomes absent again; the
state of an absent one is that of the newest tick.

Slots are seconds since 1970. In bytes a summary is its version, interval, first slot and number of slots, and six
columns: place, start, length and state of each run; slot and lateness of each live tick. A run that all members
share, as where a tick is absent, stands there once, with a place of its own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

from kizami.core.bundles import Bundle
from kizami.core.epoch import to_seconds
from kizami.core.packing import pack, read_number, unpack, write_number
from kizami.core.ticks import Tick, places_of

_VERSION = 1


class Absence(IntEnum):
    """Why a member has no value for a slot."""

    MISSING = 0
    HELD = 1
    DEAD = 2


_STORED = len(Absence)
_EVERY = -1  # stands for the places of all members
_RUNS = re.compile(b"|".join(bytes([state]) + b"+" for state in Absence), re.DOTALL)


class AbsentRun(NamedTuple):
    """Neighbouring slots [start, end) that a member lacks for one reason."""

    start: int
    end: int
    state: Absence


class MemberTally(NamedTuple):
    """How many slots are stored, and how many are absent for each reason."""

    stored: int = 0
    missing: int = 0
    held: int = 0
    dead: int = 0


@dataclass(frozen=True, slots=True)
class BundleSummary:
    """The slots [begin, end) of a bundle in one span: absent runs by place, lateness in ms by live slot."""

    interval_seconds: int
    begin: int
    end: int
    absent: Mapping[int, Sequence[AbsentRun]] = field(default_factory=dict)
    late_ms: Mapping[int, int] = field(default_factory=dict)

    def runs(self, place: int, first: int, end: int) -> Iterator[AbsentRun]:
        """Return what the member lacks of the slots that begin in [first, end), oldest first."""
        first, end = self._slot_from(first), self._slot_from(end)
        for run in self.absent.get(place, ()):
            if run.start < end and run.end > first:
                yield AbsentRun(max(run.start, first), min(run.end, end), run.state)

    def count(self, place: int, first: int, end: int) -> MemberTally:
        """Count the member's slots that begin in [first, end); those outside of the summary do not count."""
        start, stop = max(self.begin, self._slot_from(first)), min(self.end, self._slot_from(end))
        if stop <= start:
            return MemberTally()
        absent = [0] * len(Absence)
        for run in self.runs(place, start, stop):
            absent[run.state] += (run.end - run.start) // self.interval_seconds
        return MemberTally((stop - start) // self.interval_seconds - sum(absent), *absent)

    def _slot_from(self, moment: int) -> int:
        """Return the first slot that begins at a moment or after it."""
        return -(-moment // self.interval_seconds) * self.interval_seconds


def summarize(
    bundle: Bundle, begin: int, end: int, ticks: Collection[Tick], before: BundleSummary | None = None
) -> BundleSummary:
    """Return the summary of a span whose live slots are [begin, end), from its ticks and what was known before.

    A slot without a tick stays as it was, and is missing if nothing was known of it. A tick says nothing of
    members that are outstanding or, if it was begun for some members only, of those that it does not name.
    """
    step = bundle.interval_seconds
    seen = {slot: tick for tick in ticks if not (slot := to_seconds(tick.slot)) % step}  # no former intervals
    known = [(slot, slot + step) for slot in seen] + [(begin, end)]
    if before is not None:
        known.append((before.begin, before.end))
    whole = [(first, last) for first, last in known if first < last] or [(begin, begin)]
    first, last = min(first for first, _ in whole), max(last for _, last in whole)
    states = _states_of(len(bundle.members), first, last, step, before)
    for slot, tick in seen.items():
        _note_tick(states, (slot - first) // step, tick)
    absent = {place: runs for place, row in enumerate(states) if (runs := _runs_of(row, first, step))}
    live = {slot: tick.late_ms for slot, tick in seen.items() if tick.late_ms is not None and _is_live(tick)}
    late = live | dict(before.late_ms if before else {})
    return BundleSummary(step, first, last, absent, dict(sorted(late.items())))


def _is_live(tick: Tick) -> bool:
    """Return True if a member answered otherwise than to a backfill: only then its lateness is that of a poll."""
    return any(not answer.backfill for answer in tick.answers.values())


def _states_of(members: int, first: int, last: int, step: int, before: BundleSummary | None) -> list[bytearray]:
    """Return one byte a slot for each member: its absence, or `_STORED`."""
    states = [bytearray((last - first) // step) for _ in range(members)]  # all are missing
    if before is None:
        return states
    begin, end = (before.begin - first) // step, (before.end - first) // step
    for place, row in enumerate(states):
        row[begin:end] = bytes([_STORED]) * (end - begin)
        for run in before.absent.get(place, ()):
            length = (run.end - run.start) // step
            start = (run.start - first) // step
            row[start : start + length] = bytes([run.state]) * length
    return states


def _note_tick(states: Sequence[bytearray], at: int, tick: Tick) -> None:
    for place in tick.answers:
        states[place][at] = _STORED
    if len(tick.answers) == len(states):
        return
    for place, row in enumerate(states):
        if row[at] == _STORED or place in tick.outstanding:
            continue
        if place in tick.dead:
            row[at] = Absence.DEAD
        elif place in tick.held:
            row[at] = Absence.HELD
        elif not tick.is_partial:
            row[at] = Absence.MISSING


def _runs_of(row: bytearray, first: int, step: int) -> list[AbsentRun]:
    if row.count(_STORED) == len(row):
        return []
    found = ((match.start(), match.end(), row[match.start()]) for match in _RUNS.finditer(row))
    return [AbsentRun(first + start * step, first + end * step, Absence(state)) for start, end, state in found]


def without_dead(summary: BundleSummary, slots: Mapping[int, int]) -> BundleSummary:
    """Return the summary after slots are given up no more, each of the members of these bits: they are missing."""
    step, absent = summary.interval_seconds, dict(summary.absent)
    for place in {place for bits in slots.values() for place in places_of(bits)} & absent.keys():
        runs: list[AbsentRun] = []
        for run in absent[place]:
            for slot in range(run.start, run.end, step):
                is_over = run.state is Absence.DEAD and slots.get(slot, 0) >> place & 1
                state = Absence.MISSING if is_over else run.state
                if runs and runs[-1].end == slot and runs[-1].state is state:
                    runs[-1] = runs[-1]._replace(end=slot + step)
                else:
                    runs.append(AbsentRun(slot, slot + step, state))
        absent[place] = runs
    return replace(summary, absent=absent)


def write_summary(summary: BundleSummary) -> bytes:
    """Return the bytes of a summary."""
    begin, step = summary.begin, summary.interval_seconds
    places = max(summary.absent, default=-1) + 1
    lacked_by: dict[AbsentRun, list[int]] = {}
    for place, several in sorted(summary.absent.items()):
        for run in several:
            lacked_by.setdefault(run, []).append(place)
    runs = [
        (place, (run.start - begin) // step, (run.end - run.start) // step, int(run.state))
        for run, lacking in sorted(lacked_by.items())
        for place in ([_EVERY] if len(lacking) == places else lacking)
    ]
    live = [((slot - begin) // step, late_ms) for slot, late_ms in summary.late_ms.items()]
    numbers = step, begin, (summary.end - begin) // step, places, len(runs), len(live)
    parts = [bytes([_VERSION]), *map(write_number, numbers)]
    for column in (*zip(*runs, strict=True), *zip(*live, strict=True)):
        data = pack(column)
        parts += [write_number(len(data)), data]
    return b"".join(parts)


def read_summary(data: bytes) -> BundleSummary:
    """Read what `write_summary` wrote; ValueError if another version did."""
    if data[0] != _VERSION:
        raise ValueError(f"a summary of version {data[0]}, which this version cannot read")
    numbers, at = [], 1
    for _ in range(6):
        number, at = read_number(data, at)
        numbers.append(number)
    step, begin, slots, places, runs, live = numbers
    columns: list[Sequence[int]] = []
    for count in [runs] * 4 * bool(runs) + [live] * 2 * bool(live):
        size, at = read_number(data, at)
        columns.append(unpack(data[at : at + size], count))
        at += size
    absent: dict[int, list[AbsentRun]] = {}
    for place, start, length, state in zip(*columns[:4], strict=True) if runs else ():
        first = begin + start * step
        run = AbsentRun(first, first + length * step, Absence(state))
        for each in range(places) if place == _EVERY else (place,):
            absent.setdefault(each, []).append(run)
    late = {begin + at * step: late_ms for at, late_ms in zip(*columns[-2:], strict=True)} if live else {}
    return BundleSummary(step, begin, begin + slots * step, dict(sorted(absent.items())), late)
