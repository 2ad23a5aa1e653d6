"""How what is old enough is given up: the slots of a span first, of which the figures stay, and then those too.

It is done in short transactions, oldest first. A metric remembers up to where its slots are given up: none of
those is missing, asked for or stored again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import apsw

from kizami.core.packing import pack, read_number, unpack, write_number
from kizami.core.sealed_spans import HOUR, Column, span_start
from kizami.local.store.database import transaction
from kizami.local.store.history.sealed import (
    DamagedHistory,
    SealedSpan,
    all_spans_of,
    delete_span,
    packed_hours,
    packed_slots,
    with_checksum,
)
from kizami.local.store.metrics import KnownMetric, with_expired_spans

_SPANS_AT_ONCE = 500
_EVER = -(2**62)

# Not a parameter alone: for such a LIMIT SQLite prepares the statement anew at each use.
_OLDEST = """
SELECT start FROM sealed_spans WHERE metric_id = ?1 AND start >= ?2 AND start < ?3 AND start + seconds <= ?3
ORDER BY start LIMIT ?4 + 0
"""

Hour = tuple[int, int, int, int, int]  # its start, stored, lowest, highest, total


def expire(connection: apsw.Connection, now: int) -> Iterator[int]:
    """Give up what was kept for long enough at `now` (seconds since 1970); each step tells of how many spans."""
    for metric in with_expired_spans(connection, now):
        assert metric.keep_seconds is not None
        yield from _expire_slots(connection, metric, now - metric.keep_seconds)
        if metric.keep_totals_seconds is not None:
            yield from _expire_totals(connection, metric, now - metric.keep_totals_seconds)


def _expire_slots(connection: apsw.Connection, metric: KnownMetric, before: int) -> Iterator[int]:
    begin = _EVER if metric.expired_until is None else metric.expired_until
    while spans := _whole_spans(connection, metric, begin, before):
        begin = spans[-1].end
        with transaction(connection):
            for span in spans:
                _keep_hours(connection, span)
                connection.execute("DELETE FROM sealed_slots WHERE id = ?", (span.slots_id,))
            _note_expired(connection, metric, begin)
        yield len(spans)


def _expire_totals(connection: apsw.Connection, metric: KnownMetric, before: int) -> Iterator[int]:
    while spans := _whole_spans(connection, metric, _EVER, before):
        with transaction(connection):
            for span in spans:
                connection.execute("DELETE FROM sealed_hours WHERE id = ?", (span.slots_id,))
                delete_span(connection, span)
        yield len(spans)


def _whole_spans(connection: apsw.Connection, metric: KnownMetric, begin: int, end: int) -> list[SealedSpan]:
    """The first spans that lie wholly in [begin, end)."""
    found: list[Any] = connection.execute(_OLDEST, (metric.id, begin, end, _SPANS_AT_ONCE)).fetchall()
    if not found:
        return []
    spans = all_spans_of(connection, metric.id, found[0][0], found[-1][0] + 1)
    return [span for span in spans if begin <= span.start and span.end <= end]


def _note_expired(connection: apsw.Connection, metric: KnownMetric, until: int) -> None:
    sql = "UPDATE metrics SET expired_until = max(ifnull(expired_until, ?1), ?1) WHERE id = ?2"
    connection.execute(sql, (until, metric.id))


def _keep_hours(connection: apsw.Connection, span: SealedSpan) -> None:
    """The figures of the hours of a span; by them its number stays taken, which the span goes on to have.

    Of damaged slots none are left.
    """
    try:
        packed = packed_slots(connection, span)
    except DamagedHistory:
        packed = None
    if packed:
        hours = with_checksum(span.slots_id, pack_hours(*packed.columns(("slot", "count"))))
        connection.execute("INSERT INTO sealed_hours (id, packed) VALUES (?, ?)", (span.slots_id, hours))


def hours_of(connection: apsw.Connection, span: SealedSpan) -> list[Hour]:
    """What is left of a span whose slots are given up."""
    packed = packed_hours(connection, span)
    return unpack_hours(packed) if packed else []


def pack_hours(slots: Column, counts: Column) -> bytes:
    """The figures of each hour in which slots lie."""
    of_hours: dict[int, list[int]] = {}
    for slot, count in zip(slots, counts, strict=True):
        of_hours.setdefault(span_start(slot, HOUR), []).append(count)
    hours = [(start, len(each), min(each), max(each), sum(each)) for start, each in of_hours.items()]
    columns = [pack(column) for column in zip(*hours, strict=True)]
    return b"".join((write_number(len(hours)), *(write_number(len(column)) + column for column in columns)))


def unpack_hours(data: bytes) -> list[Hour]:
    """The hours that `pack_hours` wrote."""
    count, at = read_number(data, 0)
    columns: list[Sequence[int]] = []
    while at < len(data):
        size, at = read_number(data, at)
        columns.append(unpack(data[at : at + size], count))
        at += size
    return [*zip(*columns, strict=True)]
