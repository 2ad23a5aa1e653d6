"""The log beside the database while somebody reads without end: told of once, and small again afterwards."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from fakes.host_rooms import Rooms
from kizami.cli.checks.machine import Health, check_database
from kizami.core.targets.target import Target
from kizami.local.engine.write_batch import WriteBatch
from kizami.local.engine.writer import QueueLimits, Writer
from kizami.local.store import statements, write_ahead_log
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import register_targets
from kizami.local.store.reader import Reader
from kizami.local.store.rows import SentRow, StoredRow
from kizami.local.store.write_ahead_log import LogWatch, describe_large_log, log_bytes, readers
from kizami.platform.clock import SystemClock
from programs.daemon import wait_for

T0 = datetime(2025, 12, 2, 9, 50, tzinfo=UTC)
LARGE_BYTES = 2**20


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database whose log is large, and begins anew, from one megabyte on, and is looked at all the time."""
    monkeypatch.setattr(write_ahead_log, "LARGE_BYTES", LARGE_BYTES)
    monkeypatch.setattr(write_ahead_log, "_LOOK_SECONDS", 0)
    monkeypatch.setattr("kizami.local.store.database.LOG_BYTES", LARGE_BYTES // 2)
    path = tmp_path / "kizami.db"
    open_database(path, create=True).close()
    return path


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[logging.LogRecord]]:
    """What the log says of it."""
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[assignment,method-assign]
    logger = logging.getLogger(write_ahead_log.__name__)
    monkeypatch.setattr(logger, "level", logging.INFO)
    logger.addHandler(handler)
    yield records
    logger.removeHandler(handler)


@contextmanager
def endless_read(path: Path) -> Iterator[int]:
    """Another program that reads until the end of a `with`; its process."""
    script = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM slots").fetchone()
print("reading", flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        assert program.stdin
        assert program.stdout.readline() == "reading\n"
        try:
            yield program.pid
        finally:
            program.stdin.close()


def let_the_log_grow(connection: apsw.Connection) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS filler (text)")
    for _ in range(5):
        with transaction(connection):
            connection.executemany("INSERT INTO filler VALUES (?)", [("x" * 1000,)] * 1000)


def events(records: list[logging.LogRecord]) -> list[str]:
    return [vars(record)["event"] for record in records]


def test_a_log_that_a_read_lets_grow_is_told_of_once_with_whose_it_is(
    path: Path, told: list[logging.LogRecord]
) -> None:
    connection, watch = open_database(path), LogWatch(path)
    with endless_read(path) as pid:
        let_the_log_grow(connection)
        watch.look(connection)
        watch.look(connection)
        if sys.platform == "linux":
            assert readers(path) == [pid]
            assert f"because a read goes on (pid {pid})" in describe_large_log(path)
        check = check_database(path)
        assert (check.health, "a read goes on" in check.finding) == (Health.WARNING, True)
    assert events(told) == ["database_log.held"]
    connection.close()


def test_after_the_read_it_is_small_again_and_that_is_told(path: Path, told: list[logging.LogRecord]) -> None:
    connection, watch = open_database(path), LogWatch(path)
    with endless_read(path):
        let_the_log_grow(connection)
        watch.look(connection)
    for _ in range(2):  # the first carries the log over, the second begins it anew
        connection.execute("INSERT INTO filler VALUES (1)")
    watch.look(connection)
    assert log_bytes(path) <= LARGE_BYTES
    assert events(told)[1:] == ["database_log.released"]
    assert describe_large_log(path) == ""
    assert readers(path) == []
    connection.close()


def test_a_large_log_that_nobody_holds_is_not_told_of(path: Path, told: list[logging.LogRecord]) -> None:
    connection = open_database(path)
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    let_the_log_grow(connection)
    assert log_bytes(path) > LARGE_BYTES
    LogWatch(path).look(connection)
    assert told == []
    connection.close()


def test_the_writer_looks(path: Path, told: list[logging.LogRecord]) -> None:
    writer = Writer(path, SystemClock(), QueueLimits(60, 100), lambda turn: None, Rooms())
    writer.start()
    with endless_read(path):
        writer.submit(WriteBatch(changes=[let_the_log_grow_within]))
        wait_for(lambda: told, "a line about the log")
    writer.close(60)


def let_the_log_grow_within(connection: apsw.Connection) -> None:
    connection.execute("CREATE TABLE filler (text)")
    connection.executemany("INSERT INTO filler VALUES (?)", [("x" * 1000,)] * 5000)


@pytest.mark.parametrize(
    "read",
    [
        lambda reader: reader.records("calls", T0, T0 + timedelta(days=1)),
        lambda reader: reader.stored("calls", T0, T0 + timedelta(days=1)),
        lambda reader: reader.pending("calls", T0, T0 + timedelta(days=1)),
    ],
)
def test_whoever_takes_long_over_an_answer_of_ours_holds_up_nothing(
    path: Path, read: Callable[[Reader], Iterator[object]]
) -> None:
    """An export into a pipe that nobody reads is no endless read."""
    connection = open_database(path)
    with transaction(connection):
        target = Target(name="calls", interval_seconds=5, lag_seconds=5)
        number = register_targets(connection, [target], T0)["calls"].id
        start = int(T0.timestamp())
        statements.store(connection, [StoredRow(start + 5 * n, number, 1, 0, 0, 1, False) for n in range(500)])
        late = [SentRow(start + 5 * n, number, 5, 0) for n in range(500, 1000)]
        statements.send(connection, late, statements.BACKFILL, 0)
    with Reader.opened(path) as reader:
        answer = read(reader)
        next(answer)
        if sys.platform == "linux":
            assert os.getpid() not in readers(path)
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").get
        assert (busy, log_bytes(path)) == (0, 0)
        assert sum(1 for _ in answer) == 499
    connection.close()
