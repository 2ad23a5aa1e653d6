"""What the table on AWS holds, as far as it has been read: a record never changes, so a whole hour is read once.

An hour that lacks slots is read again from its first missing one on: every few seconds while slots are still on
their way, else once a minute. So an open page costs a read unit or two a look, and not the day's records.
Where an interval does not divide an hour, it is a day instead.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from math import inf
from threading import Lock

from kizami.backend.values import Bucket
from kizami.core.answers.numbers import Number, total_of
from kizami.core.coverage import Span
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.messages import MetricRecord

HOUR, DAY = 3600, 86_400
ABSENT = -inf
QUICK_SECONDS = 4.0
SLOW_SECONDS = 60.0
_HOURS_AT_ONCE = 24  # in one reading; a month is read as thirty of them side by side

ReadRecords = Callable[[str, datetime, datetime], Iterable[MetricRecord]]


@dataclass(frozen=True, slots=True)
class KnownSlot:
    """A record that was read: its slot and when it was collected, in seconds since 1970."""

    slot: int
    count: Number
    collected: int


def stretch_seconds(interval: int) -> int:
    """How much of a metric is read and kept together: whole slots of it."""
    return DAY if HOUR % interval else HOUR


@dataclass(slots=True)
class Stretch:
    """An hour of a metric's slots, oldest first: their counts (ABSENT: none yet) and when each was collected."""

    start: int
    interval: int
    counts: array[float] = field(init=False)  # a double keeps every count as it is
    collected: array[int] = field(init=False)
    looked_at: float | None = None
    awaited_until: float = 0.0

    def __post_init__(self) -> None:
        self.counts = array("d", [ABSENT]) * (self.seconds // self.interval)
        self.collected = array("q", [0]) * (self.seconds // self.interval)

    @property
    def seconds(self) -> int:
        return stretch_seconds(self.interval)

    @property
    def end(self) -> int:
        return self.start + self.seconds

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
        self._hours: OrderedDict[tuple[str, int, int], Stretch] = OrderedDict()
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
        length = stretch_seconds(interval)
        for start in {slot // length * length for slot in slots}:
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
                    yield KnownSlot(slot, _number(hour.counts[place]), hour.collected[place])

    def newest(self, metric: str, span: Span) -> datetime | None:
        """The newest slot of the span that has a record."""
        for hour, first, last in reversed(list(self._parts(metric, span))):
            for place in reversed(range(first, last)):
                if hour.counts[place] != ABSENT:
                    return from_seconds(hour.start + place * hour.interval)
        return None

    def buckets(self, metric: str, span: Span, seconds: int) -> list[Bucket]:
        """The records in stretches of `seconds` since 1970; stretches without a record are left out."""
        found: dict[int, list[Number]] = {}
        for hour, first, last in self._parts(metric, span):
            step = 1 if seconds % hour.interval else min(seconds, hour.seconds) // hour.interval
            for place in range(first - first % step, last, step):
                part = hour.counts[max(place, first) : min(place + step, last)]
                counts = [_number(count) for count in part if count != ABSENT]
                moment = hour.start + place * hour.interval
                found.setdefault(moment - moment % seconds, []).extend(counts)
        return [
            Bucket(from_seconds(start), len(counts), min(counts), max(counts), total_of(counts))
            for start, counts in found.items()
            if counts
        ]

    def _counts(self, metric: str, span: Span) -> Iterator[array[float]]:
        return (hour.counts[first:last] for hour, first, last in self._parts(metric, span))

    def _parts(self, metric: str, span: Span) -> Iterator[tuple[Stretch, int, int]]:
        start, end = to_seconds(span.start), to_seconds(span.end)
        length = stretch_seconds(span.interval_seconds)
        for moment in range(start // length * length, end, length):
            hour = self._hour(metric, moment, span.interval_seconds)
            yield hour, *hour.places(start, end)

    def _stale(self, metric: str, span: Span, now: float) -> list[Stretch]:
        """The hours of a span that have begun and are to be read."""
        start, end = to_seconds(span.start), min(to_seconds(span.end), int(now) + 1)
        length = stretch_seconds(span.interval_seconds)
        hours = (
            self._hour(metric, hour, span.interval_seconds)
            for hour in range(start // length * length, end, length)
        )
        return [hour for hour in hours if hour.is_stale(now, self._grace_seconds)]

    def _hour(self, metric: str, start: int, interval: int) -> Stretch:
        key = metric, start, interval
        with self._guard:
            hour = self._hours.get(key)
            if hour is None:
                hour = self._hours[key] = Stretch(start, interval)
            self._hours.move_to_end(key)
            while len(self._hours) > self._most_hours:
                self._hours.popitem(last=False)
        return hour

    def _read_piece(self, metric: str, hours: list[Stretch], moment: float) -> None:
        by_start, length = {hour.start: hour for hour in hours}, hours[0].seconds
        first = hours[0].first_absent()
        start = hours[0].start if first is None else first
        for record in self._read(metric, from_seconds(start), from_seconds(hours[-1].end)):
            by_start[to_seconds(record.slot) // length * length].put(record)
        for hour in hours:
            hour.looked_at = moment


def _number(count: float) -> Number:
    return int(count) if count.is_integer() else count


def _pieces(hours: list[Stretch]) -> list[list[Stretch]]:
    """Hours that follow one another, so many at once."""
    pieces = [hours[:1]] if hours else []
    for before, hour in pairwise(hours):
        if hour.start == before.end and len(pieces[-1]) < _HOURS_AT_ONCE:
            pieces[-1].append(hour)
        else:
            pieces.append([hour])
    return pieces
