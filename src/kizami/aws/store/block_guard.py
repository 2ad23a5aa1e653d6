"""Whether a delivery asks its API: the policy for lasting failures, among Collectors that do not know each other.

A Collector that has had an answer of the target a moment ago asks, another looks at the target's item first. Of a
blocked target the one that is first to write the item may probe; the others let their messages go and note from
which slot on, and the reconciler asks for all of that when the target has answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from functools import lru_cache
from hashlib import sha256
from math import inf

from kizami.aws.client import machine
from kizami.aws.invocation import TimeLeft
from kizami.aws.store.block_items import BlockItem, BlockItems, Range, place_of, range_of
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.core.blocking import (
    LEAST_PROBE_SECONDS,
    Trouble,
    after_failure,
    after_probe,
    explain,
    is_recent,
    may_probe,
    reserved,
    tells_of_target,
)
from kizami.core.errors import ApiError, StoreError
from kizami.core.messages import ScheduleMessage
from kizami.core.slots import shift
from kizami.core.targets.target import Target

ANSWERED_SECONDS = 15.0  # a target that has answered so lately is asked without a look
LOOK_SECONDS = 5.0
FRESH_SECONDS = 120  # what has been due for longer is let go only after a new look
TRIES = 5
MOST_KEPT = 5000  # items in memory; of more only those that were looked at a moment ago


class BlockAdmission(Enum):
    """What a delivery may do."""

    ASK = "ask"
    PROBE = "probe"
    KEEP = "keep"


@dataclass(slots=True)
class Memory:
    """What a container remembers from one invocation to the next."""

    answered: dict[str, float] = field(default_factory=dict)
    items: dict[str, BlockItem] = field(default_factory=dict)
    looks: dict[Range, float] = field(default_factory=dict)  # when each range of places was looked at

    def knows(self, places: Range, now: float) -> bool:
        """Whether all of a range was looked at a moment ago."""
        recent = (seen for seen, at in self.looks.items() if now - at < LOOK_SECONDS)
        return any(first <= places[0] and places[1] <= last for first, last in recent)

    def note(self, places: Range, found: dict[str, BlockItem], now: float) -> None:
        """What a look has found takes the place of what was known of that range."""
        self.looks = {seen: at for seen, at in self.looks.items() if now - at < LOOK_SECONDS} | {places: now}
        kept = self.items
        if len(kept) > MOST_KEPT:
            kept = {name: item for name, item in kept.items() if self.knows((place_of(name),) * 2, now)}
        first, last = places
        others = {name: item for name, item in kept.items() if not first <= place_of(name) <= last}
        self.items = others | found


@lru_cache(maxsize=1)
def memory_of(table: str) -> Memory:
    """The container's memory of a table's items."""
    return Memory()


class BlockGuard:
    """For the deliveries of one invocation, also side by side."""

    def __init__(self, items: BlockItems, records: DynamoDbMetricStore, memory: Memory) -> None:
        self._items = items
        self._records = records
        self._memory = memory
        self._noting = machine.lock()

    @classmethod
    def of(cls, table: str, time_left: TimeLeft) -> BlockGuard:
        """The guard of a table, with the container's memory."""
        return cls(BlockItems(table, time_left), DynamoDbMetricStore(table, time_left), memory_of(table))

    def look(self, names: Iterable[str]) -> None:
        """See to it that what is known of these targets' blocks is not old."""
        places = range_of(names)
        if not self._memory.knows(places, machine.monotonic()):
            found = self._items.between(places)
            with self._noting:
                self._memory.note(places, found, machine.monotonic())

    def is_clear(self, target: Target) -> bool:
        """Whether a target can be asked by all that is known: then `admit` says so without a call."""
        item = self._memory.items.get(target.name)
        return self._has_answered(target.name) or item is None or not item.is_blocked

    def admit(self, target: Target, message: ScheduleMessage, now: datetime) -> BlockAdmission:
        """Whether the API is asked; a slot that is kept is noted before this returns."""
        if self._has_answered(target.name):
            return BlockAdmission.ASK
        self.look([target.name])
        item = self._memory.items.get(target.name)
        age = _age_seconds(target, message, now)
        if item is not None and item.is_blocked and age > FRESH_SECONDS:
            item = self._items.get(target.name)
        for _ in range(TRIES):
            if item is None or not item.is_blocked:
                return BlockAdmission.ASK
            if self._may_probe(target, item, now, recent=is_recent(age, target.interval_seconds)):
                changed, admission = _reserved(item, target, now), BlockAdmission.PROBE
            else:
                changed, admission = item.keeping(message.window.start), BlockAdmission.KEEP
            if changed == item or self._items.save(target.name, changed):
                return admission
            item = self._items.get(target.name)
        raise StoreError(f"{target.name}: too many write its block at once")

    def answered(self, target: Target, admission: BlockAdmission, now: datetime) -> Trouble | None:
        """The target has answered: the trouble that is over with that, if it was this delivery's to end."""
        self._memory.answered[target.name] = machine.monotonic()
        if admission is not BlockAdmission.PROBE:
            return None
        ended: list[Trouble | None] = []

        def end(item: BlockItem) -> BlockItem:
            ended[:] = [item.trouble]
            return replace(item, trouble=None, answered_at=now)

        self._update(target.name, end)
        return ended[0]

    def failed(
        self, target: Target, message: ScheduleMessage, error: ApiError, admission: BlockAdmission, now: datetime
    ) -> BlockItem | None:
        """The target's item after a failure, with the slot kept if it is blocked; None if it tells nothing."""
        self._memory.answered.pop(target.name, None)
        recent = is_recent(_age_seconds(target, message, now), target.interval_seconds)

        def note(item: BlockItem) -> BlockItem:
            known = self._current(target.name, item.trouble, now)
            trouble = _after(known, error, explain(error, target), admission, now, recent=recent)
            noted = replace(item, trouble=trouble, target=_fingerprint(target))
            kept = replace(noted, answered_at=None).keeping(message.window.start)
            return kept if noted.is_blocked else noted

        return self._update(target.name, note) if error.is_lasting or admission is BlockAdmission.PROBE else None

    def _update(self, name: str, change: Callable[[BlockItem], BlockItem]) -> BlockItem:
        for _ in range(TRIES):
            item = self._items.get(name) or BlockItem()
            changed = change(item)
            if changed == item or self._items.save(name, changed):
                self._memory.looks = {}
                return changed
        raise StoreError(f"{name}: too many write its block at once")

    def _current(self, name: str, trouble: Trouble | None, now: datetime) -> Trouble | None:
        """Doubts about a target are over when it has answered, whoever asked; nobody writes that down."""
        if trouble is None or trouble.is_blocked:
            return trouble
        newest = self._records.newest_until(name, now)
        return None if newest is not None and newest.collected_at > trouble.asked_at else trouble

    def _has_answered(self, name: str) -> bool:
        return machine.monotonic() - self._memory.answered.get(name, -inf) < ANSWERED_SECONDS

    def _may_probe(self, target: Target, item: BlockItem, now: datetime, *, recent: bool) -> bool:
        trouble = item.trouble
        assert trouble is not None
        if item.target != _fingerprint(target) and now >= shift(trouble.asked_at, LEAST_PROBE_SECONDS):
            return True
        return may_probe(trouble, now, recent=recent) if target.backfill else trouble.is_due(now)


def _reserved(item: BlockItem, target: Target, now: datetime) -> BlockItem:
    assert item.trouble is not None
    return replace(item, trouble=reserved(item.trouble, now), target=_fingerprint(target))


def _after(
    trouble: Trouble | None,
    error: ApiError,
    reason: str,
    admission: BlockAdmission,
    now: datetime,
    *,
    recent: bool,
) -> Trouble | None:
    if admission is BlockAdmission.PROBE and trouble is not None:
        before = replace(trouble, probes=trouble.probes - 1)  # it was reserved as if it had failed
        return after_probe(before, error, reason, now)
    if tells_of_target(error, recent=recent, in_doubt=trouble is not None):
        return after_failure(trouble, error, reason, now)
    return trouble


def _age_seconds(target: Target, message: ScheduleMessage, now: datetime) -> float:
    return (now - shift(message.window.start, target.lag_seconds)).total_seconds()


@lru_cache(maxsize=1024)
def _fingerprint(target: Target) -> str:
    """Tells a target from what it was before a deployment; references stand in it, never secrets."""
    return sha256(repr(target).encode()).hexdigest()[:16]
