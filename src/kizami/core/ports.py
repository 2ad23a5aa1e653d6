"""The contracts between the core and what carries its decisions out: sender, stores, users API, clock.

Every implementation passes the shared suite in `tests/contract/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from kizami.core.messages import MetricRecord
from kizami.core.sender import Planned

if TYPE_CHECKING:  # what only the batch needs is not loaded by the Lambdas of the pipeline
    from kizami.aggregation.lock import Lock
    from kizami.aggregation.points import GrantOutcome, PointDay, UserPoints
    from kizami.core.collector import Request, Response
    from kizami.core.errors import StoreError


class PutOutcome(Enum):
    """What a conditional write did."""

    STORED = "stored"
    DUPLICATE = "duplicate"


class RecordStore(Protocol):
    """Where the Collector's records go: one a (metric, slot).

    Duplicates: the first record of a slot stays as it is for ever; a later one changes nothing and is
    DUPLICATE, also when two writers race. Errors: StoreError for anything the store refuses or that keeps it
    from being reached; then the record may or may not be there, and putting it again is safe.
    """

    def put_if_absent(self, record: MetricRecord) -> PutOutcome:
        """Store the record unless its slot has one."""

    def put_all_if_absent(self, records: Sequence[MetricRecord]) -> list[PutOutcome]:
        """Store the records of one answer together, each unless its slot has one; what became of each."""


@dataclass(frozen=True, slots=True)
class FailedSend:
    """A message that the queue did not take, and why."""

    entry: Planned
    reason: str


class MessageSender(Protocol):
    """Where the Sender's messages go: a queue that hands each out at least once, from `delay_seconds` after it was
    sent on.

    Errors: QueueError when nothing could be sent at all; a partial failure is the return value.
    """

    def send(self, entries: Sequence[Planned]) -> list[FailedSend]:
        """Send all, in the fewest calls; the answer lists those that were not taken."""


class LockStore(Protocol):
    """One lock a company, kept in the company's item beside attributes that are not ours and stay as they are.

    Expiry: the store knows none; a lock stands until it is released or written over by `acquire`.
    Order: of writers that race on the same `seen`, one wins. Errors: StoreError; then the write may or
    may not have been made, and both calls are safe to make again with the same arguments.
    """

    def read(self, company_id: str) -> Lock | None:
        """The lock that stands now (a consistent read), None where the company is free or unknown."""

    def acquire(self, company_id: str, seen: Lock | None, lock: Lock) -> Lock | None:
        """Write `lock` if the lock that stands is still `seen`. The answer is what stands afterwards:
        `lock` itself when it was written, also by an earlier try of this call; else it was lost to another.
        """

    def release(self, company_id: str, lock: Lock) -> Lock | None:
        """Remove the lock of `lock.run`, and no other's. The answer is what stands afterwards: None when
        the company is free, else the lock of the run that has taken over.
        """


class PointStore(Protocol):
    """One item a (company, user, month): how many points, and when the last one was granted.

    Duplicates: at most one point a user and day, whoever grants it how often and at the same time; the
    others are ALREADY_GRANTED. An item's time never goes back: once a later day has been granted, an
    earlier one is ALREADY_GRANTED too.
    """

    def grant(
        self, company_id: str, user_numbers: Sequence[str], day: PointDay
    ) -> Sequence[GrantOutcome | StoreError]:
        """Grant each user its point of the day; what became of each, in the order given, a failure as raised.

        One that fails does not stop the others; its point may or may not have been granted, and granting
        it again is safe.
        """

    def points(self, company_id: str, month: str) -> Iterator[UserPoints]:
        """The company's points of a month (`yyyymm`), in no promised order; StoreError."""


class UsersApi(Protocol):
    """Where the users of a company are asked for."""

    def get(self, request: Request) -> Response:
        """Answer whatever the status, else ApiUnreachable or ApiPayloadError (a body over the cap).

        One total deadline, no redirects; no error quotes the query, which holds the signature.
        """


class Clock(Protocol):
    """Where a runtime gets its `now`; the core is handed it."""

    def now(self) -> datetime:
        """The current instant, aware, in UTC."""


class WallClock(Protocol):
    """`ports.Clock`, and the same moment as milliseconds since 1970, which is what the engine counts in."""

    def now(self) -> datetime:
        """The current instant, aware, in UTC."""

    def milliseconds(self) -> float:
        """The current instant, with its fraction."""
