"""Which slots have a record, whoever can tell: the ledger since it began, and before that the table.

Of many targets the table is not read where it is whole: DynamoDB counts, and that it was whole is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache

from kizami.aws.store.ledger_slots import LedgerSlots
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.store.slot_cache import SlotCache
from kizami.aws.store.table_slots import TableSlots
from kizami.core.coverage import Span
from kizami.core.epoch import to_seconds
from kizami.core.ports import Clock

READ_SLOTS = 24  # so few of a target are read rather than counted
STRETCHES_KEPT = 20_000  # days and hours that are whole


class StoredSlots:
    """What is stored of each metric; `asker` says whose messages ask for it. For several threads."""

    def __init__(
        self,
        slots: SlotCache | TableSlots,
        store: DynamoDbMetricStore,
        noted: LedgerSlots | None,
        asker: Callable[[str], str],
        threads: Executor,
        clock: Clock,
    ) -> None:
        self._slots = slots
        self._store = store
        self._noted = noted
        self._target = asker
        self._threads = threads
        self._clock = clock
        self._whole: dict[str, Span] = {}
        self._full: dict[tuple[str, Span], None] = {}  # in the order in which they were counted

    def look(self, spans: Mapping[str, Span], now: datetime) -> None:
        """See to it that what is known of the spans is not old. StoreError."""
        parts = {name: self._split(name, span) for name, span in spans.items()}
        if self._noted is not None:
            told = {self._target(name): part for name, (_, part) in parts.items() if part.expected}
            self._noted.look(told, now)
        before = {name: part for name, (part, _) in parts.items() if part.expected}
        self._slots.look(self._not_whole(before), now)

    def count(self, metric: str, span: Span) -> int:
        """How many slots of the span have a record."""
        before, told = self._split(metric, span)
        counted = before.expected if self._is_whole(metric, before) else self._slots.count(metric, before)
        return counted + (self._noted.count(self._target(metric), told) if self._noted and told.expected else 0)

    def count_each(self, metric: str, spans: Sequence[Span], now: datetime) -> list[int]:
        """The same of stretches of any age that follow one another, without reading a record. StoreError."""
        parts = [self._split(metric, span) for span in spans]
        told = [part for _, part in parts if part.expected]
        if self._noted is not None and told:
            self._noted.look({self._target(metric): replace(told[0], end=told[-1].end)}, now)
        counts = self._threads.map(lambda part: self._count_records(metric, part[0]), parts)
        return [count + self.count(metric, part) for count, (_, part) in zip(counts, parts, strict=True)]

    def lacking(self, metric: str, span: Span) -> list[int]:
        """The slots of the span that have none, oldest first, in seconds since 1970."""
        before, told = self._split(metric, span)
        found = [] if self._is_whole(metric, before) else self._lacking_records(metric, before)
        return found + (self._noted.lacking(self._target(metric), told) if self._noted and told.expected else [])

    def newest(self, metrics: Iterable[str]) -> dict[str, datetime]:
        """The newest slot of each metric, as far as the ledger tells."""
        names = {metric: self._target(metric) for metric in metrics}
        found = self._noted.newest(names.values()) if self._noted else {}
        return {metric: found[name] for metric, name in names.items() if name in found}

    def begun(self, metrics: Iterable[str], back: timedelta) -> dict[str, datetime]:
        """A slot of each metric of which the ledger tells that it is stored since longer than `back`."""
        names = {metric: self._target(metric) for metric in metrics}
        found = self._noted.begun(set(names.values()), back, self._clock.now()) if self._noted else {}
        return {metric: found[name] for metric, name in names.items() if name in found}

    def await_slots(self, metric: str, slots: Iterable[int], until: float) -> None:
        """Somebody asks for these slots again: the ledger is looked at often until then."""
        if self._noted is not None:
            self._noted.await_slots(self._target(metric), slots, until)

    def _split(self, metric: str, span: Span) -> tuple[Span, Span]:
        """The part of a span of which the table must tell, and that of which the ledger does."""
        if self._noted is None:
            return span, replace(span, start=span.end)
        return _cut(span, self._noted.told_from(self._target(metric), span, self._clock.now()))

    def _not_whole(self, spans: Mapping[str, Span]) -> dict[str, Span]:
        """Those of the spans that are to be read; of many targets only what was counted and lacks something."""
        if self._noted is None:
            return dict(spans)
        unknown = {name: span for name, span in spans.items() if not self._is_whole(name, span)}
        long = {name: span for name, span in unknown.items() if span.expected > READ_SLOTS}
        counts = self._threads.map(lambda name: self._store.count(name, long[name].start, long[name].end), long)
        for (name, span), count in zip(long.items(), counts, strict=True):
            if count == span.expected:
                self._whole[name] = span
        return {name: span for name, span in unknown.items() if not self._is_whole(name, span)}

    def _is_whole(self, metric: str, span: Span) -> bool:
        known = self._whole.get(metric)
        is_known = known is not None and known.start <= span.start and span.end <= known.end
        return not span.expected or (
            is_known and known is not None and known.interval_seconds == span.interval_seconds
        )

    def _count_records(self, metric: str, span: Span) -> int:
        if not span.expected or self._is_whole(metric, span) or (metric, span) in self._full:
            return span.expected
        count = self._store.count(metric, span.start, span.end)
        if count == span.expected:
            self._full[metric, span] = None
            while len(self._full) > STRETCHES_KEPT:
                del self._full[next(iter(self._full))]
        return min(count, span.expected)

    def _lacking_records(self, metric: str, span: Span) -> list[int]:
        known = {each.slot for each in self._slots.known(metric, span)}
        slots = range(to_seconds(span.start), to_seconds(span.end), span.interval_seconds)
        return [slot for slot in slots if slot not in known]


@lru_cache(maxsize=1024)  # many targets have the same span, and those of a bundle the same edge
def _cut(span: Span, edge: datetime) -> tuple[Span, Span]:
    return replace(span, end=edge), replace(span, start=edge)
