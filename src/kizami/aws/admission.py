"""Admission: which members of a bundle a delivery asks, by the states of their targets, and what it notes there.

    states ─▶ asked here | slow: by the retry lane | held: kept, or asked by a probe ─▶ answers, failures ─▶ states

States that cannot be read or written hold nothing up: without one a member is asked, and a slot that could not be
kept is tried again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from kizami.aws.asking import Ask, Asked
from kizami.aws.blocks import Blocks, Change
from kizami.aws.client import machine
from kizami.aws.files import PackagedTargets
from kizami.core.bundles import Bundle
from kizami.core.errors import ApiError, ConfigurationError, StoreError
from kizami.core.holding import (
    Admission,
    TargetState,
    admit,
    keep_slot,
    note_answer,
    note_failure,
    probe_slot,
    probe_target,
    reserve_probe,
)
from kizami.core.messages import BACKFILL, LIVE, PROBE, BundleMessage, ScheduleMessage
from kizami.core.slots import format_second
from kizami.core.targets.target import Target
from kizami.core.ticks import Tick

log = logging.getLogger(__name__)


@dataclass(slots=True)
class SlotWork:
    """One slot of a delivery, and what was found out about it so far. Members are named by their places."""

    bundle: Bundle
    message: BundleMessage  # about this slot alone
    about: Mapping[str, Any]  # for log lines
    tick: Tick | None = None  # as it was before
    is_begun: bool = False  # the tick is there
    states: Mapping[str, TargetState] = field(default_factory=dict)
    is_blind: bool = False  # states cannot be written
    asks: list[Ask] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    probes: dict[datetime, list[str]] = field(default_factory=dict)  # by the slot that they ask for
    unknown: list[str] = field(default_factory=list)  # the configuration has no such target
    began: datetime | None = None  # when it began to ask
    held: set[int] = field(default_factory=set)  # members whose slot is kept
    written: set[int] = field(default_factory=set)  # members whose answers are in the tick
    noted: set[int] = field(default_factory=set)  # held members of which the tick says so

    @property
    def at(self) -> datetime:
        return self.message.window.start

    @property
    def lane(self) -> str:
        return self.message.lane

    def place(self, name: str) -> int:
        return self.bundle.places[name]

    def attempts(self, name: str) -> int:
        """Return how many attempts were made before this delivery."""
        return dict(zip(self.message.metrics, self.message.attempts, strict=False)).get(name, 0)


class TargetGate:
    """Lets the members of deliveries pass that are to be asked, and notes what their targets did."""

    def __init__(self, targets: PackagedTargets, blocks: Blocks) -> None:
        self._targets = targets
        self._blocks = blocks

    def admit(self, slot: SlotWork, names: Sequence[str]) -> None:
        """Read the states of members and decide what becomes of each."""
        try:
            slot.states = self._blocks.of(names)
        except StoreError as error:
            details = {**slot.about, "detail": str(error)}
            log.warning("states of targets not read", extra={"event": "blocks.unread", **details})
        for name in names:
            self._admit(slot, name)

    def note(self, slot: SlotWork, asked: Iterable[Asked]) -> None:
        """Note answers and failures in the states of targets; the slots of those that are held now are kept."""
        for each in asked:
            name = each.ask.target.name
            target = self._target(slot.bundle, name)  # not as a probe asks it

            def change(
                seen: TargetState | None, each: Asked = each, target: Target = target
            ) -> TargetState | None:
                now = machine.now()
                if each.is_answered:
                    return note_answer(seen, target, each.seconds, slot.lane, now)
                if not isinstance(each.error, ApiError):
                    return None
                noted = note_failure(seen, target, each.error, slot.at, slot.lane, each.seconds, now)
                state = noted or seen
                return _keep(state, slot) if state is not None and state.is_held else noted

            before, after = self._update(slot, name, change)
            if isinstance(each.error, ApiError) and _is_kept(after, slot):
                slot.held.add(each.ask.place)
            _log_change(name, before, after)

    def _admit(self, slot: SlotWork, name: str) -> None:
        try:
            target = self._target(slot.bundle, name)
        except ConfigurationError:
            slot.unknown.append(name)
            return
        state, now = slot.states.get(name), machine.now()
        admission = admit(state, target, slot.at, slot.lane, now)
        if admission is Admission.SLOW and len(slot.bundle.members) > 1:
            slot.slow.append(name)
        elif admission in (Admission.ASK, Admission.SLOW) or not self._hold(slot, name, target):
            asked = probe_target(state, target, now) if slot.lane == PROBE else target
            message = ScheduleMessage(slot.message.window, name)
            slot.asks.append(Ask(asked, message, slot.place(name), slot.attempts(name)))

    def _target(self, bundle: Bundle, name: str) -> Target:
        """Return a member's target with the timing of its bundle, else ConfigurationError."""
        target = self._targets.target(name)
        if target.metrics != bundle.members[bundle.places[name]].metrics:
            raise ConfigurationError("metric", f"{name} has other values than when the slot was planned")
        return _timed(target, bundle.interval_seconds, bundle.lag_seconds)

    def _hold(self, slot: SlotWork, name: str, target: Target) -> bool:
        """Keep a slot of a held target; the delivery that reserves a due probe sends it.

        Return False if the slot is to be asked for here after all, because it could not be noted that it is kept.
        """
        probes: list[datetime] = []

        def change(seen: TargetState | None) -> TargetState | None:
            probes.clear()
            if seen is None or not seen.is_held:
                return None
            now = machine.now()
            if admit(seen, target, slot.at, slot.lane, now) is Admission.PROBE:
                probes.append(probe_slot(seen, target, slot.at, slot.bundle.name))
                seen = reserve_probe(seen, target, now)
            return seen if slot.at in probes else _keep(seen, slot)

        _, state = self._update(slot, name, change)
        if slot.is_blind:
            probes.clear()
        for probed in probes:
            slot.probes.setdefault(probed, []).append(name)
        if slot.at in probes:
            return True
        if _is_kept(state, slot):
            slot.held.add(slot.place(name))
        elif slot.lane == LIVE:
            slot.slow.append(name)
        else:
            return False
        return True

    def _update(self, slot: SlotWork, name: str, change: Change) -> tuple[TargetState | None, TargetState | None]:
        """Change a target's state; return it before and after. If DynamoDB refuses, it stays as it was read."""
        seen = before = slot.states.get(name)

        def recorded(state: TargetState | None) -> TargetState | None:
            nonlocal before
            before = state
            return change(state)

        if not slot.is_blind:
            try:
                after = self._blocks.update(name, recorded, seen)
                return before, after
            except StoreError as error:
                slot.is_blind = True
                details = {**slot.about, "metric": name, "detail": str(error)}
                log.warning("states of targets not written", extra={"event": "blocks.unwritten", **details})
        return seen, seen


