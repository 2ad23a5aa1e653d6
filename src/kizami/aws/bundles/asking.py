"""One slot of a bundle: whether it may be asked for, the request, what the answer comes to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum

from kizami.aws.client import machine
from kizami.aws.client.side_by_side import fetch_beside, in_thread
from kizami.aws.history.keeping import expiring, is_given_up
from kizami.aws.invocation import TimeLeft
from kizami.aws.store.block_guard import BlockAdmission, BlockGuard
from kizami.core.blocking import Trouble
from kizami.core.collector import is_missed, plan_request, read_records, seconds_to_wait
from kizami.core.errors import ApiError, KizamiError
from kizami.core.messages import MetricRecord, ScheduleMessage
from kizami.core.ports import PutOutcome
from kizami.core.slots import shift
from kizami.core.targets.target import Target

LEAST_SECONDS = 1.0  # with less time left nothing is begun

Write = Callable[[list[MetricRecord]], Awaitable[PutOutcome]]


class SlotResult(Enum):
    """What became of a slot in this delivery."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    KEPT = "kept"  # its target is blocked
    MISSED = "missed"  # it is too late to ask, or to keep the answer
    POSTPONED = "postponed"  # there was no time left to ask
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SlotOutcome:
    """What became of a slot; how long after its tick its answer was there, if one was."""

    slot: ScheduleMessage
    result: SlotResult
    error: Exception | None = None
    late_ms: int | None = None
    api_ms: int | None = None  # how long the API took to answer
    blocks: Trouble | None = None  # its failure is the one that blocks the target
    ends: Trouble | None = None  # its answer ends the target's trouble


class Asker:
    """Asks for the slots of one invocation."""

    def __init__(self, guard: BlockGuard, write: Write, time_left: TimeLeft) -> None:
        self._guard = guard
        self._write = write
        self._time_left = time_left

    async def ask(self, slot: ScheduleMessage, target: Target) -> SlotOutcome:
        """What became of the slot; whatever goes wrong is an outcome, too."""
        try:
            admission = await self._admit(slot, target)
            if admission is BlockAdmission.KEEP:
                return SlotOutcome(slot, SlotResult.KEPT)
            return await self._ask_admitted(slot, target, admission)
        except Exception as error:  # noqa: BLE001 -- one slot's surprise must not take the others of its bundle down
            return SlotOutcome(slot, SlotResult.FAILED, error)

    async def _admit(self, slot: ScheduleMessage, target: Target) -> BlockAdmission:
        if self._guard.is_clear(target):
            return BlockAdmission.ASK
        return await in_thread(lambda: self._guard.admit(target, slot, machine.now()))

    async def _ask_admitted(self, slot: ScheduleMessage, target: Target, admission: BlockAdmission) -> SlotOutcome:
        try:
            outcome = await self._collect(slot, target)
        except ApiError as failure:
            error = failure
            item = await in_thread(lambda: self._guard.failed(target, slot, error, admission, machine.now()))
            if item is None or not item.is_blocked:
                return SlotOutcome(slot, SlotResult.FAILED, error)
            blocks = None if admission is BlockAdmission.PROBE else item.trouble
            return SlotOutcome(slot, SlotResult.KEPT, error, blocks=blocks)
        if admission is BlockAdmission.PROBE:
            return await in_thread(lambda: self._ended(outcome, target))
        self._guard.answered(target, admission, machine.now())
        return outcome

    def _ended(self, outcome: SlotOutcome, target: Target) -> SlotOutcome:
        ended = self._guard.answered(target, BlockAdmission.PROBE, machine.now())
        return replace(outcome, ends=ended)

    async def _collect(self, slot: ScheduleMessage, target: Target) -> SlotOutcome:
        request = plan_request(slot, target)
        await asyncio.sleep(seconds_to_wait(slot, target, machine.now()))
        if is_missed(slot, target, machine.now()) or is_given_up(slot, target, machine.now()):
            return SlotOutcome(slot, SlotResult.MISSED)
        if self._time_left() < LEAST_SECONDS:
            return SlotOutcome(slot, SlotResult.POSTPONED)
        seconds = self._time_left() * 2 / 3  # the rest is for the write, the ledger and what goes back
        asked_at = machine.now()
        response = await fetch_beside(request, seconds, target)
        arrived_at = machine.now()
        records = read_records(response, slot, target, arrived_at)
        stored = await self._write(expiring(records, target)) is PutOutcome.STORED
        due = shift(records[0].slot, target.lag_seconds)
        result = SlotResult.STORED if stored else SlotResult.DUPLICATE
        return SlotOutcome(slot, result, late_ms=_ms(arrived_at - due), api_ms=_ms(arrived_at - asked_at))


def _ms(time: timedelta) -> int:
    return round(time.total_seconds() * 1000)


def reason_of(error: Exception) -> str:
    """What a log line or a dead letter says of a failure: our own errors' words, of others the kind alone."""
    return str(error) if isinstance(error, KizamiError) else f"{type(error).__name__}, which is a fault of kizami"
