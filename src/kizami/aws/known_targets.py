"""A target of a deployed stack as the port knows it: since when its slots are expected, and how quick AWS is."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from math import inf
from typing import Protocol

from kizami.aws.history.keeping import kept_from
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.store.slot_cache import SlotCache
from kizami.aws.store.stored_slots import StoredSlots
from kizami.aws.store.table_slots import TableSlots
from kizami.backend.targets import LONGEST_SPREAD_SECONDS, KnownTarget, Pace, Polling
from kizami.backend.values import DeadLetter
from kizami.core.config import Config
from kizami.core.coverage import Span, due_span
from kizami.core.epoch import EPOCH
from kizami.core.messages import ScheduleMessage
from kizami.core.ports import Clock
from kizami.core.slots import shift
from kizami.core.targets.target import Target, Timed

# The rule fires at any second of the minute, and all its slots are that much behind; the functions need more.
ON_AWS = Pace(settling_seconds=75, late_after_ms=75_000)

LOOK_SECONDS = 5.0  # every look is some requests, which cost money
_FIRST_SLOT_SECONDS = 60.0
_SILENT_SECONDS = 60.0  # of whom the newest ticks tell nothing
_DAY = timedelta(days=1)
RECENT = _DAY + timedelta(hours=1)  # with the grace of what is still on its way


def pace_of(target: Timed) -> Pace:
    """That of one target among many: its bundle has a place of its own within the interval."""
    spread = min(target.interval_seconds, LONGEST_SPREAD_SECONDS) - 1
    return Pace(ON_AWS.settling_seconds + spread, ON_AWS.late_after_ms + 1000 * spread)


def known_target(
    target: Target, first_slot: datetime | None, newest: datetime | None, pace: Pace, now: datetime
) -> KnownTarget:
    """Without any record every slot is missing, so that a deployment that never worked does not look complete."""
    polling = Polling.ON if target.enabled else Polling.DISABLED
    kept = kept_from(target, now)
    first = max(first_slot or EPOCH, kept or EPOCH)
    until = None if target.enabled else shift(newest or first, target.interval_seconds if newest else 0)
    timing = target.interval_seconds, target.lag_seconds, first
    decimals = target.answer.decimals
    return KnownTarget(target.name, *timing, polling, None, until, pace, target.backfill, decimals, kept)


class Askers:
    """Of targets with several values: whose messages and dead letters are about each, and the other way round."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self.metrics = {target.name: target.metrics for target in targets}
        self._asked_by = Config(tuple(targets)).asked_by
        self._live_only = {target.name for target in targets if not target.backfill}

    def asker(self, metric: str) -> str:
        """The target whose messages ask for the metric."""
        return self._asked_by.get(metric, metric)

    def can_ask_again(self, target: str) -> bool:
        """Whether its past slots can be asked for, and not only what is now."""
        return target not in self._live_only

    def asking(self, message: ScheduleMessage) -> ScheduleMessage:
        """The message that asks for one of several values asks for all of them."""
        return replace(message, metric=self.asker(message.metric))

    def letters_of_metrics(self, letters: Iterable[DeadLetter]) -> Iterator[DeadLetter]:
        """The letters as those of each of the metrics that they are about."""
        for letter in letters:
            for metric in self.metrics.get(letter.metric, (letter.metric,)):
                yield replace(letter, metric=metric)


class AskOfEach(Protocol):
    """Asks a question about each metric, some at a time."""

    def __call__(
        self, names: Iterable[str], ask: Callable[[str], datetime | None]
    ) -> Mapping[str, datetime | None]: ...


class SlotBounds:
    """The first and the newest record of each metric; `noted` is what a ledger knows, if there is one."""

    def __init__(
        self,
        targets: Mapping[str, Target],
        store: DynamoDbMetricStore,
        slots: SlotCache | TableSlots,
        noted: StoredSlots | None,
        of_each: AskOfEach,
        clock: Clock,
    ) -> None:
        self._targets = targets
        self._store = store
        self._slots = slots
        self._noted = noted
        self._of_each = of_each
        self._clock = clock
        # A backfill may reach further back at any time; of many targets that is looked at less often.
        self._first = KeptBounds(of_each, self._first_kept, _FIRST_SLOT_SECONDS + len(targets))
        self._last = KeptBounds(of_each, store.newest_slot, LOOK_SECONDS - 1 if noted is None else _SILENT_SECONDS)

    def first(self, names: Collection[str], *, recent: bool = False) -> dict[str, datetime]:
        """The slot of each metric's first record; `recent`: a later one will do if it is older than a day."""
        begun = self._noted.begun(names, RECENT) if recent and self._noted is not None else {}
        return begun | self._first.read([name for name in names if name not in begun])

    def _first_kept(self, name: str) -> datetime | None:
        found = self._store.first_kept(name, self._clock.now())
        return found.slot if found else None

    def newest(self, names: Collection[str]) -> dict[str, datetime]:
        """The slot of each metric's newest record."""
        if self._noted is not None:
            found = self._noted.newest(names)
            return found | self._last.read([name for name in names if name not in found])
        now = self._clock.now()
        spans = {name: _newest_day(self._targets[name], now) for name in names}
        self._slots.look(spans, now)
        newest = _existing(self._of_each(names, lambda name: self._slots.newest(name, spans[name])))
        first_slots = self.first(names)
        return newest | self._last.read([name for name in names if name not in newest and name in first_slots])

    def forget(self) -> None:
        """Somebody has asked for past slots again."""
        self._first.forget()


class KeptBounds:
    """A slot of each metric that is asked of the table, and again after some seconds; at each look where there is
    none yet. For several threads."""

    def __init__(self, of_each: AskOfEach, read: Callable[[str], datetime | None], seconds: float) -> None:
        self._of_each = of_each
        self._read = read
        self._seconds = seconds
        self._found: dict[str, tuple[float, datetime | None]] = {}

    def read(self, names: Collection[str]) -> dict[str, datetime]:
        """That of each metric that has one."""
        moment = time.monotonic()
        stale = [name for name in names if not self._is_good(name, moment)]
        found = self._of_each(stale, self._read)
        self._found.update({name: (moment, slot) for name, slot in found.items()})
        return _existing({name: self._found[name][1] for name in names})

    def _is_good(self, name: str, moment: float) -> bool:
        read_at, slot = self._found.get(name, (-inf, None))
        return moment - read_at < (LOOK_SECONDS - 1 if slot is None else self._seconds)

    def forget(self) -> None:
        """They may be others by now."""
        self._found = {name: (-inf, slot) for name, (_, slot) in self._found.items()}


def _newest_day(target: Target, now: datetime) -> Span:
    """The slots that were due in the last day, or the newest one of a target that has one a day."""
    return due_span(target, shift(now - _DAY, -target.lag_seconds), now)


def _existing(found: Mapping[str, datetime | None]) -> dict[str, datetime]:
    return {name: slot for name, slot in found.items() if slot is not None}
