"""The dashboard's questions to a deployed system: its table answers, its queues and dead letters repair.

SQS does not tell which slots it has. A due slot without a record is dead if a dead letter says so, pending as long
as a message about it can be on its way, live or asked for from here, and missing from then on.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf

from kizami.aggregation.stores.company_states import CompanyTables
from kizami.aws.store.dead_letter_cache import DeadLetterCache
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.store.queues import read_depth, send_backfill
from kizami.aws.store.slot_cache import KnownSlot, SlotCache
from kizami.aws.store.sqs_queue import SqsQueue
from kizami.core.coverage import Completeness, Gap, Span, due_span, find_gaps
from kizami.core.epoch import EPOCH, from_seconds, to_seconds
from kizami.core.errors import InvalidInput
from kizami.core.messages import MetricRecord, ScheduleMessage
from kizami.core.ports import Clock
from kizami.core.slots import floor_to_slot, shift, shorten
from kizami.core.targets.target import Target
from kizami.home.targets import KnownTarget, Pace, Polling
from kizami.home.values import (
    Bucket,
    CompanyState,
    DeadLetter,
    DeadLetterKey,
    Lateness,
    PendingSlot,
    QueueDepth,
    SlotCounts,
    SlotDetails,
    StoredSlot,
    lateness_of,
)

# The rule fires at any second of the minute, and all its slots are that much behind; the functions need more.
ON_AWS = Pace(settling_seconds=75, late_after_ms=75_000)
LOOK_SECONDS = 5.0  # every look is some requests, which cost money
_ASKED_AT_ONCE = 16  # as many as the client keeps connections
_FIRST_SLOT_SECONDS = 60.0
_DAY = timedelta(days=1)
_HOURS_KEPT = 2000, 30  # for long ranges, and for each target


@dataclass(frozen=True, slots=True)
class AwsParts:
    """Where a deployed system has its parts; there may be no queue of dead letters."""

    table: str
    queue: str
    backfill_queue: str
    dead_letter_queue: str | None = None


class AwsHome:
    """`Source` on one stack. It is its own cache: one of it serves all threads until the process ends."""

    can_pause = False

    def __init__(
        self,
        home: AwsParts,
        targets: Sequence[Target],
        clock: Clock,
        grace_seconds: float,
        command_options: Mapping[str, str] | None = None,
        companies: CompanyTables | None = None,
    ) -> None:
        self.command_options = command_options or {}
        self._home = home
        self._targets = {target.name: target for target in sorted(targets, key=lambda target: target.name)}
        self._clock = clock
        self._grace_seconds = grace_seconds
        self._threads = ThreadPoolExecutor(_ASKED_AT_ONCE, thread_name_prefix="aws")
        self._store = DynamoDbMetricStore(home.table)
        most_hours = _HOURS_KEPT[0] + _HOURS_KEPT[1] * len(targets)
        self._slots = SlotCache(self._store.query, self._threads, grace_seconds, most_hours)
        self._letters = DeadLetterCache(home.dead_letter_queue)
        self._backfill_queue = SqsQueue(home.backfill_queue)
        self._companies = companies
        self._asked: dict[tuple[str, int], float] = {}
        self._first_slots: tuple[float, dict[str, datetime]] = (-inf, {})
        self._depth: tuple[float, QueueDepth] | None = None

    def targets(self) -> list[KnownTarget]:
        first_slots = self._find_first_slots()
        newest = self.newest_slots() if not all(target.enabled for target in self._targets.values()) else {}
        return [_polled(target, first_slots.get(name), newest.get(name)) for name, target in self._targets.items()]

    def newest_slots(self) -> dict[str, datetime]:
        now = self._clock.now()
        spans = {name: due_span(target, now - _DAY, now) for name, target in self._targets.items()}
        self._slots.look(spans, now)
        newest = {name: self._slots.newest(name, span) for name, span in spans.items()}
        first_slots = self._find_first_slots()
        silent = [name for name, slot in newest.items() if slot is None and name in first_slots]
        newest |= dict(zip(silent, self._threads.map(self._store.newest_slot, silent), strict=True))
        return {name: slot for name, slot in newest.items() if slot is not None}

    def slot_counts(self, spans: Mapping[str, Span]) -> dict[str, SlotCounts]:
        self._slots.look(spans, self._clock.now())
        dead = {(letter.metric, letter.slot) for letter in self._all_letters()}
        return {name: self._count_states(name, span, dead) for name, span in spans.items()}

    def completeness(self, spans: Mapping[str, Span]) -> dict[str, Completeness]:
        self._slots.look(spans, self._clock.now())
        return {name: Completeness(self._slots.count(name, span), span.expected) for name, span in spans.items()}

    def missing(self, spans: Mapping[str, Span]) -> dict[str, list[Gap]]:
        now = self._clock.now()
        settled = {name: self._settled(name, span, now) for name, span in spans.items()}
        told = self.completeness(settled)
        lacking = {name: settled[name] for name, part in told.items() if part.missing}
        found = {name: self._gaps(name, span, now) for name, span in lacking.items()}
        return {name: gaps for name, gaps in found.items() if gaps}

    def slot_details(self, metric: str, start: datetime, end: datetime) -> SlotDetails:
        now, span = self._clock.now(), self._span(metric, start, end)
        if span is None:
            return SlotDetails()
        self._slots.look({metric: span}, now)
        known = {each.slot: each for each in self._slots.known(metric, span)}
        letters = [each for each in self._all_letters() if each.metric == metric and start <= each.slot < end]
        dead = {letter.slot for letter in letters}
        pending = [
            slot
            for slot in self._due(metric, span, now).slots()
            if to_seconds(slot) not in known and slot not in dead and self._is_on_its_way(metric, slot, now)
        ]
        stored = [self._stored(metric, each) for each in known.values()]
        return SlotDetails(stored, [self._pending(metric, slot) for slot in pending], letters)

    def records(self, metric: str, start: datetime, end: datetime) -> Iterator[MetricRecord]:
        return self._store.query(metric, start, end)

    def buckets(self, metric: str, start: datetime, end: datetime, seconds: int) -> list[Bucket]:
        first = to_seconds(start.replace(microsecond=0)) // seconds * seconds
        last = -(-to_seconds(end) // seconds) * seconds
        span = self._span(metric, from_seconds(first), from_seconds(last))
        if span is None:
            return []
        self._slots.look({metric: span}, self._clock.now())
        return self._slots.buckets(metric, span, seconds)

    def counts_at(self, metric: str, slots: Sequence[datetime]) -> list[int | None]:
        if not slots or metric not in self._targets:
            return [None] * len(slots)
        span = self._span(metric, min(slots), shift(max(slots), self._targets[metric].interval_seconds))
        assert span is not None
        self._slots.look({metric: span}, self._clock.now())
        found = {each.slot: each.count for each in self._slots.known(metric, span)}
        return [found.get(to_seconds(slot)) for slot in slots]

    def queue_depth(self, now: datetime) -> QueueDepth:
        moment = time.monotonic()
        if self._depth is None or moment - self._depth[0] >= LOOK_SECONDS - 1:
            home = self._home
            self._depth = moment, read_depth(home.queue, home.backfill_queue, home.dead_letter_queue)
        return self._depth[1]

    def lateness(self, start: datetime, end: datetime) -> Lateness:
        """To the second, from the tick to the record: when it was asked for is not in the table."""
        spans = {name: span for name in self._targets if (span := self._span(name, start, end))}
        self._slots.look(spans, self._clock.now())
        late = Counter(
            ms
            for name, span in spans.items()
            for each in self._slots.known(name, span)
            if (ms := self._late_ms(name, each)) <= self._grace_seconds * 1000
        )
        return lateness_of(sorted(late.items()))

    def dead_letters(
        self, metric: str | None, limit: int, before: DeadLetterKey | None = None
    ) -> list[DeadLetter]:
        letters = [letter for letter in self._all_letters() if metric is None or letter.metric == metric]
        letters.sort(key=lambda letter: letter.key, reverse=True)
        found = [letter for letter in letters if before is None or letter.key < before]
        return found if limit < 0 else found[:limit]

    def backfill(self, messages: Iterable[ScheduleMessage]) -> int:
        wanted = list(messages)
        sent = send_backfill(self._backfill_queue, wanted)
        self._remember(wanted)
        return sent

    def redrive(self, letters: Iterable[DeadLetter]) -> int:
        wanted = list(letters)
        redriven = self._letters.redrive(wanted, self._backfill_queue)
        self._remember([letter.message for letter in wanted])
        return redriven

    def pause(self, metric: str) -> None:
        problem = f"{shorten(metric)} cannot be paused from here: set enabled = false in the deployed kizami.toml"
        raise InvalidInput("metric", f"{problem} and deploy it again")

    def resume(self, metric: str) -> None:
        problem = f"{shorten(metric)} cannot be resumed from here: set enabled = true in the deployed kizami.toml"
        raise InvalidInput("metric", f"{problem} and deploy it again")

    def companies(self, now: datetime) -> list[CompanyState]:
        return self._companies.states(now) if self._companies else []

    def close(self) -> None:
        """What it holds serves the next question as well."""

    def _find_first_slots(self) -> dict[str, datetime]:
        """The slot of each metric's first record; a backfill may reach further back at any time."""
        read_at, found = self._first_slots
        moment = time.monotonic()
        if moment - read_at >= (_FIRST_SLOT_SECONDS if found else LOOK_SECONDS - 1):
            slots = zip(self._targets, self._threads.map(self._store.first_slot, self._targets), strict=True)
            found = {name: slot for name, slot in slots if slot is not None}
            self._first_slots = moment, found
        return found

    def _all_letters(self) -> list[DeadLetter]:
        return self._letters.all(self.queue_depth(self._clock.now()).dead)

    def _span(self, metric: str, start: datetime, end: datetime) -> Span | None:
        """The slots that begin in [start, end), None if the metric is unknown."""
        target = self._targets.get(metric)
        if target is None:
            return None
        interval = target.interval_seconds
        reach = timedelta(seconds=interval, microseconds=-1)
        return Span(floor_to_slot(start + reach, interval), floor_to_slot(end + reach, interval), interval)

    def _due(self, metric: str, span: Span, now: datetime) -> Span:
        end = due_span(self._targets[metric], span.start, now).end
        return Span(span.start, min(span.end, end), span.interval_seconds)

    def _settled(self, metric: str, span: Span, now: datetime) -> Span:
        """The slots of a span about which no live message can be on its way any more."""
        end = due_span(self._targets[metric], span.start, now, self._grace_seconds).end
        return Span(span.start, min(span.end, end), span.interval_seconds)

    def _gaps(self, metric: str, span: Span, now: datetime) -> list[Gap]:
        known = {from_seconds(each.slot) for each in self._slots.known(metric, span)}
        dead = {letter.slot for letter in self._all_letters() if letter.metric == metric}
        asked = {
            from_seconds(slot)
            for name, slot in list(self._asked)
            if name == metric and self._is_on_its_way(name, from_seconds(slot), now)
        }
        return list(find_gaps(span, sorted(known | dead | asked)))

    def _count_states(self, metric: str, span: Span, dead: set[tuple[str, datetime]]) -> SlotCounts:
        now = self._clock.now()
        known = {each.slot for each in self._slots.known(metric, span)}
        lacking = [slot for slot in span.slots() if to_seconds(slot) not in known]
        alive = [slot for slot in lacking if (metric, slot) not in dead]
        pending = sum(self._is_on_its_way(metric, slot, now) for slot in alive)
        return SlotCounts(len(known), pending, len(lacking) - len(alive))

    def _is_on_its_way(self, metric: str, slot: datetime, now: datetime) -> bool:
        """Whether a message about the slot may still be on a queue."""
        planned = shift(slot, self._targets[metric].lag_seconds).timestamp()
        asked = self._asked.get((metric, to_seconds(slot)), planned)
        return now.timestamp() - max(planned, asked) < self._grace_seconds

    def _remember(self, messages: Sequence[ScheduleMessage]) -> None:
        """They are on their way again for as long as a live one would be."""
        self._depth = None
        now = self._clock.now().timestamp()
        self._asked = {key: at for key, at in self._asked.items() if now - at < self._grace_seconds}
        for message in messages:
            self._asked[message.metric, to_seconds(message.window.start)] = now
        for metric in {message.metric for message in messages} & self._targets.keys():
            slots = [to_seconds(each.window.start) for each in messages if each.metric == metric]
            interval = self._targets[metric].interval_seconds
            self._slots.await_slots(metric, slots, interval, now + self._grace_seconds)

    def _late_ms(self, metric: str, known: KnownSlot) -> int:
        return max(0, known.collected - known.slot - self._targets[metric].lag_seconds) * 1000

    def _stored(self, metric: str, known: KnownSlot) -> StoredSlot:
        """What is later than any live record can be was asked for again; how often is not in the table."""
        late_ms = self._late_ms(metric, known)
        is_backfilled = late_ms > self._grace_seconds * 1000 or (metric, known.slot) in self._asked
        collected_at = from_seconds(known.collected)
        return StoredSlot(from_seconds(known.slot), known.count, collected_at, late_ms, 1, is_backfilled)

    def _pending(self, metric: str, slot: datetime) -> PendingSlot:
        due_at = shift(slot, self._targets[metric].lag_seconds)
        asked = (metric, to_seconds(slot)) in self._asked
        return PendingSlot(metric, slot, due_at, due_at, 0, False, asked, None)


def _polled(target: Target, first_slot: datetime | None, newest: datetime | None) -> KnownTarget:
    """Without any record every slot is missing, so that a deployment that never worked does not look complete."""
    polling = Polling.ON if target.enabled else Polling.DISABLED
    first = first_slot or EPOCH
    until = None if target.enabled else shift(newest or first, target.interval_seconds if newest else 0)
    timing = target.interval_seconds, target.lag_seconds, first
    return KnownTarget(target.name, *timing, polling, expected_until=until, pace=ON_AWS)
