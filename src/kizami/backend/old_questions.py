"""The questions about counts and records of the port, asked as views of the one question about slots (pure).

completeness, stored_between          Buckets
slot_counts                           Buckets with states
buckets, buckets_of, figures, totals  Buckets with values
counts_at, newest_counts              Buckets with values, of a second each
missing                               Runs
slot_details                          Each
records, record_columns               Records
newest_slots                          Newest
lateness                              PollLateness
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from kizami.backend.columns import RecordColumns
from kizami.backend.slots import (
    EARLIEST,
    LATEST,
    MOST_BUCKETS,
    Answer,
    Asked,
    Buckets,
    Each,
    Edges,
    Newest,
    PollLateness,
    Records,
    Runs,
    Slot,
    SlotBucket,
    SlotView,
    State,
)
from kizami.backend.targets import KnownTarget
from kizami.backend.values import (
    Bucket,
    DeadLetter,
    DeadLetterKey,
    Lateness,
    PendingSlot,
    SlotCounts,
    SlotDetails,
    StoredSlot,
)
from kizami.core.answers.numbers import Number, to_number
from kizami.core.coverage import Completeness, Gap, Span
from kizami.core.epoch import from_ms, from_seconds, to_seconds
from kizami.core.errors import InvalidInput
from kizami.core.messages import MetricRecord
from kizami.core.slots import floor_to_second

_SECOND = timedelta(seconds=1)  # no two slots of a metric begin in one
_FIRST_SECOND, _LAST_SECOND = to_seconds(EARLIEST), to_seconds(LATEST)


class OldQuestions(ABC):
    """Answers the old questions for a backend that answers the one about slots, and has the abstract methods here.

    Each slot is in one state: one that is stored is not listed as dead or pending besides.
    """

    @abstractmethod
    def slots(self, asked: Asked, view: SlotView[Answer]) -> Answer:
        """Answer one question about slots."""

    @abstractmethod
    def names(self) -> Collection[str]:
        """Return the names of all metrics."""

    @abstractmethod
    def targets(self, names: Collection[str] | None = None, *, recent: bool = False) -> list[KnownTarget]:
        """Return the targets of these names."""

    @abstractmethod
    def dead_letters(
        self, metric: str | None = None, limit: int = -1, before: DeadLetterKey | None = None
    ) -> list[DeadLetter]:
        """Return the dead letters about a metric."""

    def completeness(self, spans: Mapping[str, Span]) -> dict[str, Completeness]:
        found = self._buckets(_edges_of(spans), Buckets())
        return {name: Completeness(found[name][0].stored, span.expected) for name, span in spans.items()}

    def slot_counts(self, spans: Mapping[str, Span]) -> dict[str, SlotCounts]:
        found = self._buckets(_edges_of(spans), Buckets(states=True))
        return {name: SlotCounts(each.stored, each.pending, each.dead) for name, (each,) in found.items()}

    def stored_between(self, metric: str, edges: Sequence[datetime]) -> list[int]:
        return [each.stored for each in self._buckets_between(metric, edges, Buckets())]

    def figures(self, metric: str, edges: Sequence[datetime]) -> list[Bucket]:
        return [_bucket(each) for each in self._buckets_between(metric, edges, Buckets(values=True))]

    def totals(self, spans: Mapping[str, Span]) -> dict[str, Bucket]:
        found = self._buckets(_edges_of(spans), Buckets(values=True))
        return {name: _bucket(each) for name, (each,) in found.items() if each.stored}

    def buckets(self, metric: str, start: datetime, end: datetime, seconds: int) -> list[Bucket]:
        return self.buckets_of([metric], start, end, seconds)[metric]

    def buckets_of(
        self, metrics: Collection[str], start: datetime, end: datetime, seconds: int
    ) -> dict[str, list[Bucket]]:
        edges = _stretches(start, end, seconds)
        found = self._buckets(dict.fromkeys(metrics, edges), Buckets(values=True)) if len(edges) > 1 else {}
        return {name: [_bucket(each) for each in found.get(name, ()) if each.stored] for name in metrics}

    def counts_at(self, metric: str, slots: Sequence[datetime]) -> list[Number | None]:
        wanted = {slot for slot in slots if not slot.microsecond and slot < LATEST}
        edges = sorted(wanted | {slot + _SECOND for slot in wanted})
        buckets = self._buckets_between(metric, edges, Buckets(values=True))
        found = {each.start: each.lowest for each in buckets if each.stored}
        return [found.get(slot) if slot in wanted else None for slot in slots]

    def newest_counts(self, newest: Mapping[str, datetime]) -> dict[str, Number]:
        seconds = {slot: (slot, slot + _SECOND) for slot in newest.values()}
        found = self._buckets({name: seconds[slot] for name, slot in newest.items()}, Buckets(values=True))
        return {name: each.lowest for name, (each,) in found.items() if each.stored}

    def missing(self, spans: Mapping[str, Span]) -> dict[str, list[Gap]]:
        found = self.slots(_edges_of(spans), Runs())
        return {name: [Gap(run.start, run.end, run.slots) for run in runs] for name, runs in found.items()}

    def slot_details(self, metric: str, start: datetime, end: datetime) -> SlotDetails:
        found = self.slots({metric: (start, max(start, end))}, Each()).get(metric, [])
        of_state = {state: [each for each in found if each.state is state] for state in State}
        dead = of_state[State.DEAD]
        return SlotDetails(
            [_stored_slot(each) for each in of_state[State.STORED]],
            [_pending_slot(metric, each) for each in of_state[State.PENDING]],
            self._letters_of(metric, dead) if dead else [],
        )

    def records(self, metric: str, start: datetime, end: datetime) -> Iterator[MetricRecord]:
        for found in self.record_columns(metric, start, end):
            for slot, units, collected in zip(found.slots, found.units, found.collected_ms, strict=True):
                count = to_number(units, found.decimals)
                yield MetricRecord(metric, from_seconds(slot), count, from_ms(collected))

    def record_columns(
        self, metric: str, start: datetime, end: datetime, *, details: bool = False
    ) -> Iterator[RecordColumns]:
        return self.slots({metric: (start, max(start, end))}, Records(details))

    def newest_slots(self, names: Collection[str] | None = None) -> dict[str, datetime]:
        asked = dict.fromkeys(self.names() if names is None else names, (EARLIEST, LATEST))
        return {name: each.slot for name, each in self.slots(asked, Newest()).items()}

    def lateness(self, start: datetime, end: datetime) -> Lateness:
        asked = dict.fromkeys(self.names(), (start, max(start, end)))
        return self.slots(asked, PollLateness())[0] if asked else Lateness(0, 0, 0, 0)

    def _buckets(self, asked: Asked, view: Buckets) -> dict[str, list[SlotBucket]]:
        """Ask in as many questions as their size takes: the metrics may be many, and their stretches, too."""
        found: dict[str, list[SlotBucket]] = {}
        for part in _parts(asked):
            found |= self.slots(part, view)
        return found

    def _buckets_between(self, metric: str, edges: Edges, view: Buckets) -> list[SlotBucket]:
        return self._buckets({metric: edges}, view)[metric] if len(edges) > 1 else []

    def _letters_of(self, metric: str, dead: Sequence[Slot]) -> list[DeadLetter]:
        """Return the dead letters of slots; of one whose letter is gone, what the slot tells itself."""
        letters = {letter.slot: letter for letter in self.dead_letters(metric)}
        if gone := [each for each in dead if each.slot not in letters]:
            (target,) = self.targets([metric])
            letters |= {each.slot: _letter(target, each) for each in gone}
        return [letters[each.slot] for each in dead]


def _edges_of(spans: Mapping[str, Span]) -> dict[str, Edges]:
    """Return the bounds of spans; those of equal ones are one object."""
    edges: dict[tuple[datetime, datetime], Edges] = {}
    found = {}
    for name, span in spans.items():
        bounds = span.start, max(span.start, span.end)
        found[name] = edges.setdefault(bounds, bounds)
    return found


def _parts(asked: Asked) -> Iterator[Asked]:
    """Share metrics out to questions that are not too large; of one metric alone a question may still be."""
    part: dict[str, Edges] = {}
    size = 0
    for name, edges in asked.items():
        if part and size + len(edges) - 1 > MOST_BUCKETS:
            yield part
            part, size = {}, 0
        part[name] = edges
        size += len(edges) - 1
    if part:
        yield part


def _stretches(start: datetime, end: datetime, seconds: int) -> list[datetime]:
    """Return the edges of the stretches of `seconds` since 1970 that begin before `end` and end after `start`."""
    first = to_seconds(floor_to_second(start)) // seconds * seconds
    last = -(-to_seconds(end) // seconds) * seconds
    if last - first > MOST_BUCKETS * seconds:
        raise InvalidInput("from", "is too long ago for such short stretches; ask for longer ones")
    return [from_seconds(min(max(edge, _FIRST_SECOND), _LAST_SECOND)) for edge in range(first, last + 1, seconds)]


def _bucket(found: SlotBucket) -> Bucket:
    return Bucket(found.start, found.stored, found.lowest, found.highest, found.total)


def _stored_slot(each: Slot) -> StoredSlot:
    assert each.value is not None
    collected = each.slot if each.at is None else each.at
    attempts = 1 if each.attempts is None else each.attempts
    return StoredSlot(each.slot, each.value, collected, each.late_ms or 0, attempts, bool(each.backfill))


def _pending_slot(metric: str, each: Slot) -> PendingSlot:
    due_at = each.due_at or each.slot
    moments = due_at, each.at or due_at
    return PendingSlot(
        metric, each.slot, *moments, each.attempts or 0, each.in_flight, bool(each.backfill), each.error
    )


def _letter(target: KnownTarget, each: Slot) -> DeadLetter:
    sent_at = each.due_at or each.slot
    reason = each.error or "given up; its dead letter is gone"
    tried = target.interval_seconds, each.attempts or 0
    return DeadLetter(each.slot, target.name, *tried, sent_at, each.at, reason, bool(each.backfill))
