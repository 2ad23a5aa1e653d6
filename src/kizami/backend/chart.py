"""The chart's points: counts in buckets few enough to draw, with what each bucket lacks (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from kizami.backend.figures.report import Report
from kizami.backend.figures.summary import Figure
from kizami.backend.targets import KnownTarget
from kizami.backend.values import Bucket
from kizami.core.answers.numbers import Number, Total
from kizami.core.coverage import Span
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.slots import Window, floor_to_second, shift

MAX_POINTS = 1500
# From ten minutes up the store has its tallies; a finer grain reads every slot, so only so many of them.
MAX_SLOTS_READ = 100_000
TALLIED_SECONDS = 600
_GRAINS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400)

RANGES = {"5m": 300, "15m": 900, "1h": 3600, "6h": 21_600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000}
MAX_RANGE_SECONDS = 31 * 86_400


DEFAULT_RANGE = "15m"
_FEWEST_SLOTS = 24


def default_range(interval_seconds: int) -> str:
    """What is shown of a target unless somebody says: some slots of it, also of a long interval."""
    if interval_seconds <= 60:
        return DEFAULT_RANGE
    return next(name for name, seconds in RANGES.items() if seconds >= _FEWEST_SLOTS * interval_seconds)


def live_window(target: KnownTarget, seconds: float, now: datetime) -> Window:
    """The last so many seconds; where a lag is as long as that, of what is due by now."""
    end = shift(now, -target.lag_seconds) if target.lag_seconds >= seconds else now
    return Window(shift(end, -seconds), end)


@dataclass(frozen=True, slots=True)
class Point:
    """One bucket: its extremes and mean (None: nothing is stored), and how many of its due slots are stored."""

    start: datetime
    lowest: Number | None
    highest: Number | None
    mean: float | None
    stored: int
    expected: int
    total: Total | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    """The points of [start, end), one every `grain_seconds`: a hole in the data is a point without values.

    `before` are those that they are compared with, one for each; None if they are not.
    """

    start: datetime
    end: datetime
    grain_seconds: int
    points: tuple[Point, ...]
    before: tuple[Point, ...] | None = None


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


def edges_of_grain(window: Window, grain_seconds: int) -> list[datetime]:
    """The edges of the buckets that `draw` makes points of."""
    first, step = floor_to_grain(window.start, grain_seconds), timedelta(seconds=grain_seconds)
    count = -((first - window.end) // step)  # rounded up: the last one is whole
    return [first + number * step for number in range(count + 1)]


def draw_report(report: Report, window: Window, grain_seconds: int) -> Chart:
    """Figures as points, beside those that they are compared with."""
    before = [_of_figure(row.before) for row in report.rows if row.before]
    points = tuple(_of_figure(row.figure) for row in report.rows)
    return Chart(window.start, window.end, grain_seconds, points, tuple(before) if before else None)


def _of_figure(figure: Figure) -> Point:
    told, mean = figure.completeness, None if figure.mean is None else float(figure.mean)
    return Point(figure.start, figure.lowest, figure.highest, mean, told.stored, told.expected, figure.total)


def floor_to_grain(instant: datetime, grain_seconds: int) -> datetime:
    """The start of the bucket that `instant` falls in; buckets are counted from 1970."""
    second = to_seconds(floor_to_second(instant))
    return from_seconds(second - second % grain_seconds)


def _point(start: datetime, bucket: Bucket | None, expected: int) -> Point:
    if bucket is None:
        return Point(start, None, None, None, 0, expected)
    mean, told = float(bucket.total / bucket.stored), max(expected, bucket.stored)
    return Point(start, bucket.lowest, bucket.highest, mean, bucket.stored, told, bucket.total)


def _expected(start: datetime, end: datetime, due: Span) -> int:
    return Span(max(start, due.start), max(start, min(end, due.end)), due.interval_seconds).expected
