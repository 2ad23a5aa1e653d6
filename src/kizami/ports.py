"""The contracts between the core and what carries its decisions out: queue, metric store, clock.

Every implementation passes the shared suite in `tests/contract/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Protocol

from kizami.messages import MetricRecord
from kizami.sender import PlannedMessage


class PutOutcome(Enum):
    """What a conditional write did."""

    STORED = "stored"
    DUPLICATE = "duplicate"


class MetricStore(Protocol):
    """One record a (metric, slot).

    Duplicates: the first record of a slot stays as it is for ever; a later one changes nothing and is
    DUPLICATE, also when two writers race. Order: `query` gives slots in ascending order.
    Errors: StoreError for anything the store refuses or that keeps it from being reached; then the
    record may or may not be there, and putting it again is safe.
    """

    def put_if_absent(self, record: MetricRecord) -> PutOutcome:
        """Store the record unless its slot has one."""

    def query(self, metric: str, start: datetime, end: datetime) -> Iterator[MetricRecord]:
        """The records of slots in [start, end)."""


@dataclass(frozen=True, slots=True)
class FailedSend:
    """A message that the queue did not take, and why."""

    entry: PlannedMessage
    reason: str


@dataclass(frozen=True, slots=True)
class Received:
    """A message handed out: its raw body, how often it has been handed out, and the receipt to settle it by."""

    body: str
    receive_count: int
    receipt: str


class Queue(Protocol):
    """A delayed queue with SQS semantics.

    A message becomes due `delay_seconds` after sending. At least once: a received message is hidden for
    the visibility timeout and comes back unless acknowledged; each receive is counted; one that has been
    received as often as the limit allows becomes a dead letter instead of being handed out again.
    Order: none is promised. Errors: QueueError when nothing could be done at all; a partial failure is
    the return value of `send`.
    """

    def send(self, entries: Sequence[PlannedMessage]) -> list[FailedSend]:
        """Send all, in the fewest calls; the answer lists those that were not taken."""

    def receive(self, limit: int) -> list[Received]:
        """Up to `limit` due messages, hidden from others until the visibility timeout."""

    def acknowledge(self, received: Received) -> None:
        """Done: the message goes away for good. A second acknowledgement does nothing."""


class Clock(Protocol):
    """Where a runtime gets its `now`; the core is handed it."""

    def now(self) -> datetime:
        """The current instant, aware, in UTC."""
