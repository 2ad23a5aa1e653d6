"""Rows: the original target's ticks, one item a slot in the table `AiResponseMetrics`.

To the reconciler, readers and alerts the original target is a bundle of one; only here it is known that its ticks
are rows, which hold an answer and no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from math import inf

from kizami.aws.history.keeping import expires_at
from kizami.aws.invocation import TimeLeft
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.ticks import TickFacts
from kizami.core.answers.numbers import aligned, exact_of, to_number
from kizami.core.bundles import Bundle
from kizami.core.messages import MetricRecord
from kizami.core.slots import shift
from kizami.core.ticks import Answered, Tick, steps_after


class RowTicks:
    """`TickStore` over rows. StoreError."""

    def __init__(self, table: str, time_left: TimeLeft = lambda: inf, keep_seconds: int | None = None) -> None:
        self._store = DynamoDbMetricStore(table, time_left)
        self._keep_seconds = keep_seconds

    def record(self, bundle: Bundle, slot: datetime, facts: TickFacts, late_ms: int = 0) -> None:
        """Store the answer unless the slot has one; states have no place in a row."""
        for place, answer in facts.answers.items():
            for metric, units in zip(bundle.members[place].metrics, answer.values, strict=True):
                arrived = shift(bundle.due(slot), answer.after_ms / 1000)
                count, expiry = to_number(units, answer.decimals), expires_at(slot, self._keep_seconds)
                self._store.put_if_absent(MetricRecord(metric, slot, count, arrived, expiry))

    def read(self, bundle: Bundle, start: datetime, end: datetime, *, consistent: bool = True) -> Iterator[Tick]:
        """Return the rows of slots in [start, end) as ticks, oldest first."""
        for record in self._store.query(_metric(bundle), start, end):
            yield _tick(record, bundle)

    def count_perfect(self, bundle: Bundle, start: datetime, end: datetime) -> int:
        """Count the rows of [start, end); DynamoDB sends none of them."""
        return self._store.count(_metric(bundle), start, end)

    def at(self, slots: Iterable[tuple[Bundle, datetime]]) -> dict[tuple[str, datetime], Tick]:
        """Return single rows as ticks, by bundle and slot: those that exist."""
        found = {}
        for bundle, slot in slots:
            for record in self._store.records_at({_metric(bundle): slot}):
                found[bundle.name, slot] = _tick(record, bundle)
        return found

    def newest(self, bundle: Bundle, until: datetime, limit: int) -> list[Tick]:
        """Return the newest rows whose slots begin by `until`, newest first."""
        return [_tick(each, bundle) for each in self._store.newest_records(_metric(bundle), until, limit)]

    def first(self, bundle: Bundle, now: datetime) -> datetime | None:
        """Return the slot of the first row that is kept."""
        found = self._store.first_kept(_metric(bundle), now)
        return found.slot if found else None


def _metric(bundle: Bundle) -> str:
    (member,) = bundle.members
    return member.name


def _tick(record: MetricRecord, bundle: Bundle) -> Tick:
    units, decimals = aligned([exact_of(record.count)])
    answer = Answered((units[0],), decimals, steps_after(bundle.due(record.slot), record.collected_at))
    return Tick(record.slot, {0: answer})
