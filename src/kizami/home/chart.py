"""The chart's points: counts in buckets few enough to draw, with what each bucket lacks (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from kizami.core.coverage import Span
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.slots import Window, floor_to_second
from kizami.home.targets import KnownTarget
from kizami.home.values import Bucket

MAX_POINTS = 1500
# From ten minutes up the store has its tallies; a finer grain reads every slot, so only so many of them.
MAX_SLOTS_READ = 100_000
TALLIED_SECONDS = 600
_GRAINS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600)

RANGES = {"5m": 300, "15m": 900, "1h": 3600, "6h": 21_600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000}
MAX_RANGE_SECONDS = 31 * 86_400


@dataclass(frozen=True, slots=True)
class Point:
    """One bucket: its extremes and mean (None: nothing is stored), and how many of its due slots are stored."""

    start: datetime
    lowest: int | None
    highest: int | None
    mean: float | None
    stored: int
    expected: int


@dataclass(frozen=True, slots=True)
class Chart:
    """The points of [start, end), one every `grain_seconds`: a hole in the data is a point without values."""

    start: datetime
    end: datetime
    grain_seconds: int
    points: tuple[Point, ...]


def choose_grain(start: datetime, end: datetime, interval_seconds: int) -> int:
    """The finest grain that draws the range in at most MAX_POINTS: the interval itself, or a multiple of it."""
    seconds = (end - start).total_seconds()
    least = TALLIED_SECONDS if seconds / interval_seconds > MAX_SLOTS_READ else interval_seconds
    for grain in (interval_seconds, *_GRAINS):
        if grain >= least and grain % interval_seconds == 0 and seconds / grain <= MAX_POINTS:
            return grain
    return _GRAINS[-1]


def draw(
    target: KnownTarget, window: Window, grain_seconds: int, buckets: Iterable[Bucket], now: datetime
) -> Chart:
    """Every bucket of the window as a point, the first one being that in which the window begins."""
    first = floor_to_grain(window.start, grain_seconds)
    found = {bucket.start: bucket for bucket in buckets}
    due = target.settled(now)
    step = timedelta(seconds=grain_seconds)
    points = []
    while first < window.end:
        points.append(_point(first, found.get(first), _expected(first, first + step, due)))
        first += step
    return Chart(window.start, window.end, grain_seconds, tuple(points))


def floor_to_grain(instant: datetime, grain_seconds: int) -> datetime:
    """The start of the bucket that `instant` falls in; buckets are counted from 1970."""
    second = to_seconds(floor_to_second(instant))
    return from_seconds(second - second % grain_seconds)


def _point(start: datetime, bucket: Bucket | None, expected: int) -> Point:
    if bucket is None:
        return Point(start, None, None, None, 0, expected)
    mean = bucket.total / bucket.stored
    return Point(start, bucket.lowest, bucket.highest, mean, bucket.stored, max(expected, bucket.stored))


def _expected(start: datetime, end: datetime, due: Span) -> int:
    return Span(max(start, due.start), max(start, min(end, due.end)), due.interval_seconds).expected
