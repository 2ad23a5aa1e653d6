"""The writer's turns, one by one and without its thread: what is written, handed out and kept in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from fakes.host_rooms import Rooms
from fakes.ports import ManualClock
from kizami.core.epoch import to_ms
from kizami.local.engine import writer as module
from kizami.local.engine.write_batch import Change, WriteBatch
from kizami.local.engine.writer import LATE_MS, LOOK_AHEAD_MS, QueueLimits, Writer, WriterTurn
from kizami.local.store import statements
from kizami.local.store.database import open_database
from kizami.local.store.rows import FailedRow, ReturnedRow, SentRow, StoredRow, TakenMessage
from kizami.local.store.statements import BACKFILL, LIVE, RETRY

ROOMS = Rooms({1: "host", 2: "host"}, {"host": 512})


class WallClock(ManualClock):
    def milliseconds(self) -> float:
        return to_ms(self.now())


@pytest.fixture
def clock() -> WallClock:
    return WallClock()


@pytest.fixture
def now_ms(clock: WallClock) -> int:
    return int(clock.milliseconds())


@pytest.fixture
def turns() -> list[WriterTurn]:
    return []


@pytest.fixture
def writer(tmp_path: Path, clock: WallClock, turns: list[WriterTurn]) -> Iterator[Writer]:
    writer = Writer(tmp_path / "kizami.db", clock, QueueLimits(30, 100), turns.append, ROOMS)
    yield writer
    writer._connection.close()


@pytest.fixture
def other(writer: Writer) -> Iterator[apsw.Connection]:
    """Another process with the same file."""
    connection = open_database(writer._path)
    yield connection
    connection.close()


def planned(slot: int, due_ms: int, metric_id: int = 1) -> SentRow:
    return SentRow(slot, metric_id, 5, due_ms)


def stored(slot: int, metric_id: int = 1) -> StoredRow:
    return StoredRow(slot, metric_id, 7, 0, 0, 1, False)


def waiting(connection: apsw.Connection) -> list[tuple[int, int, int, int]]:
    return list(connection.execute("SELECT slot, priority, held, visible_ms FROM messages ORDER BY slot"))


class TestHandingOut:
    def test_what_is_due_soon_is_handed_out_and_hidden_for_longer_than_until_its_moment(
        self, writer: Writer, turns: list[WriterTurn], other: apsw.Connection, now_ms: int
    ) -> None:
        soon, later = now_ms + LOOK_AHEAD_MS, now_ms + LOOK_AHEAD_MS + 1
        writer.submit(WriteBatch(sent=[planned(5, soon), planned(10, later)]))
        writer._turn()
        (turn,) = turns
        assert turn.taken == [TakenMessage(5, 1, 5, LIVE, soon, 0)]
        hidden = now_ms + LOOK_AHEAD_MS + 30_000
        assert waiting(other) == [(5, LIVE, 1, hidden), (10, LIVE, 0, later)]

    def test_by_itself_it_is_handed_out_only_when_that_has_to_be(
        self, writer: Writer, turns: list[WriterTurn], clock: WallClock, now_ms: int
    ) -> None:
        first, second = now_ms + LOOK_AHEAD_MS + 1000, now_ms + LOOK_AHEAD_MS + 2000
        writer.submit(WriteBatch(sent=[planned(5, first), planned(10, second)]))
        writer._turn()
        clock.advance(2.5)
        assert not writer._turn()
        clock.advance(0.5)
        assert writer._turn()
        assert [taken.slot for taken in turns[-1].taken] == [5, 10]

    def test_what_is_late_is_backfill_before_anything_is_handed_out(
        self, writer: Writer, turns: list[WriterTurn], clock: WallClock, now_ms: int
    ) -> None:
        writer.submit(WriteBatch(sent=[planned(5, now_ms - LATE_MS - 1), planned(10, now_ms - LATE_MS)]))
        clock.advance(1)  # the first old messages may go a while after the start
        writer._turn()
        (turn,) = turns
        assert {(taken.slot, taken.priority) for taken in turn.taken} == {(5, BACKFILL), (10, BACKFILL)}

    def test_as_many_old_messages_as_a_second_allows(
        self, writer: Writer, turns: list[WriterTurn], clock: WallClock, now_ms: int
    ) -> None:
        with_old = WriteBatch(changes=[_sending(500, BACKFILL)])
        writer.submit(with_old)
        taken = []
        for _ in range(10):
            clock.advance(0.25)
            writer._turn()
            taken.append(sum(len(turn.taken) for turn in turns))
        assert taken == [25 * (turn + 1) for turn in range(10)]

    def test_no_more_than_half_a_second_s_worth_of_old_ones_at_once(
        self, writer: Writer, turns: list[WriterTurn], clock: WallClock
    ) -> None:
        writer.submit(WriteBatch(changes=[_sending(500, RETRY)]))
        clock.advance(3600)
        writer._turn()
        assert len(turns[0].taken) == 50

    def test_nothing_is_handed_out_at_the_end(self, writer: Writer, turns: list[WriterTurn], now_ms: int) -> None:
        writer.stop_handing_out(1)
        writer.submit(WriteBatch(sent=[planned(5, now_ms)]))
        writer._turn()
        assert [turn.taken for turn in turns] == [[]]


def _sending(count: int, priority: int) -> Change:
    """What puts so many old messages on the queue."""

    def send(connection: apsw.Connection) -> None:
        statements.send(connection, [planned(5 * n, 0) for n in range(count)], priority, 0)

    return send


class TestWriting:
    def test_a_change_finds_what_was_handed_over_before_it_and_nothing_that_came_later(
        self, writer: Writer, now_ms: int
    ) -> None:
        found: list[int] = []

        def look(connection: apsw.Connection) -> None:
            found.extend(slot for slot, *_ in waiting(connection))

        far = now_ms + 3_600_000
        writer.submit(WriteBatch(sent=[planned(5, far)]))
        writer.submit(WriteBatch(sent=[planned(10, far)]))
        writer.submit(WriteBatch(changes=[look], sent=[planned(15, far)]))
        writer.submit(WriteBatch(sent=[planned(20, far)]))
        writer._turn()
        assert found == [5, 10]

    def test_all_of_a_turn_is_told_of_once_it_is_durable(
        self, writer: Writer, turns: list[WriterTurn], now_ms: int
    ) -> None:
        called: list[str] = []
        writer.submit(WriteBatch(stored=[stored(5)], afterwards=[lambda: called.append("first")]))
        writer.submit(WriteBatch(stored=[stored(10)], changes=[lambda c: None]))
        writer._turn()
        (turn,) = turns
        assert [row.slot for row in turn.written.stored] == [5, 10]
        assert len(turn.written.afterwards) == 1
        assert called == []  # that is the loop's to call
        assert writer.backlog == 0

    def test_a_stop_has_a_last_turn(self, writer: Writer, turns: list[WriterTurn]) -> None:
        """What is handed over while the writer is between its turns, and told to stop."""
        writer._stop.set()
        writer.submit(WriteBatch(stored=[stored(5)]))
        writer.start()
        writer._thread.join(30)
        assert [row.slot for turn in turns for row in turn.written.stored] == [5]

    def test_a_row_is_stored_with_its_acknowledgement(
        self, writer: Writer, other: apsw.Connection, now_ms: int
    ) -> None:
        writer.submit(WriteBatch(sent=[planned(5, now_ms)]))
        writer._turn()
        writer.submit(WriteBatch(stored=[stored(5)]))
        writer._turn()
        assert waiting(other) == []
        assert other.execute("SELECT slot, count FROM slots").fetchall() == [(5, 7)]

    def test_of_one_turn_results_come_before_plans(
        self, writer: Writer, other: apsw.Connection, now_ms: int
    ) -> None:
        writer.submit(WriteBatch(sent=[planned(5, now_ms)], stored=[stored(5)]))
        writer._turn()
        assert waiting(other) == []

    def test_failures_go_back_die_or_are_returned_each_in_its_way(
        self, writer: Writer, other: apsw.Connection, now_ms: int
    ) -> None:
        writer.submit(WriteBatch(sent=[planned(5 * n, now_ms) for n in range(1, 6)]))
        writer._turn()
        later = now_ms + 60_000
        writer.submit(
            WriteBatch(
                failed=[FailedRow(5, 1, later, 1, "status 500")],
                buried=[FailedRow(10, 1, 0, 5, "status 404")],
                removed=[stored(15)],  # type: ignore[list-item]
                unasked=[ReturnedRow(20, 1, later)],
                unanswered=[ReturnedRow(25, 1, later)],
            )
        )
        writer._turn()
        assert waiting(other) == [(5, RETRY, 0, later), (20, LIVE, 0, later), (25, LIVE, 0, later)]
        receives = list(other.execute("SELECT receives FROM messages ORDER BY slot"))
        assert receives == [(1,), (0,), (1,)]
        assert list(other.execute("SELECT slot, receives, reason FROM dead_letters")) == [(10, 5, "status 404")]


class TestADiskThatRefuses:
    @pytest.fixture
    def refusing(self, writer: Writer, other: apsw.Connection) -> apsw.Connection:
        """A disk that cannot be written, as far as the writer can tell."""
        writer._connection.set_busy_timeout(0)
        other.execute("BEGIN IMMEDIATE")
        return other

    def test_plans_are_handed_out_from_memory_and_all_is_written_later(
        self, writer: Writer, turns: list[WriterTurn], refusing: apsw.Connection, now_ms: int
    ) -> None:
        writer.submit(WriteBatch(sent=[planned(5, now_ms), planned(10, now_ms + LOOK_AHEAD_MS + 1)]))
        writer._turn()
        assert [turn.taken for turn in turns] == [[TakenMessage(5, 1, 5, LIVE, now_ms, 0)]]
        assert (writer.in_trouble, writer.backlog) == (True, 2)
        writer.submit(WriteBatch(stored=[stored(5)]))
        writer._turn()
        assert not turns[-1].written
        refusing.execute("ROLLBACK")
        writer._turn()
        assert [row.slot for row in turns[-1].written.stored] == [5]
        assert (writer.in_trouble, writer.backlog) == (False, 0)
        assert [slot for slot, *_ in waiting(refusing)] == [10]

    def test_all_that_is_held_is_tried_only_when_the_disk_has_taken_a_page(
        self, writer: Writer, refusing: apsw.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tried: list[str] = []

        def refuse(connection: apsw.Connection) -> None:
            raise apsw.FullError("full")

        writer.submit(WriteBatch(changes=[lambda connection: tried.append("held")]))
        writer._turn()
        refusing.execute("ROLLBACK")
        with monkeypatch.context() as full:
            full.setattr("kizami.local.engine.writer.rewrite_page", refuse)
            writer._turn()
        assert (tried, writer.in_trouble) == ([], True)
        writer._turn()
        assert (tried, writer.in_trouble) == (["held"], False)

    def test_what_is_in_the_file_is_handed_out_too(
        self, writer: Writer, turns: list[WriterTurn], other: apsw.Connection, now_ms: int, clock: WallClock
    ) -> None:
        writer.submit(WriteBatch(sent=[planned(5, now_ms + 60_000)]))
        writer._turn()
        clock.advance(58)
        writer._connection.set_busy_timeout(0)
        other.execute("BEGIN IMMEDIATE")
        writer._turn()
        assert [taken.slot for turn in turns for taken in turn.taken] == [5]

    @pytest.mark.usefixtures("refusing")
    def test_when_memory_is_full_nothing_more_is_begun(
        self, monkeypatch: pytest.MonkeyPatch, writer: Writer, turns: list[WriterTurn], now_ms: int
    ) -> None:
        monkeypatch.setattr(module, "HELD_LIMIT", 3)
        writer.submit(WriteBatch(sent=[planned(5, now_ms), planned(10, now_ms)]))
        writer._turn()
        assert not writer.overloaded
        assert len(turns) == 1
        writer.submit(WriteBatch(stored=[stored(5)]))
        for _ in range(3):
            writer._turn()
        assert writer.overloaded
        assert len(turns) == 1


def test_the_file_is_noticed_to_be_gone(writer: Writer) -> None:
    assert writer.file_in_place
    writer._path.rename(writer._path.with_name("other.db"))
    assert not writer.file_in_place
    open_database(writer._path, create=True).close()
    assert not writer.file_in_place
