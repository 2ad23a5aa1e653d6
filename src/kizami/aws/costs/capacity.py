"""How much a table is written a second, and which capacity it is given for that (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Protocol

from kizami.aws.costs.assumptions import READ_BYTES, RECORD_BYTES

USED_PERCENT = 85  # of what is provisioned: the rest is for a burst, and for slots that are asked for again
LEAST_WRITES = 5
NEW_TABLE_WRITES = 4000  # a second, that a new table on demand takes
MOST_WRITES = 40_000  # of a table, unless the account's quota is raised
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


def provisioned_writes(writes_a_second: float) -> int:
    """Units of a second: one a write, of up to a kilobyte, and a share for bursts."""
    return max(LEAST_WRITES, ceil(writes_a_second * 100 / USED_PERCENT))


def warm_writes(writes_a_second: float) -> int | None:
    """Writes a second that a table on demand must take from its first minute on; None where a new table does.

    DynamoDB refuses to lower the value. So it goes up in steps, each twice the one before: a plan that grows or
    shrinks a little changes nothing.
    """
    needed, given = provisioned_writes(writes_a_second), NEW_TABLE_WRITES
    while given < min(needed, MOST_WRITES):
        given *= 2
    return min(given, MOST_WRITES) if given > NEW_TABLE_WRITES else None
