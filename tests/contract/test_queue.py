"""What every queue keeps to (SQS semantics); the implementations are in conftest.py."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fakes.ports import QueueKit, Received
from kizami.core.messages import read_message, write_message
from kizami.core.sender import PlannedMessage, plan_minute
from kizami.core.targets.target import Target

START = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
PLAN = plan_minute(START, Target())


def due_at_once(entries: tuple[PlannedMessage, ...] = PLAN) -> list[PlannedMessage]:
    return [PlannedMessage(entry.message, 0) for entry in entries]


def receive_one(kit: QueueKit) -> Received:
    (received,) = kit.queue.receive(10)
    return received


def test_a_message_comes_out_as_it_went_in(kit: QueueKit) -> None:
    assert kit.queue.send(PLAN[:1]) == []
    received = receive_one(kit)
    assert received.body == write_message(PLAN[0].message)
    assert received.receive_count == 1


def test_an_empty_queue_hands_out_nothing(kit: QueueKit) -> None:
    assert kit.queue.send([]) == []
    assert kit.queue.receive(10) == []


@pytest.mark.parametrize("minutes", [1, 3])
def test_more_messages_than_a_call_takes_are_all_sent(kit: QueueKit, minutes: int) -> None:
    """12 messages are two calls of SQS, 36 are four, which go side by side."""
    entries = [
        entry for minute in range(minutes) for entry in plan_minute(START + timedelta(minutes=minute), Target())
    ]
    assert kit.queue.send(due_at_once(tuple(entries))) == []
    bodies = [received.body for received in kit.queue.receive(100)]
    assert sorted(bodies) == sorted(write_message(entry.message) for entry in entries)


def test_no_more_than_the_limit_is_handed_out(kit: QueueKit) -> None:
    kit.queue.send(due_at_once())
    assert len(kit.queue.receive(3)) == 3


def test_a_message_is_due_after_its_delay_and_not_before(kit: QueueKit) -> None:
    kit.queue.send([PlannedMessage(PLAN[0].message, 2)])
    assert kit.queue.receive(10) == []
    kit.advance(2)
    assert read_message(receive_one(kit).body) == PLAN[0].message


def test_a_received_message_is_hidden_and_comes_back_counted(kit: QueueKit) -> None:
    kit.queue.send(PLAN[:1])
    first = receive_one(kit)
    assert kit.queue.receive(10) == []
    kit.advance(2)
    second = receive_one(kit)
    assert (first.receive_count, second.receive_count) == (1, 2)
    assert first.body == second.body


def test_an_acknowledged_message_is_gone_for_good(kit: QueueKit) -> None:
    kit.queue.send(PLAN[:1])
    kit.queue.acknowledge(receive_one(kit))
    kit.advance(2)
    assert kit.queue.receive(10) == []


def test_acknowledging_twice_does_nothing(kit: QueueKit) -> None:
    kit.queue.send(due_at_once(PLAN[:2]))
    first, second = kit.queue.receive(10)
    kit.queue.acknowledge(first)
    kit.queue.acknowledge(first)
    kit.advance(2)
    assert receive_one(kit).body == second.body


def test_a_message_received_to_the_limit_becomes_a_dead_letter(kit: QueueKit) -> None:
    kit.queue.send(PLAN[:1])
    for _ in range(2):
        receive_one(kit)
        kit.advance(2)
    assert kit.queue.receive(10) == []
    assert kit.dead_letters() == [write_message(PLAN[0].message)]
