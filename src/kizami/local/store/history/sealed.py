"""The sealed spans of the file: their figures, what they hold of slots, how one is put in its place (SQL only).

Figures and packed slots carry a checksum each, which every read of a value compares: a flipped bit is an error
that names the metric and the hour, never another value. Code that only counts or adds slots treats damaged ones
as missing, so that one bad hour stops neither the daemon nor a look at other metrics.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

import apsw

from kizami.core.epoch import from_seconds
from kizami.core.errors import StoreError
from kizami.core.sealed_spans import (
    Column,
    Names,
    PackedSlots,
    SlotColumns,
    pack_slots,
    unpack_slots,
)
from kizami.core.slots import format_second
from kizami.local.store.database import transaction
from kizami.local.store.rows import OfSlot, SlotKey

_CHECKSUM_BYTES = 4
_CHECKED_AT_ONCE = 500


class DamagedHistory(StoreError):
    """What is sealed of a span is not what was sealed."""


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
    checksum: int

    @property
    def is_sound(self) -> bool:
        """Return True if the figures are those that were sealed."""
        return self.checksum == _checksum_of(self[:-1])

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
_INSERT = f"INSERT INTO sealed_spans ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_EVERY = f"""
SELECT {_COLUMNS}, s.packed, h.packed FROM sealed_spans
LEFT JOIN sealed_slots AS s ON s.id = slots_id LEFT JOIN sealed_hours AS h ON h.id = slots_id
"""

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
    """The metric's spans that have a part in [first, end), oldest first; DamagedHistory for damaged figures."""
    spans = all_spans_of(connection, metric_id, first, end)
    for span in spans:
        if not span.is_sound:
            raise _damage(connection, span)
    return spans


def all_spans_of(connection: apsw.Connection, metric_id: int, first: int, end: int) -> list[SealedSpan]:
    """The same, also with figures that are not those that were sealed."""
    bounds = {"metric": metric_id, "first": first, "end": end}
    return [_span(row) for row in connection.execute(_OF_METRIC, bounds)]


def damaged_spans(connection: apsw.Connection, metric_id: int, first: int, end: int) -> list[SealedSpan]:
    """Those of the metric's spans that lie in [first, end) as a whole, of which figures or slots are damaged."""
    return [
        span
        for span in all_spans_of(connection, metric_id, first, end)
        if span.start >= first and span.end <= end and not _is_readable(connection, span)
    ]


def forget_damaged(connection: apsw.Connection, ranges: Iterable[tuple[int, int, int]]) -> int:
    """Give up the damaged spans of metrics in their [first, end); how many there were."""
    damaged = [span for each in ranges for span in damaged_spans(connection, *each)]
    if not damaged:
        return 0
    with transaction(connection):
        for span in damaged:
            delete_span(connection, span)
            connection.execute("DELETE FROM sealed_hours WHERE id = ?", (span.slots_id,))
    return len(damaged)


def _is_readable(connection: apsw.Connection, span: SealedSpan) -> bool:
    try:
        packed_slots(connection, span)
    except DamagedHistory:
        return False
    return span.is_sound


def require_sound_history(connection: apsw.Connection, check: Callable[[], None] = lambda: None) -> None:
    """Compare every checksum of a file; DamagedHistory names the first span that is damaged.

    `check` is called now and then meanwhile, and may raise to end it.
    """
    for number, (*row, slots, hours) in enumerate(connection.execute(_EVERY)):
        span = _span(row)
        if not span.is_sound:
            raise _damage(connection, span)
        for data in (slots, hours):
            if data is not None:
                _opened(connection, span, data)
        if number % _CHECKED_AT_ONCE == 0:
            check()


def _damage(connection: apsw.Connection, span: SealedSpan) -> DamagedHistory:
    found = connection.execute("SELECT name FROM metrics WHERE id = ?", (span.metric_id,)).fetchone()
    name = found[0] if found else f"metric {span.metric_id}"
    try:
        start, end = (format_second(from_seconds(moment)) for moment in (span.start, span.end))
    except (ValueError, OverflowError):  # that is what is damaged
        return DamagedHistory(f"{name}: a sealed span is damaged, and its time with it; `kizami restore` a backup")
    remedy = f"`kizami restore` a backup, or `kizami backfill {name} --from {start} --to {end}`"
    return DamagedHistory(f"{name}: the sealed slots from {start} to {end} are damaged; {remedy}")


def _checksum_of(figures: Iterable[object]) -> int:
    return zlib.crc32(",".join(map(str, figures)).encode())


def with_checksum(number: int, packed: bytes) -> bytes:
    """What is kept of packed slots or hours under a number: no other may be read in their place."""
    return packed + zlib.crc32(packed, number & 0xFFFF_FFFF).to_bytes(_CHECKSUM_BYTES, "big")


