"""Which slots of many targets are stored, by the ledger of ticks: a page or a verb asks it, and not the records.

An hour of a bundle that is whole is counted once and never looked at again; of another one it is known whom its
ticks lack. Before a bundle's first tick, or longer ago than its items are kept, the ledger knows nothing: then the
table is asked, target by target.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain, pairwise
from math import inf
from threading import Lock

from kizami.aws.store.slot_cache import DAY, QUICK_SECONDS, SLOW_SECONDS, stretch_seconds
from kizami.aws.store.tick_ledger import KEPT_SECONDS, LedgerTick, TickLedger
from kizami.core.coverage import Span, next_slot
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.slots import shift
from kizami.core.targets.bundles import NamedBundle, Polled, make_bundles

FIRST_TICK_SECONDS = 60.0
BUNDLES_AT_ONCE = 16  # as many as the client keeps connections
RECENT_TICKS = 24  # of which the newest of each member is found
EVERYBODY = -1  # as a set of places: each bit of it is set
ANYONE = -1  # as a place: whoever it is
READ_HOURS = 6  # so many that are not whole are read rather than counted by halves
AGE_FOR_LOOK = 100  # an hour that lacks something is looked at again after that part of its age


@dataclass(slots=True)
class BundleHour:
    """An hour of a bundle: whom its ticks lack, as sets of places, which are the bits of a number: so a day of a
    thousand targets in trouble is a few megabytes. EVERYBODY at a tick of which nothing is noted."""

    start: int
    lacking: dict[int, int] = field(default_factory=dict)
    alike: dict[int, list[int]] = field(default_factory=dict)  # the ticks that lack the same members: most do
    short: dict[int, int] = field(default_factory=dict)  # how many slots of it each member lacks
    looked_at: float | None = None
    read_at: float = -inf  # when all of it was last looked at
    is_settled: bool = False  # it was whole when all of it was over
    awaited_until: float = 0.0  # somebody has asked for slots of it again

    def is_stale(self, end: int, now: float, grace_seconds: float) -> bool:
        """Whether it is time to look (again)."""
        if self.looked_at is None or self.is_settled:
            return self.looked_at is None
        is_quick = max(end, self.awaited_until) > now - grace_seconds
        pace = QUICK_SECONDS if is_quick else max(SLOW_SECONDS, (now - end) / AGE_FOR_LOOK)
        return now - self.looked_at >= pace

    def first_unknown(self, now: float, grace_seconds: float, end: int) -> int:
        """From where on it is to be read: what is long overdue comes late or never, and is looked at rarely."""
        if self.looked_at is None:
            return self.start
        is_due = now - self.read_at >= SLOW_SECONDS or self.awaited_until > now - grace_seconds
        reach = -inf if is_due else now - grace_seconds
        return next((slot for slot in self.lacking if slot >= reach), end)

    def note(self, first: int, lacking: Mapping[int, int], now: float) -> None:
        """What was read from `first` on."""
        before = {slot: places for slot, places in self.lacking.items() if slot < first}
        self.lacking = {**before, **lacking}
        self.alike = {}
        for slot, places in self.lacking.items():
            self.alike.setdefault(places, []).append(slot)
        self.short = _count_places(self.alike)
        if not before:
            self.read_at = now
        self.looked_at = now

    def settle(self, now: float) -> None:
        """It is whole."""
        self.lacking, self.alike, self.short, self.is_settled, self.looked_at = {}, {}, {}, True, now

    def lacked_by(self, place: int, slots: range) -> list[int]:
        """Those of the slots that the member of that place is not known to have stored."""
        if self.looked_at is None:
            return list(slots)
        found = [ticks[first:end] for ticks, first, end in self._parts_lacked(place, slots)]
        return found[0] if len(found) == 1 else sorted(chain.from_iterable(found))

    def count_lacked(self, place: int, slots: range, is_whole: bool) -> int:
        """How many those are; the hour is the `whole` of them where that is told."""
        if self.looked_at is None:
            return len(slots)
        return self._lacked(place) if is_whole else sum(e - f for _, f, e in self._parts_lacked(place, slots))

    def _parts_lacked(self, place: int, slots: range) -> Iterator[tuple[list[int], int, int]]:
        """The ticks that lack a member, by whom else they lack, and which of them are among the slots."""
        if self._lacked(place):
            bit = 1 << place
            for places, ticks in self.alike.items():
                if places & bit:
                    yield ticks, bisect_left(ticks, slots.start), bisect_left(ticks, slots.stop)

    def _lacked(self, place: int) -> int:
        return self.short.get(place, 0) + self.short.get(ANYONE, 0)

    def newest_of(self, place: int, slots: range) -> int | None:
        """The newest of the slots that the member has stored, None if that is not known of any."""
        if self.looked_at is None or self._lacked(place) == len(slots):
            return None
        bit = 1 << place
        return next((slot for slot in reversed(slots) if not self.lacking.get(slot, 0) & bit), None)


def _count_places(alike: Mapping[int, Sequence[int]]) -> Counter[int]:
    """How many ticks lack each place, by those that lack the same ones; those of everybody are ANYONE's."""
    found: Counter[int] = Counter()
    for places, ticks in alike.items():
        if places == EVERYBODY:
            found[ANYONE] += len(ticks)
        else:
            found.update({place: len(ticks) for place in range(places.bit_length()) if places >> place & 1})
    return found


