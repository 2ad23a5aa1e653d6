"""The home on AWS: the verbs' questions put to the table and the queues of a deployed stack."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from datetime import datetime, timedelta
from functools import cached_property
from typing import TypeVar

from kizami.aws.reconciler import read_policy
from kizami.aws.settings import configured_targets
from kizami.aws.store.dead_letters import SqsDeadLetters
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.store.queues import read_depth, send_backfill
from kizami.aws.store.sqs_queue import SqsQueue
from kizami.cli.aws_places import AwsPlaces
from kizami.cli.homes import HomeOptions, Metric, Polling
from kizami.cli.ranges import BEGINNING
from kizami.cli.terminal.printing import say
from kizami.core.coverage import Completeness, Gap, Span, find_gaps
from kizami.core.errors import ConfigurationError
from kizami.core.messages import MetricRecord, ScheduleMessage
from kizami.core.slots import shift
from kizami.core.targets.target import Target
from kizami.home.port import QueueWorker
from kizami.home.values import DeadLetter, Lateness, QueueDepth, lateness_of
from kizami.platform.config_file import load_config

T = TypeVar("T")

_AT_ONCE = 16
_EMPTY_LOOKS = 3  # SQS counts approximately: a queue is empty when it has looked so a few times


class CollectorFunction:
    """The Lambda function that works off the queues."""

    words = "the Collector function collects them"

    def check(self) -> None:
        """Its failures are in its log."""


class AwsBackend:
    """`backends.Backend` on one table, its queues, and the targets that the configuration lists."""

    look_seconds = 3.0

    def __init__(self, home: HomeOptions, targets: Sequence[Target], resources: ExitStack) -> None:
        self._places = AwsPlaces(home)
        self._targets = {target.name: target for target in targets}
        self._resources = resources
        self._empty_looks = 0
        # No message about a slot can be on its way for longer: the reconciler goes by the same.
        self.grace_seconds = float(read_policy(os.environ).grace_seconds)

    @classmethod
    @contextmanager
    def opened(cls, home: HomeOptions) -> Iterator[AwsBackend]:
        """The backend for the length of a `with`; the targets are those of the file, else that of the seeds."""
        with ExitStack() as resources:
            yield cls(home, deployed_targets(home), resources)

    def names(self) -> Collection[str]:
        return self._targets.keys()

    def metrics(self, names: Collection[str] | None = None) -> Mapping[str, Metric]:
        targets = [target for name, target in self._targets.items() if names is None or name in names]
        first_slots = self._of_each([target.name for target in targets], self._store.first_slot)
        return {target.name: _metric(target, first_slots[target.name]) for target in targets}

    def records(self, metric: str, start: datetime, end: datetime) -> Iterator[MetricRecord]:
        return self._store.query(metric, start, end)

    def newest_slots(self) -> Mapping[str, datetime]:
        newest = self._of_each(self._targets, self._store.newest_slot)
        return {name: slot for name, slot in newest.items() if slot is not None}

    def completeness(self, spans: Mapping[str, Span]) -> Mapping[str, Completeness]:
        return self._of_each(spans, lambda name: self._completeness(name, spans[name]))

    def missing(self, spans: Mapping[str, Span]) -> Mapping[str, Sequence[Gap]]:
        told = self.completeness(spans)
        lacking = [name for name in spans if told[name].missing]
        return self._of_each(lacking, lambda name: self._gaps(name, spans[name]))

    def missing_counts(self, spans: Mapping[str, Span]) -> Mapping[str, int]:
        return {name: told.missing for name, told in self.completeness(spans).items()}

    def lateness(self, start: datetime, end: datetime) -> Lateness:
        late: Counter[int] = Counter()
        for counts in self._of_each(self._targets, lambda name: self._late_ms(name, start, end)).values():
            late += counts
        return lateness_of(sorted(late.items()))

    def queue_depth(self, now: datetime) -> QueueDepth:
        return read_depth(self._places.queue, self._places.backfill_queue, self._places.dead_letter_queue)

    def daemon(self) -> None:
        return None

    def send_backfill(self, messages: Iterable[ScheduleMessage]) -> int:
        return send_backfill(self._backfill_queue, messages)

    def expect_from(self, metric: str, slot: datetime) -> None:
        """Nothing to do: here a metric is expected from its first record on."""

    def queued(self, spans: Mapping[str, Span]) -> int:
        return 0  # SQS does not tell which messages it has

    def left_to_collect(self, spans: Mapping[str, Span]) -> int:
        waiting = self._backfill_queue.waiting()
        self._empty_looks = 0 if waiting else self._empty_looks + 1
        return waiting or int(self._empty_looks < _EMPTY_LOOKS)

    def collector(self, metrics: Iterable[str]) -> AbstractContextManager[QueueWorker]:
        return nullcontext(CollectorFunction())

    def dead_letters(self) -> Sequence[DeadLetter]:
        letters = self._letters.all()
        if self._letters.unreadable:
            say(f"let alone, because they are no schedule messages: {self._letters.unreadable:,} dead letters")
        return letters

    def redrive(self, letters: Iterable[DeadLetter]) -> int:
        return self._letters.redrive(letters, self._backfill_queue)

    def purge(self, letters: Iterable[DeadLetter]) -> int:
        return self._letters.purge(letters)

    def _of_each(self, names: Collection[str], ask: Callable[[str], T]) -> dict[str, T]:
        """The answer for each metric, some questions at a time."""
        with ThreadPoolExecutor(min(_AT_ONCE, len(names) or 1)) as pool:
            return dict(zip(names, pool.map(ask, names), strict=True))

    def _completeness(self, name: str, span: Span) -> Completeness:
        stored = self._store.count(name, span.start, span.end)
        return Completeness(min(stored, span.expected), span.expected)

    def _gaps(self, name: str, span: Span) -> list[Gap]:
        return list(find_gaps(span, (record.slot for record in self._store.query(name, span.start, span.end))))

    def _late_ms(self, name: str, start: datetime, end: datetime) -> Counter[int]:
        """How late the records were there, to the second; what is later than any live one is not counted."""
        lag = self._targets[name].lag_seconds
        late = (record.collected_at - shift(record.slot, lag) for record in self._store.query(name, start, end))
        live = (each for each in late if each <= timedelta(seconds=self.grace_seconds))
        return Counter(max(0, each // timedelta(milliseconds=1)) for each in live)

    @cached_property
    def _store(self) -> DynamoDbMetricStore:
        return DynamoDbMetricStore(self._places.table)

    @cached_property
    def _backfill_queue(self) -> SqsQueue:
        return SqsQueue(self._places.backfill_queue)

    @cached_property
    def _letters(self) -> SqsDeadLetters:
        url = self._places.dead_letter_queue
        if url is None:
            raise ConfigurationError("KIZAMI_DEAD_LETTER_QUEUE_URL", "is not set, and the stack has no such queue")
        letters = SqsDeadLetters(url)
        self._resources.callback(letters.release)
        return letters


def deployed_targets(home: HomeOptions) -> Sequence[Target]:
    """The targets of the file, else that of the seeds."""
    settings = load_config(home.config)
    seeds = {name: value for name, value in os.environ.items() if name != "KIZAMI_CONFIG"}
    return (settings.config if settings.path else configured_targets(seeds)).targets


def _metric(target: Target, first_slot: datetime | None) -> Metric:
    """A target without any record has every slot missing, so that one that never worked does not look complete."""
    polling = Polling.ON if target.enabled else Polling.PAUSED
    return Metric(target.name, target.interval_seconds, target.lag_seconds, first_slot or BEGINNING, polling)
