"""Backfill: gaps become messages again, oldest first; who takes them bounds how many at a time (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kizami.core.coverage import Gap
from kizami.core.messages import ScheduleMessage
from kizami.core.sender import message_for_slot
from kizami.core.slots import slots_between
from kizami.core.targets.target import Timed


def plan_backfill(target: Timed, gaps: Iterable[Gap]) -> Iterator[ScheduleMessage]:
    """The messages that ask for the slots of `gaps` again, oldest first, made as they are taken.

    Every request names its window, so a slot can be asked for at any later time; a slot that got its
    record in the meantime costs one request and changes nothing.
    """
    ordered = sorted(gaps, key=lambda gap: gap.start)
    slots = (slot for gap in ordered for slot in slots_between(gap.start, gap.end, target.interval_seconds))
    return (message_for_slot(slot, target) for slot in slots)
