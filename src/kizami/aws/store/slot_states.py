"""The one state of each slot on AWS: stored, dead, pending or missing, as far as table and queues tell.

SQS does not tell which slots it has. A due slot without a record is dead if a dead letter says so, pending as long
as a message about it can be on its way, live or asked for from here, and missing from then on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime, timedelta

from kizami.aws.history.keeping import kept_from
from kizami.aws.store.slot_cache import KnownSlot, SlotCache
from kizami.aws.store.stored_slots import StoredSlots
from kizami.aws.store.table_slots import TableSlots
from kizami.backend.columns import RecordColumns
from kizami.backend.values import DeadLetter, PendingSlot, SlotCounts, SlotDetails, StoredSlot
from kizami.core.coverage import Gap, Span, due_span, next_slot
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.messages import ScheduleMessage
from kizami.core.slots import floor_to_slot, shift
from kizami.core.targets.target import Target


class SlotStates:
    """The states of the targets' slots; no message about a slot is on its way for longer than `grace_seconds`."""

    def __init__(
        self,
        targets: Mapping[str, Target],
        slots: SlotCache | TableSlots,
        stored: StoredSlots,
        grace_seconds: float,
    ) -> None:
        self._targets = targets
        self._slots = slots
        self._stored_slots = stored
        self._grace_seconds = grace_seconds
        self._asked = AskedSlots(grace_seconds)

    def span(self, metric: str, start: datetime, end: datetime) -> Span | None:
        """The slots that begin in [start, end), None if the metric is unknown."""
        target = self._targets.get(metric)
        if target is None:
            return None
        interval = target.interval_seconds
        reach = timedelta(seconds=interval, microseconds=-1)
        return Span(floor_to_slot(start + reach, interval), floor_to_slot(end + reach, interval), interval)

    def polled_between(self, metric: str, start: datetime, end: datetime) -> Span | None:
        """The range's slots or, with a longer lag, those due in it."""
        lag = self._targets[metric].lag_seconds
        lag = lag if lag >= (end - start).total_seconds() else 0
        return self.span(metric, shift(start, -lag), shift(end, -lag))

    def settled(self, metric: str, span: Span, now: datetime) -> Span:
        """The slots of a span that are kept and about which no live message can be on its way any more."""
        settled, kept = self._due(metric, span, now, self._grace_seconds), kept_from(self._targets[metric], now)
        start = max(settled.start, next_slot(kept, span.interval_seconds)) if kept else settled.start
        return Span(min(start, settled.end), settled.end, span.interval_seconds)

    def counts(self, metric: str, span: Span, dead: Set[tuple[str, datetime]], now: datetime) -> SlotCounts:
        """How many slots of a span are in which state."""
        lacking = list(map(from_seconds, self._stored_slots.lacking(metric, span)))
        alive = [slot for slot in lacking if (metric, slot) not in dead]
        pending = sum(self._is_on_its_way(metric, slot, now) for slot in alive)
        return SlotCounts(span.expected - len(lacking), pending, len(lacking) - len(alive))

    def details(self, metric: str, span: Span, letters: Sequence[DeadLetter], now: datetime) -> SlotDetails:
        """Each slot of a span with what is known about it; `letters` are those of the span."""
        known = {each.slot: each for each in self._slots.known(metric, span)}
        dead = {letter.slot for letter in letters}
        pending = [
            slot
            for slot in self._due(metric, span, now).slots()
            if to_seconds(slot) not in known and slot not in dead and self._is_on_its_way(metric, slot, now)
        ]
        stored = [self._stored(metric, each) for each in known.values()]
        return SlotDetails(stored, [self._pending(metric, slot) for slot in pending], letters)

    def with_details(self, piece: RecordColumns) -> RecordColumns:
        """Records with how they came about, as far as that can be told: not at which attempt."""
        known = (KnownSlot(slot, 0, ms // 1000) for slot, ms in zip(piece.slots, piece.collected_ms, strict=True))
        stored = [self._stored(piece.metric, each) for each in known]
        late_ms, backfilled = [each.late_ms for each in stored], [each.backfilled for each in stored]
        return replace(piece, late_ms=late_ms, receives=[None] * len(piece), backfilled=backfilled)

    def gaps(self, metric: str, span: Span, letters: Sequence[DeadLetter], now: datetime) -> list[Gap]:
        """The missing slots of a settled span."""
        dead = (letter.slot for letter in letters if letter.metric == metric)
        asked = (slot for slot in self._asked.of(metric) if self._is_on_its_way(metric, slot, now))
        known = set(map(to_seconds, (*dead, *asked)))
        lacking = self._stored_slots.lacking(metric, span)
        missing = [slot for slot in lacking if slot not in known] if known else lacking
        return _join(missing, span.interval_seconds)

    def lateness(self, metric: str, span: Span) -> Counter[int]:
        """How late the live records of a span were, in milliseconds to the second, and how often."""
        late = (self._late_ms(metric, each) for each in self._slots.known(metric, span))
        return Counter(ms for ms in late if ms <= self._grace_seconds * 1000)

    def ask(self, messages: Sequence[ScheduleMessage], now: datetime) -> None:
        """They were asked for again, and are on their way for as long as a live one would be."""
        self._asked.add(messages, now)
        for metric in {message.metric for message in messages} & self._targets.keys():
            slots = [to_seconds(each.window.start) for each in messages if each.metric == metric]
            interval = self._targets[metric].interval_seconds
            until = now.timestamp() + self._grace_seconds
            self._slots.await_slots(metric, slots, interval, until)
            self._stored_slots.await_slots(metric, slots, until)

    def _due(self, metric: str, span: Span, now: datetime, grace_seconds: float = 0) -> Span:
        end = due_span(self._targets[metric], span.start, now, grace_seconds).end
        return Span(span.start, min(span.end, end), span.interval_seconds)

    def _is_on_its_way(self, metric: str, slot: datetime, now: datetime) -> bool:
        """Whether a message about the slot may still be on a queue."""
        return self._asked.is_on_its_way(metric, slot, self._due_at(metric, slot), now)

    def _due_at(self, metric: str, slot: datetime) -> datetime:
        return shift(slot, self._targets[metric].lag_seconds)

    def _late_ms(self, metric: str, known: KnownSlot) -> int:
        return max(0, known.collected - known.slot - self._targets[metric].lag_seconds) * 1000

    def _stored(self, metric: str, known: KnownSlot) -> StoredSlot:
        """What is later than any live record can be was asked for again; how often is not in the table."""
        late_ms, slot = self._late_ms(metric, known), from_seconds(known.slot)
        is_backfilled = late_ms > self._grace_seconds * 1000 or (metric, slot) in self._asked
        return StoredSlot(slot, known.count, from_seconds(known.collected), late_ms, 1, is_backfilled)

    def _pending(self, metric: str, slot: datetime) -> PendingSlot:
        due_at = self._due_at(metric, slot)
        return PendingSlot(metric, slot, due_at, due_at, 0, False, (metric, slot) in self._asked, None)


def _join(slots: Sequence[int], interval_seconds: int) -> list[Gap]:
    """Slots that follow one another as gaps."""
    gaps, first = list[Gap](), 0
    while first < len(slots):
        end = _end_of_run(slots, first, interval_seconds)
        edges = from_seconds(slots[first]), from_seconds(slots[end - 1] + interval_seconds)
        gaps.append(Gap(*edges, end - first))
        first = end
    return gaps


def _end_of_run(slots: Sequence[int], first: int, interval_seconds: int) -> int:
    """The place behind the last slot that follows from the first one without a break, found by halves: of a target
    that is silent for a day it is the 17,280th."""
    start = slots[first] - first * interval_seconds
    places = range(len(slots))
    return bisect_right(places, start, first, key=lambda place: slots[place] - place * interval_seconds)


class AskedSlots:
    """The slots that were asked for again from here, and when: SQS does not tell that it has them.

    They are forgotten when no message about them can be on its way any more.
    """

    def __init__(self, grace_seconds: float) -> None:
        self._grace_seconds = grace_seconds
        self._asked: dict[tuple[str, int], float] = {}

    def add(self, messages: Iterable[ScheduleMessage], now: datetime) -> None:
        """They are on their way again from `now` on."""
        moment = now.timestamp()
        kept = {key: at for key, at in self._asked.items() if moment - at < self._grace_seconds}
        asked = {(each.metric, to_seconds(each.window.start)): moment for each in messages}
        self._asked = kept | asked

    def __contains__(self, slot: tuple[str, datetime]) -> bool:
        metric, start = slot
        return (metric, to_seconds(start)) in self._asked

    def is_on_its_way(self, metric: str, slot: datetime, planned: datetime, now: datetime) -> bool:
        """Whether a message about the slot, which was planned for then, may still be on a queue."""
        asked = self._asked.get((metric, to_seconds(slot)), 0.0)
        return now.timestamp() - max(planned.timestamp(), asked) < self._grace_seconds

    def of(self, metric: str) -> list[datetime]:
        """The metric's slots that were asked for."""
        return [from_seconds(slot) for name, slot in list(self._asked) if name == metric]
