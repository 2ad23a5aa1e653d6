"""Backfill: gaps become the very messages that were missed, oldest first."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kizami.core.backfill import plan_backfill, spread
from kizami.core.coverage import Gap, Span, find_gaps
from kizami.core.messages import ScheduleMessage
from kizami.core.sender import message_for_slot, plan_minute
from kizami.core.slots import Window, shift
from kizami.core.targets.target import SEED_TARGET, Target

START = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return shift(START, seconds)


def test_a_missed_minute_is_asked_for_with_the_messages_it_would_have_had() -> None:
    missed = find_gaps(Span(START, at(60), 5), [])
    assert list(plan_backfill(SEED_TARGET, missed)) == [entry.message for entry in plan_minute(START, SEED_TARGET)]


@pytest.mark.parametrize("target", [Target(lag_seconds=10), Target(name="cpu", interval_seconds=30)])
def test_the_windows_are_the_slots_themselves_whatever_the_lag(target: Target) -> None:
    gap = Gap(START, at(60), 60 // target.interval_seconds)
    slots = range(0, 60, target.interval_seconds)
    assert list(plan_backfill(target, [gap])) == [message_for_slot(at(slot), target) for slot in slots]


def test_the_oldest_slots_come_first_however_the_gaps_are_given() -> None:
    gaps = [Gap(at(40), at(45), 1), Gap(at(0), at(10), 2), Gap(at(20), at(25), 1)]
    starts = [message.window.start for message in plan_backfill(SEED_TARGET, gaps)]
    assert starts == [at(0), at(5), at(20), at(40)]


def test_a_year_of_gaps_is_planned_as_it_is_taken() -> None:
    year = Gap(START, shift(START, 365 * 86_400), 365 * 17_280)
    first = next(plan_backfill(SEED_TARGET, [year]))
    assert first == message_for_slot(START, SEED_TARGET)


def test_without_gaps_there_is_nothing_to_ask() -> None:
    assert list(plan_backfill(SEED_TARGET, [])) == []


def test_messages_are_spread_evenly_and_all_at_once_if_over_no_time() -> None:
    messages = [ScheduleMessage(Window.of_slot(at(5 * number), 5)) for number in range(3000)]
    for count, most, last in ((5, 300, 1), (1000, 300, 249), (3000, 300, 299), (3000, 0, 0)):
        delays = [planned.delay_seconds for planned in spread(messages[:count], most)]
        assert (delays[0], delays[-1]) == (0, last)
        assert delays == sorted(delays)
    assert [planned.message for planned in spread(messages, 300)] == messages
    assert spread([], 300) == []
