"""What a backend answers: queue depth, lateness, dead letters, buckets (values)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate

from kizami.aggregation.lock import EXPIRY
from kizami.core.answers.numbers import Number, Total, total_of
from kizami.core.blocking import Trouble
from kizami.core.messages import ScheduleMessage
from kizami.core.slots import Window, shift


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How full the queue is: due and waiting, not yet due (planned or backing off), in somebody's hands, dead."""

    waiting: int
    planned: int
    in_flight: int
    dead: int
    oldest_age_seconds: float | None  # SQS does not tell
    unreadable: int = 0  # of the dead ones that were looked at: no schedule messages, which are let alone


@dataclass(frozen=True, slots=True)
class BackupState:
    """The backups that the daemon makes: where, how often, the newest one, and why the last attempt failed."""

    directory: str
    every_seconds: int
    newest: datetime | None = None
    failed_at: datetime | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class DaemonState:
    """The process that collects on one machine, `kizami up`; without a pid none runs. `trouble` is for the eye.

    `difference` says so if the process polls something else than the configuration that is read here.
    """

    pid: int | None
    trouble: str | None = None
    backups: BackupState | None = None
    difference: str | None = None

    @property
    def is_running(self) -> bool:
        return self.pid is not None


@dataclass(frozen=True, slots=True)
class Lateness:
    """From the planned moment to the request, over the live polls of a range."""

    polls: int
    p50_ms: int
    p99_ms: int
    max_ms: int


# What orders dead letters: when it died (or was sent, where that is not told), its slot, its metric.
DeadLetterKey = tuple[datetime, datetime, str]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A slot that was given up: how often it was tried, from when to when, and its last error."""

    slot: datetime
    metric: str
    interval_seconds: int
    receives: int
    sent_at: datetime
    died_at: datetime | None  # SQS does not tell
    reason: str
    backfill: bool

    @property
    def key(self) -> DeadLetterKey:
        """Its place among the dead letters; where nobody knows when it died, by when it was sent."""
        return self.died_at or self.sent_at, self.slot, self.metric

    @property
    def message(self) -> ScheduleMessage:
        """The message that nobody could settle."""
        return ScheduleMessage(Window(self.slot, shift(self.slot, self.interval_seconds)), self.metric)


@dataclass(frozen=True, slots=True)
class Deaths:
    """The slots of one target that were given up lately: how many, the oldest of them, and the newest reason."""

    slots: int
    first_slot: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Bucket:
    """The stored counts of a stretch of slots; where none is stored, the rest is 0 and says nothing."""

    start: datetime
    stored: int
    lowest: Number
    highest: Number
    total: Total


def bucket_of(start: datetime, counts: Sequence[Number]) -> Bucket:
    """Some counts drawn together, at least one."""
    return Bucket(start, len(counts), min(counts), max(counts), total_of(counts))


def lateness_of(ascending: Sequence[tuple[int, int]]) -> Lateness:
    """The percentiles (nearest rank) of lateness that occurs so often, in ascending order."""
    if not ascending:
        return Lateness(0, 0, 0, 0)
    values, counts = zip(*ascending, strict=True)
    ranks = list(accumulate(counts))
    p50, p99 = (values[bisect_left(ranks, -(-ranks[-1] * percent // 100))] for percent in (50, 99))
    return Lateness(ranks[-1], p50, p99, values[-1])


@dataclass(frozen=True, slots=True)
class TargetTrouble:
    """Why a target fails: its last error, and, where waiting does not heal that, since when it is blocked."""

    error: str
    blocked_since: datetime | None = None
    next_probe: datetime | None = None

    @property
    def is_blocked(self) -> bool:
        return self.blocked_since is not None


def trouble_of(trouble: Trouble) -> TargetTrouble:
    """A lasting failure as it is shown."""
    return TargetTrouble(trouble.reason, trouble.since if trouble.is_blocked else None, trouble.next_probe)


@dataclass(frozen=True, slots=True)
class StoredSlot:
    """A record, and how it came about."""

    slot: datetime
    count: Number
    collected_at: datetime
    late_ms: int
    receives: int
    backfilled: bool


@dataclass(frozen=True, slots=True)
class PendingSlot:
    """A message on the queue."""

    metric: str
    slot: datetime
    due_at: datetime
    visible_at: datetime
    receives: int
    in_flight: bool
    backfill: bool
    last_error: str | None


@dataclass(frozen=True, slots=True)
class SlotCounts:
    """How many slots of a range are stored, on the queue and dead."""

    stored: int = 0
    pending: int = 0
    dead: int = 0


@dataclass(frozen=True, slots=True)
class SlotDetails:
    """All that is known about the slots of one metric in a range."""

    stored: Sequence[StoredSlot] = ()
    pending: Sequence[PendingSlot] = ()
    dead: Sequence[DeadLetter] = ()


@dataclass(frozen=True, slots=True)
class CompanyState:
    """A company of the aggregation batch: since when it is locked, and its points of the month (2025-12)."""

    company_id: str
    locked_since: datetime | None
    month: str
    users: int
    points: int

    def is_lock_expired(self, now: datetime) -> bool:
        """Whether the next run would take its lock over."""
        return self.locked_since is not None and self.locked_since + EXPIRY < now
