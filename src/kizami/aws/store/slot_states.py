"""The one state of each slot on AWS: stored, dead, pending or missing, as far as table and queues tell.

SQS does not tell which slots it has. A due slot without a record is dead if a dead letter says so, pending as long
as a message about it can be on its way, live or asked for from here, and missing from then on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from datetime import datetime, timedelta

from kizami.aws.store.asked_slots import AskedSlots
from kizami.aws.store.slot_cache import KnownSlot, SlotCache
from kizami.aws.store.table_slots import TableSlots
from kizami.core.coverage import Gap, Span, due_span, find_gaps
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.messages import ScheduleMessage
from kizami.core.slots import floor_to_slot, shift
from kizami.core.targets.target import Target
from kizami.home.values import DeadLetter, PendingSlot, SlotCounts, SlotDetails, StoredSlot


class SlotStates:
    """The states of the targets' slots; no message about a slot is on its way for longer than `grace_seconds`."""

    def __init__(self, targets: Mapping[str, Target], slots: SlotCache | TableSlots, grace_seconds: float) -> None:
        self._targets = targets
        self._slots = slots
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

    def settled(self, metric: str, span: Span, now: datetime) -> Span:
        """The slots of a span about which no live message can be on its way any more."""
        return self._due(metric, span, now, self._grace_seconds)

    def counts(self, metric: str, span: Span, dead: Set[tuple[str, datetime]], now: datetime) -> SlotCounts:
        """How many slots of a span are in which state."""
        known = {each.slot for each in self._slots.known(metric, span)}
        lacking = [slot for slot in span.slots() if to_seconds(slot) not in known]
        alive = [slot for slot in lacking if (metric, slot) not in dead]
        pending = sum(self._is_on_its_way(metric, slot, now) for slot in alive)
        return SlotCounts(len(known), pending, len(lacking) - len(alive))

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

    def gaps(self, metric: str, span: Span, letters: Sequence[DeadLetter], now: datetime) -> list[Gap]:
        """The missing slots of a settled span."""
        known = {from_seconds(each.slot) for each in self._slots.known(metric, span)}
        dead = {letter.slot for letter in letters if letter.metric == metric}
        asked = {slot for slot in self._asked.of(metric) if self._is_on_its_way(metric, slot, now)}
        return list(find_gaps(span, sorted(known | dead | asked)))

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
            self._slots.await_slots(metric, slots, interval, now.timestamp() + self._grace_seconds)

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
