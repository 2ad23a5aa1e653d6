"""How long records are kept: an hour is closed as a whole, and DynamoDB removes its records days later (pure).

    a slot's hour ── its end ──── keep ────▶ closed ── an hour ──▶ totals ── the rest of three days ──▶ records go

A closed hour is kept no more: nothing is stored into it, so that its totals are final, and nothing of it is
missing. Its records are there for another three days, in which a reconciler that was down still makes the totals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from kizami.core.messages import MetricRecord, ScheduleMessage
from kizami.core.slots import floor_to_slot, shift
from kizami.core.targets.target import Target

HOUR, DAY = 3600, 86_400
SPARE_SECONDS = 3 * DAY
SETTLING_SECONDS = HOUR  # so long after an hour is closed nobody can still be storing into it


@dataclass(frozen=True, slots=True)
class KeptMetric:
    """A metric whose records go after a while, and then, unless that is None, their totals too."""

    name: str
    interval_seconds: int
    keep_seconds: int
    keep_totals_seconds: int | None = None

    @property
    def has_totals(self) -> bool:
        """Whether its totals outlive its records."""
        return self.keep_totals_seconds is None or self.keep_totals_seconds > self.keep_seconds

    def totals_expire_at(self, hour: datetime) -> int | None:
        """When the totals of an hour go; not before the next ones are there, which are made from them on."""
        if self.keep_totals_seconds is None:
            return None
        kept = max(self.keep_totals_seconds, self.keep_seconds + SPARE_SECONDS)
        return int(hour.timestamp()) + HOUR + kept


def kept_metrics(targets: Iterable[Target]) -> Iterator[KeptMetric]:
    """The metrics of targets that are not kept for ever."""
    for target in targets:
        if target.keep_seconds is not None:
            times = target.interval_seconds, target.keep_seconds, target.keep_totals_seconds
            yield from (KeptMetric(name, *times) for name in target.metrics)


def hour_of(instant: datetime) -> datetime:
    """The hour that an instant lies in."""
    return floor_to_slot(instant, HOUR)


def kept_from(target: Target, now: datetime) -> datetime | None:
    """The first hour that is not closed; None if all is kept for ever."""
    return None if target.keep_seconds is None else hour_of(shift(now, -target.keep_seconds))


def is_given_up(message: ScheduleMessage, target: Target, now: datetime) -> bool:
    """Whether the hour of the slot is closed."""
    kept = kept_from(target, now)
    return kept is not None and message.window.start < kept


def expiring(records: Iterable[MetricRecord], target: Target) -> list[MetricRecord]:
    """The records as they are stored: each says when it may be removed, if it may."""
    return [replace(record, expires_at=expires_at(record.slot, target.keep_seconds)) for record in records]


def expires_at(slot: datetime, keep_seconds: int | None) -> int | None:
    """Return when the record of a slot may be removed, in seconds since 1970; None if it is kept for ever."""
    return None if keep_seconds is None else int(hour_of(slot).timestamp()) + HOUR + keep_seconds + SPARE_SECONDS


def closes_at(record: MetricRecord, keep_seconds: int) -> float:
    """When the hour of a record is closed, as was said when it was stored; else as is said now."""
    if record.expires_at is not None:
        return record.expires_at - SPARE_SECONDS
    return hour_of(record.slot).timestamp() + HOUR + keep_seconds


def has_expired(record: MetricRecord, now: datetime) -> bool:
    """Whether it may be gone at any moment: DynamoDB removes what has expired within days."""
    return record.expires_at is not None and record.expires_at <= now.timestamp()


def first_not_expired(record: MetricRecord, now: datetime) -> datetime:
    """The first hour of which records that are kept for as long as an expired one are not expired."""
    assert record.expires_at is not None
    hour = hour_of(record.slot)
    kept = record.expires_at - int(hour.timestamp()) - HOUR
    return max(shift(hour, HOUR), hour_of(shift(now, -kept)))
