"""The hour and the day of the targets that somebody sees: a sparkline and a strip, kept until the next minute."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from threading import Lock
from typing import Any

from kizami.backend.chart import draw, edges_of_grain
from kizami.backend.port import Backend
from kizami.backend.targets import KnownTarget
from kizami.core.answers.numbers import Number
from kizami.core.coverage import Completeness
from kizami.core.slots import Window, floor_to_slot

POINTS = 30
MAX_KEPT = 4000
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Trend:
    """The means of the last hour, oldest first (None: nothing is stored), and the completeness of 24 hours."""

    means: tuple[float | None, ...]
    hours: tuple[Completeness, ...]
    lowest: Number | None
    highest: Number | None

    def as_json(self) -> dict[str, Any]:
        """As the page's script reads it; a mean needs no more digits than a sparkline shows."""
        return {
            "means": [None if mean is None else float(f"{mean:.4g}") for mean in self.means],
            "hours": [[part.stored, part.expected] for part in self.hours],
        }


class Trends:
    """What was read of each target in this minute; any thread may ask."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[datetime, Trend]] = OrderedDict()
        self._lock = Lock()

    def read(self, backend: Backend, targets: Iterable[KnownTarget], now: datetime) -> dict[str, Trend]:
        """The trend of each of the targets."""
        wanted, minute = list(targets), floor_to_slot(now, 60)
        with self._lock:
            kept = {target.name: self._kept.get(target.name) for target in wanted}
        good = {name: found[1] for name, found in kept.items() if found is not None and found[0] == minute}
        read = read_trends(backend, [target for target in wanted if target.name not in good], now)
        with self._lock:
            for name, trend in read.items():
                self._kept[name] = minute, trend
                self._kept.move_to_end(name)
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return {target.name: good.get(target.name) or read[target.name] for target in wanted}

    def forget(self) -> None:
        """Somebody has changed what they speak of."""
        with self._lock:
            self._kept.clear()


def read_trends(backend: Backend, targets: Iterable[KnownTarget], now: datetime) -> dict[str, Trend]:
    """The last hour of each in POINTS points, fewer of a long interval, and its last day by the hour."""
    alike: dict[tuple[int, int], list[KnownTarget]] = {}
    for target in targets:
        alike.setdefault((target.interval_seconds, target.lag_seconds), []).append(target)
    with backend.look() as one:
        return {name: trend for some in alike.values() for name, trend in _trends_of(one, some, now)}


def _trends_of(backend: Backend, targets: Sequence[KnownTarget], now: datetime) -> Iterator[tuple[str, Trend]]:
    """Those of targets of one timing."""
    hour, grain = _hour(targets[0], now)
    found = backend.buckets_of([target.name for target in targets], hour.start, hour.end, grain)
    for target in targets:
        points = draw(target, hour, grain, found[target.name], now).points
        lows = [point.lowest for point in points if point.lowest is not None]
        highs = [point.highest for point in points if point.highest is not None]
        means = tuple(point.mean for point in points)
        yield (
            target.name,
            Trend(means, _hours(backend, target, now), min(lows, default=None), max(highs, default=None)),
        )


def _hour(target: KnownTarget, now: datetime) -> tuple[Window, int]:
    """The hour of a sparkline, and how many seconds a point of it is."""
    grain = max(3600 // POINTS, target.interval_seconds)
    end = floor_to_slot(now - timedelta(seconds=target.lag_seconds), grain) + timedelta(seconds=grain)
    return Window(end - max(HOUR, timedelta(seconds=8 * grain)), end), grain


def _hours(backend: Backend, target: KnownTarget, now: datetime) -> tuple[Completeness, ...]:
    stretch = max(3600, target.interval_seconds)
    end = floor_to_slot(now - timedelta(seconds=target.lag_seconds), stretch) + timedelta(seconds=stretch)
    edges = edges_of_grain(Window(end - 24 * HOUR, end), stretch)
    expected = [target.within(start, until, now).expected for start, until in pairwise(edges)]
    stored = backend.stored_between(target.name, edges)
    return tuple(Completeness(min(one, most), most) for one, most in zip(stored, expected, strict=True))
