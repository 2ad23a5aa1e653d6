"""The sealed spans of the file: their figures, what they hold of slots, how one is put in its place (SQL only)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

import apsw

from kizami.local.store.history.slot_columns import (
    Column,
    Names,
    PackedSlots,
    SlotColumns,
    pack_slots,
    unpack_slots,
)
from kizami.local.store.rows import OfSlot, SlotKey


class SealedSpan(NamedTuple):
    """The figures of the slots of [start, start + seconds) that are sealed together."""

    metric_id: int
    start: int
    seconds: int
    stored: int
    newest: int
    lowest: int
    highest: int
    total: int
    slots_id: int

    @property
    def end(self) -> int:
        return self.start + self.seconds


_COLUMNS = ", ".join(SealedSpan._fields)
# Spans of a metric do not overlap, so only the last one before a moment can reach beyond it.
_OVERLAPPING = """
start >= ifnull((SELECT max(start) FROM sealed_spans WHERE metric_id = {metric} AND start <= {first}), {first})
AND start < {end} AND start + seconds > {first}
"""
_IN_RANGE = {"first": ":first", "end": ":end"}
_OF_METRIC = f"""
SELECT {_COLUMNS} FROM sealed_spans
WHERE metric_id = :metric AND {_OVERLAPPING.format(metric=":metric", **_IN_RANGE)} ORDER BY start
"""
_OF_ALL = f"""
SELECT {_COLUMNS} FROM metrics CROSS JOIN sealed_spans
ON metric_id = metrics.id AND {_OVERLAPPING.format(metric="metrics.id", **_IN_RANGE)}
"""
_OF_NAMED = f"""
SELECT {_COLUMNS} FROM json_each(:names) CROSS JOIN metrics ON name = value CROSS JOIN sealed_spans
ON metric_id = metrics.id AND {_OVERLAPPING.format(metric="metrics.id", **_IN_RANGE)}
"""
# ?1 is a JSON array of [metric_id, first, end].
_OF_EACH = f"""
SELECT {_COLUMNS} FROM json_each(?1) CROSS JOIN sealed_spans ON metric_id = value ->> 0
AND {_OVERLAPPING.format(metric="value ->> 0", first="value ->> 1", end="value ->> 2")}
"""
# SQLite would give the number of the newest slots anew once they are given up, while their span still has it.
_NEXT_NUMBER = """
SELECT 1 + max(ifnull((SELECT max(id) FROM sealed_slots), 0), ifnull((SELECT max(id) FROM sealed_hours), 0))
"""
_INSERT = f"INSERT INTO sealed_spans ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"

# The spans in which slots lie; ?1 is a JSON array of [slot, metric_id].
_COVERING = f"""
SELECT value ->> 0, {_COLUMNS} FROM json_each(?1) CROSS JOIN sealed_spans
ON metric_id = value ->> 1 AND start = (
    SELECT max(start) FROM sealed_spans WHERE metric_id = value ->> 1 AND start <= value ->> 0
) WHERE start + seconds > value ->> 0
"""

_EXPIRED = """
SELECT value ->> 0, metrics.id FROM json_each(?1) CROSS JOIN metrics ON metrics.id = value ->> 1
WHERE value ->> 0 < expired_until
"""


def sealed_until(connection: apsw.Connection) -> int:
    """No slot from here on is sealed, of whichever metric."""
    return int(connection.execute("SELECT slot FROM sealed_until").get)


def spans_of(connection: apsw.Connection, metric_id: int, first: int, end: int) -> list[SealedSpan]:
    """The metric's spans that have a part in [first, end), oldest first."""
    bounds = {"metric": metric_id, "first": first, "end": end}
    return [_span(row) for row in connection.execute(_OF_METRIC, bounds)]


def spans_of_all(connection: apsw.Connection, first: int, end: int) -> Iterator[SealedSpan]:
    """The spans of every metric that have a part in [first, end)."""
    if first < sealed_until(connection):
        yield from map(_span, connection.execute(_OF_ALL, {"first": first, "end": end}))


def spans_of_named(connection: apsw.Connection, names: Iterable[str], first: int, end: int) -> list[SealedSpan]:
    """The spans of the metrics of these names that have a part in [first, end), those of each ascending."""
    if first >= sealed_until(connection):
        return []
    bounds = {"names": json.dumps(list(names)), "first": first, "end": end}
    return [_span(row) for row in connection.execute(_OF_NAMED, bounds)]


