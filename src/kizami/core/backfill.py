"""Backfill: gaps become messages again, oldest first; who takes them bounds how many at a time (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from kizami.core.coverage import Gap
from kizami.core.messages import ScheduleMessage
from kizami.core.sender import PlannedMessage, message_for_slot
from kizami.core.slots import slots_between
from kizami.core.targets.target import Timed

SPREAD_SECONDS = 300  # over which old slots come due where they share the live queue
_A_SECOND = 4
_NAMED = 5


def left_out_words(names: Collection[str]) -> str:
    """What is said where targets without `backfill` were left out."""
    shown = ", ".join(sorted(names)[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return f"left out: {shown}; with backfill = false what was missed stays missing"


def plan_backfill(target: Timed, gaps: Iterable[Gap]) -> Iterator[ScheduleMessage]:
    """The messages that ask for the slots of `gaps` again, oldest first, made as they are taken.

    Every request names its window, so a slot can be asked for at any later time; a slot that got its
    record in the meantime costs one request and changes nothing.
    """
    ordered = sorted(gaps, key=lambda gap: gap.start)
    slots = (slot for gap in ordered for slot in slots_between(gap.start, gap.end, target.interval_seconds))
    return (message_for_slot(slot, target) for slot in slots)


def noting_metrics(messages: Iterable[ScheduleMessage], metrics: set[str]) -> Iterator[ScheduleMessage]:
    """The messages as they come, there may be millions of them; whose they are is noted."""
    for message in messages:
        metrics.add(message.metric)
        yield message


def spread(messages: Sequence[ScheduleMessage], most_seconds: int) -> list[PlannedMessage]:
    """The messages, due four a second, or evenly over so many seconds: none waits behind them for its tick."""
    seconds = min(most_seconds, len(messages) / _A_SECOND)
    return [
        PlannedMessage(message, int(number * seconds / len(messages))) for number, message in enumerate(messages)
    ]
