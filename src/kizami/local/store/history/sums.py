"""What all metrics have sealed in a range: how many slots, and how late they were asked for (SQL only)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator

import apsw

from kizami.local.store.history.sealed import (
    SealedSpan,
    readable_columns,
    sealed_until,
    spans_of_all,
    spans_of_each,
)
from kizami.local.store.metrics import KnownMetric, known_metrics

_LATE = ("slot", "late_ms", "backfilled")

_STORED = """
SELECT ifnull((SELECT sum(stored) FROM tallies), 0) + ifnull((
    SELECT sum(stored) FROM sealed_spans WHERE slots_id IN (SELECT id FROM sealed_slots)
), 0)
"""
_OF_WHOLE_SPANS = """
SELECT name, sum(stored) FROM metrics CROSS JOIN sealed_spans
ON metric_id = id AND start >= :first AND start < :end AND start + seconds <= :end GROUP BY id
"""


def count_stored(connection: apsw.Connection) -> int:
    """How many slots are stored in all, not counting those of which only figures are left."""
    return int(connection.execute(_STORED).get)


def sealed_totals(connection: apsw.Connection, first: int, end: int) -> Counter[str]:
    """How many sealed slots of [first, end) each metric has, by name."""
    if first >= end or first >= sealed_until(connection):
        return Counter()
    found = Counter(dict(connection.execute(_OF_WHOLE_SPANS, {"first": first, "end": end})))
    metrics = {metric.id: metric for metric in known_metrics(connection).values()}
    # Of each metric one span may reach beyond either bound, or one beyond both.
    cut = {span for bound in (first, end) for span in spans_of_all(connection, bound, bound + 1)}
    for span in cut:
        if span.start < first or span.end > end:
            metric = metrics[span.metric_id]
            found[metric.name] += _part_of(connection, span, metric, first, end)
    return +found


def sealed_within(
    connection: apsw.Connection, ranges: Iterable[tuple[KnownMetric, int, int]]
) -> Iterator[tuple[str, int]]:
    """How many sealed slots each of the metrics has in its own [first, end), span by span."""
    wanted = {metric.id: (metric, first, end) for metric, first, end in ranges}
    for span in spans_of_each(connection, ((number, first, end) for number, (_, first, end) in wanted.items())):
        metric, first, end = wanted[span.metric_id]
        is_whole = first <= span.start and span.end <= end
        yield metric.name, span.stored if is_whole else _part_of(connection, span, metric, first, end)


def _part_of(connection: apsw.Connection, span: SealedSpan, metric: KnownMetric, first: int, end: int) -> int:
    """How many slots of [first, end) a span has that reaches beyond it; one that lacks none is not looked into."""
    first, end, step = max(first, span.start), max(first, min(end, span.end)), metric.step_seconds
    if span.stored * step == span.seconds:
        return -(-end // step) + (-first // step)
    (slots,) = readable_columns(connection, span, ("slot",))
    return bisect_left(slots, end) - bisect_left(slots, first)


def sealed_lateness(connection: apsw.Connection, first: int, end: int, lag: int | None = None) -> Counter[int]:
    """How often live polls of [first, end) were so many milliseconds late: of all metrics, or those of a lag."""
    spans = list(spans_of_all(connection, first, end))
    lags = {metric.id: metric.lag_seconds for metric in known_metrics(connection).values()} if spans else {}
    return Counter(
        late_ms
        for span in spans
        if lag is None or lags[span.metric_id] == lag
        for late_ms in _live_lateness(connection, span, first, end)
    )


def _live_lateness(connection: apsw.Connection, span: SealedSpan, first: int, end: int) -> Iterator[int]:
    for slot, late_ms, backfilled in zip(*readable_columns(connection, span, _LATE), strict=True):
        if first <= slot < end and not backfilled:
            yield late_ms
