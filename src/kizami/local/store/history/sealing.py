"""How rows become sealed spans: found by their tallies, packed, and put in the place of the rows, some at a time.

Nobody waits for it for long: rows are read and packed outside of a transaction that writes, and such a one has as
many rows as it moves in a tenth of a second. In it rows and span change places, so that whatever happens a slot is
in one of the two. A span whose rows are not those any more that were packed is left for the next time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import apsw

from kizami.core.sealed_spans import COLUMNS, HOUR, SlotColumns, span_seconds, span_start
from kizami.local.store.database import snapshot, transaction
from kizami.local.store.history.sealed import (
    DamagedHistory,
    NewSpan,
    SealedSpan,
    all_spans_of,
    columns_of,
    delete_span,
    insert_span,
    pack_span,
    spans_of,
)
from kizami.local.store.history.unsealed import rows_of
from kizami.local.store.metrics import KnownMetric, known_metrics
from kizami.local.store.schema import TALLY_SECONDS

ROWS_AT_ONCE = 40_000

_WITH_ROWS = """
SELECT metric_id, sum(stored), step_seconds, lag_seconds FROM tallies JOIN metrics ON id = metric_id
WHERE bucket >= ? AND bucket < ? GROUP BY metric_id ORDER BY metric_id
"""
_STORED = """
WITH RECURSIVE grid (bucket) AS (
    SELECT :start UNION ALL SELECT bucket + :width FROM grid WHERE bucket + :width < :end
)
SELECT metric_id, sum(stored) FROM grid CROSS JOIN json_each(:metrics)
CROSS JOIN tallies ON tallies.bucket = grid.bucket AND metric_id = value GROUP BY metric_id
"""
_DELETE = """
WITH RECURSIVE grid (at) AS (
    SELECT :start UNION ALL SELECT at + :step FROM grid WHERE at + :step < :end
)
DELETE FROM {table} WHERE ({column}, metric_id) IN (SELECT at, value FROM grid CROSS JOIN json_each(:metrics))
"""
_DELETE_SLOTS = _DELETE.format(table="slots", column="slot")
_DELETE_TALLIES = _DELETE.format(table="tallies", column="bucket")


class Bounds(NamedTuple):
    """A span of time, whose slots are multiples of a step."""

    start: int
    end: int
    step: int


class _Packed(NamedTuple):
    """The rows of one metric that are to be sealed, packed with what was sealed of the span before."""

    metric_id: int
    rows: int
    before: Sequence[SealedSpan]
    span: NewSpan


def seal_closed(connection: apsw.Connection, now: int, after_seconds: int) -> Iterator[int]:
    """Seal the spans that were over `after_seconds` before `now` (seconds since 1970) and have rows, oldest first.

    Each step is short, and told by how many rows it has sealed.
    """
    begin, before = -(2**62), now - after_seconds
    while (first := _next_bucket(connection, begin, before - HOUR)) is not None:
        begin = span_start(first, HOUR) + HOUR
        for span, closed in _groups(connection, begin - HOUR, before):
            yield from seal(connection, span, closed)


def _next_bucket(connection: apsw.Connection, begin: int, last: int) -> int | None:
    sql = "SELECT min(bucket) FROM tallies WHERE bucket >= ? AND bucket <= ?"
    found: int | None = connection.execute(sql, (begin, last)).get
    return found


def _groups(connection: apsw.Connection, hour: int, before: int) -> Iterator[tuple[Bounds, list[KnownMetric]]]:
    """The metrics that have rows in an hour of a span that was over `before`: together as far as they share it.

    They come as their rows lie in the file, so that what is sealed together leaves whole pages.
    """
    groups: dict[Bounds, list[KnownMetric]] = {}
    sizes: dict[Bounds, int] = {}
    for metric, rows in _with_rows(connection, hour, before):
        span = _span_of(connection, metric, hour)
        if not _is_over(span.end, metric.lag_seconds, before):
            continue
        groups.setdefault(span, []).append(metric)
        sizes[span] = sizes.get(span, 0) + rows
        if sizes[span] >= ROWS_AT_ONCE:
            yield span, groups.pop(span)
            del sizes[span]
    yield from groups.items()


def _with_rows(connection: apsw.Connection, hour: int, before: int) -> list[tuple[KnownMetric, int]]:
    """The metrics that have rows in an hour, and how many; not the many whose span of a day or a week goes on."""
    found: list[Any] = connection.execute(_WITH_ROWS, (hour, hour + HOUR)).fetchall()
    over = [
        (number, rows)
        for number, rows, step, lag in found
        if _is_over(span_start(hour, span_seconds(step)) + span_seconds(step), lag, before)
    ]
    metrics = {metric.id: metric for metric in known_metrics(connection).values()} if over else {}
    return [(metrics[number], rows) for number, rows in over]


def _is_over(end: int, lag_seconds: int, before: int) -> bool:
    return end + lag_seconds <= before


def _span_of(connection: apsw.Connection, metric: KnownMetric, hour: int) -> Bounds:
    """The metric's span that has the hour; with all of whatever is sealed there already."""
    seconds = span_seconds(metric.step_seconds)
    start = span_start(hour, seconds)
    sealed = all_spans_of(connection, metric.id, start, start + seconds)
    first = min([start, *(each.start for each in sealed)])
    end = max([start + seconds, *(each.end for each in sealed)])
    return Bounds(first, end, metric.step_seconds)


