"""What the table on AWS holds, as far as it has been read: a record never changes, so a whole hour is read once.

An hour that lacks slots is read again from its first missing one on: every few seconds while slots are still on
their way, else once a minute. So an open page costs a read unit or two a look, and not the day's records.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from threading import Lock

from kizami.core.coverage import Span
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.messages import MetricRecord
from kizami.home.values import Bucket

HOUR = 3600
ABSENT = -1
QUICK_SECONDS = 4.0
SLOW_SECONDS = 60.0
_HOURS_AT_ONCE = 24  # in one reading; a month is read as thirty of them side by side

ReadRecords = Callable[[str, datetime, datetime], Iterable[MetricRecord]]


@dataclass(frozen=True, slots=True)
class KnownSlot:
    """A record that was read: its slot and when it was collected, in seconds since 1970."""

    slot: int
    count: int
    collected: int


@dataclass(slots=True)
class Hour:
    """One hour of a metric's slots, oldest first: their counts (ABSENT: none yet) and when each was collected."""

    start: int
    interval: int
    counts: array[int] = field(init=False)
    collected: array[int] = field(init=False)
    looked_at: float | None = None
    awaited_until: float = 0.0

    def __post_init__(self) -> None:
        self.counts = array("q", [ABSENT]) * (HOUR // self.interval)
        self.collected = array("q", [0]) * (HOUR // self.interval)

    @property
    def end(self) -> int:
        return self.start + HOUR

    def first_absent(self) -> int | None:
        """Its first slot without a record, None if it is whole."""
        try:
            return self.start + self.counts.index(ABSENT) * self.interval
        except ValueError:
            return None

    def is_stale(self, now: float, grace_seconds: float) -> bool:
        """Whether it is time to read it (again)."""
        if self.looked_at is None:
            return True
        is_moving = self.end > now - grace_seconds or self.awaited_until > now
        pace = QUICK_SECONDS if is_moving else SLOW_SECONDS
        return now - self.looked_at >= pace and self.first_absent() is not None

    def put(self, record: MetricRecord) -> None:
        """Keep a record of this hour; one off the slots, of a former interval, is passed over."""
        place, rest = divmod(to_seconds(record.slot) - self.start, self.interval)
        if not rest:
            self.collected[place] = to_seconds(record.collected_at)
            self.counts[place] = record.count

    def places(self, start: int, end: int) -> tuple[int, int]:
        """Where the slots of [start, end) stand in it."""
        return (max(start, self.start) - self.start) // self.interval, -(
            (self.start - min(end, self.end)) // self.interval
        )


class SlotCache:
    """The hours that were read, the least used of them forgotten when they are too many. For several threads."""

    def __init__(self, read: ReadRecords, threads: Executor, grace_seconds: float, most_hours: int) -> None:
        self._read = read
        self._threads = threads
        self._grace_seconds = grace_seconds
        self._most_hours = most_hours
        self._hours: OrderedDict[tuple[str, int, int], Hour] = OrderedDict()
        self._guard = Lock()

    def look(self, spans: Mapping[str, Span], now: datetime) -> None:
        """Read what is not known about the spans, or not lately; StoreError if the table does not answer."""
        moment = now.timestamp()
        pieces = [
            (metric, piece)
            for metric, span in spans.items()
            for piece in _pieces(self._stale(metric, span, moment))
        ]
        list(self._threads.map(lambda piece: self._read_piece(piece[0], piece[1], moment), pieces))

    def await_slots(self, metric: str, slots: Iterable[int], interval: int, until: float) -> None:
        """Somebody asks for these slots again: their hours are looked at often until then."""
        for start in {slot // HOUR * HOUR for slot in slots}:
            self._hour(metric, start, interval).awaited_until = until

    def count(self, metric: str, span: Span) -> int:
        """How many slots of the span have a record."""
        parts = self._counts(metric, span)
        return sum(len(part) - part.count(ABSENT) for part in parts)

    def known(self, metric: str, span: Span) -> Iterator[KnownSlot]:
        """The records of the span, oldest first."""
        for hour, first, last in self._parts(metric, span):
            for place in range(first, last):
                if hour.counts[place] != ABSENT:
                    slot = hour.start + place * hour.interval
                    yield KnownSlot(slot, hour.counts[place], hour.collected[place])

    def newest(self, metric: str, span: Span) -> datetime | None:
        """The newest slot of the span that has a record."""
        for hour, first, last in reversed(list(self._parts(metric, span))):
            for place in reversed(range(first, last)):
                if hour.counts[place] != ABSENT:
                    return from_seconds(hour.start + place * hour.interval)
        return None

    def buckets(self, metric: str, span: Span, seconds: int) -> list[Bucket]:
        """The records in stretches of `seconds` since 1970; stretches without a record are left out."""
        found: dict[int, list[int]] = {}
        for hour, first, last in self._parts(metric, span):
            step = min(seconds, HOUR) // hour.interval
            for place in range(first - first % step, last, step):
                part = hour.counts[max(place, first) : min(place + step, last)]
                counts = [count for count in part if count != ABSENT]
                moment = hour.start + place * hour.interval
                found.setdefault(moment - moment % seconds, []).extend(counts)
        return [
            Bucket(from_seconds(start), len(counts), min(counts), max(counts), sum(counts))
            for start, counts in found.items()
            if counts
        ]

    def _counts(self, metric: str, span: Span) -> Iterator[array[int]]:
        return (hour.counts[first:last] for hour, first, last in self._parts(metric, span))

    def _parts(self, metric: str, span: Span) -> Iterator[tuple[Hour, int, int]]:
        start, end = to_seconds(span.start), to_seconds(span.end)
        for moment in range(start // HOUR * HOUR, end, HOUR):
            hour = self._hour(metric, moment, span.interval_seconds)
            yield hour, *hour.places(start, end)

    def _stale(self, metric: str, span: Span, now: float) -> list[Hour]:
        """The hours of a span that have begun and are to be read."""
        start, end = to_seconds(span.start), min(to_seconds(span.end), int(now) + 1)
        hours = (
            self._hour(metric, hour, span.interval_seconds) for hour in range(start // HOUR * HOUR, end, HOUR)
        )
        return [hour for hour in hours if hour.is_stale(now, self._grace_seconds)]

    def _hour(self, metric: str, start: int, interval: int) -> Hour:
        key = metric, start, interval
        with self._guard:
            hour = self._hours.get(key)
            if hour is None:
                hour = self._hours[key] = Hour(start, interval)
            self._hours.move_to_end(key)
            while len(self._hours) > self._most_hours:
                self._hours.popitem(last=False)
        return hour

    def _read_piece(self, metric: str, hours: list[Hour], moment: float) -> None:
        by_start = {hour.start: hour for hour in hours}
        first = hours[0].first_absent()
        start = hours[0].start if first is None else first
        for record in self._read(metric, from_seconds(start), from_seconds(hours[-1].end)):
            by_start[to_seconds(record.slot) // HOUR * HOUR].put(record)
        for hour in hours:
            hour.looked_at = moment


def _pieces(hours: list[Hour]) -> list[list[Hour]]:
    """Hours that follow one another, so many at once."""
    pieces = [hours[:1]] if hours else []
    for before, hour in pairwise(hours):
        if hour.start == before.end and len(pieces[-1]) < _HOURS_AT_ONCE:
            pieces[-1].append(hour)
        else:
            pieces.append([hour])
    return pieces
