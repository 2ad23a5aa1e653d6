"""The home on one machine: its database answers, its queue and dead letters repair; the daemon may run or not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime, tzinfo
from functools import cached_property
from pathlib import Path
from zoneinfo import ZoneInfo

from kizami.aggregation.points import DEFAULT_ZONE, point_day
from kizami.aggregation.stores.sqlite import company_totals
from kizami.core.config import Config
from kizami.core.coverage import Completeness, Gap, Span
from kizami.core.errors import StoreError
from kizami.core.messages import MetricRecord, ScheduleMessage
from kizami.core.slots import shift
from kizami.core.targets.target import Target
from kizami.home.port import QueueWorker
from kizami.home.targets import KnownTarget, Polling
from kizami.home.values import (
    Bucket,
    CompanyState,
    DaemonState,
    DeadLetter,
    DeadLetterKey,
    Lateness,
    QueueDepth,
    SlotCounts,
    SlotDetails,
)
from kizami.local.daemon_lock import daemon_pid
from kizami.local.engine.options import Options
from kizami.local.queue_worker import local_worker
from kizami.local.store.backfill_queue import BackfillQueue
from kizami.local.store.buckets import read_buckets, read_counts
from kizami.local.store.database import open_database, sqlite_errors, transaction
from kizami.local.store.dead_letters import DeadLetters
from kizami.local.store.metrics import KnownMetric, expect_from, known_metric
from kizami.local.store.missing import count_dead, count_pending, find_missing
from kizami.local.store.pauses import pause_metric, resume_metric
from kizami.local.store.reader import Reader
from kizami.local.store.write_ahead_log import describe_large_log
from kizami.platform.clock import SystemClock
from kizami.platform.config_file import LoadedConfig


def no_file() -> LoadedConfig:
    """Where no file lists the targets: whatever the database knows goes on."""
    return LoadedConfig(Config(), None)


class LocalHome:
    """`Home` on a database file; the daemon may be running on it or not.

    Without a configuration file, whatever the database knows is polled; with one, what it lists.
    """

    can_pause = True

    def __init__(
        self,
        path: Path,
        configured: Callable[[], LoadedConfig] = no_file,
        command_options: Mapping[str, str] | None = None,
        *,
        zone: tzinfo | None = None,
        limits: Callable[[], Options] = Options,
    ) -> None:
        self.command_options = command_options or {}
        self._path = path
        self._configured = configured
        self._zone = zone
        self._limits = limits
        self._resources = ExitStack()
        self._connection = open_database(path)
        self._resources.callback(self._connection.close)
        self._reader = Reader(self._connection, path)
        self._clock = SystemClock()

    def names(self) -> Collection[str]:
        return sorted(self._reader.metrics().keys() | (self._listed() or {}).keys())

    def targets(self, names: Collection[str] | None = None) -> list[KnownTarget]:
        listed, paused, known = self._listed(), self._reader.paused(), self._reader.metrics()
        unpolled = {name: target for name, target in (listed or {}).items() if name not in known}
        polling = {name: polling_of(name, listed, paused) for name in (*known, *unpolled)}
        is_all_on = all(each is Polling.ON for each in polling.values())
        newest, now = ({} if is_all_on else self.newest_slots()), self._clock.now()
        found = [
            *(_target(each, polling[name], paused.get(name), newest.get(name)) for name, each in known.items()),
            *(_unpolled(target, polling[name], now) for name, target in unpolled.items()),
        ]
        chosen = polling.keys() if names is None else set(names)
        return sorted((each for each in found if each.name in chosen), key=lambda target: target.name)

    def _listed(self) -> dict[str, Target] | None:
        """The targets of the configuration file, None without one."""
        settings = self._configured()
        return {target.name: target for target in settings.config.targets} if settings.path else None

    def newest_slots(self) -> dict[str, datetime]:
        return self._reader.newest_slots()

    def slot_counts(self, spans: Mapping[str, Span]) -> dict[str, SlotCounts]:
        stored = self._reader.completeness(spans)
        pending, dead = count_pending(self._reader, spans), count_dead(self._reader, spans)
        return {name: SlotCounts(stored[name].stored, pending.get(name, 0), dead.get(name, 0)) for name in spans}

    def completeness(self, spans: Mapping[str, Span]) -> dict[str, Completeness]:
        return self._reader.completeness(spans)

    def missing(self, spans: Mapping[str, Span]) -> dict[str, list[Gap]]:
        return find_missing(self._reader, spans)

    def slot_details(self, metric: str, start: datetime, end: datetime) -> SlotDetails:
        stored, pending = self._reader.stored(metric, start, end), self._reader.pending(metric, start, end)
        return SlotDetails(list(stored), list(pending), self._letters.between(metric, start, end))

    def records(self, metric: str, start: datetime, end: datetime) -> Iterator[MetricRecord]:
        return self._reader.records(metric, start, end)

    def buckets(self, metric: str, start: datetime, end: datetime, seconds: int) -> list[Bucket]:
        with sqlite_errors(StoreError, self._path):
            known = known_metric(self._connection, metric)
            return read_buckets(self._connection, known, start, end, seconds) if known else []

    def counts_at(self, metric: str, slots: Sequence[datetime]) -> list[int | None]:
        with sqlite_errors(StoreError, self._path):
            known = known_metric(self._connection, metric)
            found = read_counts(self._connection, known, slots) if known else {}
        return [found.get(slot) for slot in slots]

    def queue_depth(self, now: datetime) -> QueueDepth:
        return self._reader.queue_depth(now)

    def lateness(self, start: datetime, end: datetime) -> Lateness:
        return self._reader.lateness(start, end)

    def dead_letters(
        self, metric: str | None = None, limit: int = -1, before: DeadLetterKey | None = None
    ) -> list[DeadLetter]:
        return self._letters.newest(metric, limit, before)

    def backfill(self, messages: Iterable[ScheduleMessage]) -> int:
        queue = BackfillQueue(self._path, self._clock)
        try:
            return queue.send_backfill(messages)
        finally:
            queue.close()

    def expect_from(self, metric: str, slot: datetime) -> None:
        with sqlite_errors(StoreError, self._path), transaction(self._connection):
            expect_from(self._connection, metric, slot)

    def queued(self, spans: Mapping[str, Span]) -> int:
        return sum(count_pending(self._reader, spans).values())

    def worker(self, metrics: Iterable[str]) -> AbstractContextManager[QueueWorker]:
        config = self._configured().config
        return local_worker(self._path, config, self._limits(), metrics, self.queued)

    def redrive(self, letters: Iterable[DeadLetter]) -> int:
        polled = {target.name for target in self.targets() if target.polling is Polling.ON}
        return self._letters.redrive(letter for letter in letters if letter.metric in polled)

    def purge(self, letters: Iterable[DeadLetter]) -> int:
        return self._letters.purge(letters)

    def pause(self, metric: str) -> None:
        with sqlite_errors(StoreError, self._path):
            pause_metric(self._connection, metric, self._clock.now())

    def resume(self, metric: str) -> None:
        with sqlite_errors(StoreError, self._path):
            resume_metric(self._connection, metric)

    def companies(self, now: datetime) -> list[CompanyState]:
        schedule = self._configured().config.aggregation
        zone = schedule.zone if schedule else self._zone or ZoneInfo(DEFAULT_ZONE)
        listed = [company.company_id for company in schedule.companies] if schedule else []
        month = point_day(now, zone).month
        with sqlite_errors(StoreError, self._path):
            found = company_totals(self._connection, month)
        shown_month = f"{month[:4]}-{month[4:]}"
        totals = ((name, *found.get(name, (None, 0, 0))) for name in sorted({*found, *listed}))
        return [CompanyState(name, locked, shown_month, users, points) for name, locked, users, points in totals]

    def daemon(self) -> DaemonState:
        return DaemonState(daemon_pid(self._path), describe_large_log(self._path) or None)

    def close(self) -> None:
        self._resources.close()

    @cached_property
    def _letters(self) -> DeadLetters:
        letters = DeadLetters(self._path, self._clock)
        self._resources.callback(letters.close)
        return letters


def polling_of(name: str, listed: Mapping[str, Target] | None, paused: Container[str]) -> Polling:
    """Whether a metric is polled: the configuration outranks a pause."""
    if listed is not None and name not in listed:
        return Polling.REMOVED
    if listed is not None and not listed[name].enabled:
        return Polling.DISABLED
    return Polling.PAUSED if name in paused else Polling.ON


def _target(
    metric: KnownMetric, polling: Polling, paused_since: datetime | None, newest: datetime | None
) -> KnownTarget:
    """A target that is not on is expected until its pause or, if it has none, until its newest slot."""
    until = None
    if polling is Polling.PAUSED and paused_since is not None:
        until = shift(paused_since, -metric.lag_seconds)
    elif polling is not Polling.ON:
        until = shift(newest, metric.interval_seconds) if newest else metric.first_slot
    pace = metric.interval_seconds, metric.lag_seconds, metric.first_slot
    return KnownTarget(metric.name, *pace, polling, paused_since, until)


def _unpolled(target: Target, polling: Polling, now: datetime) -> KnownTarget:
    """A target that is listed and not known to the database yet: nothing is expected of it so far."""
    return KnownTarget(target.name, target.interval_seconds, target.lag_seconds, now, polling)
