"""What the verbs need of a home of the data, and how they come by it: `--backend local` or `aws`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import click

from kizami.cli.options import config_option, database_option
from kizami.cli.ranges import TimeRange
from kizami.core.coverage import Completeness, Gap, Span, due_span
from kizami.core.errors import ConfigurationError
from kizami.core.messages import MetricRecord, ScheduleMessage
from kizami.core.slots import floor_to_slot, shift
from kizami.home.port import QueueWorker
from kizami.home.values import DeadLetter, Lateness, QueueDepth
from kizami.platform.config_file import DEFAULT_DATABASE


class Polling(Enum):
    """Whether a metric's slots go on: what is paused or no longer configured is not expected to."""

    ON = "on"
    PAUSED = "paused"
    REMOVED = "not configured"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as a home knows it: how it is polled, and the first slot that is expected of it."""

    name: str
    interval_seconds: int
    lag_seconds: int
    first_slot: datetime
    polling: Polling = Polling.ON

    def due(self, wanted: TimeRange, grace_seconds: float) -> Span:
        """The slots of a range that are expected and have been due for `grace_seconds`."""
        return _cut(due_span(self, max(wanted.start, self.first_slot), wanted.now, grace_seconds), wanted.end)

    def recent(self, seconds: int, now: datetime, grace_seconds: float) -> Span:
        """The last `seconds` of expected slots that have been due for `grace_seconds`."""
        latest = due_span(self, self.first_slot, now, grace_seconds)
        return Span(max(latest.start, shift(latest.end, -seconds)), latest.end, self.interval_seconds)

    def whole(self, wanted: TimeRange) -> Span:
        """All slots of a range that are due, also those from before the metric was first polled."""
        return _cut(due_span(self, wanted.start, wanted.now), wanted.end)


def _cut(span: Span, end: datetime) -> Span:
    """The slots of `span` that begin before `end`."""
    if end >= span.end:
        return span
    edge = floor_to_slot(end, span.interval_seconds)
    if edge < end:
        edge = shift(edge, span.interval_seconds)
    return Span(span.start, max(span.start, edge), span.interval_seconds)


@dataclass(frozen=True, slots=True)
class Daemon:
    """The process that collects on one machine, `kizami up`; without a pid none runs. `trouble` is for the eye."""

    pid: int | None
    trouble: str | None = None

    @property
    def running(self) -> bool:
        """Whether one runs."""
        return self.pid is not None


class Backend(Protocol):
    """A home of the data. Ranges are [start, end), their order is ascending.

    `grace_seconds` is how long a due slot may be on its way to the store; until then it is not missed.
    Errors: StoreError and QueueError when the home refuses or cannot be reached.
    """

    @property
    def grace_seconds(self) -> float: ...

    def names(self) -> Collection[str]:
        """The names of all metrics that are configured or have records."""

    def metrics(self, names: Collection[str] | None = None) -> Mapping[str, Metric]:
        """The metrics of these names, which are known to it, or all of them."""

    def records(self, metric: str, start: datetime, end: datetime) -> Iterator[MetricRecord]:
        """The metric's records, read piece by piece as they are asked for."""

    def newest_slots(self) -> Mapping[str, datetime]:
        """The newest stored slot of each metric that has one."""

    def completeness(self, spans: Mapping[str, Span]) -> Mapping[str, Completeness]:
        """How much of each metric's span is stored."""

    def missing(self, spans: Mapping[str, Span]) -> Mapping[str, Sequence[Gap]]:
        """The runs of slots of each span that nobody stored, has in hand or gave up."""

    def missing_counts(self, spans: Mapping[str, Span]) -> Mapping[str, int]:
        """How many slots `missing` would find in each span."""

    def lateness(self, start: datetime, end: datetime) -> Lateness:
        """From the planned moment to the request, over the live polls of all metrics."""

    def queue_depth(self, now: datetime) -> QueueDepth:
        """How full the queue is."""

    def daemon(self) -> Daemon | None:
        """Whether somebody collects at the moment; None where no daemon does it."""

    def send_backfill(self, messages: Iterable[ScheduleMessage]) -> int:
        """Ask for past slots again; how many were taken. It may be interrupted and repeated at any point."""

    def expect_from(self, metric: str, slot: datetime) -> None:
        """From now on the metric's slots are expected from `slot` on, if they were not before."""

    def queued(self, spans: Mapping[str, Span]) -> int:
        """How many slots of the spans are on the queue, as far as that can be told."""

    def left_to_collect(self, spans: Mapping[str, Span]) -> int:
        """How many slots are still to be settled after `send_backfill`; to be asked every `look_seconds`."""

    @property
    def look_seconds(self) -> float: ...

    def collector(self, metrics: Iterable[str]) -> AbstractContextManager[QueueWorker]:
        """Whoever works off the queue anyway, else this process for the length of a `with`."""

    def dead_letters(self) -> Sequence[DeadLetter]:
        """The slots that were given up, newest first."""

    def redrive(self, letters: Iterable[DeadLetter]) -> int:
        """Put them back on the queue with a fresh count of receives; how many went back."""

    def purge(self, letters: Iterable[DeadLetter]) -> int:
        """Forget them: their slots are missing from then on. How many there were."""


@dataclass(frozen=True, slots=True)
class HomeOptions:
    """Where the options say that the data is: one machine's database, or the stack on AWS."""

    config: Path | None = None
    database: Path = DEFAULT_DATABASE
    backend: str = "local"
    table: str | None = None
    stack: str | None = None

    def opened(self) -> AbstractContextManager[Backend]:
        """Its backend for the length of a `with`."""
        if self.backend == "aws":
            return _open_aws(self)
        from kizami.cli.local_backend import LocalBackend

        return LocalBackend.opened(self)


def require_aws_packages() -> None:
    """What only the home on AWS needs, else ConfigurationError."""
    if find_spec("botocore") is None:
        raise ConfigurationError("--backend aws", "needs botocore, which is not installed; pip install botocore")


def _open_aws(home: HomeOptions) -> AbstractContextManager[Backend]:
    require_aws_packages()
    from kizami.cli.aws_backend import AwsBackend

    return AwsBackend.opened(home)


def backend_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the options that say where the data is, and its function one `home`."""

    @click.option(
        "--backend",
        type=click.Choice(["local", "aws"]),
        default="local",
        envvar="KIZAMI_BACKEND",
        show_default=True,
        show_envvar=True,
        help="Where the data is: on this machine or on AWS.",
    )
    @config_option
    @database_option
    @click.option("--table", envvar="AI_METRICS_TABLE_NAME", show_envvar=True, help="On AWS: the metrics table.")
    @click.option("--stack", envvar="KIZAMI_STACK", show_envvar=True, help="On AWS: the stack to ask for more.")
    @wraps(verb)
    def with_home(
        *arguments: Any,
        backend: str,
        config: Path | None,
        database: Path,
        table: str | None,
        stack: str | None,
        **options: Any,
    ) -> Any:
        return verb(*arguments, home=HomeOptions(config, database, backend, table, stack), **options)

    return with_home
