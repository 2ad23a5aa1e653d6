"""What was stored before a simulation begins: hours that are closed, that soon are, and whose records may go; and
all that a reconciler looks back upon."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from kizami.aws.history.keeping import HOUR, SPARE_SECONDS, expiring, hour_of
from kizami.core.messages import MetricRecord
from kizami.core.slots import shift, slots_between
from kizami.core.targets.target import Target

_HOURS = range(-3, 3)  # about the one that is closed now, and the one whose records expire now
_RECORDS_AN_HOUR = 12


def stored_before(
    targets: Iterable[Target], now: datetime, look_back_hours: int, chance: random.Random
) -> Iterator[MetricRecord]:
    """The records of targets that do not stay for ever, as the Collector stores them."""
    for target in targets:
        if target.keep_seconds is not None:
            for age in (target.keep_seconds, target.keep_seconds + SPARE_SECONDS):
                for number in _HOURS:
                    hour = shift(hour_of(shift(now, -age)), number * HOUR)
                    slots = list(slots_between(hour, shift(hour, HOUR), target.interval_seconds))
                    chosen = sorted(chance.sample(slots, min(_RECORDS_AN_HOUR, len(slots))))
                    yield from _records(target, chosen, chance)
            seen = shift(hour_of(now), -look_back_hours * HOUR - target.lag_seconds)
            slots = list(slots_between(seen, shift(now, -target.lag_seconds), target.interval_seconds))
            yield from _records(target, slots, chance)


def _records(target: Target, slots: Collection[datetime], chance: random.Random) -> list[MetricRecord]:
    return expiring(
        (
            MetricRecord(name, slot, chance.choice((0, 1, -7, 10**12, chance.randrange(1000))), shift(slot, 60))
            for slot in slots
            for name in target.metrics
        ),
        target,
    )
