"""The aggregation batch: lock the company, ask for its users, grant each one detected today a point, release.

The steps, branches and log codes are those of the specification's sequence, in its order. All I/O goes
through the ports that a Batch is given; what a run did is a RunOutcome.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, tzinfo
from enum import Enum
from typing import Any

from kizami.aggregation.lock import Lock, LockDecision, decide, lock_for, write_lock
from kizami.aggregation.log_codes import LogCode, RunLog
from kizami.aggregation.messages import AggregationMessage
from kizami.aggregation.points import Detection, GrantOutcome, PointDay, detect, point_day, point_key
from kizami.aggregation.signing import ApiKey, sign
from kizami.aggregation.users_api import (
    API_TIMEOUT_SECONDS,
    User,
    UsersRequest,
    read_user,
    read_users,
    signed_request,
)
from kizami.core.errors import InvalidInput, KizamiError, StoreError
from kizami.core.ports import LockStore, PointStore, UsersApi
from kizami.core.targets.references import SecretReference

CHUNK_USERS = 500  # what is granted between two looks at the time that is left
RESERVE_SECONDS = 30.0  # to finish a chunk on a slow store and release the lock


class Ending(Enum):
    """How a run ended."""

    COMPLETED = "completed"
    LOCKED = "locked"  # another run is at work on the company
    INCOMPLETE = "incomplete"  # all users were seen to, but the points of some could not be written
    STOPPED = "stopped"  # the time ran out
    FAILED = "failed"


@dataclass(slots=True)
class UserCounts:
    """How many users a run has seen to, by what became of them."""

    granted: int = 0
    already_granted: int = 0
    never_detected: int = 0
    not_today: int = 0
    malformed: int = 0
    failed: int = 0

    @property
    def users(self) -> int:
        return sum(asdict(self).values())


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What a run did, the code of the line that says why it ended as it did, and the kind of its fault."""

    ending: Ending
    code: LogCode
    tally: UserCounts
    fault: type[Exception] | None = None

    @property
    def is_failure(self) -> bool:
        """Whether the message is to be delivered again."""
        return self.ending not in (Ending.COMPLETED, Ending.LOCKED)

    @property
    def reason(self) -> str:
        """Why it is a failure, in a few words."""
        return f"{self.code.code}: the run is {self.ending.value}"


@dataclass(frozen=True, slots=True)
class RunContext:
    """One delivery of a message: the message's id owns the lock, the run's id tells deliveries apart."""

    message_id: str
    run_id: str
    now: datetime
    seconds_left: Callable[[], float] = lambda: float("inf")


@dataclass(frozen=True, slots=True)
class Batch:
    """The batch and what it works on."""

    locks: LockStore
    points: PointStore
    api: UsersApi
    look_up_key: Callable[[SecretReference], ApiKey]
    base_url: str
    zone: tzinfo
    on_progress: Callable[[int, int], None] = lambda done, total: None

    def run(self, message: AggregationMessage, delivery: RunContext) -> RunOutcome:
        """Carry out one delivery; it raises nothing but what ends the process, and releases its lock even then."""
        log = RunLog(companyId=message.company_id, messageId=delivery.message_id, runId=delivery.run_id)
        if isinstance(message.key, ApiKey):
            log.hide(message.key.value)
        lock = lock_for(delivery.message_id, delivery.run_id, delivery.now)
        return _Run(self, message, delivery, message.company_id, lock, log).perform()


