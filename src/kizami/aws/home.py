"""The home on AWS: the table answers, the queues and dead letters repair, for verbs and page alike."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from math import inf
from typing import TypeVar

from kizami.aggregation.stores.company_states import CompanyTables
from kizami.aws.places import Places
from kizami.aws.queue_worker import CollectorFunction
from kizami.aws.store.dead_letter_cache import DeadLetterCache
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.store.queues import read_depth, send_backfill
from kizami.aws.store.slot_cache import SlotCache
from kizami.aws.store.slot_states import SlotStates
from kizami.aws.store.sqs_queue import SqsQueue
from kizami.aws.store.table_slots import TableSlots
from kizami.core.coverage import Completeness, Gap, Span, due_span
from kizami.core.epoch import EPOCH, from_seconds, to_seconds
from kizami.core.errors import InvalidInput
from kizami.core.messages import MetricRecord, ScheduleMessage
from kizami.core.ports import Clock
from kizami.core.slots import floor_to_second, shift, shorten
from kizami.core.targets.target import Target
from kizami.home.port import QueueWorker
from kizami.home.targets import KnownTarget, Pace, Polling
from kizami.home.values import (
    Bucket,
    CompanyState,
    DeadLetter,
    DeadLetterKey,
    Lateness,
    QueueDepth,
    SlotCounts,
    SlotDetails,
    lateness_of,
)

Answer = TypeVar("Answer")

# The rule fires at any second of the minute, and all its slots are that much behind; the functions need more.
ON_AWS = Pace(settling_seconds=75, late_after_ms=75_000)
LOOK_SECONDS = 5.0  # every look is some requests, which cost money
_ASKED_AT_ONCE = 16  # as many as the client keeps connections
_FIRST_SLOT_SECONDS = 60.0
_DAY = timedelta(days=1)
_HOURS_KEPT = 2000, 30  # for long ranges, and for each target


class AwsHome:
    """`Home` on one stack. It is its own cache: one of it serves all threads of a page until the process ends.

    A verb, which asks once, `keeps` nothing: then each question is asked of the table.
    """

    can_pause = False

    def __init__(
        self,
        places: Places,
        targets: Sequence[Target],
        clock: Clock,
        grace_seconds: float,
        command_options: Mapping[str, str] | None = None,
        companies: CompanyTables | None = None,
        *,
        keeps: bool = True,
    ) -> None:
        self.command_options = command_options or {}
        self._places = places
        self._targets = {target.name: target for target in sorted(targets, key=lambda target: target.name)}
        self._clock = clock
        self._grace_seconds = grace_seconds
        self._threads = ThreadPoolExecutor(_ASKED_AT_ONCE, thread_name_prefix="aws")
        self._companies = companies
        self._keeps = keeps
        self._first_slots: tuple[float, dict[str, datetime]] = (-inf, {})
        self._depth: tuple[float, QueueDepth] | None = None

    # A verb that asks for records alone needs to know the table and no queue.

    @cached_property
    def _store(self) -> DynamoDbMetricStore:
        return DynamoDbMetricStore(self._places.table)

    @cached_property
    def _slots(self) -> SlotCache | TableSlots:
        if not self._keeps:
            return TableSlots(self._store)
        most_hours = _HOURS_KEPT[0] + _HOURS_KEPT[1] * len(self._targets)
        return SlotCache(self._store.query, self._threads, self._grace_seconds, most_hours)

    @cached_property
    def _states(self) -> SlotStates:
        return SlotStates(self._targets, self._slots, self._grace_seconds)

    @cached_property
    def _letters(self) -> DeadLetterCache:
        return DeadLetterCache(self._places.dead_letter_queue)

    @cached_property
    def _backfill_queue(self) -> SqsQueue:
        return SqsQueue(self._places.backfill_queue)

    def names(self) -> Collection[str]:
        return self._targets.keys()

    def targets(self, names: Collection[str] | None = None) -> list[KnownTarget]:
        chosen = self._targets.keys() if names is None else set(names)
        wanted = [each for name, each in self._targets.items() if name in chosen]
        first_slots = self._find_first_slots([target.name for target in wanted])
        newest = self._find_newest([target.name for target in wanted if not target.enabled])
        return [_known(each, first_slots.get(each.name), newest.get(each.name)) for each in wanted]

    def newest_slots(self) -> dict[str, datetime]:
        return self._find_newest(self._targets)

    def slot_counts(self, spans: Mapping[str, Span]) -> dict[str, SlotCounts]:
        now = self._clock.now()
        self._slots.look(spans, now)
        dead = {(letter.metric, letter.slot) for letter in self._all_letters()}
        return self._of_each(spans, lambda name: self._states.counts(name, spans[name], dead, now))

    def completeness(self, spans: Mapping[str, Span]) -> dict[str, Completeness]:
        self._slots.look(spans, self._clock.now())
        stored = self._of_each(spans, lambda name: self._slots.count(name, spans[name]))
        return {name: Completeness(stored[name], span.expected) for name, span in spans.items()}

    def missing(self, spans: Mapping[str, Span]) -> dict[str, list[Gap]]:
        now = self._clock.now()
        settled = {name: self._states.settled(name, span, now) for name, span in spans.items()}
        told = self.completeness(settled)
        lacking = [name for name, part in told.items() if part.missing]
        letters = self._all_letters() if lacking else []
        found = self._of_each(lacking, lambda name: self._states.gaps(name, settled[name], letters, now))
        return {name: gaps for name, gaps in found.items() if gaps}

    def slot_details(self, metric: str, start: datetime, end: datetime) -> SlotDetails:
        now, span = self._clock.now(), self._states.span(metric, start, end)
        if span is None:
            return SlotDetails()
        self._slots.look({metric: span}, now)
        letters = [each for each in self._all_letters() if each.metric == metric and start <= each.slot < end]
        return self._states.details(metric, span, letters, now)

    def records(self, metric: str, start: datetime, end: datetime) -> Iterator[MetricRecord]:
        return self._store.query(metric, start, end)

    def buckets(self, metric: str, start: datetime, end: datetime, seconds: int) -> list[Bucket]:
        first = to_seconds(floor_to_second(start)) // seconds * seconds
        last = -(-to_seconds(end) // seconds) * seconds
        span = self._states.span(metric, from_seconds(first), from_seconds(last))
        if span is None:
            return []
        self._slots.look({metric: span}, self._clock.now())
        return self._slots.buckets(metric, span, seconds)

    def counts_at(self, metric: str, slots: Sequence[datetime]) -> list[int | None]:
        if not slots or metric not in self._targets:
            return [None] * len(slots)
        span = self._states.span(metric, min(slots), shift(max(slots), self._targets[metric].interval_seconds))
        assert span is not None
        self._slots.look({metric: span}, self._clock.now())
        found = {each.slot: each.count for each in self._slots.known(metric, span)}
        return [found.get(to_seconds(slot)) for slot in slots]

    def queue_depth(self, now: datetime) -> QueueDepth:
        moment = time.monotonic()
        if self._depth is None or moment - self._depth[0] >= LOOK_SECONDS - 1:
            places = self._places
            self._depth = moment, read_depth(places.queue, places.backfill_queue, places.dead_letter_queue)
        return replace(self._depth[1], unreadable=self._letters.unreadable)

    def lateness(self, start: datetime, end: datetime) -> Lateness:
        """To the second, from the tick to the record: when it was asked for is not in the table."""
        spans = {name: span for name in self._targets if (span := self._states.span(name, start, end))}
        self._slots.look(spans, self._clock.now())
        late: Counter[int] = Counter()
        for each in self._of_each(spans, lambda name: self._states.lateness(name, spans[name])).values():
            late += each
        return lateness_of(sorted(late.items()))

    def dead_letters(
        self, metric: str | None = None, limit: int = -1, before: DeadLetterKey | None = None
    ) -> list[DeadLetter]:
        letters = [letter for letter in self._all_letters() if metric is None or letter.metric == metric]
        letters.sort(key=lambda letter: letter.key, reverse=True)
        found = [letter for letter in letters if before is None or letter.key < before]
        return found if limit < 0 else found[:limit]

    def backfill(self, messages: Iterable[ScheduleMessage]) -> int:
        self._depth = None
        if not self._keeps:
            return send_backfill(self._backfill_queue, messages)  # there may be millions of them
        wanted = list(messages)
        sent = send_backfill(self._backfill_queue, wanted)
        self._states.ask(wanted, self._clock.now())
        return sent

    def expect_from(self, metric: str, slot: datetime) -> None:
        """Nothing to do: here a metric is expected from its first record on."""

    def queued(self, spans: Mapping[str, Span]) -> int:
        return 0  # SQS does not tell which messages it has

    def worker(self, metrics: Iterable[str]) -> AbstractContextManager[QueueWorker]:
        return nullcontext(CollectorFunction(self._backfill_queue))

    def redrive(self, letters: Iterable[DeadLetter]) -> int:
        wanted = list(letters)
        redriven = self._letters.redrive(wanted, self._backfill_queue)
        self._states.ask([letter.message for letter in wanted], self._clock.now())
        self._depth = None
        return redriven

    def purge(self, letters: Iterable[DeadLetter]) -> int:
        self._depth = None
        return self._letters.purge(letters)

    def pause(self, metric: str) -> None:
        problem = f"{shorten(metric)} cannot be paused from here: set enabled = false in the deployed kizami.toml"
        raise InvalidInput("metric", f"{problem} and deploy it again")

    def resume(self, metric: str) -> None:
        problem = f"{shorten(metric)} cannot be resumed from here: set enabled = true in the deployed kizami.toml"
        raise InvalidInput("metric", f"{problem} and deploy it again")

    def companies(self, now: datetime) -> list[CompanyState]:
        return self._companies.states(now) if self._companies else []

    def daemon(self) -> None:
        """The rule, the functions and the queues do its work."""

    def close(self) -> None:
        """What it holds serves the next question as well."""

    def _of_each(self, names: Iterable[str], ask: Callable[[str], Answer]) -> dict[str, Answer]:
        """The answer for each metric, some questions at a time."""
        wanted = list(names)
        return dict(zip(wanted, self._threads.map(ask, wanted), strict=True))

    def _find_first_slots(self, names: Collection[str]) -> dict[str, datetime]:
        """The slot of each metric's first record; a backfill may reach further back at any time."""
        read_at, found = self._first_slots
        moment = time.monotonic()
        if moment - read_at >= (_FIRST_SLOT_SECONDS if found else LOOK_SECONDS - 1):
            found = _existing(self._of_each(names, self._store.first_slot))
            if len(names) == len(self._targets):
                self._first_slots = moment, found
        return found

    def _find_newest(self, names: Collection[str]) -> dict[str, datetime]:
        now = self._clock.now()
        spans = {name: due_span(self._targets[name], now - _DAY, now) for name in names}
        self._slots.look(spans, now)
        newest = _existing(self._of_each(names, lambda name: self._slots.newest(name, spans[name])))
        first_slots = self._find_first_slots(names)
        silent = [name for name in names if name not in newest and name in first_slots]
        return newest | _existing(self._of_each(silent, self._store.newest_slot))

    def _all_letters(self) -> list[DeadLetter]:
        return self._letters.all(self.queue_depth(self._clock.now()).dead)


def _existing(found: Mapping[str, datetime | None]) -> dict[str, datetime]:
    return {name: slot for name, slot in found.items() if slot is not None}


def _known(target: Target, first_slot: datetime | None, newest: datetime | None) -> KnownTarget:
    """Without any record every slot is missing, so that a deployment that never worked does not look complete."""
    polling = Polling.ON if target.enabled else Polling.DISABLED
    first = first_slot or EPOCH
    until = None if target.enabled else shift(newest or first, target.interval_seconds if newest else 0)
    timing = target.interval_seconds, target.lag_seconds, first
    return KnownTarget(target.name, *timing, polling, expected_until=until, pace=ON_AWS)
