"""The Sender's plan: a minute becomes the messages that make its ticks, each with its delay (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from kizami.core.messages import ScheduleMessage
from kizami.core.slots import Window, floor_to_minute, shift
from kizami.core.targets.target import Target, Timed


@dataclass(frozen=True, slots=True)
class PlannedMessage:
    """A message, and how long after sending it becomes due."""

    message: ScheduleMessage
    delay_seconds: int


def plan_minute(triggered_at: datetime, target: Target) -> tuple[PlannedMessage, ...]:
    """The messages of the minute that `triggered_at` falls in: 60 / interval of them, delays 0, 5 … 55.

    A trigger is neither aligned nor exactly once, so its time is cut down to the minute: a second
    trigger plans the same windows again, which the conditional write absorbs (Requirements 1.2, 1.3).
    """
    minute = floor_to_minute(triggered_at)
    return tuple(
        PlannedMessage(ScheduleMessage(window, target.name), delay)
        for delay, window in _windows(minute, target.interval_seconds, target.lag_seconds)
    )


@lru_cache(maxsize=64)  # the targets of one interval and lag share the windows of a minute
def _windows(minute: datetime, interval_seconds: int, lag_seconds: int) -> tuple[tuple[int, Window], ...]:
    slots = ((delay, shift(minute, delay - lag_seconds)) for delay in range(0, 60, interval_seconds))
    return tuple((delay, Window.of_slot(slot, interval_seconds)) for delay, slot in slots)


def plan_all(triggered_at: datetime, targets: Iterable[Target]) -> tuple[PlannedMessage, ...]:
    """The plans of all enabled targets for one minute, soonest first."""
    plans = [plan_minute(triggered_at, target) for target in targets if target.enabled]
    return tuple(sorted((entry for plan in plans for entry in plan), key=lambda entry: entry.delay_seconds))


def message_for_slot(slot: datetime, target: Timed) -> ScheduleMessage:
    """The message that asks for one slot, live or long past."""
    return ScheduleMessage(Window.of_slot(slot, target.interval_seconds), target.name)
