"""What the table on AWS holds, for a verb that asks once: DynamoDB counts, and nothing is read ahead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.store.slot_cache import KnownSlot
from kizami.backend.values import Bucket
from kizami.core.answers.numbers import Number, total_of
from kizami.core.coverage import Span
from kizami.core.epoch import from_seconds, to_seconds


class TableSlots:
    """Answers as `SlotCache` does, and keeps nothing: each question is asked of the table. For several threads."""

    def __init__(self, store: DynamoDbMetricStore) -> None:
        self._store = store

    def look(self, spans: Mapping[str, Span], now: datetime) -> None:
        """Nothing to do: each question looks for itself."""

    def await_slots(self, metric: str, slots: Iterable[int], interval: int, until: float) -> None:
        """Nothing to do: the next question sees them."""

    def count(self, metric: str, span: Span) -> int:
        """How many slots of the span have a record; those of a former interval may be among them."""
        return min(self._store.count(metric, span.start, span.end), span.expected)

    def known(self, metric: str, span: Span) -> Iterator[KnownSlot]:
        """The records of the span, oldest first; one off the slots, of a former interval, is passed over."""
        for record in self._store.query(metric, span.start, span.end):
            slot = to_seconds(record.slot)
            if not slot % span.interval_seconds:
                yield KnownSlot(slot, record.count, to_seconds(record.collected_at))

    def newest(self, metric: str, span: Span) -> datetime | None:
        """The metric's newest slot that has a record, also if that is older than the span."""
        return self._store.newest_slot(metric)

    def buckets(self, metric: str, span: Span, seconds: int) -> list[Bucket]:
        """The records in stretches of `seconds` since 1970; stretches without a record are left out."""
        found: dict[int, list[Number]] = {}
        for each in self.known(metric, span):
            found.setdefault(each.slot - each.slot % seconds, []).append(each.count)
        return [
            Bucket(from_seconds(start), len(counts), min(counts), max(counts), total_of(counts))
            for start, counts in found.items()
        ]
