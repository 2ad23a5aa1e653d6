"""Sealed spans: the slots of one metric over an hour, a day or a week as columns in few bytes (pure).

Nothing that is known of a slot is lost: its count, when it was collected, how late it was asked for, at which
attempt, and whether as backfill. Columns are packed one by one, so that a reader of counts unpacks counts alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import add
from typing import NamedTuple, overload

from kizami.core.packing import pack, read_number, unpack, write_number

HOUR = 3600
SPANS = (HOUR, 24 * HOUR, 7 * 24 * HOUR)
LONGEST_SPAN = SPANS[-1]
_FEWEST_SLOTS = 200


def span_seconds(step_seconds: int) -> int:
    """How long the spans of a metric are whose slots are multiples of a step.

    The step of a metric only ever gets finer, so its spans only get shorter, and lie within those sealed before.
    """
    return next((each for each in SPANS if each >= _FEWEST_SLOTS * step_seconds), LONGEST_SPAN)


def span_start(slot: int, seconds: int) -> int:
    """The start of the span, counted from 1970, that a slot lies in."""
    return slot - slot % seconds


class MomentsAfter(Sequence[int]):
    """Moments in milliseconds since 1970, kept as times after their slots and added up when they are read."""

    __slots__ = ("after", "slots")

    def __init__(self, slots: Sequence[int], after: Sequence[int]) -> None:
        self.slots = slots
        self.after = after

    def __len__(self) -> int:
        return len(self.after)

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> MomentsAfter: ...
    def __getitem__(self, place: int | slice) -> int | MomentsAfter:
        if isinstance(place, slice):
            return MomentsAfter(self.slots[place], self.after[place])
        return 1000 * self.slots[place] + self.after[place]

    def __iter__(self) -> Iterator[int]:
        return map(add, in_ms(self.slots), self.after)

    def seconds(self) -> Sequence[int]:
        """All cut to the second: a range if the slots are one and each is in the same second after its slot."""
        slots, least = self.slots, min(self.after, default=0) // 1000
        if isinstance(slots, range) and max(self.after, default=0) // 1000 == least:
            return range(slots.start + least, slots.stop + least, slots.step)
        return [moment // 1000 for moment in self]


def in_ms(seconds: Sequence[int]) -> Sequence[int]:
    if isinstance(seconds, range):
        return range(1000 * seconds.start, 1000 * seconds.stop, 1000 * seconds.step)
    return [1000 * second for second in seconds]


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
