"""Whole numbers in few bytes: a column of a sealed span between its values and its bytes (pure).

A column is either its values less the least of them or, where those lie closer together, the steps from one to the
next less the least step; what is left is divided by its greatest common divisor. The low bytes of all are
compressed together, then the next bytes and so on: noise is then in one place, and what hardly changes in
another. A column that grows by the same step, or never, takes a few bytes however long it is.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from itertools import accumulate, chain
from math import gcd
from operator import sub

# In a column's first byte: these are steps; all were divided. The other bits say how many bytes a number has.
_STEPS, _DIVIDED = 0x80, 0x40
_WINDOW_BITS, _MEMORY_LEVEL = -12, 6  # small, because a new compressor clears its memory for every column
# Noise is best left to Huffman's code alone; what repeats itself is not.
_STRATEGIES = (zlib.Z_HUFFMAN_ONLY, zlib.Z_DEFAULT_STRATEGY)


def pack(values: Sequence[int]) -> bytes:
    """The bytes of at least one number, of any size, from which `unpack` makes the same numbers again."""
    least, most = min(values), max(values)
    steps = list(map(sub, values[1:], values))
    least_step, most_step = (min(steps), max(steps)) if steps else (0, 0)
    if most_step - least_step < most - least:
        kind, head = _STEPS, write_number(values[0]) + write_number(least_step)
        above = [step - least_step for step in steps]
    else:
        kind, head = 0, write_number(least)
        above = [value - least for value in values] if least else list(values)
    divisor = gcd(*above)
    if divisor > 1:
        kind, head = kind | _DIVIDED, head + write_number(divisor)
        above = [value // divisor for value in above]
    squeezed = [_squeeze(plane) for plane in _planes(above)]
    return b"".join(
        (bytes([kind | len(squeezed)]), head, *(write_number(len(plane)) for plane in squeezed), *squeezed)
    )


def unpack(data: bytes, count: int) -> Sequence[int]:
    """The `count` numbers that `pack` wrote."""
    kind, at = data[0], 1
    first, at = read_number(data, at)
    least, at = read_number(data, at) if kind & _STEPS else (first, at)
    divisor, at = read_number(data, at) if kind & _DIVIDED else (1, at)
    numbers = count - 1 if kind & _STEPS else count
    sizes = []
    for _ in range(kind & ~(_STEPS | _DIVIDED)):
        size, at = read_number(data, at)
        sizes.append(size)
    planes = []
    for size in sizes:
        planes.append(zlib.decompress(data[at : at + size], _WINDOW_BITS, numbers))
        at += size
    if not kind & _STEPS:
        return _joined(planes, least, divisor) if planes else [least] * numbers
    if not planes:
        return range(first, first + count * least, least) if least else [first] * count
    return list(accumulate(chain((first,), _joined(planes, least, divisor))))


def _planes(above: Sequence[int]) -> list[bytes]:
    """The low bytes of all values, the next bytes, and so on."""
    width = (max(above, default=0).bit_length() + 7) // 8
    if width <= 1:
        return [bytes(above)] if width else []
    if width <= 8:
        data, step = struct.pack(f"<{len(above)}Q", *above), 8
    else:
        data, step = b"".join(value.to_bytes(width, "little") for value in above), width
    return [data[place::step] for place in range(width)]


def _joined(planes: Sequence[bytes], least: int, divisor: int) -> list[int]:
    """The values of which `_planes` was given what is left above the least, divided."""
    width, count = len(planes), len(planes[0])
    if width == 1:
        values: Sequence[int] = planes[0]
    else:
        step = max(width, 8)
        data = bytearray(step * count)
        for place, plane in enumerate(planes):
            data[place::step] = plane
        if step == 8:
            values = struct.unpack(f"<{count}Q", data)
        else:
            values = [int.from_bytes(data[at : at + step], "little") for at in range(0, len(data), step)]
    if divisor != 1:
        return [value * divisor + least for value in values]
    return [value + least for value in values] if least else list(values)


def _squeeze(plane: bytes) -> bytes:
    return min((_deflated(plane, strategy) for strategy in _STRATEGIES), key=len)


def _deflated(plane: bytes, strategy: int) -> bytes:
    compressor = zlib.compressobj(6, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL, strategy)
    return compressor.compress(plane) + compressor.flush()


def write_number(number: int) -> bytes:
    """One number in as few bytes as it needs, seven bits in each and the sign in the lowest."""
    left = number << 1 if number >= 0 else ~(number << 1)
    data = bytearray()
    while left > 0x7F:
        data.append(left & 0x7F | 0x80)
        left >>= 7
    data.append(left)
    return bytes(data)


def read_number(data: bytes, at: int) -> tuple[int, int]:
    """The number that stands at a place, and the place after it."""
    number = shift = 0
    while data[at] > 0x7F:
        number |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    number |= data[at] << shift
    return (~number >> 1 if number & 1 else number >> 1), at + 1
