"""The backend on one machine: reads and repairs its database, whether or not the daemon runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from datetime import datetime, tzinfo
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from zoneinfo import ZoneInfo

from kizami.backend.columns import RecordColumns
from kizami.backend.figures.gathering import gather
from kizami.backend.port import QueueWorker
from kizami.backend.slots import Answer, Asked, SlotView
from kizami.backend.targets import KnownTarget
from kizami.backend.values import (
    Bucket,
    CompanyState,
    DaemonState,
    DeadLetter,
    DeadLetterKey,
    Deaths,
    Lateness,
    PendingSlot,
    QueueDepth,
    SlotCounts,
    SlotDetails,
    TargetTrouble,
    trouble_of,
)
from kizami.core.answers.numbers import Number
from kizami.core.backfill import noting_metrics
from kizami.core.config import Config
from kizami.core.coverage import Completeness, Gap, Span
from kizami.core.epoch import to_seconds
from kizami.core.errors import StoreError
from kizami.core.messages import MetricRecord, ScheduleMessage
from kizami.core.ports import WallClock
from kizami.core.targets.description import shown_settings
from kizami.core.targets.target import Target
from kizami.local.copies.backup_report import read_report
from kizami.local.daemon_lock import find_daemon
from kizami.local.engine.options import Options
from kizami.local.known_targets import TargetCatalogue, TargetSources
from kizami.local.running_config import difference
from kizami.local.slot_answers import SlotAnswers
from kizami.local.store.backfill_queue import BackfillQueue
from kizami.local.store.blocks import hurry_blocks
from kizami.local.store.buckets import read_buckets, read_counts, read_figures, read_newest_counts, read_totals
from kizami.local.store.database import open_database, sqlite_errors, transaction
from kizami.local.store.dead_letters import DeadLetters
from kizami.local.store.history.sealed import damaged_spans, forget_damaged
from kizami.local.store.metrics import expect_from, known_metric
from kizami.local.store.missing import count_dead, count_pending, find_missing
from kizami.local.store.pauses import pause_metric, resume_metric
from kizami.local.store.reader import Reader
from kizami.local.store.write_ahead_log import describe_large_log
from kizami.platform.clock import SystemClock
from kizami.platform.config_file import LoadedConfig

if TYPE_CHECKING:
    from kizami.local.alerts.incident_log import LocalIncidentLog

Found = TypeVar("Found")
_NOTED_METRICS = 10


def no_file() -> LoadedConfig:
    """Where no file lists the targets: whatever the database knows goes on."""
    return LoadedConfig(Config(), None)


class LocalBackend:
    """`Backend` on a database file; the daemon may be running on it or not.

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
        clock: WallClock | None = None,
        actor: str = "",
    ) -> None:
        self.command_options = command_options or {}
        self._path = path
        self._configured = configured
        self._zone = zone
        self._limits = limits
        self._actor = actor
        self._resources = ExitStack()
        self._connection = open_database(path)
        self._resources.callback(self._connection.close)
        self._reader = Reader(self._connection, path)
        self._clock = clock or SystemClock()
        self._listed_targets: Sequence[Target] | None = None  # as they were when they were last asked for
        self._listed_by_metric: Mapping[str, Target] = {}
        self._targets = TargetCatalogue(self.newest_slots)

    def look(self) -> AbstractContextManager[LocalBackend]:
        return nullcontext(self)

    @cached_property
    def incident_log(self) -> LocalIncidentLog:
        from kizami.local.alerts.incident_log import LocalIncidentLog  # most verbs read records and start sooner

        def asker(metric: str) -> str:
            return next(iter(self._asked_by([metric])))

        return LocalIncidentLog(self._connection, self._path, self._clock, asker)

    def names(self) -> Collection[str]:
        return sorted(self._reader.metrics().keys() | (self._listed() or {}).keys())

    def targets(self, names: Collection[str] | None = None, *, recent: bool = False) -> list[KnownTarget]:
        sources = TargetSources(self._reader.recorded_metrics(), self._listed(), self._reader.paused())
        now = self._clock.now()
        return self._targets.read(sources, now) if names is None else self._targets.choose(sources, names, now)

    def _listed(self) -> Mapping[str, Target] | None:
        """The targets of the configuration file by metric, None without one."""
        settings = self._configured()
        if not settings.path:
            return None
        targets = settings.config.targets
        if targets is not self._listed_targets:
            self._listed_by_metric = {each.name: each for target in targets for each in target.of_each_metric()}
            self._listed_targets = targets
        return self._listed_by_metric

    def _asked_by(self, metrics: Iterable[str]) -> set[str]:
        """Whose messages and dead letters are about the metrics: their own, but for those of several values."""
        known = self._reader.metrics()
        names = {metric.id: name for name, metric in known.items()}
        return {names[known[metric].asked_id] if metric in known else metric for metric in metrics}

    def settings(self, metric: str) -> dict[str, str]:
        targets = self._configured().config.targets
        return next((shown_settings(target) for target in targets if metric in target.metrics), {})

    def _of_metrics(self, found: Mapping[str, Found]) -> dict[str, Found]:
        """What was found of those that ask, for each of their metrics."""
        if not found:
            return {}
        known = self._reader.metrics()
        found_by_id = {known[name].id: each for name, each in found.items() if name in known}
        recorded = self._reader.recorded_metrics().values()
        return {metric.name: found_by_id[metric.asked_id] for metric in recorded if metric.asked_id in found_by_id}

    def slots(self, asked: Asked, view: SlotView[Answer]) -> Answer:
        return SlotAnswers(self._connection, self._path, self._reader).slots(asked, view)

    def newest_slots(self, names: Collection[str] | None = None) -> dict[str, datetime]:
        return self._reader.newest_slots(names)

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
        (asked_by,) = self._asked_by([metric])
        return SlotDetails(list(stored), list(pending), self._letters.between(asked_by, start, end))

    def records(self, metric: str, start: datetime, end: datetime) -> Iterator[MetricRecord]:
        return self._reader.records(metric, start, end)

    def record_columns(
        self, metric: str, start: datetime, end: datetime, *, details: bool = False
    ) -> Iterator[RecordColumns]:
        return self._reader.columns(metric, start, end, details=details)

    def buckets(self, metric: str, start: datetime, end: datetime, seconds: int) -> list[Bucket]:
        with sqlite_errors(StoreError, self._path):
            known = known_metric(self._connection, metric)
            return read_buckets(self._connection, known, start, end, seconds) if known else []

    def buckets_of(
        self, metrics: Collection[str], start: datetime, end: datetime, seconds: int
    ) -> dict[str, list[Bucket]]:
        return {metric: self.buckets(metric, start, end, seconds) for metric in metrics}

    def stored_between(self, metric: str, edges: Sequence[datetime]) -> list[int]:
        return [figures.stored for figures in self.figures(metric, edges)]

    def counted_since(self, now: datetime) -> None:
        """All of its records are tallied."""

    def figures(self, metric: str, edges: Sequence[datetime]) -> list[Bucket]:
        with sqlite_errors(StoreError, self._path):
            known = known_metric(self._connection, metric)
            return read_figures(self._connection, known, edges) if known else gather(edges, ())

    def counts_at(self, metric: str, slots: Sequence[datetime]) -> list[Number | None]:
        with sqlite_errors(StoreError, self._path):
            known = known_metric(self._connection, metric)
            found = read_counts(self._connection, known, slots) if known else {}
        return [found.get(slot) for slot in slots]

    def totals(self, spans: Mapping[str, Span]) -> dict[str, Bucket]:
        names_by_bounds: dict[tuple[datetime, datetime], list[str]] = {}
        for name, span in spans.items():
            names_by_bounds.setdefault((span.start, span.end), []).append(name)
        known, found = self._reader.metrics(), dict[str, Bucket]()
        with sqlite_errors(StoreError, self._path):
            for bounds, names in names_by_bounds.items():
                found |= read_totals(self._connection, [known[name] for name in names if name in known], *bounds)
        return found

    def newest_counts(self, newest: Mapping[str, datetime]) -> dict[str, Number]:
        with sqlite_errors(StoreError, self._path):
            return read_newest_counts(self._connection, newest)

    def queue_depth(self, now: datetime) -> QueueDepth:
        return self._reader.queue_depth(now)

    def pending(self) -> list[PendingSlot]:
        return self._reader.all_pending()

    def lateness(self, start: datetime, end: datetime) -> Lateness:
        return self._reader.lateness(start, end)

    @property
    def keeps_dead_letters(self) -> bool:
        return True

    def dead_letters(
        self, metric: str | None = None, limit: int = -1, before: DeadLetterKey | None = None
    ) -> list[DeadLetter]:
        asked_by = None if metric is None else self._asked_by([metric]).pop()
        return self._letters.newest(asked_by, limit, before)

    def deaths(self, since: datetime) -> dict[str, Deaths]:
        return self._letters.since(since)

    def backfill(self, messages: Iterable[ScheduleMessage]) -> int:
        queue, metrics = BackfillQueue(self._path, self._clock), set[str]()
        try:
            sent = queue.send_backfill(noting_metrics(messages, metrics))
        finally:
            queue.close()
        self._hurry(self._asked_by(metrics))
        self._note("slots.backfilled", metrics, sent)
        return sent

    def count_damaged(self, spans: Mapping[str, Span]) -> int:
        with sqlite_errors(StoreError, self._path):
            return sum(
                found.seconds // spans[name].interval_seconds
                for name, each in self._ranges(spans).items()
                for found in damaged_spans(self._connection, *each)
            )

    def forget_damaged(self, spans: Mapping[str, Span]) -> int:
        with sqlite_errors(StoreError, self._path):
            return forget_damaged(self._connection, self._ranges(spans).values())

    def _ranges(self, spans: Mapping[str, Span]) -> dict[str, tuple[int, int, int]]:
        known = self._reader.metrics()
        return {
            name: (known[name].id, to_seconds(span.start), to_seconds(span.end))
            for name, span in spans.items()
            if name in known
        }

    def expect_from(self, metric: str, slot: datetime) -> None:
        with sqlite_errors(StoreError, self._path), transaction(self._connection):
            expect_from(self._connection, metric, slot)

    def queued(self, spans: Mapping[str, Span]) -> int:
        return sum(count_pending(self._reader, spans).values())

    def worker(self, metrics: Iterable[str]) -> AbstractContextManager[QueueWorker]:
        from kizami.local.queue_worker import local_worker  # as the log of incidents, above

        config = self._configured().config
        return local_worker(self._path, config, self._limits(), metrics, self._left)

    def _left(self, spans: Mapping[str, Span]) -> int:
        """How many slots are still to be settled; those of a blocked target wait for somebody to mend it."""
        now, blocked = self._clock.now(), self._reader.blocked()
        waiting = self._of_metrics({name: each for name, each in blocked.items() if not each.is_due(now)})
        return self.queued({name: span for name, span in spans.items() if name not in waiting})

    def redrive(self, letters: Iterable[DeadLetter]) -> int:
        polled = self._asked_by(target.name for target in self.targets() if target.is_on and target.backfill)
        wanted = [letter for letter in letters if letter.metric in polled]
        redriven = self._letters.redrive(wanted)
        self._hurry({letter.metric for letter in wanted})
        self._note("dead_letters.redriven", {letter.metric for letter in wanted}, redriven)
        return redriven

    def _hurry(self, metrics: Collection[str]) -> None:
        """Who asks for slots of a blocked target wants to know whether it answers now."""
        if metrics:
            with sqlite_errors(StoreError, self._path), transaction(self._connection):
                hurry_blocks(self._connection, metrics)

    def purge(self, letters: Iterable[DeadLetter]) -> int:
        wanted = list(letters)
        purged = self._letters.purge(wanted)
        self._note("dead_letters.purged", {letter.metric for letter in wanted}, purged)
        return purged

    def _note(self, event: str, metrics: Collection[str], slots: int) -> None:
        """Keep who has ordered it; of many metrics the first ones."""
        if self._actor and slots:
            named = sorted(metrics)[:_NOTED_METRICS]
            details = {"slots": slots, "metrics": named, "of": len(metrics)}
            self.incident_log.note(event, self._actor, details, metrics)

    def pause(self, metric: str) -> None:
        with sqlite_errors(StoreError, self._path):
            pause_metric(self._connection, metric, self._clock.now())
        self._note("target.paused", [metric], 1)

    def resume(self, metric: str) -> None:
        with sqlite_errors(StoreError, self._path):
            resume_metric(self._connection, metric)
        self._note("target.resumed", [metric], 1)

    def troubles(self) -> dict[str, TargetTrouble]:
        errors = self._reader.last_errors(self._clock.now())
        failing = {name: TargetTrouble(error) for name, error in errors.items()}
        blocked = {name: trouble_of(trouble) for name, trouble in self._reader.blocked().items()}
        return self._of_metrics(failing | blocked)

    def companies(self, now: datetime) -> list[CompanyState]:
        from kizami.aggregation.points import DEFAULT_ZONE, point_day  # as the log of incidents, above
        from kizami.aggregation.stores.sqlite import company_totals

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
        backups = read_report(self._path)
        failed = f"backups fail: {backups.reason}" if backups and backups.reason else ""
        trouble = "; ".join(filter(None, (describe_large_log(self._path), failed)))
        daemon = find_daemon(self._path)
        pid = daemon.pid or None if daemon else None
        return DaemonState(pid, trouble or None, backups, difference(daemon, self._configured()))

    def close(self) -> None:
        self._resources.close()

    @cached_property
    def _letters(self) -> DeadLetters:
        letters = DeadLetters(self._path, self._clock)
        self._resources.callback(letters.close)
        return letters