def spans_of_each(connection: apsw.Connection, ranges: Iterable[tuple[int, int, int]]) -> Iterator[SealedSpan]:
    """The spans that have a part in [first, end) of their metric, of as many metrics as are given."""
    until = sealed_until(connection)
    old = [each for each in ranges if each[1] < until]
    return map(_span, connection.execute(_OF_EACH, (json.dumps(old),)) if old else ())


def packed_slots(connection: apsw.Connection, span: SealedSpan) -> PackedSlots | None:
    """The slots of a span; None if they are kept no more, but for their figures."""
    found = connection.execute("SELECT packed FROM sealed_slots WHERE id = ?", (span.slots_id,)).fetchone()
    return PackedSlots(found[0]) if found else None


def columns_of(connection: apsw.Connection, span: SealedSpan, names: Names) -> list[Column]:
    """The columns of these names of a span's slots; empty ones if they are kept no more."""
    packed = packed_slots(connection, span)
    return packed.columns(names) if packed else [() for _ in names]


def sealed_keys(connection: apsw.Connection, rows: Iterable[OfSlot]) -> set[SlotKey]:
    """Which of these slots are sealed, or so old that they are kept no more.

    Costs next to nothing where none of them is old enough to be.
    """
    until = sealed_until(connection)
    old = [(row.slot, row.metric_id) for row in rows if row.slot < until]
    if not old:
        return set()
    expired = {SlotKey(*row) for row in connection.execute(_EXPIRED, (json.dumps(old),))}
    kept = [SlotKey(*key) for key in old if key not in expired]
    return expired | {
        SlotKey(slot, span.metric_id)
        for span, wanted in _spans_of_slots(connection, kept).items()
        for slot in wanted.intersection(columns_of(connection, span, ("slot",))[0])
    }


def sealed_counts(connection: apsw.Connection, rows: Iterable[OfSlot]) -> dict[SlotKey, int]:
    """The counts of those of the slots that are sealed."""
    return {
        SlotKey(slot, span.metric_id): count
        for span, wanted in _spans_of_slots(connection, rows).items()
        for slot, count in zip(*columns_of(connection, span, ("slot", "count")), strict=True)
        if slot in wanted
    }


def _spans_of_slots(connection: apsw.Connection, rows: Iterable[OfSlot]) -> dict[SealedSpan, set[int]]:
    """The spans in which some of the slots lie, each with those that do."""
    until = sealed_until(connection)
    old = [(row.slot, row.metric_id) for row in rows if row.slot < until]
    found: dict[SealedSpan, set[int]] = {}
    for slot, *span in connection.execute(_COVERING, (json.dumps(old),)) if old else ():
        found.setdefault(_span(span), set()).add(slot)
    return found


class NewSpan(NamedTuple):
    """A span to be sealed: its figures as they are stored, and its slots."""

    figures: tuple[int | str, ...]
    packed: bytes


def pack_span(metric_id: int, start: int, seconds: int, slots: SlotColumns) -> NewSpan:
    """These slots as a span of at least one; ValueError if they would not be the same when they are unpacked."""
    packed, counts = pack_slots(slots), list(slots[1])
    if [*map(list, unpack_slots(packed))] != [*map(list, slots)]:
        raise ValueError(
            f"the slots of metric {metric_id} from {start} on are not the same when they are unpacked"
        )
    figures = len(counts), slots.slot[-1], min(counts), max(counts), _storable(sum(counts))
    return NewSpan((metric_id, start, seconds, *figures), packed)


def insert_span(connection: apsw.Connection, span: NewSpan) -> None:
    """Keep a span that has no other in its place."""
    number = connection.execute(_NEXT_NUMBER).get
    connection.execute("INSERT INTO sealed_slots (id, packed) VALUES (?, ?)", (number, span.packed))
    connection.execute(_INSERT, (*span.figures, number))


def delete_span(connection: apsw.Connection, span: SealedSpan) -> None:
    """Take a span away, whose slots are kept in another from now on."""
    connection.execute("DELETE FROM sealed_slots WHERE id = ?", (span.slots_id,))
    where = "metric_id = ? AND start = ?"
    connection.execute(f"DELETE FROM sealed_spans WHERE {where}", (span.metric_id, span.start))


def _span(row: Collection[Any]) -> SealedSpan:
    metric_id, start, seconds, stored, newest, lowest, highest, total, slots_id = row
    return SealedSpan(metric_id, start, seconds, stored, newest, lowest, highest, int(total), slots_id)


def _storable(total: int) -> int | str:
    return total if -(2**63) <= total < 2**63 else str(total)
