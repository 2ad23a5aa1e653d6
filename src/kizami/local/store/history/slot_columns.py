"""The stored slots of one metric by columns, and the bytes that a sealed span keeps them in (pure).

All that is known of a slot survives: its count, when it was collected, how late it was asked for, at which
attempt, and whether as backfill. The columns are packed one by one, so that who wants counts unpacks counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from typing import NamedTuple

from kizami.backend.columns import MomentsAfter
from kizami.local.store.history.packing import pack, read_number, unpack, write_number

_VERSION = 1  # the first byte, for a kizami to come that packs otherwise

Column = Sequence[int]


class SlotColumns(NamedTuple):
    """Columns of equal length, by ascending slot: seconds since 1970, and what the table `slots` has of each."""

    slot: Column
    count: Column  # type: ignore[assignment]  # the column's name, which is a method of every tuple
    collected_ms: Column
    late_ms: Column
    receives: Column
    backfilled: Column


COLUMNS = SlotColumns._fields
Names = tuple[str, ...]  # of some of the columns, the slots first


def pack_slots(columns: SlotColumns) -> bytes:
    """The bytes of at least one slot."""
    slots, counts, collected, late, receives, backfilled = columns
    # From the planned moment to the answer hardly anything changes but how long the answer took.
    after = [at - 1000 * slot - delay for at, slot, delay in zip(collected, slots, late, strict=True)]
    packed = [pack(column) for column in (slots, counts, after, late, receives, backfilled)]
    sizes = b"".join(write_number(len(column)) for column in packed)
    return b"".join((bytes([_VERSION]), write_number(len(slots)), sizes, *packed))


class PackedSlots:
    """What `pack_slots` wrote, to be unpacked column by column."""

    def __init__(self, data: bytes) -> None:
        if data[0] != _VERSION:
            raise ValueError(f"sealed by a newer kizami (packing {data[0]})")
        self.stored, at = read_number(data, 1)
        sizes = []
        for _ in COLUMNS:
            size, at = read_number(data, at)
            sizes.append(size)
        self._columns = {}
        for name, size in zip(COLUMNS, sizes, strict=True):
            self._columns[name] = data[at : at + size]
            at += size

    def slots(self) -> Column:
        return self._unpack("slot")

    def columns(self, names: Names = COLUMNS) -> list[Column]:
        """The columns of these names."""
        found = {name: self._unpack(name) for name in names if name != "collected_ms"}
        if "collected_ms" in names:
            slots, late = (found.get(name) or self._unpack(name) for name in ("slot", "late_ms"))
            after = [*map(add, late, self._unpack("collected_ms"))]
            found["collected_ms"] = MomentsAfter(slots, after)
        return [found[name] for name in names]

    def _unpack(self, name: str) -> Column:
        return unpack(self._columns[name], self.stored)


def unpack_slots(data: bytes) -> SlotColumns:
    """The columns that `pack_slots` was given."""
    return SlotColumns(*PackedSlots(data).columns())