def without_checksum(number: int, data: bytes) -> bytes | None:
    """What `with_checksum` was given; None if this is something else."""
    packed = data[:-_CHECKSUM_BYTES]
    return packed if with_checksum(number, packed) == data else None


def _opened(connection: apsw.Connection, span: SealedSpan, data: bytes) -> bytes:
    packed = without_checksum(span.slots_id, data)
    if packed is None:
        raise _damage(connection, span)
    return packed


def spans_of_all(connection: apsw.Connection, first: int, end: int) -> Iterator[SealedSpan]:
    """The spans of every metric that have a part in [first, end), as in the next two without damaged ones."""
    if first < sealed_until(connection):
        yield from _sound(connection.execute(_OF_ALL, {"first": first, "end": end}))


def spans_of_named(connection: apsw.Connection, names: Iterable[str], first: int, end: int) -> list[SealedSpan]:
    """The spans of the metrics of these names that have a part in [first, end), those of each ascending."""
    if first >= sealed_until(connection):
        return []
    bounds = {"names": json.dumps(list(names)), "first": first, "end": end}
    return list(_sound(connection.execute(_OF_NAMED, bounds)))


def spans_of_each(connection: apsw.Connection, ranges: Iterable[tuple[int, int, int]]) -> Iterator[SealedSpan]:
    """The spans that have a part in [first, end) of their metric, of as many metrics as are given."""
    until = sealed_until(connection)
    old = [each for each in ranges if each[1] < until]
    return _sound(connection.execute(_OF_EACH, (json.dumps(old),)) if old else ())


def packed_slots(connection: apsw.Connection, span: SealedSpan) -> PackedSlots | None:
    """The slots of a span; None if they are kept no more, but for their figures. Damage is DamagedHistory."""
    found = connection.execute("SELECT packed FROM sealed_slots WHERE id = ?", (span.slots_id,)).fetchone()
    return PackedSlots(_opened(connection, span, found[0])) if found else None


def packed_hours(connection: apsw.Connection, span: SealedSpan) -> bytes | None:
    """What is left of a span whose slots are given up; None if they are not. Damage is DamagedHistory."""
    found = connection.execute("SELECT packed FROM sealed_hours WHERE id = ?", (span.slots_id,)).fetchone()
    return _opened(connection, span, found[0]) if found else None


def columns_of(connection: apsw.Connection, span: SealedSpan, names: Names) -> list[Column]:
    """The columns of these names of a span's slots; empty ones if they are kept no more."""
    packed = packed_slots(connection, span)
    return packed.columns(names) if packed else [() for _ in names]


def readable_columns(connection: apsw.Connection, span: SealedSpan, names: Names) -> list[Column]:
    """The same for what only counts: empty ones also if the span is damaged."""
    try:
        return columns_of(connection, span, names)
    except DamagedHistory:
        return [() for _ in names]


def sealed_keys(connection: apsw.Connection, rows: Iterable[OfSlot]) -> set[SlotKey]:
    """Which of these slots are sealed, or so old that they are kept no more.

    Costs next to nothing where none of them is old enough to be. Those of a damaged span are not sealed.
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
        for slot in wanted.intersection(readable_columns(connection, span, ("slot",))[0])
    }


def sealed_counts(connection: apsw.Connection, rows: Iterable[OfSlot]) -> dict[SlotKey, int]:
    """The counts of those of the slots that are sealed."""
    spans = _spans_of_slots(connection, rows)
    for span in spans:
        if not span.is_sound:
            raise _damage(connection, span)
    return {
        SlotKey(slot, span.metric_id): count
        for span, wanted in spans.items()
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
    packed = with_checksum(number, span.packed)
    connection.execute("INSERT INTO sealed_slots (id, packed) VALUES (?, ?)", (number, packed))
    figures = (*span.figures, number)
    connection.execute(_INSERT, (*figures, _checksum_of(figures)))


def delete_span(connection: apsw.Connection, span: SealedSpan) -> None:
    """Take a span away, whose slots are kept in another from now on."""
    connection.execute("DELETE FROM sealed_slots WHERE id = ?", (span.slots_id,))
    where = "metric_id = ? AND start = ?"
    connection.execute(f"DELETE FROM sealed_spans WHERE {where}", (span.metric_id, span.start))


def _sound(rows: Iterable[Collection[Any]]) -> Iterator[SealedSpan]:
    return (span for span in map(_span, rows) if span.is_sound)


def _span(row: Collection[Any]) -> SealedSpan:
    metric_id, start, seconds, stored, newest, lowest, highest, total, slots_id, checksum = row
    return SealedSpan(
        metric_id, start, seconds, stored, newest, lowest, highest, _number(total), slots_id, checksum
    )


def _number(total: Any) -> int:
    try:
        return int(total)
    except (ValueError, TypeError, OverflowError):  # a damaged one, which its checksum shows
        return 0


def _storable(total: int) -> int | str:
    return total if -(2**63) <= total < 2**63 else str(total)
