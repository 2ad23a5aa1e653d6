"""The samples behind a query: a slot's count, standing at the end of its window.

At that moment the window is over, and `avg_over_time(m[1h])` at 11:00 is the mean of the slots from 10:00 to
10:59:55: figures that the backend keeps. A sample is valid until the next one should be there, so a
missing slot is a hole; only the newest one is carried on for as long as the next is not overdue. So an hour's or a
day's value holds for the hour or day after it, where Prometheus itself would forget it after five minutes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime

from kizami.backend.chart import TALLIED_SECONDS
from kizami.backend.port import Backend
from kizami.backend.targets import KnownTarget
from kizami.backend.values import Bucket
from kizami.core.epoch import from_ms, from_seconds, to_ms
from kizami.core.messages import MetricRecord
from kizami.web.prometheus.budget import Budget
from kizami.web.prometheus.expressions import NAME_LABEL, Matcher
from kizami.web.prometheus.vectors import Values
from kizami.web.prometheus.windows import FROM_FIGURES, WEIGHTS, of_figures, of_values

# What is read at once: then it is seen whether there is time for more.
_RECORDS_AT_ONCE = 1000
_EDGES_AT_ONCE = 1000
_WORK_AN_EDGE = 40
_LATEST_MS = 253_000_000_000_000  # in the year 9987


class Samples:
    """Reads the samples of one query's series; each target is one series."""

    def __init__(self, backend: Backend, budget: Budget) -> None:
        budget.check()
        self._backend = backend
        self._targets = backend.targets()
        self._newest = backend.newest_slots()
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
        counts = self._backend.counts_at(target.name, [_instant(end - interval_ms) for end in ends])
        return [None if count is None else float(count) for count in counts]

    def within(self, target: KnownTarget, start_ms: int, end_ms: int) -> tuple[list[int], list[float]]:
        """The samples that stand in (start, end], oldest first: their times and their values."""
        interval_ms = target.interval_seconds * 1000
        self.budget.read((end_ms - start_ms) // interval_ms)
        first, last = _instant(start_ms - interval_ms + 1), _instant(end_ms - interval_ms + 1)
        records: list[MetricRecord] = []
        for record in self._backend.records(target.name, first, last):
            records.append(record)
            if len(records) % _RECORDS_AT_ONCE == 0:
                self.budget.check()
        return [to_ms(record.slot) + interval_ms for record in records], [float(each.count) for each in records]

    def over(
        self, target: KnownTarget, times_ms: Sequence[int], range_ms: int, function: str, parameter: float = 0.0
    ) -> Values:
        """The function over the samples in (time - range, time], for each of the times."""
        if function in FROM_FIGURES:
            return self._over_figures(target, times_ms, range_ms, function)
        values_each = range_ms // (target.interval_seconds * 1000)
        self.budget.work(len(times_ms) * (1 + WEIGHTS.get(function, 1) * values_each))
        found, values = self.within(target, times_ms[0] - range_ms, times_ms[-1])
        result: Values = []
        for time_ms in times_ms:
            self.budget.check()
            first, last = bisect_right(found, time_ms - range_ms), bisect_right(found, time_ms)
            result.append(of_values(function, values[first:last], parameter))
        return result

    def _over_figures(self, target: KnownTarget, times_ms: Sequence[int], range_ms: int, function: str) -> Values:
        interval_ms = target.interval_seconds * 1000
        # A sample stands at the end of its slot's window: those of (time - range, time] are of the slots between
        # these two, and no slot begins between a slot and the next.
        spans = [
            (_next_slot(time_ms - range_ms, interval_ms), _next_slot(time_ms, interval_ms)) for time_ms in times_ms
        ]
        edges = sorted({edge for span in spans for edge in span})
        return of_figures(function, edges, self._figures(target, edges), spans)

    def _figures(self, target: KnownTarget, edges: Sequence[int]) -> list[Bucket]:
        """What is stored between each two edges; only where an edge cuts a tally are its slots read."""
        slots, span = TALLIED_SECONDS // target.interval_seconds + 1, edges[-1] - edges[0]
        self.budget.read(min(span // target.interval_seconds, span // TALLIED_SECONDS + len(edges) * slots))
        self.budget.work(_WORK_AN_EDGE * len(edges))
        found: list[Bucket] = []
        for first in range(0, len(edges) - 1, _EDGES_AT_ONCE):
            self.budget.check()
            some = [from_seconds(edge) for edge in edges[first : first + _EDGES_AT_ONCE + 1]]
            found += self._backend.figures(target.name, some)
        return found


def labels_of(target: KnownTarget) -> dict[str, str]:
    """The labels of a target's series."""
    return {NAME_LABEL: target.name, "job": "kizami"}


def _instant(milliseconds: int) -> datetime:
    return from_ms(min(max(milliseconds, 0), _LATEST_MS))


def _next_slot(milliseconds: int, interval_ms: int) -> int:
    """The first slot, in seconds, whose sample stands after that moment."""
    return max(0, min(milliseconds, _LATEST_MS) // interval_ms) * (interval_ms // 1000)
