"""The SQLite queue: SQS semantics, one message a slot, live before old, and dead letters that can go back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from kizami.local import batches
from kizami.local.batches import BACKFILL, LIVE
from kizami.local.clock import SystemClock
from kizami.local.database import open_database
from kizami.local.dead_letters import DeadLetters
from kizami.local.queue import SqliteQueue
from kizami.local.reader import Reader
from kizami.local.work import Work
from kizami.local.writer import QueueLimits, Writer
from kizami.messages import MetricRecord, ScheduleMessage, read_message
from kizami.sender import PlannedMessage, message_for_slot, plan_minute
from kizami.targets import Target
from sqlite_store import SqliteMetricStore
from twins import ManualClock

NOW = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
TARGET = Target()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kizami.db"


@pytest.fixture
def queue(path: Path, clock: ManualClock) -> Iterator[SqliteQueue]:
    queue = SqliteQueue(path, clock, create=True, visibility_seconds=30, receive_limit=3)
    yield queue
    queue.close()


@pytest.fixture
def dead_letters(queue: SqliteQueue, path: Path, clock: ManualClock) -> Iterator[DeadLetters]:
    letters = DeadLetters(path, clock)
    yield letters
    letters.close()


def message(seconds: int = 0, metric: str = TARGET.name) -> ScheduleMessage:
    return message_for_slot(NOW + timedelta(seconds=seconds), Target(name=metric))


def send(queue: SqliteQueue, *messages: ScheduleMessage, delay_seconds: int = 0) -> None:
    assert queue.send([PlannedMessage(each, delay_seconds) for each in messages]) == []


def received_messages(queue: SqliteQueue, limit: int = 10) -> list[ScheduleMessage]:
    return [read_message(received.body) for received in queue.receive(limit)]


def exhaust(queue: SqliteQueue, clock: ManualClock) -> None:
    """Receive without acknowledging until nothing comes any more."""
    while queue.receive(10):
        clock.advance(31)


def test_a_minutes_plan_comes_out_tick_by_tick(queue: SqliteQueue, clock: ManualClock) -> None:
    plan = plan_minute(NOW, TARGET)
    queue.send(plan)
    seen = []
    for _ in plan:
        for received in queue.receive(10):
            seen.append(read_message(received.body))
            queue.acknowledge(received)
        clock.advance(5)
    assert seen == [entry.message for entry in plan]


def test_a_message_becomes_a_dead_letter_after_the_limit_of_receives(
    queue: SqliteQueue, dead_letters: DeadLetters, clock: ManualClock
) -> None:
    send(queue, message())
    exhaust(queue, clock)
    (letter,) = dead_letters.newest()
    assert (letter.metric, letter.slot, letter.receives) == (TARGET.name, NOW, 3)
    assert letter.reason == "handed out 3 times and never settled"
    assert dead_letters.of_slot(TARGET.name, NOW) == letter
    assert dead_letters.of_slot(TARGET.name, NOW + timedelta(seconds=5)) is None


def test_a_slot_that_is_pending_is_not_sent_twice(queue: SqliteQueue) -> None:
    send(queue, message(), message())
    send(queue, message())
    assert received_messages(queue) == [message()]


def test_a_slot_that_is_stored_is_not_sent_again(queue: SqliteQueue, path: Path) -> None:
    store = SqliteMetricStore(path)
    store.put_if_absent(MetricRecord(TARGET.name, NOW, 1, NOW))
    store.close()
    assert queue.send_backfill([message(0), message(5)]) == 1
    assert received_messages(queue) == [message(5)]


def test_a_slot_that_is_dead_is_only_asked_for_again_when_it_is_redriven(
    queue: SqliteQueue, dead_letters: DeadLetters, clock: ManualClock
) -> None:
    send(queue, message())
    exhaust(queue, clock)
    assert queue.send_backfill([message()]) == 0
    assert dead_letters.redrive(dead_letters.newest()) == 1
    assert dead_letters.newest() == []
    (again,) = queue.receive(10)
    assert (read_message(again.body), again.receive_count) == (message(), 1)


def test_a_purged_dead_letter_leaves_its_slot_missing(
    queue: SqliteQueue, dead_letters: DeadLetters, clock: ManualClock
) -> None:
    send(queue, message(0), message(5))
    exhaust(queue, clock)
    first = dead_letters.of_slot(TARGET.name, NOW)
    assert first
    assert dead_letters.purge([first]) == 1
    assert [letter.slot for letter in dead_letters.newest()] == [NOW + timedelta(seconds=5)]
    assert queue.send_backfill([message(0), message(5)]) == 1


def test_live_messages_go_before_backfill(queue: SqliteQueue, clock: ManualClock) -> None:
    queue.send_backfill([message(-10), message(-5)])
    clock.advance(1)
    send(queue, message(0))
    assert received_messages(queue, limit=1) == [message(0)]
    assert received_messages(queue) == [message(-10), message(-5)]


def test_messages_survive_closing_and_opening_again(queue: SqliteQueue, path: Path, clock: ManualClock) -> None:
    send(queue, message())
    queue.close()
    again = SqliteQueue(path, clock)
    assert received_messages(again) == [message()]
    again.close()


def test_an_errand_finds_all_that_was_handed_over_before_it_and_nothing_that_came_later(path: Path) -> None:
    found: list[int] = []

    def look(connection: apsw.Connection) -> None:
        found.extend(slot for (slot,) in connection.execute("SELECT slot FROM messages"))

    writer = Writer(path, SystemClock(), QueueLimits(5, 30, 100), lambda delivery: None, lambda: 0)
    for work in (
        Work(sent=[planned(5)]),
        Work(sent=[planned(10)]),
        Work(errands=[look]),
        Work(sent=[planned(15)]),
    ):
        writer.submit(work)
    writer.start()
    writer.close(timeout_seconds=30)
    assert found == [5, 10]


def planned(slot: int, seconds: int = 5, due_ms: int = 1 << 50) -> list[int]:
    return [slot, 1, seconds, due_ms, due_ms]


def test_what_another_plan_has_put_on_the_queue_is_dropped_but_not_what_somebody_asked_for(
    queue: SqliteQueue, path: Path
) -> None:
    live = [planned(0, 5, 5000), planned(5, 10, 10_000), planned(10, 5, 20_000)]
    connection = open_database(path)
    batches.send(connection, live, LIVE, 0)
    batches.send(connection, [planned(20), planned(25, 10)], BACKFILL, 0)
    batches.drop_unplanned(connection, {(1, 5, 5000)})
    assert connection.execute("SELECT slot FROM messages ORDER BY slot").fetchall() == [(0,), (20,)]
    batches.drop_unplanned(connection, set())
    assert connection.execute("SELECT count(*) FROM messages").get == 0
    connection.close()


def test_the_depth_tells_waiting_delayed_in_flight_and_dead_apart(
    queue: SqliteQueue, path: Path, clock: ManualClock
) -> None:
    send(queue, message(0))
    exhaust(queue, clock)
    send(queue, message(5))
    queue.receive(1)
    send(queue, message(10), message(15))
    send(queue, message(20), delay_seconds=60)
    clock.advance(8)
    with Reader.opened(path) as reader:
        depth = reader.queue_depth(clock.now())
    assert (depth.waiting, depth.delayed, depth.in_flight, depth.dead, depth.pending) == (2, 1, 1, 1, 4)
    assert depth.oldest_age_seconds == 8
