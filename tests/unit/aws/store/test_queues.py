"""The queues of a deployed system together, where old slots have a queue of their own and where they do not."""

from __future__ import annotations

import pytest

from aws_here.local_aws import create_queue, lead_to
from aws_here.memory_aws import MemoryAws, led_to
from kizami.aws.store.queues import read_depth, send_backfill
from kizami.aws.store.sqs_queue import QueueEntry, SqsQueue
from kizami.core.messages import ScheduleMessage
from kizami.core.slots import Window, parse_instant

MESSAGES = [
    ScheduleMessage(Window.of_slot(parse_instant(f"2025-12-02T10:23:{n:02}Z"), 5)) for n in range(0, 60, 5)
]


@pytest.fixture
def live(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    lead_to(moto_endpoint, monkeypatch)
    return create_queue(moto_endpoint)


def test_on_a_shared_queue_old_slots_come_due_over_minutes_and_are_counted_once(live: str) -> None:
    assert send_backfill(SqsQueue(live), MESSAGES, spread_seconds=300) == 12
    depth = read_depth(live, live, None)
    assert (depth.waiting, depth.planned) == (4, 8)


def test_on_a_queue_of_their_own_they_are_due_at_once(live: str, moto_endpoint: str) -> None:
    backfill = create_queue(moto_endpoint)
    send_backfill(SqsQueue(backfill), MESSAGES)
    SqsQueue(live).send([])
    depth = read_depth(live, backfill, None)
    assert (depth.waiting, depth.planned) == (12, 0)


def test_attributes_count_in_what_a_call_may_carry() -> None:
    """The memory's queue refuses a batch of more than 256 KiB, as SQS did for long and some of its kind do."""
    aws, reason = MemoryAws({}), "😀" * 1000
    entries = [QueueEntry("x" * 23_000, attributes={"attempts": "1", "reason": reason}) for _ in range(20)]
    with led_to(aws):
        assert SqsQueue("https://sqs.example/1/dead").send_entries(entries) == []
    assert len(aws.queues["dead"]) == 20
