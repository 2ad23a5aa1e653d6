"""The Sender's plan: a minute becomes the messages that make its ticks, each with its delay (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from math import ceil

from kizami.core.bundles import Bundle
from kizami.core.messages import BundleMessage, ScheduleMessage
from kizami.core.slots import Window, floor_to_minute, floor_to_slot, shift, to_utc
from kizami.core.targets.bundles import NamedBundle, Polled
from kizami.core.targets.target import Target, Timed

# A trigger that is older sends nothing: its slots may have been asked for as past ones already.
OLDEST_MINUTE_SECONDS = 600


@dataclass(frozen=True, slots=True)
class PlannedMessage:
    """A message, and how long after sending it becomes due."""

    message: ScheduleMessage
    delay_seconds: int


@dataclass(frozen=True, slots=True)
class PlannedBundle:
    """A bundle's message, and how long after sending it becomes due."""

    message: BundleMessage
    delay_seconds: int


Planned = PlannedMessage | PlannedBundle


def plan_minute(triggered_at: datetime, target: Target) -> tuple[PlannedMessage, ...]:
    """The messages of the minute that `triggered_at` falls in: 60 / interval of them, delays 0, 5 … 55.

    An interval above a minute has one at the minutes that are its ticks and none at the others.

    A trigger is neither aligned nor exactly once, so its time is cut down to the minute: a second
    trigger plans the same windows again, which the conditional write absorbs (Requirements 1.2, 1.3).
    """
    minute = floor_to_minute(triggered_at)
    return tuple(
        PlannedMessage(ScheduleMessage(window, target.name), delay)
        for delay, window in minute_windows(minute, target.interval_seconds, target.lag_seconds)
    )


@lru_cache(maxsize=64)  # the targets of one interval and lag share the windows of a minute
def minute_windows(minute: datetime, interval_seconds: int, lag_seconds: int) -> tuple[tuple[int, Window], ...]:
    """The ticks of a minute, in seconds after it begins, each with the window that it asks for."""
    if floor_to_slot(minute, interval_seconds) != minute:
        return ()
    slots = ((delay, shift(minute, delay - lag_seconds)) for delay in range(0, 60, interval_seconds))
    return tuple((delay, Window.of_slot(slot, interval_seconds)) for delay, slot in slots)


def ticks_to_send(triggered_at: datetime, target: Polled, now: datetime) -> Iterator[tuple[int, Window]]:
    """The ticks that a trigger sends messages for, in seconds from when they are sent (`now`), with their windows.

    They are those of its minute. An API that can only say "now" must be asked then, and a trigger comes at any
    second of its minute: it is sent the next minute, each message due at its tick, to the second.
    """
    minute, ahead = floor_to_minute(triggered_at), 0
    if not target.backfill:
        minute = shift(minute, 60)
        ahead = ceil((minute - to_utc(now)).total_seconds())
    for delay, window in minute_windows(minute, target.interval_seconds, target.lag_seconds):
        yield max(0, delay + ahead), window


def plan_all(
    triggered_at: datetime, targets: Iterable[Target], now: datetime | None = None
) -> tuple[PlannedMessage, ...]:
    """The plans of all enabled targets for one minute, soonest first; `now` is when they are sent.

    For those that can only be asked live it is the minute to come.
    """
    plan = (
        PlannedMessage(ScheduleMessage(window, target.name), delay)
        for target in targets
        if target.enabled
        for delay, window in ticks_to_send(triggered_at, target, now or triggered_at)
    )
    return tuple(sorted(plan, key=lambda entry: entry.delay_seconds))


def plan_bundles(
    triggered_at: datetime, bundles: Iterable[NamedBundle], now: datetime | None = None
) -> tuple[PlannedBundle, ...]:
    """The same of bundles, each at its own place within the interval."""
    plan = (
        PlannedBundle(BundleMessage(window, bundle.members), delay + bundle.offset_seconds)
        for bundle in bundles
        for delay, window in ticks_to_send(triggered_at, bundle, now or triggered_at)
    )
    return tuple(sorted(plan, key=lambda entry: entry.delay_seconds))


def plan_ticks(
    triggered_at: datetime, bundles: Iterable[Bundle], now: datetime | None = None
) -> tuple[PlannedBundle, ...]:
    """Return a minute's messages of a plan's bundles, each at its offset within the interval, soonest first."""
    plan = (
        PlannedBundle(BundleMessage(window, bundle.names, bundle.name), delay + bundle.offset_seconds)
        for bundle in bundles
        for delay, window in ticks_to_send(triggered_at, bundle, now or triggered_at)
    )
    return tuple(sorted(plan, key=lambda entry: entry.delay_seconds))


def is_too_old(minute: datetime, now: datetime) -> bool:
    """Return True if a trigger's minute is not sent any more: the reconciler asks for its slots."""
    return now > shift(minute, OLDEST_MINUTE_SECONDS)


def message_for_slot(slot: datetime, target: Timed) -> ScheduleMessage:
    """The message that asks for one slot, live or long past."""
    return ScheduleMessage(Window.of_slot(slot, target.interval_seconds), target.name)
