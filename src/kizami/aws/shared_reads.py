"""Reads that the questions of one look share: what one of them has read is not read for the next one.

Marks, ticks and summaries of bundles are kept for the length of a look, which is one moment. The first question
about recent slots reads the newest ticks, too, for the others.

Ticks must be read before sealed items: a value that leaves its tick meanwhile is then seen sealed. So where ticks
of a bundle are read after its summaries, the summaries are read again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from math import inf
from typing import NamedTuple

from kizami.aws.client.json_client import Fields
from kizami.aws.invocation import TimeLeft
from kizami.aws.looks import SlotLook, TickRange, Wants
from kizami.aws.marks import KnownMarks
from kizami.aws.ownership import Ownership
from kizami.aws.reading import Sealed, SlotReader
from kizami.aws.slot_answers import AwsSlotAnswers
from kizami.core.bundles import Bundle
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.ports import Clock
from kizami.core.sealed_spans import span_start
from kizami.core.summaries import BundleSummary
from kizami.core.targets.target import Target
from kizami.core.tick_columns import PackedTick
from kizami.core.ticks import Tick, places_of, read_first, read_late

RECENT_SECONDS = 3600  # a range that ends later is read up to the newest tick
AHEAD_SECONDS = 900  # another clock may be ahead by so much


class _ReadTicks(NamedTuple):
    """All ticks of [start, end) of a bundle."""

    start: int
    end: int
    ticks: Sequence[PackedTick]


class SharedReads(SlotReader):
    """Reads for the questions of one look, all at `now`. StoreError."""

    def __init__(self, table: str, ownership: Ownership, now: datetime, time_left: TimeLeft = lambda: inf) -> None:
        super().__init__(table, ownership, time_left)
        self._now = to_seconds(now)
        self._known = KnownMarks()
        self._present: Fields | None = None
        self._read: set[str] | None = None  # bundles whose marks were read
        self._packed: dict[str, list[_ReadTicks]] = {}  # by bundle
        self._summaries: dict[str, dict[int, BundleSummary | None]] = {}  # by bundle and start of the span

    def ticks_at(self, slots: Iterable[tuple[Bundle, int]]) -> dict[tuple[str, datetime], Tick]:
        """Return single ticks by bundle and slot: those that exist."""
        found: dict[tuple[str, datetime], Tick] = {}
        left = []
        for bundle, slot in slots:
            packed = self._packed_in(TickRange(bundle, slot, slot + 1))
            if packed is None:
                left.append((bundle, slot))
            found |= {(bundle.name, from_seconds(slot)): _tick(each, bundle) for each in packed or ()}
        return found | super().ticks_at(left) if left else found

    def sealed(self, wants: Wants, look: SlotLook) -> Sealed:
        """Read sealed items, consistently."""
        unread = []
        for wanted in wants.summaries:
            known = self._summaries.setdefault(wanted.name, {})
            if starts := [start for start in wanted.starts if start not in known]:
                unread.append(wanted._replace(starts=starts))
        found = super().sealed(replace(wants, summaries=unread), look)
        for wanted in unread:
            known = self._summaries[wanted.name]
            known |= dict.fromkeys(wanted.starts)
            known |= {span_start(each.begin, wanted.length): each for each in found.summaries.get(wanted.name, ())}
        for wanted in wants.summaries:
            known = self._summaries[wanted.name]
            found.summaries[wanted.name] = [each for start in wanted.starts if (each := known[start]) is not None]
        return found

    def _read_marks(self, bundles: Sequence[str]) -> tuple[KnownMarks, Fields | None]:
        left = [name for name in bundles if self._read is None or name not in self._read]
        if left or self._read is None:
            found, self._present = super()._read_marks(left)
            known = self._known
            self._known = KnownMarks({**known.marks, **found.marks}, {**known.finished, **found.finished})
            self._read = {*(self._read or ()), *left}
        return self._known, self._present

    def _ticks_of(self, wanted: TickRange, consistent: bool) -> list[PackedTick]:
        """Return ticks; eventually consistent reads will do for a look, which is over a moment later."""
        packed = self._packed_in(wanted)
        if packed is None:
            is_recent = wanted.end > self._now - RECENT_SECONDS
            end = max(wanted.end, self._now + AHEAD_SECONDS) if is_recent else wanted.end
            ticks = super()._ticks_of(wanted._replace(end=end), consistent=False)
            self._packed.setdefault(wanted.bundle.name, []).append(_ReadTicks(wanted.start, end, ticks))
            self._summaries.pop(wanted.bundle.name, None)
            packed = self._packed_in(wanted)
        assert packed is not None
        return list(packed)

    def _packed_in(self, wanted: TickRange) -> Sequence[PackedTick] | None:
        """Return the ticks of a range if they were read."""
        for start, end, ticks in self._packed.get(wanted.bundle.name, ()):
            if start <= wanted.start and wanted.end <= end:
                first = bisect_left(ticks, wanted.start, key=_slot)
                return ticks[first : bisect_left(ticks, wanted.end, first, key=_slot)]
        return None


class SharedAnswers(AwsSlotAnswers):
    """Answers the questions of one look."""

    def __init__(
        self,
        table: str,
        ownership: Ownership,
        targets: Iterable[Target],
        clock: Clock,
        time_left: TimeLeft = lambda: inf,
    ) -> None:
        super().__init__(table, ownership, targets, clock, time_left)
        self._reader = SharedReads(table, ownership, clock.now(), time_left)


def _slot(tick: PackedTick) -> int:
    return tick.slot


def _tick(packed: PackedTick, bundle: Bundle) -> Tick:
    late_ms, first = read_first(packed.first, bundle) if packed.first else (None, {})
    late = {place: read_late(data) for place, data in packed.later.items()}
    return Tick(
        slot=from_seconds(packed.slot),
        answers={**late, **first},
        late_ms=late_ms,
        outstanding=frozenset(places_of(packed.outstanding)),
        dead=frozenset(places_of(packed.dead)),
        held=frozenset(places_of(packed.held)),
        asked=None if packed.asked is None else from_seconds(packed.asked),
        is_partial=packed.is_partial,
    )
