"""Catching up: after a stop, a crash, a sleep or a jump of the clock, what was missed goes onto the queue.

It runs on a thread of its own and the same way as `kizami backfill`. It puts slots on the queue only
as fast as they are asked for, target by target, so the queue stays small and live slots stay on time, and one
target that does not answer holds up no other.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice, takewhile
from pathlib import Path

from kizami.core.backfill import plan_backfill
from kizami.core.coverage import Span, due_span
from kizami.core.errors import KizamiError
from kizami.core.messages import ScheduleMessage
from kizami.core.ports import WallClock
from kizami.core.slots import shift
from kizami.core.targets.target import Target
from kizami.local.engine.machine import Machine
from kizami.local.store.backfill_queue import PIECE, BackfillQueue
from kizami.local.store.blocks import KeptSlots
from kizami.local.store.metrics import KnownMetric
from kizami.local.store.missing import find_missing
from kizami.local.store.reader import Reader

# Backfill messages on the queue above which nothing is added: the targets that have missed slots share the mark,
# but each may have a few.
_QUEUE_MARK, _LEAST = 50 * PIECE, 24
_TARGETS = 500  # looked through in one go
_PAUSE_SECONDS = 0.25
_REST = 3.0  # so many times as long as it computes it leaves the interpreter to the polls
_TROUBLE_SECONDS = 5.0
_CLOSE_SECONDS = 0.3  # a long search that goes on for longer ends with the process, and harms nothing

logger = logging.getLogger(__name__)


def missed(
    reader: Reader, targets: Iterable[Target], known: Mapping[str, KnownMetric], until: datetime
) -> Iterator[dict[str, Iterator[ScheduleMessage]]]:
    """The slots that were due by `until` and are neither stored, pending nor dead, for some targets at a time.

    As far back as a target says, and as slots of it were kept while it was blocked, but not before it was first
    known: a new target has no past. Of one that is blocked there is nothing to be asked for, of one that can only
    say "now" the one slot whose time is not over.
    """
    kept, blocked = reader.kept_slots(), reader.blocked()
    wanted = (
        target
        for target in targets
        if target.name in known and target.name not in blocked and (target.catch_up_seconds or target.name in kept)
    )
    while some := list(islice(wanted, _TARGETS)):
        spans = {
            metric: _span(target, known[metric], kept.get(target.name), until)
            for target in some
            for metric in target.metrics
            if metric in known
        }
        gaps = find_missing(reader, spans)
        # What several values lack is asked for once.
        found = {
            target: dict.fromkeys(gap for name in target.metrics for gap in gaps.get(name, ())) for target in some
        }
        yield {target.name: plan_backfill(target, lacking) for target, lacking in found.items() if lacking}


def _span(target: Target, metric: KnownMetric, kept: KeptSlots | None, until: datetime) -> Span:
    back = target.catch_up_seconds if target.backfill else target.lag_seconds + target.interval_seconds
    since = shift(until, -back)
    if kept and target.backfill:
        since = min(since, kept.first)
    return due_span(target, max(since, metric.expected_from(until)), until)


class CatchUp:
    """Catches up with whatever was missed before the last `begin`."""

    def __init__(self, path: Path, clock: WallClock, machine: Machine) -> None:
        self._path = path
        self._clock = clock
        self._machine = machine
        self._condition = machine.condition()
        self._job: tuple[Sequence[Target], datetime] | None = None
        self._stopping = False
        self._thread = machine.thread(self._run, "catch-up")

    def begin(self, targets: Sequence[Target], until: datetime) -> None:
        """Catch up with what was due by `until`; whatever is under way starts over with that."""
        with self._condition:
            self._job = (targets, until)
            self._condition.notify()
        if self._thread.ident is None:
            self._thread.start()

    def close(self) -> None:
        """Stop where it is; what is not yet on the queue is found again next time."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        if self._thread.ident is not None:
            self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        while (job := self._next_job()) is not None:
            try:
                sent = self._catch_up(*job)
                if sent:
                    logger.info("missed slots are on the queue", extra={"event": "catch_up.queued", "slots": sent})
            except KizamiError as error:
                logger.warning("cannot catch up yet", extra={"event": "catch_up.postponed", "reason": str(error)})
                self._pause(_TROUBLE_SECONDS)
                with self._condition:
                    self._job = self._job or job

    def _next_job(self) -> tuple[Sequence[Target], datetime] | None:
        with self._condition:
            self._condition.wait_for(lambda: self._job is not None or self._stopping)
            job, self._job = self._job, None
            return None if self._stopping else job

    def _catch_up(self, targets: Sequence[Target], until: datetime) -> int:
        queue = BackfillQueue(self._path, self._clock)
        try:
            with Reader.opened(self._path) as reader:
                return self._send_missed(queue, reader, targets, until)
        finally:
            queue.close()

    def _send_missed(
        self, queue: BackfillQueue, reader: Reader, targets: Sequence[Target], until: datetime
    ) -> int:
        known, kept = reader.metrics(), reader.kept_slots()
        found = missed(reader, targets, known, until)
        left: dict[str, Iterator[ScheduleMessage]] = {}
        sent = 0
        while self._may_go_on() and ((more := next(found, None)) is not None or left):
            left |= more or {}
            began = self._machine.monotonic()
            some = self._next_of_each(reader, known, left)
            sent += queue.send_backfill(takewhile(lambda _: self._may_go_on(), some))
            if not some and more is None:
                self._pause(_PAUSE_SECONDS)
            else:
                self._pause(_REST * (self._machine.monotonic() - began))
        if self._may_go_on():
            queue.forget_kept(kept[target.name] for target in targets if target.name in kept)
        return sent

    def _next_of_each(
        self, reader: Reader, known: Mapping[str, KnownMetric], left: dict[str, Iterator[ScheduleMessage]]
    ) -> list[ScheduleMessage]:
        """What each target may have on the queue beyond what it has; who has no more is taken out."""
        share = max(_LEAST, _QUEUE_MARK // max(1, len(left)))
        some: list[ScheduleMessage] = []
        for name, messages in list(left.items()):
            room = share - reader.backfill_waiting(known[name], share)
            if room < share // 2:
                continue
            taken = list(islice(messages, room))
            some += taken
            if len(taken) < room:
                del left[name]
        return some

    def _may_go_on(self) -> bool:
        return not self._stopping and self._job is None

    def _pause(self, seconds: float) -> None:
        with self._condition:
            self._condition.wait_for(lambda: not self._may_go_on(), timeout=seconds)
