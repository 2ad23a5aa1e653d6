"""Figures put together: pieces of time, each within one stretch, become the figures of the stretches (pure)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime
from math import gcd

from kizami.backend.values import Bucket
from kizami.core.epoch import to_seconds


def grain_of(edges: Sequence[datetime], longest_seconds: int) -> int:
    """The longest pieces, counted from 1970 and dividing `longest_seconds`, of which no edge cuts one.

    The first edge and the last one may: nothing is asked for beyond them.
    """
    return gcd(longest_seconds, *(to_seconds(edge) for edge in edges[1:-1]))


def gather(edges: Sequence[datetime], pieces: Iterable[Bucket]) -> list[Bucket]:
    """What is stored between each two neighbouring edges; `stored` is 0 where nothing is.

    A piece belongs to the stretch in which it begins, one that begins before all of them to the first.
    """
    found: dict[int, Bucket] = {}
    for piece in pieces:
        place = max(0, bisect_right(edges, piece.start) - 1)
        found[place] = _joined(found[place], piece) if place in found else piece
    return [_from(start, found.get(place)) for place, start in enumerate(edges[:-1])]


def _joined(one: Bucket, other: Bucket) -> Bucket:
    lowest, highest = min(one.lowest, other.lowest), max(one.highest, other.highest)
    return Bucket(one.start, one.stored + other.stored, lowest, highest, one.total + other.total)


def _from(start: datetime, found: Bucket | None) -> Bucket:
    if found is None:
        return Bucket(start, 0, 0, 0, 0)
    return Bucket(start, found.stored, found.lowest, found.highest, found.total)
