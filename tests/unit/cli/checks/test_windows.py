"""The other windows that try and doctor ask for: slots of the target, and no false alarm about the mock API."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from kizami.cli.checks.windows import WindowCheck
from kizami.core.messages import MetricRecord, ScheduleMessage
from kizami.core.sender import message_for_slot
from kizami.core.slots import INTERVALS, floor_to_slot, format_instant, shift
from kizami.core.targets.target import Target
from kizami.mock_api.responder import respond

NOON = datetime(2025, 12, 2, 12, 0, 3, tzinfo=UTC)


def counted(message: ScheduleMessage) -> list[MetricRecord]:
    """What the mock API says of the window."""
    window = message.window
    asked = {"from": [format_instant(window.start)], "to": [format_instant(window.end)]}
    answer = respond("GET", "/response_count", asked)
    return [MetricRecord(message.metric, window.start, json.loads(answer.body)["count"], NOON)]


@pytest.mark.parametrize("interval", INTERVALS)
def test_the_mock_api_never_looks_as_if_it_ignored_the_window(interval: int) -> None:
    target = Target(interval_seconds=interval, lag_seconds=0)
    for minute in range(24 * 60):
        now = NOON + timedelta(minutes=minute)
        message = message_for_slot(shift(floor_to_slot(now, interval), -interval), target)
        windows = WindowCheck(target, message, counted(message), now)
        while another := windows.next_message():
            assert another.window not in [message.window, *(each.window for each, _ in windows.others)]
            windows.add(another, counted(another))
        assert windows.problem is None
