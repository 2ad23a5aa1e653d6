"""What `kizami up` shows on a terminal: the last rows, coverage, lateness and the queue, once a second."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kizami.cli.printing import plural
from kizami.coverage import Completeness, due_span
from kizami.errors import KizamiError
from kizami.local.clock import SystemClock
from kizami.local.engine import Engine, StoredRecord
from kizami.local.reader import Reader
from kizami.logs import PlainFormatter
from kizami.readings import QueueDepth, lateness_of
from kizami.slots import format_instant

_ROWS = 12
_LATENESS_POLLS = 10_000
_REFRESH_SECONDS = 1.0
_TARGETS_A_SECOND = 500
_GRACE_SECONDS = 10.0  # a poll may wait for its turn within the interval, then for the answer and the commit


@dataclass(frozen=True, slots=True)
class Numbers:
    """What is read from the database for one picture."""

    coverage: Completeness
    depth: QueueDepth


class LiveView:
    """Draws on a thread of its own; log lines go above the picture."""

    def __init__(self, database: Path, engine: Engine) -> None:
        self._database = database
        self._engine = engine
        self._records: deque[StoredRecord] = deque(maxlen=_ROWS)
        self._late: deque[int] = deque(maxlen=_LATENESS_POLLS)
        self._started = time.monotonic()
        self._console = Console()
        self._live = Live(Text("starting …"), console=self._console, auto_refresh=False)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live-view", daemon=True)

    def __enter__(self) -> Self:
        _log_above(self._console)
        self._live.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._thread.join(timeout=0.5)
        self._live.stop()

    def show(self, records: list[StoredRecord]) -> None:
        """Take these into the picture."""
        self._records.extend(records[-_ROWS:])
        self._late.extend(each.late_ms for each in records if not each.backfilled)

    def _run(self) -> None:
        try:
            with Reader.opened(self._database) as reader:
                read_at = 0.0
                while not self._closing.wait(_REFRESH_SECONDS):
                    # Reading takes longer for many targets, and must not become a burden.
                    if time.monotonic() - read_at >= len(self._engine.polled) / _TARGETS_A_SECOND:
                        numbers = self._read(reader)
                        read_at = time.monotonic()
                    self._live.update(self._picture(numbers), refresh=True)
        except (KizamiError, OSError) as error:  # the terminal is gone, or the file is
            logging.getLogger(__name__).error("the live view ends", extra={"reason": str(error)})
            self._engine.stop()

    def _read(self, reader: Reader) -> Numbers:
        now = SystemClock().now()
        known = reader.metrics()
        spans = {
            target.name: due_span(
                target, max(now - timedelta(hours=1), known[target.name].first_slot), now, _GRACE_SECONDS
            )
            for target in self._engine.polled
            if target.name in known
        }
        each = reader.completeness(spans).values()
        coverage = Completeness(sum(one.stored for one in each), sum(one.expected for one in each))
        return Numbers(coverage, reader.queue_depth(now))

    def _picture(self, numbers: Numbers) -> Group:
        up = timedelta(seconds=int(time.monotonic() - self._started))
        polled = plural(len(self._engine.polled), "target")
        lateness = lateness_of(sorted(Counter(self._late).items()))
        coverage, depth = numbers.coverage, numbers.depth
        lines = [
            Text(f"kizami · {self._database} · {polled} · up {up}", style="bold"),
            Text(
                f"coverage of the last hour {coverage} ({coverage.ratio:.2%}) · "
                f"lateness p50 {lateness.p50_ms} ms, p99 {lateness.p99_ms} ms",
                style="green" if coverage.ratio == 1 else "yellow",
            ),
            Text(
                f"queue: {depth.delayed} planned, {depth.in_flight} in hand, {depth.waiting} waiting · "
                f"dead letters: {depth.dead}",
                style="red" if depth.dead else "",
            ),
        ]
        return Group(*lines, _table(list(self._records)))


def _table(records: list[StoredRecord]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("slot time")
    table.add_column("metric", overflow="ellipsis", max_width=40)
    for heading in ("count", "late"):
        table.add_column(heading, justify="right")
    table.add_column("how")
    for stored in reversed(records):
        record = stored.record
        table.add_row(
            format_instant(record.slot), record.metric, str(record.count), f"{stored.late_ms} ms", _how(stored)
        )
    return table


def _how(stored: StoredRecord) -> str:
    if stored.backfilled:
        return "backfilled"
    return "live" if stored.receives == 1 else f"retried, attempt {stored.receives}"


class _ConsoleHandler(logging.Handler):
    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        style = "red" if record.levelno >= logging.ERROR else "yellow" if record.levelno >= logging.WARNING else ""
        self._console.print(Text(self.format(record), style=style))


def _log_above(console: Console) -> None:
    handler = _ConsoleHandler(console)
    handler.setFormatter(PlainFormatter())
    logging.getLogger("kizami").handlers[:] = [handler]