class LedgerSlots:
    """What the ledger tells of the targets of bundles. For several threads."""

    def __init__(
        self, ledger: TickLedger, bundles: Iterable[NamedBundle], threads: Executor, grace_seconds: float
    ) -> None:
        self._ledger = ledger
        self._bundles = list(bundles)
        self._of = {name: bundle for bundle in self._bundles for name in bundle.members}
        self._places = {name: place for each in self._bundles for place, name in enumerate(each.members)}
        self._threads = threads
        self._grace_seconds = grace_seconds
        self._hours: dict[tuple[str, int], BundleHour] = {}
        self._first_ticks: dict[str, LedgerTick | None] = {}
        self._first_read = -FIRST_TICK_SECONDS
        self._guard = Lock()

    @classmethod
    def of(cls, table: str, targets: Iterable[Polled], grace_seconds: float) -> LedgerSlots:
        """What a table tells of these targets. Its threads are its own: who asks it may be one of others."""
        threads = ThreadPoolExecutor(BUNDLES_AT_ONCE, thread_name_prefix="ledger")
        return cls(TickLedger(table), make_bundles(targets), threads, grace_seconds)

    def told_from(self, target: str, span: Span, now: datetime) -> datetime:
        """From which slot of a span on the ledger tells of the target; the span's end if it tells nothing.

        Its items are kept for two days: an older one is of a slot that was asked for again, and stands alone.
        """
        bundle = self._of.get(target)
        first = self._first(now).get(bundle.name) if bundle else None
        if bundle is None or first is None or bundle.interval_seconds != span.interval_seconds:
            return span.end
        kept = next_slot(shift(now, -KEPT_SECONDS), span.interval_seconds)
        return min(span.end, max(span.start, first.slot, kept))

    def begun(self, targets: Iterable[str], back: timedelta, now: datetime) -> dict[str, datetime]:
        """The first tick of those targets that are known to be stored since longer than `back` and their lag."""
        found: dict[str, datetime] = {}
        for name in targets:
            bundle = self._of.get(name)
            tick = self._first(now).get(bundle.name) if bundle else None
            if bundle is None or tick is None or tick.slot > shift(now - back, -bundle.lag_seconds):
                continue
            if self._places[name] not in tick.lacking:
                found[name] = tick.slot
        return found

    def representatives(self) -> list[str]:
        """A target of each bundle, which was asked when the others were."""
        return [bundle.members[0] for bundle in self._bundles]

    def look(self, spans: Mapping[str, Span], now: datetime) -> None:
        """Read what is not known about the spans of targets, or not lately. StoreError."""
        wanted: dict[str, tuple[NamedBundle, int, int]] = {}
        for target, span in spans.items():
            bundle = self._of[target]
            start, end = to_seconds(span.start), min(to_seconds(span.end), int(now.timestamp()) + 1)
            _, first, last = wanted.get(bundle.name, (bundle, start, end))
            wanted[bundle.name] = bundle, min(first, start), max(last, end)
        moment = now.timestamp()
        list(self._threads.map(lambda each: self._look_at(each[0], each[1], each[2], moment), wanted.values()))

    def count(self, target: str, span: Span) -> int:
        """How many slots of a span are stored, as was last looked at."""
        place, length = self._places[target], stretch_seconds(span.interval_seconds)
        full = length // span.interval_seconds
        lacked = (hour.count_lacked(place, slots, len(slots) == full) for hour, slots in self._parts(target, span))
        return span.expected - sum(lacked)

    def lacking(self, target: str, span: Span) -> list[int]:
        """The slots of a span that are not stored, oldest first, in seconds since 1970."""
        place = self._places[target]
        return [slot for hour, slots in self._parts(target, span) for slot in hour.lacked_by(place, slots)]

    def _parts(self, target: str, span: Span) -> Iterator[tuple[BundleHour, range]]:
        """The hours of a span, each with its slots that are in it."""
        bundle, length = self._of[target].name, stretch_seconds(span.interval_seconds)
        start, end = to_seconds(span.start), to_seconds(span.end)
        for moment in range(start // length * length, end, length):
            slots = range(max(start, moment), min(end, moment + length), span.interval_seconds)
            yield self._hours.get((bundle, moment)) or BundleHour(moment), slots

    def await_slots(self, target: str, slots: Iterable[int], until: float) -> None:
        """Somebody asks for these slots again: their hours are looked at often until then."""
        bundle = self._of.get(target)
        if bundle is not None:
            length = stretch_seconds(bundle.interval_seconds)
            for start in {slot // length * length for slot in slots}:
                self._hour(bundle, start).awaited_until = until

    def newest(self, targets: Iterable[str]) -> dict[str, datetime]:
        """The newest stored slot of each target that has one among the last ticks or in an hour that is known."""
        names = set(targets)
        wanted = [bundle for bundle in self._bundles if not names.isdisjoint(bundle.members)]
        found: dict[str, datetime] = {}
        for bundle, ticks in zip(wanted, self._threads.map(self._recent, wanted), strict=True):
            for tick, lacking in ticks:  # newest first
                for place, name in enumerate(bundle.members):
                    if place not in lacking:
                        found.setdefault(name, tick)
            for name in names.intersection(bundle.members) - found.keys():
                if (slot := self._newest_known(bundle, name)) is not None:
                    found[name] = from_seconds(slot)
        return {name: slot for name, slot in found.items() if name in names}

    def _newest_known(self, bundle: NamedBundle, name: str) -> int | None:
        length, place = stretch_seconds(bundle.interval_seconds), self._places[name]
        starts = sorted((start for of, start in list(self._hours) if of == bundle.name), reverse=True)
        for start in starts:
            slots = range(start, start + length, bundle.interval_seconds)
            if (slot := self._hours[bundle.name, start].newest_of(place, slots)) is not None:
                return slot
        return None

    def _recent(self, bundle: NamedBundle) -> list[tuple[datetime, frozenset[int]]]:
        return [(tick.slot, tick.lacking) for tick in self._ledger.newest_ticks(bundle.name, RECENT_TICKS)]

    def _first(self, now: datetime) -> dict[str, LedgerTick | None]:
        moment = now.timestamp()
        with self._guard:
            if moment - self._first_read >= FIRST_TICK_SECONDS:
                names = [bundle.name for bundle in self._bundles]
                ticks = self._threads.map(self._ledger.first_tick, names)
                self._first_ticks = dict(zip(names, ticks, strict=True))
                self._first_read = moment
                old = [key for key in self._hours if key[1] < moment - KEPT_SECONDS - DAY]
                for key in old:
                    del self._hours[key]
            return self._first_ticks

    def _look_at(self, bundle: NamedBundle, start: int, end: int, now: float) -> None:
        length = stretch_seconds(bundle.interval_seconds)
        hours = [self._hour(bundle, moment) for moment in range(start // length * length, end, length)]
        stale = [hour for hour in hours if hour.is_stale(hour.start + length, now, self._grace_seconds)]
        over = [hour for hour in stale if hour.start + length <= now - self._grace_seconds]
        for run in _runs(over, length):
            self._count(bundle, run, length, now)
        for run in _runs([hour for hour in stale if hour.looked_at != now], length):
            self._read(bundle, run, length, now)

    def _hour(self, bundle: NamedBundle, start: int) -> BundleHour:
        with self._guard:
            return self._hours.setdefault((bundle.name, start), BundleHour(start))

    def _count(self, bundle: NamedBundle, hours: Sequence[BundleHour], length: int, now: float) -> None:
        """Hours that are over are nearly always whole, as a count tells; ticks that are short are picked out.

        Only where ticks have no item at all that is found by halves.
        """
        start, end = hours[0].start, hours[-1].start + length
        noted, short = self._ledger.pick_short(bundle.name, from_seconds(start), from_seconds(end))
        is_all_noted = noted == (end - start) // bundle.interval_seconds
        if is_all_noted and not short:
            for hour in hours:
                hour.settle(now)
        elif is_all_noted:
            lacking: dict[int, dict[int, int]] = {hour.start: {} for hour in hours}
            for slot, places in short.items():
                lacking[slot // length * length][slot] = places
            for hour in hours:
                hour.note(hour.start, lacking[hour.start], now)
        elif len(hours) > READ_HOURS:
            middle = len(hours) // 2
            self._count(bundle, hours[:middle], length, now)
            self._count(bundle, hours[middle:], length, now)

    def _read(self, bundle: NamedBundle, hours: Sequence[BundleHour], length: int, now: float) -> None:
        """Whom the ticks of hours lack, from the first on that is not known to be whole."""
        firsts = [hour.first_unknown(now, self._grace_seconds, hour.start + length) for hour in hours]
        lacking = self._ledger.lacking(
            bundle.name, from_seconds(firsts[0]), from_seconds(hours[-1].start + length)
        )
        for hour, first in zip(hours, firsts, strict=True):
            slots = range(first, hour.start + length, bundle.interval_seconds)
            noted = ((slot, lacking.get(slot, EVERYBODY)) for slot in slots)
            hour.note(first, {slot: places for slot, places in noted if places}, now)


def _runs(hours: Sequence[BundleHour], length: int) -> list[list[BundleHour]]:
    """Hours that follow one another."""
    runs = [list(hours[:1])] if hours else []
    for before, hour in pairwise(hours):
        if hour.start == before.start + length:
            runs[-1].append(hour)
        else:
            runs.append([hour])
    return runs
