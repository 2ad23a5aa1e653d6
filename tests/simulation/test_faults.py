"""What can happen to the process, its disk and its clock: nothing acknowledged is lost, nothing stored twice."""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import fakes.fault_server as faults
from conftest import skip_for_lack_of
from fakes.fault_server import FaultServer
from kizami.core.coverage import Span, find_gaps
from kizami.core.slots import floor_to_slot, parse_instant
from kizami.core.targets.target import Target
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import register_targets
from kizami.local.store.reader import Reader
from programs.daemon import Daemon, slots_of, toml, wait_for

KILLS = int(os.environ.get("KIZAMI_KILLS", "6"))  # `make campaign` has many more
SECOND = timedelta(seconds=1)
EVER = datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


def configured(directory: Path, *targets: dict[str, object]) -> None:
    (directory / "kizami.toml").write_text(toml(targets))


def every_second(server: FaultServer, name: str = "calls", **settings: object) -> dict[str, object]:
    return {"name": name, "url": server.url, "interval": 1, "timeout": 60} | settings


def known_since(directory: Path, since: datetime, names: Sequence[str] = ("calls",)) -> None:
    """A database that has known these metrics since then."""
    connection = open_database(directory / "kizami.db", create=True)
    with transaction(connection):
        targets = [Target(name=name, interval_seconds=1, lag_seconds=1) for name in names]
        register_targets(connection, targets, since)
    connection.close()


def asked(server: FaultServer) -> Counter[datetime]:
    return Counter(parse_instant(request.query["from"][0]) for request in server.requests)


def missing(database: Path, name: str, start: datetime, end: datetime) -> int:
    with Reader.opened(database) as reader:
        stored = (record.slot for record in reader.records(name, start, end))
        return sum(gap.slots for gap in find_gaps(Span(start, end, 1), stored))


def test_killed_again_and_again_it_ends_with_every_slot_once(tmp_path: Path) -> None:
    """kill -9 at random moments of start-up, catching up and polling, each time with a restart."""
    start = floor_to_slot(datetime.now(UTC), 1) - timedelta(minutes=5)
    known_since(tmp_path, start - SECOND)
    acknowledged: set[tuple[datetime, int]] = set()
    chance = random.Random(KILLS)
    with FaultServer(faults.answer()) as server:
        configured(tmp_path, every_second(server))
        for _ in range(KILLS):
            with Daemon(tmp_path, "--receive-limit", "50") as daemon:
                daemon.wait_for_event("daemon.started")
                time.sleep(chance.random() * 0.8)
                daemon.process.kill()
                daemon.wait()
            acknowledged |= {(parse_instant(row["slotTime"]), row["count"]) for row in daemon.rows}
        with Daemon(tmp_path, "--receive-limit", "50") as daemon:
            daemon.wait_for_event("daemon.started")
            end = floor_to_slot(datetime.now(UTC), 1)
            wait_for(lambda: missing(daemon.database, "calls", start, end) == 0, "every slot")
            assert daemon.stop() == 0
    assert acknowledged <= set(daemon.stored("calls", *EVER).items())
    connection = open_database(daemon.database)
    assert connection.execute("SELECT count(*) FROM dead_letters").get == 0
    connection.close()


def test_after_ten_minutes_down_exactly_the_missed_slots_are_asked_for(tmp_path: Path) -> None:
    now = floor_to_slot(datetime.now(UTC), 1)
    known_since(tmp_path, now - timedelta(minutes=20))
    first = now - timedelta(minutes=20)
    connection = open_database(tmp_path / "kizami.db")
    # Polled from twenty to ten minutes ago, but for one slot that was given up.
    collected = range(int(first.timestamp()), int(first.timestamp()) + 600)
    dead = collected[7]
    with transaction(connection):
        rows = [(slot,) for slot in collected if slot != dead]
        connection.executemany("INSERT INTO slots VALUES (?, 0, 1, 0, 0, 1, 0)", rows)
        connection.execute("INSERT INTO dead_letters VALUES (?, 0, 1, 0, 0, 0, 0, 5, 'status 500')", (dead,))
    connection.close()
    with FaultServer(faults.answer()) as server:
        configured(tmp_path, every_second(server))
        with Daemon(tmp_path) as daemon:
            wait_for(lambda: missing(daemon.database, "calls", first, now) == 1, "all but the dead one")
            wait_for(lambda: any(slot >= now for slot in slots_of(daemon.rows, "calls")), "a live slot")
            assert daemon.stop() == 0
    requests = asked(server)
    assert max(requests.values()) == 1
    expected = {first + timedelta(seconds=600 + n) for n in range(600)}
    assert {slot for slot in requests if slot < now} == expected