@lru_cache(maxsize=1024)
def _timed(target: Target, interval_seconds: int, lag_seconds: int) -> Target:
    """Return the target with the timing that it had when the slot was planned."""
    if (target.interval_seconds, target.lag_seconds) == (interval_seconds, lag_seconds):
        return target
    return replace(target, interval_seconds=interval_seconds, lag_seconds=lag_seconds)


def _keep(state: TargetState, slot: SlotWork) -> TargetState:
    """Note that the slot is kept; of a backfilled one, which may be of long ago, only the tick says so."""
    return state if slot.lane == BACKFILL else keep_slot(state, slot.at, slot.bundle.name)


def _is_kept(state: TargetState | None, slot: SlotWork) -> bool:
    """Return True if the slot is recovered when its target answers again."""
    if state is None or not state.is_held:
        return False
    return slot.lane == BACKFILL or (state.kept_from is not None and state.kept_from <= slot.at)


def _log_change(name: str, before: TargetState | None, after: TargetState | None) -> None:
    """Write a line if a target becomes slow or held, or is held no more."""
    was_held, is_held = before is not None and before.is_held, after is not None and after.is_held
    if after is not None and after.trouble is not None and is_held and not was_held:
        log.warning(
            "a target is held; probes ask it until it answers, and its slots are kept",
            extra={"event": "target.blocked", "metric": name, "reason": after.trouble.reason},
        )
    elif before is not None and before.trouble is not None and was_held and not is_held:
        since, probes = format_second(before.trouble.since), before.trouble.probes
        log.warning(
            "a held target answers again",
            extra={"event": "target.unblocked", "metric": name, "since": since, "probes": probes},
        )
    elif after is not None and after.slow and not (before is not None and before.slow):
        log.warning(
            "a target is slow: its slots are asked for apart from the others",
            extra={"event": "target.slow", "metric": name},
        )
