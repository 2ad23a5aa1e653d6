"""The backend on AWS: the table answers, the queues and dead letters repair, for verbs and page alike."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from itertools import islice, pairwise
from typing import TypeVar

from kizami.aggregation.stores.company_states import CompanyTables
from kizami.aws.dynamodb import MAX_KEYS
from kizami.aws.history.figures import KeptFigures
from kizami.aws.history.hour_totals import HourTotals
from kizami.aws.incidents import AwsIncidentLog, IncidentItems
from kizami.aws.known_targets import LOOK_SECONDS, ON_AWS, Askers, SlotBounds, known_target, pace_of
from kizami.aws.places import Places
from kizami.aws.queue_worker import CollectorFunction
from kizami.aws.store.block_items import BlockItems
from kizami.aws.store.dead_letter_cache import DeadLetterCache
from kizami.aws.store.ledger_slots import LedgerSlots
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.store.queues import read_depth, send_backfill
from kizami.aws.store.slot_cache import SlotCache
from kizami.aws.store.slot_states import SlotStates
from kizami.aws.store.sqs_queue import SqsQueue
from kizami.aws.store.stored_slots import StoredSlots
from kizami.aws.store.table_slots import TableSlots
from kizami.aws.store.tick_ledger import KEPT_SECONDS
from kizami.backend.columns import RecordColumns, columns_of
from kizami.backend.figures.gathering import gather
from kizami.backend.port import QueueWorker
from kizami.backend.targets import KnownTarget, Pace
from kizami.backend.values import (
    Bucket,
    CompanyState,
    DeadLetter,
    DeadLetterKey,
    Deaths,
    Lateness,
    PendingSlot,
    QueueDepth,
    SlotCounts,
    SlotDetails,
    TargetTrouble,
    lateness_of,
    trouble_of,
)
from kizami.core.answers.numbers import Number
from kizami.core.backfill import SPREAD_SECONDS, noting_metrics
from kizami.core.blocking import hurried
from kizami.core.coverage import Completeness, Gap, Span
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.errors import InvalidInput, QueueError
from kizami.core.messages import MetricRecord, ScheduleMessage
from kizami.core.ports import Clock
from kizami.core.slots import floor_to_second, shift, shorten
from kizami.core.targets.description import shown_settings
from kizami.core.targets.target import Target

Answer = TypeVar("Answer")

_ASKED_AT_ONCE = 16  # as many as the client keeps connections
_HOURS_KEPT = 2000, 30, 6000  # for long ranges, and for each target; at most, which is 70 MB of 5-second slots


class AwsBackend:
    """`Backend` on one stack. It is its own cache: one of it serves all threads of a page until the process ends.

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
        parts = (each for target in targets for each in target.of_each_metric())
        self._targets = {part.name: part for part in sorted(parts, key=lambda part: part.name)}
        self._polled = targets
        self._askers = Askers(targets)
        self._clock = clock
        self._grace_seconds = grace_seconds
        self._threads = ThreadPoolExecutor(_ASKED_AT_ONCE, thread_name_prefix="aws")
        self._companies = companies
        self._keeps = keeps
        self._depth: tuple[float, QueueDepth] | None = None

    def look(self) -> AbstractContextManager[AwsBackend]:
        return nullcontext(self)

    # A verb that asks for records alone needs to know the table and no queue.

    @cached_property
    def _store(self) -> DynamoDbMetricStore:
        return DynamoDbMetricStore(self._places.table)

    @cached_property
    def _blocks(self) -> BlockItems:
        return BlockItems(self._places.table)

    @cached_property
    def incident_log(self) -> AwsIncidentLog:
        return AwsIncidentLog(IncidentItems(self._places.table), self._clock, self._askers.asker)

    @cached_property
    def _slots(self) -> SlotCache | TableSlots:
        if not self._keeps:
            return TableSlots(self._store)
        kept, of_each, most = _HOURS_KEPT
        most_hours = min(most, kept + of_each * len(self._targets))
        return SlotCache(self._store.query, self._threads, self._grace_seconds, most_hours)

    @cached_property
    def _states(self) -> SlotStates:
        return SlotStates(self._targets, self._slots, self._stored, self._grace_seconds)

    @cached_property
    def _stored(self) -> StoredSlots:
        return StoredSlots(self._slots, self._store, self._noted, self._askers.asker, self._threads, self._clock)

    @cached_property
    def _noted(self) -> LedgerSlots | None:
        enabled = [target for target in self._polled if target.enabled]
        table = self._places.ledger if len(enabled) > 1 else None
        return LedgerSlots.of(table, enabled, self._grace_seconds) if table else None

    @cached_property
    def _bounds(self) -> SlotBounds:
        noted = self._stored if self._noted is not None else None
        return SlotBounds(self._targets, self._store, self._slots, noted, self._of_each, self._clock)

    @cached_property
    def _figures(self) -> KeptFigures:
        totals = HourTotals(self._places.table)
        return KeptFigures(self._slots, totals, self._bounds.first, self._threads, self._clock)

    @cached_property
    def _letters(self) -> DeadLetterCache:
        return DeadLetterCache(self._places.dead_letter_queue)

    @cached_property
    def _backfill_queue(self) -> SqsQueue:
        return SqsQueue(self._places.backfill_queue)

    @property
    def _spread_seconds(self) -> int:
        return SPREAD_SECONDS if self._places.backfill_queue == self._places.queue else 0

    def names(self) -> Collection[str]:
        return self._targets.keys() | self._askers.metrics.keys()

    def targets(self, names: Collection[str] | None = None, *, recent: bool = False) -> list[KnownTarget]:
        chosen, now = self._targets.keys() if names is None else set(names), self._clock.now()
        wanted = [each for name, each in self._targets.items() if name in chosen]
        first_slots = self._bounds.first([target.name for target in wanted], recent=recent)
        newest = self._bounds.newest([target.name for target in wanted if not target.enabled])
        return [
            known_target(each, first_slots.get(each.name), newest.get(each.name), self._pace_of(each), now)
            for each in wanted
        ]

    def settings(self, metric: str) -> dict[str, str]:
        target = self._targets.get(metric)
        return shown_settings(target) if target else {}

    def _pace_of(self, target: Target) -> Pace:
        return pace_of(target) if len(self._polled) > 1 else ON_AWS

    def newest_slots(self, names: Collection[str] | None = None) -> dict[str, datetime]:
        return self._bounds.newest(self._targets if names is None else self._targets.keys() & names)

    def slot_counts(self, spans: Mapping[str, Span]) -> dict[str, SlotCounts]:
        now = self._clock.now()
        self._stored.look(spans, now)
        dead = {(letter.metric, letter.slot) for letter in self._letters_of_metrics()}
        return self._of_known(spans, lambda name: self._states.counts(name, spans[name], dead, now))

    def completeness(self, spans: Mapping[str, Span]) -> dict[str, Completeness]:
        self._stored.look(spans, self._clock.now())
        stored = self._of_known(spans, lambda name: self._stored.count(name, spans[name]))
        return {name: Completeness(stored[name], span.expected) for name, span in spans.items()}

    def missing(self, spans: Mapping[str, Span]) -> dict[str, list[Gap]]:
        now = self._clock.now()
        settled = {name: self._states.settled(name, span, now) for name, span in spans.items()}
        told = self.completeness(settled)
        lacking = [name for name, part in told.items() if part.missing]
        letters = self._letters_of_metrics() if lacking else []
        found = self._of_known(lacking, lambda name: self._states.gaps(name, settled[name], letters, now))
        return {name: gaps for name, gaps in found.items() if gaps}

    def slot_details(self, metric: str, start: datetime, end: datetime) -> SlotDetails:
        now, span = self._clock.now(), self._states.span(metric, start, end)
        if span is None:
            return SlotDetails()
        self._slots.look({metric: span}, now)
        letters = [letter for letter in self._letters_about(metric) if start <= letter.slot < end]
        return self._states.details(metric, span, letters, now)

    def records(self, metric: str, start: datetime, end: datetime) -> Iterator[MetricRecord]:
        return self._store.query(metric, start, end)

    def record_columns(
        self, metric: str, start: datetime, end: datetime, *, details: bool = False
    ) -> Iterator[RecordColumns]:
        pieces = columns_of(self.records(metric, start, end))
        return map(self._states.with_details, pieces) if details else pieces

    def buckets(self, metric: str, start: datetime, end: datetime, seconds: int) -> list[Bucket]:
        return self.buckets_of([metric], start, end, seconds)[metric]

    def buckets_of(
        self, metrics: Collection[str], start: datetime, end: datetime, seconds: int
    ) -> dict[str, list[Bucket]]:
        first = to_seconds(floor_to_second(start)) // seconds * seconds
        last = -(-to_seconds(end) // seconds) * seconds
        bounds = from_seconds(first), from_seconds(last)
        spans = {name: span for name in metrics if (span := self._states.span(name, *bounds))}
        found = self._figures.buckets(spans, range(first, last + 1, seconds))
        return {name: found.get(name, []) for name in metrics}

    def stored_between(self, metric: str, edges: Sequence[datetime]) -> list[int]:
        """By the ledger, or as DynamoDB counts: no record is read for it."""
        spans = [self._states.span(metric, *each) for each in pairwise(edges)]
        known = [span for span in spans if span is not None]
        return self._stored.count_each(metric, known, self._clock.now()) if known else [0] * len(spans)

    def counted_since(self, now: datetime) -> datetime | None:
        """Of many targets as far back as the ledger reaches: to count a day of each is thousands of requests."""
        return shift(now, -KEPT_SECONDS) if self._noted is not None else None

    def totals(self, spans: Mapping[str, Span]) -> dict[str, Bucket]:
        return self._figures.totals(spans)

    def figures(self, metric: str, edges: Sequence[datetime]) -> list[Bucket]:
        span = self._states.span(metric, edges[0], edges[-1])
        return gather(edges, ()) if span is None else self._figures.between(metric, span, edges)

    def counts_at(self, metric: str, slots: Sequence[datetime]) -> list[Number | None]:
        if not slots or metric not in self._targets:
            return [None] * len(slots)
        span = self._states.span(metric, min(slots), shift(max(slots), self._targets[metric].interval_seconds))
        assert span is not None
        self._slots.look({metric: span}, self._clock.now())
        found = {each.slot: each.count for each in self._slots.known(metric, span)}
        return [found.get(to_seconds(slot)) for slot in slots]

    def newest_counts(self, newest: Mapping[str, datetime]) -> dict[str, Number]:
        """A hundred in a call, and nothing of the hours around them."""
        wanted = iter(newest.items())
        chunks = list(iter(lambda: dict(islice(wanted, MAX_KEYS)), {}))
        found = self._threads.map(self._store.records_at, chunks)
        return {record.metric: record.count for records in found for record in records}

    def queue_depth(self, now: datetime) -> QueueDepth:
        moment = time.monotonic()
        if self._depth is None or moment - self._depth[0] >= LOOK_SECONDS - 1:
            places = self._places
            self._depth = moment, read_depth(places.queue, places.backfill_queue, places.dead_letter_queue)
        return replace(self._depth[1], unreadable=self._letters.unreadable)

    def lateness(self, start: datetime, end: datetime) -> Lateness:
        """To the second, from the tick to the record: when it was asked for is not in the table."""
        timed = self._noted.representatives() if self._noted else self._askers.metrics
        names = (metric for name in timed for metric in self._askers.metrics[name])
        spans = {name: span for name in names if (span := self._states.polled_between(name, start, end))}
        self._slots.look(spans, self._clock.now())
        late: Counter[int] = Counter()
        for each in self._of_known(spans, lambda name: self._states.lateness(name, spans[name])).values():
            late += each
        return lateness_of(sorted(late.items()))

    def pending(self) -> list[PendingSlot]:
        raise QueueError("SQS does not show its messages; kizami status tells how many there are")

    @property
    def keeps_dead_letters(self) -> bool:
        return self._places.dead_letter_queue is not None

    def dead_letters(
        self, metric: str | None = None, limit: int = -1, before: DeadLetterKey | None = None
    ) -> list[DeadLetter]:
        letters = self._all_letters() if metric is None else self._letters_about(metric)
        letters.sort(key=lambda letter: letter.key, reverse=True)
        found = [letter for letter in letters if before is None or letter.key < before]
        return found if limit < 0 else found[:limit]

    def backfill(self, messages: Iterable[ScheduleMessage]) -> int:
        self._depth = None
        if not self._keeps:
            return self._send_all(messages)
        wanted = list(messages)
        asked = list(dict.fromkeys(map(self._askers.asking, wanted)))
        self._hurry({message.metric for message in asked})
        sent = send_backfill(self._backfill_queue, asked, self._spread_seconds)
        self._bounds.forget()
        self._states.ask(wanted, self._clock.now())
        return sent

    def _send_all(self, messages: Iterable[ScheduleMessage]) -> int:
        """There may be millions of them, so they are sent as they come."""
        asked = set[str]()
        sent = send_backfill(
            self._backfill_queue, noting_metrics(map(self._askers.asking, messages), asked), self._spread_seconds
        )
        self._hurry(asked)
        return sent

    def count_damaged(self, spans: Mapping[str, Span]) -> int:
        return 0  # DynamoDB compares checksums itself

    forget_damaged = count_damaged

    def expect_from(self, metric: str, slot: datetime) -> None:
        """Nothing to do: here a metric is expected from its first record on."""

    def queued(self, spans: Mapping[str, Span]) -> int:
        return 0  # SQS does not tell which messages it has

    def worker(self, metrics: Iterable[str]) -> AbstractContextManager[QueueWorker]:
        return nullcontext(CollectorFunction(lambda spans: self._backfill_queue.waiting()))

    def redrive(self, letters: Iterable[DeadLetter]) -> int:
        wanted = [letter for letter in letters if self._askers.can_ask_again(letter.metric)]
        self._hurry({letter.metric for letter in wanted})
        redriven = self._letters.redrive(wanted, self._backfill_queue)
        self._states.ask([each.message for each in self._askers.letters_of_metrics(wanted)], self._clock.now())
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

    def deaths(self, since: datetime) -> dict[str, Deaths]:
        return {}  # SQS does not tell when

    def troubles(self) -> dict[str, TargetTrouble]:
        blocked = [(name, each.trouble) for name, each in self._blocks.all().items() if each.is_blocked]
        return {
            metric: trouble_of(trouble)
            for name, trouble in blocked
            for metric in self._askers.metrics.get(name, (name,))
            if trouble
        }

    def _hurry(self, metrics: Collection[str]) -> None:
        """Who asks for slots of a blocked target wants to know whether it answers now."""
        for name, item in self._blocks.all().items():
            if name in metrics and item.trouble and item.is_blocked:
                self._blocks.save(name, replace(item, trouble=hurried(item.trouble, self._clock.now())))

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

    def _of_known(self, names: Iterable[str], ask: Callable[[str], Answer]) -> dict[str, Answer]:
        """The same where a page has looked already, and only a verb has to ask."""
        return {name: ask(name) for name in names} if self._keeps else self._of_each(names, ask)

    def _letters_about(self, metric: str) -> list[DeadLetter]:
        asker = self._askers.asker(metric)
        return [letter for letter in self._all_letters() if letter.metric == asker]

    def _letters_of_metrics(self) -> list[DeadLetter]:
        return list(self._askers.letters_of_metrics(self._all_letters()))

    def _all_letters(self) -> list[DeadLetter]:
        return self._letters.all(self.queue_depth(self._clock.now()).dead)
