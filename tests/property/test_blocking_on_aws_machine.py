"""The policy for lasting failures among Collectors, queue and reconciler: each slot is asked for in the end.

Everything is real but time, the queue and the table, which are in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kizami.aws.reconciler import examine, note_kept
from kizami.aws.store.block_guard import BlockAdmission, BlockGuard, Memory
from kizami.aws.store.block_items import BlockItem, Range, place_of
from kizami.core.errors import ApiError, ApiPayloadError, ApiStatusError
from kizami.core.messages import MetricRecord, ScheduleMessage
from kizami.core.reconcile import ReconcilePolicy, plan_run
from kizami.core.sender import message_for_slot
from kizami.core.slots import shift
from kizami.core.targets.target import Target

INTERVAL, VISIBILITY, RECEIVES = 30, 180, 5
TARGET = Target(name="calls", interval_seconds=INTERVAL, lag_seconds=INTERVAL)
POLICY = ReconcilePolicy(look_back_seconds=3600, limit=50)
BEGIN = datetime(2025, 12, 2, tzinfo=UTC)
ERRORS: dict[str, ApiError] = {"refused": ApiStatusError(401), "unknown": ApiStatusError(404)}
ODD = ApiPayloadError("count: is missing")


class MemoryTable:
    """Records and block items, with the conditions of their writes."""

    def __init__(self) -> None:
        self.records: dict[datetime, MetricRecord] = {}
        self.items: dict[str, BlockItem] = {}

    def count(self, name: str, start: datetime, end: datetime) -> int:
        return sum(start <= slot < end for slot in self.records)

    def query(self, name: str, start: datetime, end: datetime) -> Iterator[MetricRecord]:
        return (record for slot, record in sorted(self.records.items()) if start <= slot < end)

    def first_slot(self, name: str) -> datetime | None:
        return min(self.records, default=None)

    def newest_until(self, name: str, end: datetime) -> MetricRecord | None:
        return self.records[max(self.records)] if self.records else None

    def all(self) -> dict[str, BlockItem]:
        return dict(self.items)

    def between(self, places: Range) -> dict[str, BlockItem]:
        return {name: item for name, item in self.items.items() if places[0] <= place_of(name) <= places[1]}

    def get(self, name: str) -> BlockItem | None:
        return self.items.get(name)

    def save(self, name: str, item: BlockItem) -> bool:
        if self.items.get(name, BlockItem()).version != item.version:
            return False
        self.items[name] = replace(item, version=item.version + 1)
        return True

    def forget(self, name: str, item: BlockItem) -> bool:
        return self.items.get(name, BlockItem()).version == item.version and bool(self.items.pop(name, True))


class AwsMachine(RuleBasedStateMachine):
    """One target of half a minute: Sender, queue, Collectors of three containers, reconciler."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.ticks = BEGIN, 0
        self.table: Any = MemoryTable()
        self.queue: list[tuple[datetime, ScheduleMessage, int]] = []
        self.dead: set[datetime] = set()
        self.error: ApiError | None = None
        self.odd: set[datetime] = set()
        self.requests_while_blocked: list[datetime] = []

    @rule(name=st.sampled_from([None, *ERRORS]))
    def the_api_changes(self, name: str | None) -> None:
        self.error = None if name is None else ERRORS[name]

    @rule(ahead=st.integers(0, 2))
    def the_api_will_be_wrong_about_a_slot(self, ahead: int) -> None:
        self.odd.add(shift(self._next_slot(), ahead * INTERVAL))

    @rule(ticks=st.integers(1, 60))
    def time_passes(self, ticks: int) -> None:
        for _ in range(ticks):
            self.now += timedelta(seconds=INTERVAL)
            self.queue.append((self.now, message_for_slot(self._next_slot(), TARGET), 0))
            self.ticks += 1
            self._deliver()
            if self.ticks % (POLICY.period_seconds // INTERVAL) == 0:
                self._reconcile()

    @rule(hours=st.integers(2, 8))
    def hours_pass(self, hours: int) -> None:
        """Longer than the reconciler looks back."""
        self.time_passes(hours * 3600 // INTERVAL)

    @invariant()
    def probes_are_slow(self) -> None:
        asked = self.requests_while_blocked
        for first, moment in enumerate(asked):
            assert sum(each < moment + timedelta(hours=1) for each in asked[first:]) <= 9

    def teardown(self) -> None:
        self.error = None
        self.time_passes(6 * 3600 // INTERVAL)
        for _ in range(200):
            if not self.queue and not self.table.items:
                break
            self.time_passes(10)
        settled = [shift(BEGIN, n * INTERVAL) for n in range(self.ticks - 60)]
        lost = [slot for slot in settled if slot not in self.table.records and slot not in self.dead]
        assert not lost
        assert {slot for slot in settled if slot not in self.table.records} <= self.odd | self.dead

    def _next_slot(self) -> datetime:
        return shift(BEGIN, self.ticks * INTERVAL)

    def _deliver(self) -> None:
        due = [entry for entry in self.queue if entry[0] <= self.now]
        self.queue = [entry for entry in self.queue if entry[0] > self.now]
        for _, message, receives in due:
            if self._is_settled(message):
                continue
            if receives + 1 >= RECEIVES:
                self.dead.add(message.window.start)
            else:
                self.queue.append((shift(self.now, VISIBILITY), message, receives + 1))

    def _is_settled(self, message: ScheduleMessage) -> bool:
        guard = BlockGuard(self.table, self.table, Memory())
        admission = guard.admit(TARGET, message, self.now)
        if admission is BlockAdmission.KEEP:
            return True
        if admission is BlockAdmission.PROBE:
            self.requests_while_blocked.append(self.now)
        slot = message.window.start
        error = self.error or (ODD if slot in self.odd else None)
        if error is None:
            self.table.records.setdefault(slot, MetricRecord("calls", slot, 1, self.now))
            if guard.answered(TARGET, admission, self.now) is not None:
                self.requests_while_blocked.clear()
            return True
        item = guard.failed(TARGET, message, error, admission, self.now)
        return item is not None and item.is_blocked

    def _reconcile(self) -> None:
        items = self.table.all()
        finding = examine(TARGET, self.table, self.now, POLICY, items.get("calls"))
        messages = plan_run([finding], self.now, POLICY, len(self.queue))
        self.queue += [(self.now, message, 0) for message in messages]
        note_kept(self.table, items, [finding], set(messages), self.now)


AwsMachine.TestCase.settings = settings(max_examples=15, stateful_step_count=8, deadline=None)
TestBlockingOnAws = AwsMachine.TestCase