def seal(connection: apsw.Connection, span: Bounds, metrics: Sequence[KnownMetric]) -> Iterator[int]:
    """Seal the rows of these metrics in a span: a step to pack each, and one that tells how many rows they had.

    Packing is what computes, and whoever polls meanwhile waits for it: two milliseconds a metric, not a hundred.
    """
    packed: list[_Packed] = []
    for metric in metrics:
        if (each := _pack(connection, metric, span)) is not None:
            packed.append(each)
            yield 0
    yield _put_in_place(connection, span, packed)


def _put_in_place(connection: apsw.Connection, span: Bounds, packed: Sequence[_Packed]) -> int:
    """Change rows for spans, in one transaction; how many rows there were."""
    with transaction(connection):
        unchanged = list(_unchanged(connection, span, packed))
        for each in unchanged:
            for before in each.before:
                delete_span(connection, before)
            insert_span(connection, each.span)
        _delete_rows(connection, span, unchanged)
    return sum(each.rows for each in unchanged)


def _pack(connection: apsw.Connection, metric: KnownMetric, span: Bounds) -> _Packed | None:
    """Its rows with what is sealed there; None if there are none, or if they would be joined with damaged ones."""
    with snapshot(connection):
        rows = rows_of(connection, metric, span.start, span.end, COLUMNS)
        try:
            before = spans_of(connection, metric.id, span.start, span.end)
            slots = [columns_of(connection, each, COLUMNS) for each in before]
        except DamagedHistory:
            return None
    if not rows:
        return None
    every: list[Any] = [row for columns in slots for row in zip(*columns, strict=True)] + rows
    columns = SlotColumns(*zip(*(sorted(every) if before else every), strict=True))
    return _Packed(metric.id, len(rows), before, pack_span(metric.id, span.start, span.end - span.start, columns))


def _unchanged(connection: apsw.Connection, span: Bounds, packed: Sequence[_Packed]) -> Iterator[_Packed]:
    """Those whose rows are still the ones that were packed: none is ever changed, so their number tells."""
    these = json.dumps([each.metric_id for each in packed])
    bounds = {"start": span.start, "end": span.end, "width": TALLY_SECONDS, "metrics": these}
    stored = dict(connection.execute(_STORED, bounds))
    for each in packed:
        before = all_spans_of(connection, each.metric_id, span.start, span.end)
        if stored.get(each.metric_id) == each.rows and before == each.before:
            yield each


def _delete_rows(connection: apsw.Connection, span: Bounds, sealed: Sequence[_Packed]) -> None:
    these = json.dumps([each.metric_id for each in sealed])
    bounds = {"start": span.start, "end": span.end, "metrics": these}
    connection.execute(_DELETE_SLOTS, {**bounds, "step": span.step})
    if connection.changes() != sum(each.rows for each in sealed):
        raise ValueError("other rows would be removed than were sealed; all of them stay")
    connection.execute(_DELETE_TALLIES, {**bounds, "step": TALLY_SECONDS})
