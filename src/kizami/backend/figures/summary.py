"""What is said of a stretch of time: sum, mean, extremes, and how many of its expected slots are stored (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum
from itertools import pairwise

from kizami.backend.targets import KnownTarget
from kizami.backend.values import Bucket
from kizami.core.answers.numbers import Number, Total
from kizami.core.coverage import Completeness, Span
from kizami.core.epoch import to_seconds


class Aggregate(Enum):
    """What can be told of the counts of a stretch."""

    SUM = "sum"
    MEAN = "mean"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Figure:
    """The figures of [start, end), each None where nothing is stored; the sum is exact, decimal places and all."""

    start: datetime
    end: datetime
    completeness: Completeness
    total: Total | None
    lowest: Number | None
    highest: Number | None

    @property
    def mean(self) -> Decimal | None:
        """To 28 digits."""
        return None if self.total is None else Decimal(self.total) / self.completeness.stored

    def value(self, aggregate: Aggregate) -> Number | Decimal | None:
        """One of the figures."""
        values = {Aggregate.SUM: self.total, Aggregate.MIN: self.lowest, Aggregate.MAX: self.highest}
        return self.mean if aggregate is Aggregate.MEAN else values[aggregate]


def summarize(
    target: KnownTarget, edges: Sequence[datetime], figures: Sequence[Bucket], now: datetime
) -> list[Figure]:
    """One entry for each stretch, in their order.

    What is stored before it could be missed counts as expected, and so does what was stored when the interval was
    another.
    """
    due = target.settled(now)
    passed = [_slots_before(edge, due) for edge in edges]
    stretches = zip(pairwise(edges), pairwise(passed), figures, strict=True)
    return [_figure(*stretch, bucket, last - first) for stretch, (first, last), bucket in stretches]


def _slots_before(edge: datetime, due: Span) -> int:
    """How many of the due slots begin before the edge."""
    begun = -(-(to_seconds(edge) - to_seconds(due.start)) // due.interval_seconds)
    return min(max(begun, 0), due.expected)


def _figure(start: datetime, end: datetime, bucket: Bucket, expected: int) -> Figure:
    told = Completeness(bucket.stored, max(expected, bucket.stored))
    if not bucket.stored:
        return Figure(start, end, told, None, None, None)
    return Figure(start, end, told, bucket.total, bucket.lowest, bucket.highest)
