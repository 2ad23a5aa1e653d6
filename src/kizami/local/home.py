"""The dashboard's questions to one machine's database: the reader answers, queue and dead letters repair."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from kizami.aggregation.points import DEFAULT_ZONE, point_day
from kizami.aggregation.stores.sqlite import company_totals
from kizami.core.coverage import Completeness, Gap, Span
from kizami.core.errors import StoreError
from kizami.core.messages import MetricRecord, ScheduleMessage
from kizami.core.slots import shift
from kizami.home.targets import KnownTarget, Polling
from kizami.home.values import (
    Bucket,
    CompanyState,
    DeadLetter,
    DeadLetterKey,
    Lateness,
    QueueDepth,
    SlotCounts,
    SlotDetails,
)
from kizami.local.store.backfill_queue import BackfillQueue
from kizami.local.store.buckets import read_buckets, read_counts
from kizami.local.store.database import open_database, sqlite_errors
from kizami.local.store.dead_letters import DeadLetters
from kizami.local.store.metrics import KnownMetric, known_metric
from kizami.local.store.missing import count_dead, count_pending, find_missing
from kizami.local.store.pauses import pause_metric, resume_metric
from kizami.local.store.reader import Reader
from kizami.platform.clock import SystemClock


@dataclass(frozen=True, slots=True)
class Expectations:
    """What the dashboard goes by: the targets and whether each is enabled (None: all that the database knows are),
    the companies of the aggregation batch and the zone of their days."""

    targets: Mapping[str, bool] | None = None
    companies: Sequence[str] = ()
    zone: tzinfo = field(default_factory=lambda: ZoneInfo(DEFAULT_ZONE))


class LocalHome:
    """`Source` on a database file; the daemon may be running on it or not."""

    can_pause = True

    def __init__(
        self,
        path: Path,
        configured: Callable[[], Expectations] | None = None,
        command_options: Mapping[str, str] | None = None,
    ) -> None:
        self.command_options = command_options or {}
        self._path = path
        self._configured = configured or Expectations
        self._connection = open_database(path)
        self._reader = Reader(self._connection, path)
        self._clock = SystemClock()
        self._letters = DeadLetters(path, self._clock)

    def targets(self) -> list[KnownTarget]:
        paused = self._reader.paused()
        configured, newest = self._configured().targets, self.newest_slots()
        return [
            _target(metric, polling_of(name, configured, paused), paused.get(name), newest.get(name))
            for name, metric in self._reader.metrics().items()
        ]

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
        self, metric: str | None, limit: int, before: DeadLetterKey | None = None
    ) -> list[DeadLetter]:
        return self._letters.newest(metric, limit, before)

    def backfill(self, messages: Iterable[ScheduleMessage]) -> int:
        queue = BackfillQueue(self._path, self._clock)
        try:
            return queue.send_backfill(messages)
        finally:
            queue.close()

    def redrive(self, letters: Iterable[DeadLetter]) -> int:
        polled = {target.name for target in self.targets() if target.polling is Polling.ON}
        return self._letters.redrive(letter for letter in letters if letter.metric in polled)

    def pause(self, metric: str) -> None:
        with sqlite_errors(StoreError, self._path):
            pause_metric(self._connection, metric, self._clock.now())

    def resume(self, metric: str) -> None:
        with sqlite_errors(StoreError, self._path):
            resume_metric(self._connection, metric)

    def companies(self, now: datetime) -> list[CompanyState]:
        configured = self._configured()
        month = point_day(now, configured.zone).month
        with sqlite_errors(StoreError, self._path):
            found = company_totals(self._connection, month)
        shown_month = f"{month[:4]}-{month[4:]}"
        names = sorted({*found, *configured.companies})
        totals = ((name, *found.get(name, (None, 0, 0))) for name in names)
        return [CompanyState(name, locked, shown_month, users, points) for name, locked, users, points in totals]

    def close(self) -> None:
        self._letters.close()
        self._connection.close()


def polling_of(name: str, configured: Mapping[str, bool] | None, paused: Container[str]) -> Polling:
    """Whether a metric is polled: the configuration outranks a pause."""
    if configured is not None and name not in configured:
        return Polling.REMOVED
    if configured is not None and not configured[name]:
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
