"""What is written to the queue and the records each turn, and taken off the queue: each kind of row by its names.

Slots are seconds and moments milliseconds since 1970, as in the file. The rows are tuples because JSON writes
those as arrays, whose positions the statements know.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

PlanKey = tuple[int, int, int]  # a metric, its interval, and how many ms after its start a slot is asked for


class OfSlot(Protocol):
    """Whatever belongs to one slot of one metric."""

    @property
    def slot(self) -> int: ...

    @property
    def metric_id(self) -> int: ...


class SlotKey(NamedTuple):
    """Which slot of which metric."""

    slot: int
    metric_id: int


class SentRow(NamedTuple):
    """A message for the queue, that may be handed out from `due_ms` on."""

    slot: int
    metric_id: int
    seconds: int
    due_ms: int


class TakenMessage(NamedTuple):
    """A message handed out; `attempts` counts the requests sent for it so far."""

    slot: int
    metric_id: int
    seconds: int
    priority: int
    due_ms: int
    attempts: int

    @property
    def key(self) -> SlotKey:
        return SlotKey(self.slot, self.metric_id)

    @property
    def plan_key(self) -> PlanKey:
        """What it has in common with all live messages of its target."""
        return self.metric_id, self.seconds, self.due_ms - 1000 * self.slot


class RequestRow(NamedTuple):
    """A request that left for a host with a limit."""

    second: int
    host: str


class StoredRow(NamedTuple):
    """A record, and how it came: how late it was asked for, at which attempt, and whether as backfill."""

    slot: int
    metric_id: int
    value: int  # the column is `count`, which is a method of every tuple
    collected_ms: int
    late_ms: int
    receives: int
    backfilled: bool


class FailedRow(NamedTuple):
    """A message whose request failed: when it may be handed out again, after how many attempts, and the reason."""

    slot: int
    metric_id: int
    visible_ms: int
    attempts: int
    error: str


class ReturnedRow(NamedTuple):
    """A message that goes back to the queue with nothing said about it, to be handed out from `visible_ms` on."""

    slot: int
    metric_id: int
    visible_ms: int
