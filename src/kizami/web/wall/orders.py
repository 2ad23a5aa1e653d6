"""Backfills that were ordered on a page: how far each has come, until somebody has seen its end.

They are kept while the process runs, the newest few. How far one has come is counted in the store, so it is also
true of slots that something else has filled meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from threading import Lock

from kizami.backend.port import Backend
from kizami.backend.repair import Repair
from kizami.backend.values import SlotCounts
from kizami.core.coverage import Span
from kizami.core.slots import shift
from kizami.web.wall.kept import Kept

MAX_ORDERS = 20


@dataclass(frozen=True, slots=True)
class Order:
    """A backfill: how many slots it asks for, of which targets, and what has become of them."""

    id: int
    metrics: tuple[str, ...]
    slots: int
    first: datetime
    last: datetime
    ordered_at: datetime
    filled: int = 0
    dead: int = 0
    ended_at: datetime | None = None

    @property
    def left(self) -> int:
        """How many are neither filled nor given up."""
        return max(0, self.slots - self.filled - self.dead)


class Orders:
    """The orders, the newest first; any thread may ask."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ids = count(1)
        self._orders: list[_Placed] = []

    def place(self, backend: Backend, repair: Repair, now: datetime) -> Order:
        """Note what is about to be asked for."""
        spans = spans_of_repair(repair)
        before = backend.slot_counts(spans)
        edges = repair.edges
        metrics, slots = tuple(sorted(spans)), repair.missing_slots + len(repair.dead)
        order = Order(next(self._ids), metrics, slots, min(edges), max(edges), now)
        with self._lock:
            self._orders = [_Placed(order, spans, _stored(before)), *self._orders][:MAX_ORDERS]
        return order

    def look(self, backend: Backend, now: datetime) -> list[Order]:
        """How far they are by now."""
        with self._lock:
            placed = list(self._orders)
        return [each.look(backend, now) for each in placed]

    def dismiss(self, number: int) -> bool:
        """Somebody has seen it; whether there was such an order."""
        with self._lock:
            kept = [each for each in self._orders if each.order.id != number]
            was_there = len(kept) < len(self._orders)
            self._orders = kept
        return was_there


class _Placed:
    """An order and what is counted to tell how far it is."""

    def __init__(self, order: Order, spans: Mapping[str, Span], stored_before: int) -> None:
        self.order = order
        self._spans = spans
        self._before = stored_before
        self._counts: Kept[Mapping[str, SlotCounts]] = Kept()

    def look(self, backend: Backend, now: datetime) -> Order:
        if self.order.ended_at is None:
            counts = self._counts.get(lambda: backend.slot_counts(self._spans))
            filled = min(self.order.slots, max(0, _stored(counts) - self._before))
            pending = sum(part.pending for part in counts.values())
            dead = min(self.order.slots - filled, sum(part.dead for part in counts.values()))
            is_over = filled >= self.order.slots or (not pending and self._has_begun(now))
            self.order = replace(self.order, filled=filled, dead=dead, ended_at=now if is_over else None)
        return self.order

    def _has_begun(self, now: datetime) -> bool:
        """The messages may be a moment behind the order that was noted before them."""
        return now > shift(self.order.ordered_at, 2)


def spans_of_repair(repair: Repair) -> dict[str, Span]:
    """From the first to the last slot of each target that is asked for."""
    edges: dict[str, tuple[datetime, datetime, int]] = {}

    def widen(metric: str, start: datetime, end: datetime, interval: int) -> None:
        first, last, _ = edges.get(metric, (start, end, interval))
        edges[metric] = min(first, start), max(last, end), interval

    for target, gaps in repair.missing.items():
        for gap in gaps:
            widen(target.name, gap.start, gap.end, target.interval_seconds)
    for letter in repair.dead:
        end = shift(letter.slot, letter.interval_seconds)
        widen(letter.metric, letter.slot, end, letter.interval_seconds)
    return {metric: Span(*parts) for metric, parts in edges.items()}


def _stored(counts: Mapping[str, SlotCounts]) -> int:
    return sum(part.stored for part in counts.values())