@dataclass(slots=True)
class _Run:
    """One run under way: its log, its tally and whether it may hold the lock."""

    batch: Batch
    message: AggregationMessage
    delivery: RunContext
    company_id: str
    lock: Lock
    log: RunLog
    tally: UserCounts = field(default_factory=UserCounts)
    may_hold_lock: bool = False

    def perform(self) -> RunOutcome:
        self.log.write(LogCode.START)
        try:
            return self._take_steps()
        except Exception as error:  # noqa: BLE001  the top of the batch: whatever it was, it is reported
            return self._end(Ending.FAILED, LogCode.UNKNOWN, error)

    def _take_steps(self) -> RunOutcome:
        try:
            outcome = self._take_lock() or self._aggregate()
        finally:
            failure = self._release_lock() if self.may_hold_lock else None
        if outcome.code is not LogCode.END:
            return outcome
        if failure:
            return failure
        self.log.write(LogCode.END, fields=asdict(self.tally))
        return outcome

    def _take_lock(self) -> RunOutcome | None:
        """None with the lock in hand, else how the run ended without it."""
        try:
            seen = self.batch.locks.read(self.company_id)
        except StoreError as error:
            return self._end(Ending.FAILED, LogCode.LOCK_ACCESS_FAILED, error)
        self.log.write(LogCode.LOCK_READ, response=self._item(seen))
        decision = decide(seen, self.delivery.message_id, self.delivery.now)
        if decision is LockDecision.HELD:
            return self._end(Ending.LOCKED, LogCode.LOCK_HELD, item=self._item(seen))
        if decision is LockDecision.EXPIRED:
            self.log.write(LogCode.LOCK_EXPIRED, item=self._item(seen))
        return self._acquire_lock(seen)

    def _acquire_lock(self, seen: Lock | None) -> RunOutcome | None:
        self.may_hold_lock = True
        try:
            standing = self.batch.locks.acquire(self.company_id, seen, self.lock)
        except StoreError as error:
            # By the sequence the run ends here. Should the write have been made after all, the redelivery
            # of this message finds its own lock.
            self.may_hold_lock = False
            return self._end(Ending.FAILED, LogCode.LOCK_WRITE_FAILED, error, request=self._item(self.lock))
        self.may_hold_lock = standing == self.lock
        if self.may_hold_lock:
            return None
        return self._end(Ending.LOCKED, LogCode.LOCK_HELD, item=self._item(standing))

    def _aggregate(self) -> RunOutcome:
        now = self.delivery.now
        asked = UsersRequest(self.batch.base_url, self.company_id, int(now.timestamp()))
        try:
            users = self._ask_for_users(asked)
        except KizamiError as error:
            return self._end(Ending.FAILED, LogCode.API_FAILED, error, request=asked.to_log())
        self.log.write(LogCode.API_ANSWERED, request=asked.to_log())
        return self._grant_points(users, point_day(now, self.batch.zone))

    def _ask_for_users(self, asked: UsersRequest) -> list[Any]:
        key = self.message.key
        if isinstance(key, SecretReference):
            key = self.batch.look_up_key(key)
        self.log.hide(key.value)
        signature = sign(key, asked.timestamp, asked.company_id)
        self.log.hide(signature)
        seconds = min(API_TIMEOUT_SECONDS, max(1.0, self.delivery.seconds_left() - RESERVE_SECONDS))
        return read_users(self.batch.api.get(signed_request(asked, signature, seconds)))

    def _grant_points(self, entries: list[Any], day: PointDay) -> RunOutcome:
        for done in range(0, len(entries), CHUNK_USERS):
            self.batch.on_progress(done, len(entries))
            if self.delivery.seconds_left() < RESERVE_SECONDS:
                return self._end(Ending.STOPPED, LogCode.STOPPED, done=done, left=len(entries) - done)
            self._grant_chunk(entries[done : done + CHUNK_USERS], day)
        self.batch.on_progress(len(entries), len(entries))
        return RunOutcome(Ending.INCOMPLETE if self.tally.failed else Ending.COMPLETED, LogCode.END, self.tally)

    def _grant_chunk(self, entries: Sequence[Any], day: PointDay) -> None:
        """Grant together, then count and log one by one, in the order of the answer."""
        seen = [_look_at(entry, day) for entry in entries]
        users = [user for user in seen if isinstance(user, User)]
        outcomes = self.batch.points.grant(self.company_id, [user.user_number for user in users], day)
        granted = zip(users, outcomes, strict=True)
        for one in seen:
            if isinstance(one, User):
                self._count(*next(granted), day)
            else:
                self._pass_over(one)

    def _pass_over(self, passed: _PassedOver) -> None:
        match passed.code:
            case LogCode.MALFORMED_USER:
                self.tally.malformed += 1
            case LogCode.NEVER_DETECTED:
                self.tally.never_detected += 1
            case _:
                self.tally.not_today += 1
        self.log.write(passed.code, passed.error, user=passed.user)

    def _count(self, user: User, outcome: GrantOutcome | StoreError, day: PointDay) -> None:
        if outcome is GrantOutcome.GRANTED:
            self.tally.granted += 1
        elif outcome is GrantOutcome.ALREADY_GRANTED:
            self.tally.already_granted += 1
            self.log.write(LogCode.ALREADY_GRANTED, user=asdict(user))
        else:
            self.tally.failed += 1
            request = {"CompanyId": self.company_id, "UserMonth": point_key(user.user_number, day.month)}
            self.log.write(LogCode.POINT_FAILED, outcome, request=request)

    def _release_lock(self) -> RunOutcome | None:
        """None with the lock off our hands (released, or another run's by now), else the failure."""
        try:
            standing = self.batch.locks.release(self.company_id, self.lock)
        except StoreError as error:
            return self._end(Ending.FAILED, LogCode.LOCK_ACCESS_FAILED, error)
        if standing is not None:
            self.log.write(LogCode.LOCK_LOST, item=self._item(standing))
        return None

    def _item(self, lock: Lock | None) -> dict[str, str]:
        return {"CompanyId": self.company_id, **(write_lock(lock) if lock else {})}

    def _end(self, ending: Ending, code: LogCode, error: Exception | None = None, **details: Any) -> RunOutcome:
        self.log.write(code, error, **details)
        return RunOutcome(ending, code, self.tally, type(error) if error else None)


@dataclass(frozen=True, slots=True)
class _PassedOver:
    """A user of the answer who gets no point today, and the line that says why."""

    code: LogCode
    user: Any
    error: InvalidInput | None = None


def _look_at(entry: Any, day: PointDay) -> User | _PassedOver:
    """The user of an entry if it counts today."""
    try:
        user = read_user(entry)
    except InvalidInput as error:
        return _PassedOver(LogCode.MALFORMED_USER, entry, error)
    match detect(user, day):
        case Detection.TODAY:
            return user
        case Detection.NEVER:
            return _PassedOver(LogCode.NEVER_DETECTED, asdict(user))
        case Detection.NOT_TODAY:
            return _PassedOver(LogCode.NOT_TODAY, asdict(user))
