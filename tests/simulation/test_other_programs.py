"""Other programs on the database: nobody takes the log away under the daemon, and the file stays its owner's."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest
import requests

import fakes.fault_server as faults
from conftest import skip_for_lack_of
from fakes.fault_server import FaultServer
from kizami.core.errors import StoreError
from kizami.core.targets.target import Target
from kizami.local.engine.loop import Engine
from kizami.local.engine.options import Options
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import register_targets
from kizami.local.store.reader import Reader
from kizami.platform.clock import SystemClock
from programs.command import run_process
from programs.daemon import PATIENCE_SECONDS, Daemon, slots_of, toml, wait_for, write_whole
from programs.seen_locks import SeenLocks

EVER = datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)

# What people do to a file with what their system has: before 3.51, SQLite deletes the log of a database that
# nobody seems to have open.
OUTSIDER = """
import sqlite3, sys
sqlite3.connect(sys.argv[1]).execute("SELECT count(*) FROM slots").fetchone()
for statement in ("BEGIN IMMEDIATE", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA integrity_check"):
    connection = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
    connection.execute("PRAGMA user_version").fetchone()
    connection.execute(statement).fetchall()
    connection.close()
"""


def every_second(server: FaultServer, name: str = "calls", **settings: object) -> dict[str, object]:
    return {"name": name, "url": server.url, "interval": 1, "timeout": 60} | settings


def known_since(database: Path, since: datetime) -> None:
    connection = open_database(database, create=True)
    with transaction(connection):
        register_targets(connection, [Target(name="calls", interval_seconds=1, lag_seconds=1)], since)
    connection.close()


def act(daemon: Daemon, path: str, **body: Any) -> None:
    """Have the dashboard do something, as its page does."""
    url = daemon.wait_for_event("dashboard.served")["url"]
    answer = requests.post(f"{url}/api/v1/{path}", json=body, headers={"Origin": url}, timeout=PATIENCE_SECONDS)
    assert answer.status_code == 200, answer.text


def look(daemon: Daemon, *paths: str) -> None:
    """Have the dashboard read something."""
    url = daemon.wait_for_event("dashboard.served")["url"]
    for path in paths:
        assert requests.get(f"{url}{path}", timeout=PATIENCE_SECONDS).status_code == 200


def be_outsider(database: Path) -> None:
    subprocess.run([sys.executable, "-c", OUTSIDER, database], check=True, timeout=PATIENCE_SECONDS)


def rows_in_the_file(database: Path) -> set[datetime]:
    with Reader.opened(database) as reader:
        return {record.slot for record in reader.records("calls", *EVER)}


@pytest.mark.skipif(sys.platform != "linux", reason="the layout of struct flock")
def test_the_daemon_holds_its_lock_whatever_it_does(tmp_path: Path) -> None:
    """From the first time it has it, through catching up, reloading and all that the dashboard does."""
    known_since(tmp_path / "kizami.db", datetime.now(UTC) - timedelta(minutes=5))
    with FaultServer(faults.answer()) as server:
        write_whole(tmp_path / "kizami.toml", toml([every_second(server)]))
        arguments = ("--dashboard-port", "0")
        with SeenLocks(tmp_path / "kizami.db") as locks, Daemon(tmp_path, *arguments) as daemon:
            daemon.wait_for_event("catch_up.queued")
            daemon.process.send_signal(signal.SIGHUP)
            daemon.wait_for_event("config.applied")
            look(
                daemon,
                "/",
                "/?metric=calls",
                "/api/v1/status",
                "/metrics",
                "/readyz",
                "/api/v1/chart?metric=calls",
            )
            act(daemon, "targets/pause", metric="calls")
            daemon.wait_for_event("config.applied", times=2)
            act(daemon, "targets/resume", metric="calls")
            daemon.wait_for_event("config.applied", times=3)
            act(daemon, "backfill", allGaps=True)
            assert run_process("status", cwd=tmp_path).code == 0
            be_outsider(daemon.database)
            assert locks.is_held()
            locks.stop()
    assert not locks.lost
    assert locks.seen


def test_outsiders_with_an_old_sqlite_cost_no_acknowledged_row(tmp_path: Path) -> None:
    """They read, lock, vacuum and check-point beside a daemon that then is killed."""
    if sqlite3.sqlite_version_info >= (3, 51):
        skip_for_lack_of("an SQLite before 3.51", "a Python that links an older one, as Debian 12 has")
    known_since(tmp_path / "kizami.db", datetime.now(UTC) - timedelta(minutes=2))
    acknowledged: set[datetime] = set()
    with FaultServer(faults.answer()) as server:
        write_whole(tmp_path / "kizami.toml", toml([every_second(server)]))
        for _ in range(2):
            with Daemon(tmp_path, "--no-dashboard") as daemon:
                daemon.wait_for_rows(1)
                for _ in range(2):
                    be_outsider(daemon.database)
                    more = len(daemon.rows) + 2
                    daemon.wait_for_rows(more)
                    assert run_process("status", cwd=tmp_path).code == 0
                daemon.process.kill()
                daemon.wait()
            acknowledged |= set(slots_of(daemon.rows, "calls"))
    assert acknowledged <= rows_in_the_file(daemon.database)
    connection = apsw.Connection(str(daemon.database))
    assert connection.execute("PRAGMA integrity_check").get == "ok"
    connection.close()


# What lets nobody read either, and what lets nobody write.
WHOLE = "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; UPDATE metrics SET name = name; COMMIT"
TRANSACTION = "BEGIN EXCLUSIVE"


@contextmanager
def locked_whole(database: Path, lock: str = WHOLE) -> Iterator[subprocess.Popen[str]]:
    """Another program that lets nobody else in until its stdin ends."""
    script = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
for statement in sys.argv[2].split("; "):
    connection.execute(statement)
print("locked", flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", script, str(database), lock]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        assert program.stdin
        try:
            assert program.stdout.readline() == "locked\n"
            yield program
        finally:
            program.stdin.close()


def test_a_start_waits_for_whoever_has_locked_the_file_for_a_moment(tmp_path: Path) -> None:
    known_since(tmp_path / "kizami.db", datetime.now(UTC))
    with FaultServer(faults.answer()) as server:
        write_whole(tmp_path / "kizami.toml", toml([every_second(server)]))
        with locked_whole(tmp_path / "kizami.db") as program, Daemon(tmp_path, "--no-dashboard") as daemon:
            wait_for((tmp_path / "kizami.db-lock").exists, "the daemon to begin")
            with pytest.raises(subprocess.TimeoutExpired):
                daemon.process.wait(timeout=1)
            assert program.stdin
            program.stdin.close()
            daemon.wait_for_rows(1)


@pytest.mark.parametrize("lock", [WHOLE, TRANSACTION])
def test_a_lock_of_any_length_ends_neither_a_start_nor_a_run_and_loses_nothing(tmp_path: Path, lock: str) -> None:
    """Held for longer than SQLite waits, right after the daemon says that it polls, and again while it does."""
    known_since(tmp_path / "kizami.db", datetime.now(UTC) - timedelta(seconds=5))
    with FaultServer(faults.answer()) as server:
        write_whole(tmp_path / "kizami.toml", toml([every_second(server)]))
        with locked_whole(tmp_path / "kizami.db", lock) as program:
            with Daemon(tmp_path, "--no-dashboard") as daemon:
                daemon.wait_for_event("database.locked")
                assert program.stdin
                program.stdin.close()
                daemon.wait_for_rows(2)
                with locked_whole(tmp_path / "kizami.db", TRANSACTION):
                    daemon.wait_for_event("database.unwritable")
                daemon.wait_for_event("database.writable")
                daemon.wait_for_rows(len(daemon.rows) + 10)
                assert daemon.stop() == 0
            slots = slots_of(daemon.rows, "calls")
    assert sorted(slots) == [min(slots) + timedelta(seconds=number) for number in range(len(slots))]
    assert min(slots) <= datetime.now(UTC) - timedelta(seconds=25)
    assert len([line for line in daemon.log() if line["event"] == "database.locked"]) == 1


@pytest.mark.parametrize("lock", [WHOLE, TRANSACTION])
def test_a_daemon_that_waits_for_a_lock_obeys_a_signal(tmp_path: Path, lock: str) -> None:
    known_since(tmp_path / "kizami.db", datetime.now(UTC))
    with FaultServer(faults.answer()) as server:
        write_whole(tmp_path / "kizami.toml", toml([every_second(server)]))
        with locked_whole(tmp_path / "kizami.db", lock), Daemon(tmp_path, "--no-dashboard") as daemon:
            daemon.wait_for_event("database.locked")
            assert daemon.stop() == 0
            assert "Traceback" not in daemon.log_file.read_text()


def test_an_engine_that_cannot_be_made_while_the_file_is_locked_leaves_nothing_open(tmp_path: Path) -> None:
    database = tmp_path / "kizami.db"
    known_since(database, datetime.now(UTC))
    with pytest.MonkeyPatch.context() as patch, locked_whole(database):
        patch.setattr("kizami.local.store.database.BUSY_TIMEOUT_MS", 10)
        before = os.listdir("/dev/fd")
        for _ in range(3):
            with pytest.raises(StoreError, match="locked"):
                Engine(database, Options(), SystemClock())
        assert os.listdir("/dev/fd") == before


class TestWhoMayUseTheFile:
    def modes(self, directory: Path) -> dict[str, str]:
        files = sorted(directory.glob("kizami.db*"))
        return {file.name: f"{file.stat().st_mode & 0o777:o}" for file in files}

    def test_what_the_daemon_makes_is_its_owners_alone(self, tmp_path: Path) -> None:
        with FaultServer(faults.answer()) as server:
            write_whole(tmp_path / "kizami.toml", toml([every_second(server)]))
            with Daemon(tmp_path, "--no-dashboard") as daemon:
                daemon.wait_for_rows(1)
                names = ("kizami.db", "kizami.db-lock", "kizami.db-shm", "kizami.db-wal")
                assert self.modes(tmp_path) == dict.fromkeys(names, "600")

    def test_there_is_no_moment_in_which_others_may_read_it(self, tmp_path: Path) -> None:
        """Every file that appears on the way has its mode from the start."""
        found: set[str] = set()

        def note(*_: object) -> None:
            found.update(self.modes(tmp_path).values())

        apsw.connection_hooks.append(lambda connection: connection.set_profile(note))
        try:
            connection = open_database(tmp_path / "kizami.db", create=True)
            connection.execute("BEGIN IMMEDIATE; ROLLBACK").fetchall()
            connection.close()
        finally:
            apsw.connection_hooks.pop()
        assert found == {"600"}

    @pytest.mark.parametrize("made", ["by kizami", "empty by hand"])
    def test_one_that_is_shared_stays_so(self, tmp_path: Path, made: str) -> None:
        database = tmp_path / "kizami.db"
        if made == "by kizami":
            known_since(database, datetime.now(UTC))
        else:
            database.touch()
        database.chmod(0o660)
        umask = os.umask(0o007)
        try:
            with FaultServer(faults.answer()) as server:
                write_whole(tmp_path / "kizami.toml", toml([every_second(server)]))
                with Daemon(tmp_path, "--no-dashboard") as daemon:
                    daemon.wait_for_rows(1)
                    assert set(self.modes(tmp_path).values()) == {"660"}
        finally:
            os.umask(umask)
