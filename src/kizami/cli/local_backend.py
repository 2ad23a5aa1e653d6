"""The home on one machine: the verbs' questions put to the SQLite file, with or without a daemon at work on it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import datetime
from functools import cached_property

from kizami.cli.engine_options import options_of_environment
from kizami.cli.homes import Daemon, HomeOptions, Metric, Polling
from kizami.core.coverage import Completeness, Gap, Span
from kizami.core.errors import StoreError
from kizami.core.messages import MetricRecord, ScheduleMessage
from kizami.home.port import QueueWorker
from kizami.home.values import DeadLetter, Lateness, QueueDepth
from kizami.local.daemon_lock import daemon_pid
from kizami.local.queue_worker import local_collector
from kizami.local.store.backfill_queue import BackfillQueue
from kizami.local.store.database import open_database, sqlite_errors, transaction
from kizami.local.store.dead_letters import DeadLetters
from kizami.local.store.metrics import expect_from
from kizami.local.store.missing import count_missing, count_pending, find_missing
from kizami.local.store.reader import Reader
from kizami.local.store.write_ahead_log import describe_large_log
from kizami.platform.clock import SystemClock
from kizami.platform.config_file import LoadedConfig, load_config


class LocalBackend:
    """`backends.Backend` on one database file."""

    # A poll may wait for its turn within the interval, then for the answer and the commit.
    grace_seconds = 10.0
    look_seconds = 0.2

    def __init__(self, reader: Reader, settings: LoadedConfig, home: HomeOptions, resources: ExitStack) -> None:
        self._reader = reader
        self._settings = settings
        self._home = home
        self._resources = resources

    @classmethod
    @contextmanager
    def opened(cls, home: HomeOptions) -> Iterator[LocalBackend]:
        """The backend for the length of a `with`."""
        settings = load_config(home.config)
        with ExitStack() as resources:
            reader = resources.enter_context(Reader.opened(home.database))
            yield cls(reader, settings, home, resources)

    def names(self) -> Collection[str]:
        return self._all_metrics.keys()

    def metrics(self, names: Collection[str] | None = None) -> Mapping[str, Metric]:
        every = self._all_metrics
        return every if names is None else {name: every[name] for name in names}

    def records(self, metric: str, start: datetime, end: datetime) -> Iterator[MetricRecord]:
        return self._reader.records(metric, start, end)

    def newest_slots(self) -> Mapping[str, datetime]:
        return self._reader.newest_slots()

    def completeness(self, spans: Mapping[str, Span]) -> Mapping[str, Completeness]:
        return self._reader.completeness(spans)

    def missing(self, spans: Mapping[str, Span]) -> Mapping[str, Sequence[Gap]]:
        return find_missing(self._reader, spans)

    def missing_counts(self, spans: Mapping[str, Span]) -> Mapping[str, int]:
        return count_missing(self._reader, spans)

    def lateness(self, start: datetime, end: datetime) -> Lateness:
        return self._reader.lateness(start, end)

    def queue_depth(self, now: datetime) -> QueueDepth:
        return self._reader.queue_depth(now)

    def daemon(self) -> Daemon:
        return Daemon(daemon_pid(self._home.database), describe_large_log(self._home.database) or None)

    def send_backfill(self, messages: Iterable[ScheduleMessage]) -> int:
        queue = BackfillQueue(self._home.database, SystemClock())
        self._resources.callback(queue.close)
        return queue.send_backfill(messages)

    def expect_from(self, metric: str, slot: datetime) -> None:
        connection = open_database(self._home.database)
        self._resources.callback(connection.close)
        with sqlite_errors(StoreError, self._home.database), transaction(connection):
            expect_from(connection, metric, slot)

    def collector(self, metrics: Iterable[str]) -> AbstractContextManager[QueueWorker]:
        return local_collector(self._home.database, self._settings, options_of_environment(), metrics)

    def queued(self, spans: Mapping[str, Span]) -> int:
        return sum(count_pending(self._reader, spans).values())

    def left_to_collect(self, spans: Mapping[str, Span]) -> int:
        return self.queued(spans)

    def dead_letters(self) -> Sequence[DeadLetter]:
        return self._letters.newest()

    def redrive(self, letters: Iterable[DeadLetter]) -> int:
        polled = {name for name, metric in self._all_metrics.items() if metric.polling is Polling.ON}
        return self._letters.redrive(letter for letter in letters if letter.metric in polled)

    def purge(self, letters: Iterable[DeadLetter]) -> int:
        return self._letters.purge(letters)

    @cached_property
    def _letters(self) -> DeadLetters:
        letters = DeadLetters(self._home.database, SystemClock())
        self._resources.callback(letters.close)
        return letters

    @property
    def _all_metrics(self) -> dict[str, Metric]:
        polling, now = self._polling(), SystemClock().now()
        unlisted = Polling.REMOVED if self._settings.path else Polling.ON
        metrics = {
            name: Metric(
                name, known.interval_seconds, known.lag_seconds, known.first_slot, polling.get(name, unlisted)
            )
            for name, known in self._reader.metrics().items()
        }
        for target in self._settings.config.targets if self._settings.path else ():
            if target.name not in metrics:
                pace = target.interval_seconds, target.lag_seconds
                metrics[target.name] = Metric(target.name, *pace, now, polling[target.name])
        return metrics

    def _polling(self) -> dict[str, Polling]:
        """What the file and the dashboard say of each; without a file, whatever the database knows goes on."""
        targets = self._settings.config.targets if self._settings.path else ()
        polling = {target.name: Polling.ON if target.enabled else Polling.PAUSED for target in targets}
        return polling | dict.fromkeys(self._reader.paused(), Polling.PAUSED)
