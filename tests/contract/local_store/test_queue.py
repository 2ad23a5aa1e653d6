"""The SQLite queue: one message a slot, a line for each host, and dead letters that can go back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from fakes.host_rooms import Rooms
from fakes.ports import ManualClock
from fakes.sqlite_records import SqliteRecords
from kizami.core.epoch import EPOCH, to_ms, to_seconds
from kizami.core.messages import MetricRecord, ScheduleMessage
from kizami.core.sender import message_for_slot
from kizami.core.targets.target import Target
from kizami.local.engine.waiting_lines import WaitingLines
from kizami.local.engine.write_batch import WriteBatch
from kizami.local.engine.writer import QueueLimits, Writer
from kizami.local.store import statements
from kizami.local.store.backfill_queue import BackfillQueue
from kizami.local.store.database import open_database
from kizami.local.store.dead_letters import DeadLetters
from kizami.local.store.reader import Reader
from kizami.local.store.rows import FailedRow, ReturnedRow, SentRow, SlotKey, TakenMessage
from kizami.local.store.statements import BACKFILL, LIVE, RETRY
from kizami.platform.clock import SystemClock

NOW = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
NOW_MS = to_ms(NOW)
TARGET = Target()
HOUR_MS = 3_600_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kizami.db"


@pytest.fixture
def queue(path: Path, clock: ManualClock) -> Iterator[BackfillQueue]:
    queue = BackfillQueue(path, clock, create=True)
    yield queue
    queue.close()


@pytest.fixture
def connection(queue: BackfillQueue, path: Path) -> Iterator[apsw.Connection]:
    connection = open_database(path)
    yield connection
    connection.close()


@pytest.fixture
def dead_letters(queue: BackfillQueue, path: Path, clock: ManualClock) -> Iterator[DeadLetters]:
    letters = DeadLetters(path, clock)
    yield letters
    letters.close()


def message(seconds: int = 0, metric: str = TARGET.name) -> ScheduleMessage:
    return message_for_slot(NOW + timedelta(seconds=seconds), Target(name=metric))


def planned(slot: int, metric_id: int = 1, seconds: int = 5, due_ms: int = 1 << 50) -> SentRow:
    return SentRow(slot, metric_id, seconds, due_ms)


def on_the_queue(connection: apsw.Connection) -> list[int]:
    return [slot for (slot,) in connection.execute("SELECT slot FROM messages ORDER BY slot, metric_id")]


def bury(connection: apsw.Connection, *messages: ScheduleMessage, reason: str = "status 503") -> None:
    rows = [FailedRow(to_seconds(each.window.start), 0, 0, 5, reason) for each in messages]
    statements.fail(connection, rows)
    statements.bury(connection, rows, NOW_MS)


class TestSending:
    def test_a_slot_that_is_pending_is_not_sent_twice(
        self, queue: BackfillQueue, connection: apsw.Connection
    ) -> None:
        assert queue.send_backfill([message(), message()]) == 1
        assert queue.send_backfill([message()]) == 0
        assert on_the_queue(connection) == [to_seconds(NOW)]

    def test_a_slot_that_is_stored_is_not_sent_again(
        self, queue: BackfillQueue, path: Path, connection: apsw.Connection
    ) -> None:
        store = SqliteRecords(path)
        store.put_if_absent(MetricRecord(TARGET.name, NOW, 1, NOW))
        store.close()
        assert queue.send_backfill([message(0), message(5)]) == 1
        assert on_the_queue(connection) == [to_seconds(NOW) + 5]

    def test_a_past_slot_may_be_asked_for_at_once_whatever_the_clock_says(
        self, queue: BackfillQueue, connection: apsw.Connection, clock: ManualClock
    ) -> None:
        clock.advance(2 * 86_400)  # two days ahead, and set right before anybody looks
        queue.send_backfill([message(-5)])
        assert statements.ready_lines(connection, BACKFILL, NOW_MS) == [0]

    def test_a_slot_that_is_not_due_yet_waits_for_its_moment(
        self, queue: BackfillQueue, connection: apsw.Connection
    ) -> None:
        queue.send_backfill([message(60)])
        assert statements.ready_lines(connection, BACKFILL, NOW_MS + 59_999) == []
        assert statements.ready_lines(connection, BACKFILL, NOW_MS + 60_000) == [0]

    def test_messages_survive_closing_and_opening_again(self, queue: BackfillQueue, path: Path) -> None:
        queue.send_backfill([message()])
        queue.close()
        again = open_database(path)
        assert on_the_queue(again) == [to_seconds(NOW)]
        again.close()


class TestDeadLetters:
    def test_a_dead_slot_is_only_asked_for_again_when_it_is_redriven(
        self, queue: BackfillQueue, dead_letters: DeadLetters, connection: apsw.Connection
    ) -> None:
        queue.send_backfill([message()])
        bury(connection, message())
        (letter,) = dead_letters.newest()
        assert (letter.metric, letter.slot, letter.receives) == (TARGET.name, NOW, 5)
        assert dead_letters.between(TARGET.name, NOW, NOW + timedelta(seconds=5)) == [letter]
        assert dead_letters.between(TARGET.name, NOW + timedelta(seconds=5), NOW + timedelta(seconds=10)) == []
        assert queue.send_backfill([message()]) == 0
        assert dead_letters.redrive([letter]) == 1
        assert dead_letters.newest() == []
        (again,) = statements.of_line(connection, BACKFILL, 0, NOW_MS, 10)
        assert (again.slot, again.attempts) == (to_seconds(NOW), 0)

    def test_a_purged_dead_letter_leaves_its_slot_missing(
        self, queue: BackfillQueue, dead_letters: DeadLetters, connection: apsw.Connection
    ) -> None:
        queue.send_backfill([message(0), message(5)])
        bury(connection, message(0), message(5))
        assert dead_letters.purge(dead_letters.between(TARGET.name, NOW, NOW + timedelta(seconds=5))) == 1
        assert [letter.slot for letter in dead_letters.newest()] == [NOW + timedelta(seconds=5)]
        assert queue.send_backfill([message(0), message(5)]) == 1

    def test_what_was_redriven_for_a_target_that_is_not_polled_is_dead_again_with_its_reason(
        self, queue: BackfillQueue, dead_letters: DeadLetters, connection: apsw.Connection
    ) -> None:
        queue.send_backfill([message(0), message(5), message(10)])
        bury(connection, message(0), message(5))
        dead_letters.redrive(dead_letters.newest())
        statements.drop(connection, [SlotKey(to_seconds(NOW), 0)], NOW_MS)
        statements.drop_unplanned(connection, set(), NOW_MS)
        assert [letter.reason for letter in dead_letters.newest()] == ["status 503", "status 503"]
        assert on_the_queue(connection) == []


class TestClocks:
    def test_waits_are_as_long_as_they_were_when_the_clock_was_set_back(self, connection: apsw.Connection) -> None:
        statements.send(connection, [planned(0, due_ms=0), planned(5, due_ms=0)], RETRY, 0)
        statements.fail(connection, [FailedRow(0, 1, NOW_MS + HOUR_MS + 8000, 2, "x")])
        statements.shift_waiting(connection, NOW_MS, -HOUR_MS)
        assert statements.of_line(connection, RETRY, 1, NOW_MS, 10) == [TakenMessage(5, 1, 5, RETRY, 0, 0)]
        assert len(statements.of_line(connection, RETRY, 1, NOW_MS + 8000, 10)) == 2

    def test_what_may_be_asked_for_already_does_not_wait_for_a_clock_that_jumps(
        self, connection: apsw.Connection
    ) -> None:
        statements.send(connection, [planned(0, due_ms=0)], BACKFILL, 0)
        for days in (-1, 1, 2):
            statements.shift_waiting(connection, NOW_MS, days * 86_400_000)
        assert statements.ready_lines(connection, BACKFILL, NOW_MS) == [1]

    def test_the_wait_of_a_clock_that_was_a_day_ahead_ends_with_a_restart(
        self, connection: apsw.Connection
    ) -> None:
        statements.send(connection, [planned(0, due_ms=0), planned(5, due_ms=0)], RETRY, 0)
        tomorrow_ms, soon_ms = NOW_MS + 86_400_000, NOW_MS + 128_000
        statements.fail(connection, [FailedRow(0, 1, tomorrow_ms, 4, "x"), FailedRow(5, 1, soon_ms, 4, "x")])
        statements.release_all(connection, NOW_MS)
        assert [taken.slot for taken in statements.of_line(connection, RETRY, 1, NOW_MS, 10)] == [0]
        assert len(statements.of_line(connection, RETRY, 1, soon_ms, 10)) == 2


_TWO_METRICS = """
INSERT INTO metrics (id, name, interval_seconds, lag_seconds, step_seconds, first_slot)
VALUES (1, 'calls', 5, 5, 5, 0), (2, 'others', 5, 5, 5, 0)
"""


class TestLines:
    """Which retried and backfilled messages are handed out: every host has lines of its own."""

    def filled(self, connection: apsw.Connection, hanging: int = 2000) -> None:
        statements.send(connection, [planned(5 * n, 1, due_ms=0) for n in range(hanging)], RETRY, 0)
        statements.send(connection, [planned(5 * n, 2, due_ms=0) for n in range(9)], RETRY, 0)
        statements.send(connection, [planned(5 * n, 3, due_ms=0) for n in range(500)], BACKFILL, 0)

    def lines(self, rooms: Rooms, per_second: int = 100) -> WaitingLines:
        lines = WaitingLines(rooms, per_second, 0)
        lines.served(lines.choose(open_empty(), 0))
        return lines

    def test_a_host_without_room_is_in_nobodys_way(self, connection: apsw.Connection) -> None:
        self.filled(connection)
        rooms = Rooms({1: "hangs", 2: "healthy", 3: "other"}, {"hangs": 0, "healthy": 512, "other": 512})
        chosen = self.lines(rooms).choose(connection, 1000)
        assert {taken.metric_id for taken in chosen} == {2, 3}
        assert sum(taken.metric_id == 2 for taken in chosen) == 9
        assert sum(taken.metric_id == 3 for taken in chosen) == 41  # half a second's allowance in all

    def test_hosts_share_what_may_be_asked_for_in_a_second(self, connection: apsw.Connection) -> None:
        statements.send(connection, [planned(5 * n, m, due_ms=0) for n in range(50) for m in range(40)], RETRY, 0)
        rooms = Rooms({m: f"h{m}" for m in range(40)}, {f"h{m}": 512 for m in range(40)})
        lines = self.lines(rooms, per_second=20)
        served: list[int] = []
        for turn in range(8):
            chosen = lines.choose(connection, 1000 * (turn + 1))
            statements.hand_out(connection, chosen, 1 << 60)
            lines.served(chosen)
            served += [taken.metric_id for taken in chosen]
        assert sorted(served) == sorted([*range(40)] * 2)

    def test_retried_messages_go_before_the_backfill_of_their_own_host_only(
        self, connection: apsw.Connection
    ) -> None:
        self.filled(connection, hanging=0)
        rooms = Rooms({2: "one", 3: "one"}, {"one": 9})
        assert {taken.metric_id for taken in self.lines(rooms).choose(connection, 1000)} == {2, 3}
        rooms.room["one"] = 1
        assert [taken.metric_id for taken in self.lines(rooms).choose(connection, 1000)] == [2]

    def test_a_target_without_room_is_not_in_the_way_of_its_neighbours(self, connection: apsw.Connection) -> None:
        self.filled(connection)
        rooms = Rooms({1: "one", 2: "one", 3: "one"}, {"one": 20})
        rooms.of_metric[1] = 1
        chosen = [taken.metric_id for taken in self.lines(rooms).choose(connection, 1000)]
        assert sorted(set(chosen)) == [1, 2, 3]
        assert chosen.count(1) == 1
        rooms.of_metric[1] = 0
        assert 1 not in {taken.metric_id for taken in self.lines(rooms).choose(connection, 1000)}

    def test_messages_of_a_target_that_is_not_polled_wait(self, connection: apsw.Connection) -> None:
        self.filled(connection)
        assert self.lines(Rooms({}, {})).choose(connection, 1000) == []

    def test_beyond_what_a_host_may_have_waiting_its_oldest_are_dead_letters(
        self, connection: apsw.Connection, dead_letters: DeadLetters
    ) -> None:
        connection.execute(_TWO_METRICS)
        self.filled(connection, hanging=300)
        statements.fail(connection, [FailedRow(0, 1, 0, 3, "no complete answer within 10 s")])
        lines = self.lines(Rooms({1: "hangs", 2: "healthy"}, {}, waiting=200))
        lines.clear(connection, 10_000)
        letters = dead_letters.newest()
        assert sorted(to_seconds(letter.slot) for letter in letters) == [5 * n for n in range(100)]
        assert {letter.metric for letter in letters} == {"calls"}
        (oldest,) = dead_letters.between("calls", EPOCH, EPOCH + timedelta(seconds=5))
        assert oldest.receives == 3
        assert oldest.reason == (
            "more than 200 slots waited for its host; redrive it when the host answers again; "
            "its last error: no complete answer within 10 s"
        )
        assert statements.retried_by_metric(connection) == {1: 200, 2: 9}

    def test_what_can_only_be_asked_for_live_is_dropped_when_its_time_is_over(
        self, connection: apsw.Connection, dead_letters: DeadLetters
    ) -> None:
        connection.execute(_TWO_METRICS)
        self.filled(connection, hanging=300)
        rooms = Rooms({1: "hangs", 2: "healthy"}, {}, waiting=1000)
        rooms.over[1] = 10
        self.lines(rooms).clear(connection, 110_000)
        left = connection.execute("SELECT min(slot), count(*) FROM messages WHERE metric_id = 1").fetchone()
        assert left == (105, 300 - 21)
        assert statements.retried_by_metric(connection)[2] == 9
        assert dead_letters.newest() == []


def open_empty() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE messages (priority, metric_id, visible_ms)")
    return connection


def test_past_slots_of_a_finer_interval_can_be_sent_with_others(queue: BackfillQueue, path: Path) -> None:
    slots = [(0, 30), (30, 30), (35, 5), (40, 5)]
    targets = {seconds: Target(interval_seconds=seconds, lag_seconds=seconds) for _, seconds in slots}
    messages = [message_for_slot(NOW + timedelta(seconds=slot), targets[seconds]) for slot, seconds in slots]
    assert queue.send_backfill(messages) == len(slots)
    with Reader.opened(path) as reader:
        assert reader.metrics()[TARGET.name].step_seconds == 5
        assert [each.slot for each in reader.all_pending()] == [each.window.start for each in messages]


def test_a_change_finds_all_that_was_handed_over_before_it_and_nothing_that_came_later(path: Path) -> None:
    found: list[int] = []

    def look(connection: apsw.Connection) -> None:
        found.extend(slot for (slot,) in connection.execute("SELECT slot FROM messages"))

    writer = Writer(path, SystemClock(), QueueLimits(30, 100), lambda delivery: None, Rooms())
    for work in (
        WriteBatch(sent=[planned(5)]),
        WriteBatch(sent=[planned(10)]),
        WriteBatch(changes=[look]),
        WriteBatch(sent=[planned(15)]),
    ):
        writer.submit(work)
    writer.start()
    writer.close(timeout_seconds=30)
    assert found == [5, 10]


def test_what_another_plan_has_put_on_the_queue_is_dropped_but_not_what_somebody_asked_for(
    connection: apsw.Connection,
) -> None:
    live = [planned(0, 1, 5, 5000), planned(5, 1, 10, 10_000), planned(10, 1, 5, 20_000)]
    statements.send(connection, live, LIVE, 0)
    statements.send(connection, [planned(20), planned(25, 1, 10)], BACKFILL, 0)
    statements.drop_unplanned(connection, {(1, 5, 5000)}, NOW_MS)
    assert on_the_queue(connection) == [0, 20]
    statements.drop_unplanned(connection, set(), NOW_MS)
    assert on_the_queue(connection) == []


def test_only_a_request_that_was_sent_counts(connection: apsw.Connection) -> None:
    statements.send(connection, [planned(0, due_ms=0)], BACKFILL, 0)
    for turn in range(20):  # handed out, and not asked for: its host had no room, or the process was killed
        statements.hand_out(connection, statements.of_line(connection, BACKFILL, 1, turn, 10), turn + 1)
        statements.give_back(connection, [ReturnedRow(0, 1, turn)], asked=False)
        statements.release_all(connection, turn)
    assert statements.of_line(connection, BACKFILL, 1, 20, 10) == [TakenMessage(0, 1, 5, BACKFILL, 0, 0)]
    statements.hand_out(connection, statements.of_line(connection, BACKFILL, 1, 20, 10), 21)
    statements.give_back(connection, [ReturnedRow(0, 1, 20)], asked=True)
    assert statements.of_line(connection, BACKFILL, 1, 20, 10) == [TakenMessage(0, 1, 5, BACKFILL, 0, 1)]


def test_what_a_dead_daemon_held_is_visible_again_and_counts_as_little_as_before(
    connection: apsw.Connection,
) -> None:
    statements.send(connection, [planned(0, due_ms=100), planned(5, due_ms=9000)], LIVE, 0)
    statements.hand_out(connection, statements.live_by(connection, 9000, 10), 1 << 50)
    statements.release_all(connection, 1000)
    rows = list(connection.execute("SELECT slot, held, visible_ms, receives FROM messages ORDER BY slot"))
    assert rows == [(0, 0, 1000, 0), (5, 0, 9000, 0)]


def test_only_what_is_handed_out_can_be_given_back(connection: apsw.Connection) -> None:
    """It was settled meanwhile, or taken off the queue and planned anew: then it is another message."""
    statements.send(connection, [planned(0, due_ms=9000)], LIVE, 0)
    statements.give_back(connection, [ReturnedRow(0, 1, 1)], asked=True)
    assert list(connection.execute("SELECT visible_ms, receives FROM messages")) == [(9000, 0)]


def test_a_failed_message_is_live_no_more_and_keeps_the_higher_count(connection: apsw.Connection) -> None:
    statements.send(connection, [planned(0, due_ms=0)], LIVE, 0)
    statements.fail(connection, [FailedRow(0, 1, 500, 3, "status 500")])
    statements.fail(connection, [FailedRow(0, 1, 700, 2, "status 502")])
    rows = list(connection.execute("SELECT priority, visible_ms, receives, last_error, held FROM messages"))
    assert rows == [(RETRY, 700, 3, "status 502", 0)]


def test_live_messages_come_longest_due_first_and_no_more_than_wanted(connection: apsw.Connection) -> None:
    statements.send(connection, [planned(5 * n, due_ms=1000 - n) for n in range(10)], LIVE, 0)
    assert [taken.slot for taken in statements.live_by(connection, 1000, 3)] == [45, 40, 35]
    assert statements.live_by(connection, 990, 10) == []


def test_retried_messages_of_a_metric_that_is_not_planned_go_and_others_stay(connection: apsw.Connection) -> None:
    for priority, slots in ((RETRY, (0, 5)), (BACKFILL, (10, 15))):
        statements.send(connection, [planned(slot, 1 + slot % 2) for slot in slots], priority, 0)
    statements.drop_unplanned(connection, {(1, 5, 5000)}, NOW_MS)
    assert on_the_queue(connection) == [0, 10]


def test_late_live_messages_become_backfill_and_those_in_time_do_not(connection: apsw.Connection) -> None:
    statements.send(connection, [planned(0, due_ms=99), planned(5, due_ms=100)], LIVE, 0)
    statements.demote_late(connection, 100)
    assert list(connection.execute("SELECT slot, priority FROM messages ORDER BY slot")) == [
        (0, BACKFILL),
        (5, LIVE),
    ]


def test_a_planned_moment_takes_the_place_of_backfill_that_was_asked_for_too_early(
    connection: apsw.Connection,
) -> None:
    rows = [planned(0, due_ms=9000), planned(5, due_ms=9000), planned(10, due_ms=50)]
    statements.send(connection, rows, BACKFILL, 0)
    statements.hand_out(connection, [TakenMessage(5, 1, 5, BACKFILL, 9000, 0)], 9000)
    statements.send(connection, [row._replace(due_ms=9500) for row in rows], LIVE, 100)
    found = list(connection.execute("SELECT slot, priority, due_ms FROM messages ORDER BY slot"))
    assert found == [(0, LIVE, 9500), (5, BACKFILL, 9000), (10, BACKFILL, 50)]


def test_the_depth_tells_waiting_delayed_in_flight_and_dead_apart(
    queue: BackfillQueue, path: Path, clock: ManualClock, connection: apsw.Connection
) -> None:
    queue.send_backfill([message(-20), message(-15)])
    bury(connection, message(-20))
    statements.hand_out(connection, statements.of_line(connection, BACKFILL, 0, NOW_MS, 10), NOW_MS + HOUR_MS)
    queue.send_backfill([message(-10), message(-5), message(60)])
    clock.advance(8)
    with Reader.opened(path) as reader:
        depth = reader.queue_depth(clock.now())
    assert (depth.waiting, depth.planned, depth.in_flight, depth.dead) == (2, 1, 1, 1)
    assert depth.oldest_age_seconds == 8