def test_a_new_target_has_no_past_and_catch_up_ends_where_it_is_told_to(tmp_path: Path) -> None:
    now = floor_to_slot(datetime.now(UTC), 1)
    known_since(tmp_path, now - timedelta(minutes=20), ["short", "off"])
    with (
        FaultServer(faults.answer()) as short,
        FaultServer(faults.answer()) as off,
        FaultServer(faults.answer()) as new,
    ):
        targets = [
            every_second(short, "short", catch_up="1m"),
            every_second(off, "off", catch_up=0),
            every_second(new, "new"),
        ]
        configured(tmp_path, *targets)
        with Daemon(tmp_path):
            # Measured from when it happens, because the daemon may take its time to start.
            wait_for(
                lambda: min(asked(short), default=now) <= datetime.now(UTC) - timedelta(seconds=50),
                "a minute of the past",
            )
            wait_for(lambda: len(asked(off)) >= 2 and len(asked(new)) >= 2, "live polls")
    assert min(asked(short)) >= now - timedelta(seconds=62)
    assert min(asked(off)) >= now - 2 * SECOND
    assert min(asked(new)) >= now - 2 * SECOND


def test_stopped_for_longer_than_the_visibility_timeout_it_asks_for_nothing_twice(tmp_path: Path) -> None:
    def slowly(exchange: faults.Exchange) -> None:
        time.sleep(0.5)
        faults.answer()(exchange)

    with FaultServer(slowly) as server:
        configured(tmp_path, every_second(server, timeout=30))
        # Taken five seconds ahead, a message is visible again a little after its moment.
        with Daemon(tmp_path, "--visibility-seconds", "0.1") as daemon:
            first = parse_instant(daemon.wait_for_rows(2)[0]["slotTime"])
            os.kill(daemon.process.pid, signal.SIGSTOP)
            time.sleep(4)
            os.kill(daemon.process.pid, signal.SIGCONT)
            end = floor_to_slot(datetime.now(UTC), 1)
            wait_for(lambda: missing(daemon.database, "calls", first, end) == 0, "the slots of the stop")
            assert daemon.stop() == 0
    assert max(asked(server).values()) == 1


def test_a_full_disk_is_told_once_held_in_memory_and_recovered_from(tmp_path: Path) -> None:
    with FaultServer(faults.answer()) as server:
        configured(tmp_path, every_second(server))
        with Daemon(tmp_path) as daemon:
            first = parse_instant(daemon.wait_for_rows(2)[0]["slotTime"])
            limits = resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
            complaint = daemon.wait_for_event("database.unwritable")
            polled = len(server.requests)
            wait_for(lambda: len(server.requests) >= polled + 4, "polls that go on")
            # Nothing is said to be stored that is not.
            assert set(slots_of(daemon.rows, "calls")) <= set(daemon.stored("calls", *EVER))
            resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, limits)
            daemon.wait_for_event("database.writable")
            end = floor_to_slot(datetime.now(UTC), 1)
            wait_for(lambda: missing(daemon.database, "calls", first, end) == 0, "the slots of the full disk")
            assert daemon.stop() == 0
        assert complaint["level"] == "ERROR"
        assert complaint["reason"]
        assert sum(line["event"] == "database.unwritable" for line in daemon.log()) == 1
    assert max(asked(server).values()) == 1
    assert set(slots_of(daemon.rows, "calls")) == set(daemon.stored("calls", *EVER))


