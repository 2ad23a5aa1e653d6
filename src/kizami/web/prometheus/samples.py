"""The samples behind a query: a slot's count, standing at the end of its window.

At that moment the window is over, and `avg_over_time(m[1h])` at 11:00 is the mean of the slots from 10:00 to
10:59:55: exactly the buckets that the store keeps. A sample is valid until the next one should be there, so a
missing slot is a hole; only the newest one is carried on for as long as the next is not overdue.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from operator import mul

from kizami.core.epoch import from_ms, to_ms
from kizami.core.messages import MetricRecord
from kizami.home.chart import TALLIED_SECONDS
from kizami.home.port import Home
from kizami.home.targets import KnownTarget
from kizami.home.values import Bucket
from kizami.web.prometheus.budget import Budget
from kizami.web.prometheus.expressions import NAME_LABEL, Matcher

Labels = Mapping[str, str]
Values = list[float | None]

_TALLIED_MS = TALLIED_SECONDS * 1000
# What is read at once: then it is seen whether there is time for more.
_RECORDS_AT_ONCE = 1000
_BUCKETS_AT_ONCE_MS = 7 * 86_400_000
_LATEST_MS = 253_000_000_000_000  # in the year 9987


class Samples:
    """Reads the samples of one query's series; each target is one series."""

    def __init__(self, home: Home, budget: Budget) -> None:
        budget.check()
        self._home = home
        self._targets = home.targets()
        self._newest = home.newest_slots()
        self.budget = budget

    def select(self, matchers: Sequence[Matcher]) -> list[KnownTarget]:
        """The targets whose labels meet all conditions."""
        self.budget.work(len(self._targets) * sum(matcher.cost for matcher in matchers))
        return [
            target
            for target in self._targets
            if all(matcher.accepts(labels_of(target).get(matcher.label, "")) for matcher in matchers)
        ]

    def at(self, target: KnownTarget, times_ms: Sequence[int]) -> Values:
        """The value that is valid at each of the times."""
        interval_ms = target.interval_seconds * 1000
        newest = self._newest.get(target.name)
        newest_ms = None if newest is None else to_ms(newest) + interval_ms
        patience_ms = target.lag_seconds * 1000 + 2 * interval_ms
        ends = []
        for time_ms in times_ms:
            end_ms = time_ms - time_ms % interval_ms
            if newest_ms is not None and newest_ms < end_ms <= newest_ms + patience_ms:
                end_ms = newest_ms
            ends.append(end_ms)
        self.budget.read(len(ends))
        counts = self._home.counts_at(target.name, [_instant(end - interval_ms) for end in ends])
        return [None if count is None else float(count) for count in counts]

    def within(self, target: KnownTarget, start_ms: int, end_ms: int) -> tuple[list[int], list[float]]:
        """The samples that stand in (start, end], oldest first: their times and their values."""
        interval_ms = target.interval_seconds * 1000
        self.budget.read((end_ms - start_ms) // interval_ms)
        first, last = _instant(start_ms - interval_ms + 1), _instant(end_ms - interval_ms + 1)
        records: list[MetricRecord] = []
        for record in self._home.records(target.name, first, last):
            records.append(record)
            if len(records) % _RECORDS_AT_ONCE == 0:
                self.budget.check()
        return [to_ms(record.slot) + interval_ms for record in records], [float(each.count) for each in records]

    def over(
        self, target: KnownTarget, times_ms: Sequence[int], range_ms: int, function: str, parameter: float
    ) -> Values:
        """The function over the samples in (time - range, time], for each of the times."""
        if function in _OF_BUCKETS and not any(moment % _TALLIED_MS for moment in (range_ms, *times_ms)):
            return self._over_buckets(target, times_ms, range_ms, function)
        self._afford(times_ms, range_ms // (target.interval_seconds * 1000), _WEIGHTS.get(function, 1))
        found, values = self.within(target, times_ms[0] - range_ms, times_ms[-1])
        result: Values = []
        for time_ms in times_ms:
            self.budget.check()
            first, last = bisect_right(found, time_ms - range_ms), bisect_right(found, time_ms)
            result.append(_of_values(function, values[first:last], parameter))
        return result

    def _over_buckets(self, target: KnownTarget, times_ms: Sequence[int], range_ms: int, function: str) -> Values:
        self._afford(times_ms, range_ms // _TALLIED_MS, _BUCKET_WEIGHT)
        buckets = self._buckets(target, times_ms[0] - range_ms, times_ms[-1])
        starts = [to_ms(bucket.start) for bucket in buckets]
        result: Values = []
        for time_ms in times_ms:
            self.budget.check()
            first, last = bisect_right(starts, time_ms - range_ms - 1), bisect_right(starts, time_ms - 1)
            result.append(_OF_BUCKETS[function](buckets[first:last]) if last > first else None)
        return result

    def _afford(self, times_ms: Sequence[int], values_each: int, weight: int) -> None:
        """What a function would look at is known before anything is read."""
        self.budget.work(len(times_ms) * (1 + weight * values_each))

    def _buckets(self, target: KnownTarget, start_ms: int, end_ms: int) -> list[Bucket]:
        self.budget.read((end_ms - start_ms) // _TALLIED_MS)
        found: list[Bucket] = []
        for first_ms in range(max(0, start_ms), min(end_ms, _LATEST_MS), _BUCKETS_AT_ONCE_MS):
            self.budget.check()
            first, last = _instant(first_ms), _instant(min(first_ms + _BUCKETS_AT_ONCE_MS, end_ms))
            found += self._home.buckets(target.name, first, last, TALLIED_SECONDS)
        return found


_OF_BUCKETS: dict[str, Callable[[Sequence[Bucket]], float]] = {
    "sum": lambda buckets: float(sum(bucket.total for bucket in buckets)),
    "count": lambda buckets: float(sum(bucket.stored for bucket in buckets)),
    "avg": lambda buckets: sum(bucket.total for bucket in buckets) / sum(bucket.stored for bucket in buckets),
    "min": lambda buckets: float(min(bucket.lowest for bucket in buckets)),
    "max": lambda buckets: float(max(bucket.highest for bucket in buckets)),
    "present": lambda buckets: 1.0,
}

_OF_VALUES: dict[str, Callable[[list[float]], float]] = {
    "sum": math.fsum,
    "count": lambda values: float(len(values)),
    "avg": statistics.fmean,
    "min": min,
    "max": max,
    "last": lambda values: values[-1],
    "present": lambda values: 1.0,
    "stddev": lambda values: math.sqrt(variance(values)),
    "stdvar": lambda values: variance(values),
}


# How much dearer than a sum of numbers.
_WEIGHTS = {"quantile": 5, "stddev": 10, "stdvar": 10}
_BUCKET_WEIGHT = 5


def variance(values: list[float]) -> float:
    """The mean square of the distance from the mean; in floats, for `statistics` reckons with fractions."""
    mean = statistics.fmean(values)
    distances = [value - mean for value in values]
    square_of_rounding = (math.fsum(distances) / len(values)) ** 2
    return max(0.0, math.fsum(map(mul, distances, distances)) / len(values) - square_of_rounding)


def _of_values(function: str, values: list[float], parameter: float) -> float | None:
    if not values:
        return None
    if function == "quantile":
        return quantile(parameter, values)
    return _OF_VALUES[function](values)


def quantile(share: float, values: list[float]) -> float:
    """As Prometheus has it: between the two nearest ranks in proportion."""
    if math.isnan(share):
        return math.nan
    if share < 0 or share > 1:
        return -math.inf if share < 0 else math.inf
    ordered = sorted(values)
    rank = share * (len(ordered) - 1)
    low = math.floor(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


def labels_of(target: KnownTarget) -> dict[str, str]:
    """The labels of a target's series."""
    return {NAME_LABEL: target.name, "job": "kizami"}


def _instant(milliseconds: int) -> datetime:
    return from_ms(min(max(milliseconds, 0), _LATEST_MS))
