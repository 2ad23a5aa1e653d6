"""Sizes of items and the units that reading and writing them takes, as DynamoDB counts them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from simulation.aws_world.expressions import Item, Typed

ITEM_BYTES, PAGE_BYTES, BATCH_BYTES = 400 * 1024, 1024 * 1024, 16 * 1024 * 1024
_WRITE_UNIT, _READ_UNIT = 1024, 4096


@dataclass
class Units:
    """What was taken so far."""

    read: float = 0.0
    written: int = 0

    def note_read(self, size: int, consistent: bool) -> None:
        self.read += max(1, -(-size // _READ_UNIT)) * (1.0 if consistent else 0.5)

    def note_write(self, *sizes: int, factor: int = 1) -> None:
        """Count a write by the larger size of the item, before and after it."""
        self.written += max(1, -(-max(sizes) // _WRITE_UNIT)) * factor


def item_bytes(item: Item) -> int:
    return sum(len(name.encode()) + _value_bytes(typed) for name, typed in item.items())


def _value_bytes(typed: Typed) -> int:
    kind, value = next(iter(typed.items()))
    match kind:
        case "S":
            return len(value.encode())
        case "B":
            return _binary_bytes(value)
        case "N":
            return _number_bytes(value)
        case "NS":
            return sum(map(_number_bytes, value))
        case "SS":
            return sum(len(each.encode()) for each in value)
        case "BS":
            return sum(map(_binary_bytes, value))
        case "M":
            return 3 + sum(1 + len(name.encode()) + _value_bytes(each) for name, each in value.items())
        case "L":
            return 3 + sum(1 + _value_bytes(each) for each in value)
    return 1


def _number_bytes(text: str) -> int:
    digits = text.lstrip("-").replace(".", "").strip("0")
    return (len(digits) + 1) // 2 + 1 + text.startswith("-")


def _binary_bytes(text: str) -> int:
    return len(text) * 3 // 4 - text[-2:].count("=")


def page_length(sizes: Iterable[int], most: int, limit: int) -> int:
    """Return how many of the items fit a page of so many items and bytes; one always does."""
    total = number = 0
    for size in sizes:
        if number == most or (number and total + size > limit):
            break
        total += size
        number += 1
    return number