def test_an_answer_that_takes_longer_than_its_message_is_hidden_is_stored_and_not_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its visibility runs out again and again, but there is one daemon: the message is in our own hands."""
    from fakes.host_rooms import Rooms
    from kizami.local.engine import writer as module
    from kizami.local.engine.write_batch import WriteBatch
    from kizami.local.engine.writer import QueueLimits, Writer, WriterTurn
    from kizami.local.store.rows import SentRow, StoredRow
    from kizami.platform.clock import SystemClock

    monkeypatch.setattr(module, "LOOK_AHEAD_MS", 50)
    known_since(tmp_path, datetime.now(UTC))
    path = tmp_path / "kizami.db"
    deliveries: list[WriterTurn] = []
    limits = QueueLimits(visibility_seconds=0.01, old_per_second=100)
    writer = Writer(path, SystemClock(), limits, deliveries.append, Rooms())
    now_ms = int(SystemClock().milliseconds())
    writer.start()
    writer.submit(WriteBatch(sent=[SentRow(1, 0, 1, now_ms)]))
    wait_for(lambda: sum(len(each.taken) for each in deliveries) >= 2, "a second handing out")
    writer.submit(WriteBatch(stored=[StoredRow(1, 0, 7, now_ms, 0, 1, False)]))
    wait_for(lambda: deliveries[-1].written.stored, "the row")
    writer.close(60)
    with Reader.opened(path) as reader:
        tables = ("slots", "messages", "dead_letters")
        counts = [next(iter(reader.rows(f"SELECT count(*) FROM {table}", ()))) for table in tables]
    assert counts == [(1,), (0,), (0,)]


class TestFilesItRefuses:
    def refused(self, directory: Path) -> str:
        """The one line with which it refuses the database, which is left as it was."""
        database = directory / "kizami.db"
        before = database.read_bytes()
        with Daemon(directory) as daemon:
            assert daemon.wait() == 1
        assert database.read_bytes() == before
        assert {path.name for path in directory.glob("kizami.db*")} <= {"kizami.db", "kizami.db-lock"}
        (line,) = daemon.log_file.read_text().splitlines()
        return line

    def good(self, directory: Path) -> Path:
        known_since(directory, datetime.now(UTC))
        connection = open_database(directory / "kizami.db")
        with transaction(connection):
            rows = [(slot,) for slot in range(5000)]
            connection.executemany("INSERT INTO slots VALUES (?, 0, 1, 0, 0, 1, 0)", rows)
        connection.close()
        return directory / "kizami.db"

    def test_a_text_file(self, tmp_path: Path) -> None:
        (tmp_path / "kizami.db").write_text("my notes " * 100)
        assert "is not an SQLite database; it is left untouched" in self.refused(tmp_path)

    def test_another_applications_database(self, tmp_path: Path) -> None:
        import sqlite3

        with sqlite3.connect(tmp_path / "kizami.db") as other:
            other.execute("CREATE TABLE photos (id)")
        other.close()
        assert "belongs to another application; it is left untouched" in self.refused(tmp_path)

    def test_another_versions_database(self, tmp_path: Path) -> None:
        connection = open_database(tmp_path / "kizami.db", create=True)
        connection.execute("PRAGMA user_version = 99")
        connection.close()
        assert "was made by another version of kizami (schema 99," in self.refused(tmp_path)

    @pytest.mark.parametrize("where", [20_000, 60_000])
    def test_a_damaged_one(self, tmp_path: Path, where: int) -> None:
        database = self.good(tmp_path)
        with database.open("r+b") as file:
            file.seek(where)
            file.write(os.urandom(2000))
        assert "is damaged" in self.refused(tmp_path)

    def test_a_truncated_one(self, tmp_path: Path) -> None:
        database = self.good(tmp_path)
        os.truncate(database, database.stat().st_size // 2)
        assert "is damaged" in self.refused(tmp_path)

    def test_a_directory_that_may_not_be_written(self, tmp_path: Path) -> None:
        if os.getuid() == 0 and sys.platform != "linux":
            skip_for_lack_of("a user whom permissions bind", "run the tests as another user than root")
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o555)
        with FaultServer(faults.answer()) as server:
            configured(tmp_path, every_second(server))
            with Daemon(tmp_path, "--database", "closed/kizami.db", obeys_permissions=True) as daemon:
                assert daemon.wait() == 1
        (line,) = daemon.log_file.read_text().splitlines()
        assert "Permission denied" in line
        assert "--database" in line
