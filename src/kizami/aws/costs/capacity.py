"""How much a table is written a second, and what it is given for that where its capacity is provisioned (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Protocol

from kizami.aws.costs.assumptions import READ_BYTES, RECORD_BYTES

USED_PERCENT = 85  # of what is provisioned: the rest is for a burst, and for slots that are asked for again
LEAST_WRITES = 5
HOUR_SECONDS = 3600
READ_ITEM_BYTES = RECORD_BYTES - 100  # what is read has no overhead


class Written(Protocol):
    """What has to be known of a target."""

    @property
    def interval_seconds(self) -> int: ...

    @property
    def metrics(self) -> tuple[str, ...]: ...


def slots_a_second(targets: Iterable[Written]) -> float:
    """How many records the targets have a second, one for each value of a target."""
    return sum(len(target.metrics) / target.interval_seconds for target in targets)


def totals_read_units(interval_seconds: int) -> float:
    """Units that the totals of an hour of a metric take: its records, half a unit for 4 KB, and where to go on."""
    slots = max(1, HOUR_SECONDS // interval_seconds)
    return 2 + ceil(slots * READ_ITEM_BYTES / READ_BYTES) / 2


def provisioned_reads(intervals: Sequence[int]) -> int:
    """Units of a second for the totals of metrics: the reconciler makes them in half the time that passes."""
    return ceil(2 * sum(map(totals_read_units, intervals)) / HOUR_SECONDS)


def provisioned_writes(slots_a_second: float) -> int:
    """Units of a second: one a record, which is far below the kilobyte that a unit is for."""
    return max(LEAST_WRITES, ceil(slots_a_second * 100 / USED_PERCENT))
