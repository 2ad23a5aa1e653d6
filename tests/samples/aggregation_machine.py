"""A Hypothesis state machine that drives whole batches on any lock and point store, step by step.

Each worker is a thread that stops before every call to a port, so that the machine decides what happens
next in the world: whose call is made, whether it fails before or after it took effect, who crashes, what
is delivered again and what the clock says.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from zoneinfo import ZoneInfo

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from fakes.aggregation import ScriptedUsersApi, make_batch, user
from kizami.aggregation.batch import Ending, RunContext, RunOutcome
from kizami.aggregation.lock import EXPIRY, Lock
from kizami.aggregation.messages import AggregationMessage
from kizami.aggregation.points import GrantOutcome, PointDay, point_day
from kizami.aggregation.signing import ApiKey
from kizami.core.collector import Request, Response
from kizami.core.errors import StoreError
from kizami.core.ports import LockStore, PointStore

T = TypeVar("T")

# São Paulo's clock change of November 2018 skips a midnight, a few days after a month's end.
ZONE = ZoneInfo("America/Sao_Paulo")
BEGINNING = datetime(2018, 10, 31, 12, 0, tzinfo=UTC)
USERS = ("u1", "u2")
PATIENCE_SECONDS = 120

_companies = itertools.count()


class Crash(BaseException):
    """The process is gone: nothing after this line runs, the release neither."""


class Worker:
    """One delivery, run in a thread that waits before each call to a port."""

    def __init__(self, world: World, message_id: str, run_id: str) -> None:
        self.world, self.message_id, self.run_id, self.now = world, message_id, run_id, world.now
        self.outcome: RunOutcome | None = None
        self.fault: str | None = None
        self.next_call = ""
        self.alive = True
        self._paused, self._go = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._wait()

    def step(self, fault: str | None = None) -> None:
        """Let the next call be made; with a fault it fails "before" or "after" it took effect, or in a "crash"."""
        self.fault = fault
        self._go.release()
        self._wait()

    def _wait(self) -> None:
        assert self._paused.acquire(timeout=PATIENCE_SECONDS), "a worker did not come to its next call"

    def _run(self) -> None:
        try:
            batch = make_batch(locks=self, points=self, api=self, zone=ZONE)
            message = AggregationMessage(self.world.company_id, ApiKey("key-of-the-machine"))
            self.outcome = batch.run(message, RunContext(self.message_id, self.run_id, self.now))
        except Crash:
            pass
        finally:
            self.alive = False
            self._paused.release()

    def _call(self, name: str, call: Callable[[], T]) -> T:
        self.next_call = name
        self._paused.release()
        self._go.acquire()
        if self.fault == "before":
            raise StoreError("it failed before it took effect")
        if self.fault == "crash":
            raise Crash
        answer = call()
        if self.fault == "after":
            raise StoreError("it failed after it took effect")
        return answer

    # The ports: what took effect is told to the world before the batch hears of it.

    def read(self, company_id: str) -> Lock | None:
        return self._call("read", lambda: self.world.locks.read(company_id))

    def acquire(self, company_id: str, seen: Lock | None, lock: Lock) -> Lock | None:
        return self._call("acquire", lambda: self.world.see_acquire(self, seen, lock))

    def release(self, company_id: str, lock: Lock) -> Lock | None:
        if self.fault == "crash":  # a dead process releases nothing
            raise Crash
        return self._call("release", lambda: self.world.see_release(self, lock))

    def get(self, request: Request) -> Response:
        seen_at = int(self.now.timestamp())
        users = [*(user(number, seen_at) for number in USERS), user("never", None)]
        return self._call("get", lambda: ScriptedUsersApi(*users).get(request))

    def grant(
        self, company_id: str, user_numbers: Sequence[str], day: PointDay
    ) -> Sequence[GrantOutcome | StoreError]:
        try:
            return self._call("grant", lambda: self.world.see_grants(user_numbers, day))
        except StoreError as error:
            return [error] * len(user_numbers)


@dataclass
class World:
    """The stores, the clock, and what the machine has seen take effect."""

    locks: LockStore
    points: PointStore
    company_id: str = field(default_factory=lambda: f"company-{next(_companies)}")
    now: datetime = BEGINNING
    holder: Worker | None = None
    lock: Lock | None = None
    granted: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    def see_acquire(self, worker: Worker, seen: Lock | None, lock: Lock) -> Lock | None:
        standing = self.locks.acquire(self.company_id, seen, lock)
        if standing == lock:
            self._require_right_to(worker)
            self.holder, self.lock = worker, lock
        return standing

    def _require_right_to(self, worker: Worker) -> None:
        """A lock is taken when free, by its own message, or when it is older than 120 minutes."""
        if self.lock is not None and self.lock.owner != worker.message_id:
            self.require(self.lock.locked_at + EXPIRY < worker.now, "two holders")

    def see_release(self, worker: Worker, lock: Lock) -> Lock | None:
        standing = self.locks.release(self.company_id, lock)
        if self.holder is worker:
            self.holder, self.lock = None, None
        self.require(standing == self.lock, "a lock was released by another than its holder")
        return standing

    def require(self, promise: bool, otherwise: str) -> None:
        """Keep a broken promise for the machine: raised here, the batch would take it for a fault of its store."""
        if not promise:
            self.broken.append(otherwise)

    def see_grants(self, user_numbers: Sequence[str], day: PointDay) -> Sequence[GrantOutcome | StoreError]:
        outcomes = self.points.grant(self.company_id, user_numbers, day)
        for number, outcome in zip(user_numbers, outcomes, strict=True):
            if outcome is GrantOutcome.GRANTED:
                self.granted[number, day.month, day.start] += 1
        return outcomes


class AggregationMachine(RuleBasedStateMachine):
    """Workers, crashes, redeliveries and clock steps in any order, with the batch's promises as invariants."""

    messages = Bundle("messages")

    def __init__(self, locks: LockStore, points: PointStore) -> None:
        super().__init__()
        self.world = World(locks, points)
        self.workers: list[Worker] = []
        self.runs = itertools.count(1)
        self.message_ids = itertools.count(1)

    def start(self, message_id: str) -> Worker:
        worker = Worker(self.world, message_id, f"r{next(self.runs)}")
        self.workers.append(worker)
        return worker

    @property
    def live(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.alive]

    @rule(target=messages)
    def deliver(self) -> str:
        message_id = f"m{next(self.message_ids)}"
        self.start(message_id)
        return message_id

    @rule(message_id=messages)
    def deliver_again(self, message_id: str) -> None:
        """After a crash or a failure, and also while the first delivery is still at work."""
        self.start(message_id)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), fault=st.sampled_from([None] * 6 + ["before", "after", "crash"]))
    def step(self, data: st.DataObject, fault: str | None) -> None:
        data.draw(st.sampled_from(self.live)).step(fault)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), call=st.sampled_from(["acquire", "get", "grant", "release"]))
    def advance_to(self, data: st.DataObject, call: str) -> None:
        """Far into a run at once: what is interesting happens while somebody holds the lock."""
        worker = data.draw(st.sampled_from(self.live))
        while worker.alive and worker.next_call != call:
            worker.step()

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(self.live))
        while worker.alive:
            worker.step()
        self.check_completed(worker)

    @rule(minutes=st.sampled_from([1, 61, 119, 119, 121, 121, 12 * 60, -1, -60, -24 * 60]))
    def move_the_clock(self, minutes: int) -> None:
        """Forwards, to just within and just past the lock's expiry, and back."""
        self.world.now += timedelta(minutes=minutes)

    @rule(seconds=st.sampled_from([-1, 0, 1]))
    def pass_time_to_midnight(self, seconds: int) -> None:
        tomorrow = self.world.now + timedelta(days=1)
        self.world.now = datetime.fromtimestamp(point_day(tomorrow, ZONE).start + seconds, UTC)

    def check_completed(self, worker: Worker) -> None:
        """A run that completed leaves every user with a point of its day, or of a later one."""
        if worker.outcome is None or worker.outcome.ending is not Ending.COMPLETED:
            return
        assert self.world.holder is not worker, "a lock was kept"
        day = point_day(worker.now, ZONE)
        for number in USERS:
            days = [start for user, month, start in self.world.granted if (user, month) == (number, day.month)]
            assert max(days) >= day.start, "a day was lost"

    @invariant()
    def no_promise_was_broken_in_a_worker(self) -> None:
        assert self.world.broken == []

    @invariant()
    def no_user_has_two_points_a_day(self) -> None:
        assert all(times == 1 for times in self.world.granted.values())

    @invariant()
    def the_points_of_a_month_are_its_granted_days(self) -> None:
        for month in ("201810", "201811"):
            stored = {
                item.user_number: item.points for item in self.world.points.points(self.world.company_id, month)
            }
            granted = Counter(user for user, granted_month, _ in self.world.granted if granted_month == month)
            assert stored == granted

    @invariant()
    def the_lock_that_stands_is_its_holders(self) -> None:
        assert self.world.locks.read(self.world.company_id) == self.world.lock

    def teardown(self) -> None:
        """Nobody's lock is for ever: the owner's message re-enters it now, anybody 120 minutes later."""
        for worker in self.live:
            worker.step("crash")
        lock = self.world.lock
        if lock is not None and lock.owner is not None and not lock.locked_at + EXPIRY < self.world.now:
            self.require_completed(self.start(lock.owner))
        self.world.now += timedelta(hours=60)
        self.require_completed(self.start("the last message"))
        self.no_promise_was_broken_in_a_worker()

    def require_completed(self, worker: Worker) -> None:
        while worker.alive:
            worker.step()
        assert worker.outcome is not None
        assert worker.outcome.ending is Ending.COMPLETED, "a lock was lost"
