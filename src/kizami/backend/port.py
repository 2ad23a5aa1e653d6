"""What is asked of a backend, one machine or AWS: reading and repairing, for verbs, page and API alike."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from kizami.backend.columns import RecordColumns
from kizami.backend.incidents import BackendEvent, Incident
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
)
from kizami.core.answers.numbers import Number
from kizami.core.coverage import Completeness, Gap, Span
from kizami.core.messages import MetricRecord, ScheduleMessage


class QueueWorker(Protocol):
    """Whoever works off the queue."""

    @property
    def words(self) -> str:
        """What the reader is told about it."""

    @property
    def look_seconds(self) -> float:
        """How often to ask what is left."""

    def check(self) -> None:
        """Raise what keeps it from its work, if that is known."""

    def left(self, spans: Mapping[str, Span]) -> int:
        """How many slots of the spans are still to be settled, as far as that can be told."""


class IncidentLog(Protocol):
    """What went wrong and what happened in a backend. InvalidInput for an incident that is not there, or over."""

    def incidents(
        self, limit: int = -1, before: int | None = None, *, open_only: bool = False, metric: str | None = None
    ) -> list[Incident]:
        """Newest first, from after the number `before` on; all if the limit is negative.

        With `metric`, those that this target or the backend itself is in, alone or with others.
        """

    def incident(self, number: int) -> Incident:
        """The one of that number."""

    def acknowledge(self, number: int, by: str) -> Incident:
        """Somebody has taken it on: nobody is told any more until it is over. A second time changes nothing."""

    def silence(self, number: int, until: datetime, by: str) -> Incident:
        """Nobody is told of it until then."""

    def unsilence(self, number: int, by: str) -> Incident:
        """The silence is over, also that of an incident which is: what is to be told is told now."""

    def events(
        self, limit: int = -1, before: int | None = None, *, metric: str | None = None
    ) -> list[BackendEvent]:
        """What happened, newest first, from after the number `before` on.

        With `metric`, what is about this target, alone or with others, or about no target in particular.
        """

    def undelivered(self) -> dict[str, tuple[int, str | None]]:
        """How many messages wait for each receiver, and why the oldest was refused if it was."""


class Backend(Protocol):
    """Read and repair one backend's data.

    Ranges are [start, end), answers ascend, an unknown metric has no slots. One thread asks at a time.
    Errors: StoreError and QueueError when the backend cannot answer; then nothing has been half-done.
    """

    command_options: Mapping[str, str]  # what `kizami` must be told to look at the same backend
    can_pause: bool

    def look(self) -> AbstractContextManager[Backend]:
        """Provide the backend for the questions of one look, which may share what they read within the `with`."""

    # Reading

    def names(self) -> Collection[str]:
        """The names of all targets that are configured or were ever polled."""

    def targets(self, names: Collection[str] | None = None, *, recent: bool = False) -> list[KnownTarget]:
        """Every target there is or was, or those of these names, by name.

        Who looks at no more than the last day says `recent`: the first slot of a target that is older than that
        may then be told as a later one, where the true one would cost a question for each target.
        """

    def settings(self, metric: str) -> dict[str, str]:
        """How the metric's target is configured, without any secret; nothing where no file lists it."""

    def newest_slots(self, names: Collection[str] | None = None) -> dict[str, datetime]:
        """The newest stored slot of each metric, or of those of these names, that has one."""

    def records(self, metric: str, start: datetime, end: datetime) -> Iterator[MetricRecord]:
        """The metric's records, read piece by piece as they are asked for."""

    def record_columns(
        self, metric: str, start: datetime, end: datetime, *, details: bool = False
    ) -> Iterator[RecordColumns]:
        """The same in columns, for millions of them; with `details` also how each record came about."""

    def completeness(self, spans: Mapping[str, Span]) -> dict[str, Completeness]:
        """How much of each metric's span is stored."""

    def missing(self, spans: Mapping[str, Span]) -> dict[str, list[Gap]]:
        """The runs of slots that are neither stored nor pending nor dead, for each metric that has any."""

    def slot_counts(self, spans: Mapping[str, Span]) -> dict[str, SlotCounts]:
        """Where the slots of each metric's span are."""

    def slot_details(self, metric: str, start: datetime, end: datetime) -> SlotDetails:
        """What is known about each slot of a range of hours."""

    def buckets(self, metric: str, start: datetime, end: datetime, seconds: int) -> list[Bucket]:
        """The records in stretches of `seconds` since 1970; stretches without a record are left out."""

    def buckets_of(
        self, metrics: Collection[str], start: datetime, end: datetime, seconds: int
    ) -> dict[str, list[Bucket]]:
        """The same of each of some metrics."""

    def stored_between(self, metric: str, edges: Sequence[datetime]) -> list[int]:
        """How many slots are stored between each two neighbouring edges, which ascend."""

    def totals(self, spans: Mapping[str, Span]) -> dict[str, Bucket]:
        """What is stored of each metric's span, drawn together; metrics with nothing there are left out."""

    def figures(self, metric: str, edges: Sequence[datetime]) -> list[Bucket]:
        """The stored counts between each two neighbouring edges, which ascend: one entry for each pair."""

    def counts_at(self, metric: str, slots: Sequence[datetime]) -> list[Number | None]:
        """The count of each of the slots, in their order; None where it is not stored."""

    def newest_counts(self, newest: Mapping[str, datetime]) -> dict[str, Number]:
        """The count of one slot of each of many metrics; one that is not stored is left out."""

    def lateness(self, start: datetime, end: datetime) -> Lateness:
        """How late the live polls of the range were."""

    def queue_depth(self, now: datetime) -> QueueDepth:
        """How full the queue is."""

    def counted_since(self, now: datetime) -> datetime | None:
        """From when on all targets together can be counted; None: always. A single one always can."""

    def pending(self) -> list[PendingSlot]:
        """All that is on the queue, what is asked for first at the head; QueueError where it shows no messages."""

    @property
    def keeps_dead_letters(self) -> bool:
        """Whether a slot that fails too often is kept as a dead letter; a stack may be deployed without."""

    def dead_letters(
        self, metric: str | None = None, limit: int = -1, before: DeadLetterKey | None = None
    ) -> list[DeadLetter]:
        """Those of one metric or of all, newest first, from after `before` on; all if the limit is negative."""

    def deaths(self, since: datetime) -> dict[str, Deaths]:
        """Whose slots were given up at `since` or later, as far as it is told when."""

    def troubles(self) -> dict[str, TargetTrouble]:
        """Why targets fail at the moment, as far as that is known; blocked ones always are."""

    def companies(self, now: datetime) -> list[CompanyState]:
        """The companies of the aggregation batch, by id; none where it does not run."""

    @property
    def incident_log(self) -> IncidentLog:
        """The incidents and events."""

    def daemon(self) -> DaemonState | None:
        """Whether somebody collects at the moment; None where no daemon does it."""

    # Repairing

    def backfill(self, messages: Iterable[ScheduleMessage]) -> int:
        """Ask for past slots again, after the live ones; how many of them were missing until now.

        It may be interrupted and repeated at any point.
        """

    def count_damaged(self, spans: Mapping[str, Span]) -> int:
        """How many slots the damaged pieces of history have that lie in these spans as a whole."""

    def forget_damaged(self, spans: Mapping[str, Span]) -> int:
        """Give up those damaged pieces of history, whose slots are then missing; how many pieces there were."""

    def expect_from(self, metric: str, slot: datetime) -> None:
        """From now on the metric's slots are expected from `slot` on, if they were not before."""

    def queued(self, spans: Mapping[str, Span]) -> int:
        """How many slots of the spans are on the queue for certain."""

    def worker(self, metrics: Iterable[str]) -> AbstractContextManager[QueueWorker]:
        """Whoever works off the queue anyway, else this process for the length of a `with`."""

    def redrive(self, letters: Iterable[DeadLetter]) -> int:
        """Put dead letters back on the queue with a fresh count of receives; how many went back."""

    def purge(self, letters: Iterable[DeadLetter]) -> int:
        """Forget dead letters: their slots are missing from then on. How many there were."""

    def pause(self, metric: str) -> None:
        """Poll it no more until it is resumed, also after a restart. A second time changes nothing."""

    def resume(self, metric: str) -> None:
        """Poll it again, and catch up with what was due meanwhile. Without a pause it changes nothing."""

    def close(self) -> None:
        """Give back what it holds."""
