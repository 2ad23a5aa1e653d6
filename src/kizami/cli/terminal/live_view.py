"""What `kizami up` shows on a terminal: the last rows, coverage, lateness and the queue, once a second."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO, cast

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kizami.backend.health import HOUR
from kizami.backend.port import Backend
from kizami.backend.snapshot import read_coverage
from kizami.backend.times.zones import zoned_text
from kizami.backend.values import Lateness, QueueDepth, lateness_of
from kizami.cli.terminal.colours import is_styled
from kizami.cli.terminal.printing import age_text, completeness_text, plural
from kizami.cli.terminal.unblocked_output import UnblockedOutput
from kizami.core.answers.numbers import plain_text
from kizami.core.coverage import Completeness
from kizami.core.errors import KizamiError
from kizami.core.logs import PlainFormatter
from kizami.local.backend import LocalBackend
from kizami.local.engine.loop import Engine, StoredRecord
from kizami.platform.clock import SystemClock

_ROWS = 12
_LATENESS_POLLS = 10_000
_REFRESH_SECONDS = 1.0
_PIECES = 100  # pictures and log lines that are kept for a terminal that is held (Ctrl-S)
_TARGETS_A_SECOND = 500
_SHORT_MS = 10_000  # lateness is told in milliseconds up to here


@dataclass(frozen=True, slots=True)
class Numbers:
    """What is read from the database for one picture."""

    coverage: Completeness
    depth: QueueDepth


@dataclass(frozen=True, slots=True)
class Facts:
    """All that one picture shows; the newest record is the last."""

    database: Path
    targets: int
    failing: int
    up_seconds: int
    lateness: Lateness
    numbers: Numbers
    records: list[StoredRecord]
    zone: tzinfo = UTC


class LiveView:
    """Draws on a thread of its own; log lines go above the picture."""

    def __init__(self, database: Path, engine: Engine, zone: tzinfo = UTC) -> None:
        self._database = database
        self._engine = engine
        self._zone = zone
        self._records: deque[StoredRecord] = deque(maxlen=_ROWS)
        self._late: deque[int] = deque(maxlen=_LATENESS_POLLS)
        self._started = time.monotonic()
        self._output = UnblockedOutput(sys.stdout, lambda count: None, self._end, _PIECES)
        self._console = Console(file=cast(TextIO, self._output))
        self._live = Live(Text("starting …"), console=self._console, auto_refresh=False)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live-view", daemon=True)

    def __enter__(self) -> Self:
        self._handlers = logging.getLogger("kizami").handlers[:]
        if sys.stderr.isatty():  # who sends the log elsewhere wants it there
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
        self._output.finish()
        logging.getLogger("kizami").handlers[:] = self._handlers

    def show(self, records: list[StoredRecord]) -> None:
        """Take these into the picture."""
        self._records.extend(records[-_ROWS:])
        self._late.extend(each.late_ms for each in records if not each.backfilled)

    def _run(self) -> None:
        try:
            with closing(LocalBackend(self._database)) as backend:
                read_at = 0.0
                while not self._closing.wait(_REFRESH_SECONDS):
                    # Reading takes longer for many targets, and must not become a burden.
                    if time.monotonic() - read_at >= len(self._engine.targets) / _TARGETS_A_SECOND:
                        names = [target.name for target in self._engine.targets]
                        numbers = read_numbers(backend, names, SystemClock().now())
                        read_at = time.monotonic()
                    self._live.update(self._picture(numbers), refresh=True)
        except KizamiError as error:  # the file is gone
            self._end(error)

    def _end(self, error: Exception) -> None:
        """Nobody sees it any more, or there is nothing to see: the terminal or the file is gone."""
        if not self._closing.is_set():
            self._closing.set()
            logging.getLogger(__name__).error(
                "the live view ends", extra={"event": "live_view.ended", "reason": str(error)}
            )
        self._engine.stop()

    def _picture(self, numbers: Numbers) -> Group:
        facts = Facts(
            self._database,
            targets=len(self._engine.targets),
            failing=self._engine.failing,
            up_seconds=int(time.monotonic() - self._started),
            lateness=lateness_of(sorted(Counter(self._late).items())),
            numbers=numbers,
            records=list(self._records),
            zone=self._zone,
        )
        return picture(facts, self._console.height, styled=is_styled())


def read_numbers(backend: Backend, names: Collection[str], now: datetime) -> Numbers:
    """How much of the last hour these targets have, as `kizami status` tells it, and the queue."""
    return Numbers(read_coverage(backend, backend.targets(names), HOUR, now), backend.queue_depth(now))


def picture(facts: Facts, height: int, *, styled: bool) -> Group:
    """What is shown, in so many lines at most; plain text unless `styled`."""
    lines = [_line(words, style if styled else "") for words, style in _lines(facts)]
    room = max(1, min(_ROWS, height - len(lines) - 2))
    return Group(*lines, _table(facts.records[-room:], facts.zone, "bold" if styled else ""))


def _line(words: str, style: str) -> Text:
    return Text(words, style, no_wrap=True, overflow="ellipsis")


def _lines(facts: Facts) -> Iterator[tuple[str, str]]:
    """The words above the table, each with its style."""
    coverage, depth, late = facts.numbers.coverage, facts.numbers.depth, facts.lateness
    up = timedelta(seconds=facts.up_seconds)
    # The path comes last, because it is what a narrow terminal can do without.
    yield f"kizami · {plural(facts.targets, 'target')} · up {up} · {facts.database}", "bold"
    covered = completeness_text(coverage) if coverage.expected else "nothing due yet"
    lateness = f"p50 {late.p50_ms} ms, p99 {late.p99_ms} ms" if late.polls else "no polls yet"
    colour = "green" if coverage.ratio == 1 else "yellow"
    yield f"coverage of the last hour {covered} · lateness {lateness}", colour
    queue = f"queue: {depth.waiting:,} waiting, {depth.planned:,} planned, {depth.in_flight:,} in flight"
    yield f"{queue} · dead letters: {depth.dead:,}", "red" if depth.dead else ""
    if facts.failing:
        yield f"failing: {plural(facts.failing, 'target')}; the log and `kizami dead-letters list` say why", "red"


def _table(records: list[StoredRecord], zone: tzinfo, heading_style: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style=heading_style)
    table.add_column("slot time")
    table.add_column("metric", overflow="ellipsis", no_wrap=True, max_width=40)
    for heading in ("count", "late"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("how", no_wrap=True)
    for stored in reversed(records):
        record = stored.record
        late = f"{stored.late_ms} ms" if stored.late_ms < _SHORT_MS else age_text(stored.late_ms / 1000)
        table.add_row(
            zoned_text(record.slot, zone), Text(record.metric), plain_text(record.count), late, _how(stored)
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
