"""All that is stored of a metric, sealed or not: what every reader of slots goes through (SQL only).

Slots move from rows into spans while they are read. So what belongs together is read in one snapshot, and a long
range in several, each of whole pieces of time: no slot is left out or given twice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import apsw

from kizami.core.sealed_spans import Column, Names, PackedSlots, span_seconds, span_start
from kizami.local.store.database import snapshot
from kizami.local.store.history.sealed import SealedSpan, packed_slots, spans_of
from kizami.local.store.history.unsealed import Row, rows_of
from kizami.local.store.metrics import KnownMetric
from kizami.local.store.schema import TALLY_SECONDS

_SPANS_AT_ONCE = 8

# Where the next slots are after those of the span that reaches there: in a span of the metric, or in a bucket of
# whichever.
_NEXT = f"""
SELECT (SELECT max(start + seconds) FROM sealed_spans WHERE metric_id = :metric AND start = (
           SELECT max(start) FROM sealed_spans WHERE metric_id = :metric AND start <= :first)),
       (SELECT min(start) FROM sealed_spans WHERE metric_id = :metric AND start > :first AND start < :end),
       (SELECT min(bucket) FROM tallies WHERE bucket > :first - {TALLY_SECONDS} AND bucket < :end)
"""


def stored_slots(
    connection: apsw.Connection, metric: KnownMetric, first: int, end: int, names: Names
) -> Iterator[Sequence[Column]]:
    """What is stored in [first, end), ascending: some slots at a time, each time the columns of these names."""
    # The first ones are soon there, and of many not few are read at once.
    length, longest = (count * span_seconds(metric.step_seconds) for count in (1, _SPANS_AT_ONCE))
    while first < end:
        with snapshot(connection):
            begin = _first_stored(connection, metric, first, end)
            if begin is None:
                return
            stop = min(end, span_start(begin, length) + length)
            piece = read_slots(connection, metric, begin, stop, names)
        yield from piece
        first, length = stop, min(longest, 2 * length)


def _first_stored(connection: apsw.Connection, metric: KnownMetric, first: int, end: int) -> int | None:
    """A moment from `first` on before which nothing is stored; None if nothing is in the range."""
    bounds = {"metric": metric.id, "first": first, "end": end}
    reaches_to, *others = next(connection.execute(_NEXT, bounds))
    if reaches_to is not None and reaches_to > first:
        return first
    found = [each for each in others if each is not None]
    return max(first, min(found)) if found else None


def read_slots(
    connection: apsw.Connection, metric: KnownMetric, first: int, end: int, names: Names
) -> Iterator[Sequence[Column]]:
    """The same of a range that is not long, for whoever has a snapshot: read at once, unpacked as it is taken."""
    rows = rows_of(connection, metric, first, end, names)
    spans = [(span, packed_slots(connection, span)) for span in spans_of(connection, metric.id, first, end)]
    return _unpacked(rows, spans, first, end, names)


def _unpacked(
    rows: Sequence[Row],
    spans: Sequence[tuple[SealedSpan, PackedSlots | None]],
    first: int,
    end: int,
    names: Names,
) -> Iterator[Sequence[Column]]:
    for span, packed in spans:
        yield from _columns(rows, first, span.start)
        columns: list[Column] = _within(packed.columns(names), first, end) if packed else [() for _ in names]
        yield from _with_late(columns, _between(rows, span.start, span.end))
        first = span.end
    yield from _columns(rows, first, end)


def _within(columns: list[Column], first: int, end: int) -> list[Column]:
    slots = columns[0]
    if first <= slots[0] and slots[-1] < end:
        return columns
    wanted = slice(bisect_left(slots, first), bisect_left(slots, end))
    return [column[wanted] for column in columns]


def _with_late(columns: list[Column], late: Sequence[Row]) -> Iterator[Sequence[Column]]:
    """The slots of a span with those that came after it was sealed."""
    if late:
        columns = [*zip(*sorted([*zip(*columns, strict=True), *late]), strict=True)]
    if columns[0]:
        yield columns


def _columns(rows: Sequence[Row], first: int, end: int) -> Iterator[Sequence[Column]]:
    if found := _between(rows, first, end):
        yield [*zip(*found, strict=True)]


def _between(rows: Sequence[Row], first: int, end: int) -> Sequence[Row]:
    if not rows:
        return ()
    return rows[bisect_left(rows, (first,)) : bisect_left(rows, (end,))]
