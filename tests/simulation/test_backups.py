"""Backups of a database that is polled into, and copies that are killed: what is there is whole, old or new."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import fakes.fault_server as faults
from fakes.fault_server import FaultServer
from kizami.local.store.reader import Reader
from programs.command import environment, run_process
from programs.daemon import PATIENCE_SECONDS, SOURCES, Daemon, slots_of, toml, write_whole

EVER = datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
TARGETS = 60


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with FaultServer(faults.answer()) as server:
        yield server


def stored(database: Path, metric: str) -> list[datetime]:
    with Reader.opened(database) as reader:
        return [record.slot for record in reader.records(metric, *EVER)]


def test_backups_while_the_daemon_polls_miss_nothing(server: FaultServer, tmp_path: Path) -> None:
    targets = [{"name": f"calls-{n}", "url": server.url, "interval": 1, "timeout": 60} for n in range(TARGETS)]
    backup = '\n[backup]\nevery = "1d"\nkeep = 3\ndirectory = "kept"\n'
    write_whole(tmp_path / "kizami.toml", toml(targets) + backup)
    with Daemon(tmp_path, "--no-dashboard") as daemon:
        daemon.wait_for_rows(2 * TARGETS)
        made = daemon.wait_for_event("backup.made")
        copies = []
        for number in range(4):
            found = run_process("backup", f"copy-{number}.db", "--json", cwd=tmp_path)
            assert found.code == 0, found.err
            copies.append(tmp_path / found.json["file"])
            daemon.wait_for_rows(len(daemon.rows) + TARGETS)
        told = run_process("status", "--json", cwd=tmp_path).json["daemon"]
        assert daemon.stop() == 0
        log = daemon.log()
    assert Path(made["file"]).parent == tmp_path / "kept"
    assert told["backups"]["directory"] == str(tmp_path / "kept")
    assert told["trouble"] is None
    assert not [line for line in log if line["event"] in ("backup.failed", "clock.jumped", "writes.failed")]
    for metric in (f"calls-{n}" for n in range(TARGETS)):
        slots = stored(daemon.database, metric)
        assert slots == [slots[0] + timedelta(seconds=n) for n in range(len(slots))]
        assert set(slots_of(daemon.rows, metric)) <= set(slots)
        for copy in copies:
            kept = stored(copy, metric)
            assert kept == slots[: len(kept)]
    assert [len(stored(copy, "calls-0")) for copy in copies] == sorted({len(stored(c, "calls-0")) for c in copies})


def test_a_daemon_whose_backups_fail_goes_on_and_says_so(server: FaultServer, tmp_path: Path) -> None:
    write_whole(tmp_path / "kizami.toml", toml([{"name": "calls", "url": server.url, "interval": 1}]))
    (tmp_path / "file").write_text("in the way")
    flags = ("--backup-every", "1h", "--backup-directory", "file/kept")
    with Daemon(tmp_path, "--no-dashboard", *flags) as daemon:
        reason = daemon.wait_for_event("backup.failed")["reason"]
        daemon.wait_for_rows(len(daemon.rows) + 2)
        told = run_process("status", cwd=tmp_path).out
        restored = run_process("restore", "kizami.db", "--database", "kizami.db", cwd=tmp_path)
        assert daemon.stop() == 0
    assert f"backups fail: {reason}" in told
    assert f"backups   none yet, one every 1h in {tmp_path}/file/kept; failed at " in told
    assert restored.code == 2


# Every point at which Python touches the file system, and every step of a copy, is one at which a child is killed.
KILLED = """
import os, shutil, signal, sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from kizami.local.copies.backup import make_backup
from kizami.local.copies import copying
from kizami.local.copies.restore import restore_backup
from kizami.local.store.database import open_database
from kizami.local.store.reader import Reader
from samples.database import T0, at, make_database

place, what = Path(sys.argv[1]), sys.argv[2]
copying._STEP_PAGES = 5
work, backup = place / "work", place / "backup.db"
database = work / "kizami.db"
other = make_database(place / "other.db", {"calls": range(700)})
make_backup(other, backup)
template = make_database(place / "template.db", {"calls": range(1000)})

def fresh():
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    connection = open_database(template)  # as a killed daemon leaves it: the newest rows are in the log alone
    connection.execute("UPDATE metrics SET lag_seconds = 7")
    shutil.copyfile(template, database)
    shutil.copyfile(f"{template}-wal", f"{database}-wal")
    connection.close()

def act():
    if what == "restore":
        restore_backup(backup, database, datetime(2026, 1, 1, tzinfo=UTC), progress=lambda *_: point())
    else:
        make_backup(database, work / "copy.db", replace=what == "replace", progress=lambda *_: point())

def rows(path):
    with Reader.opened(path) as reader:
        return [record.slot for record in reader.records("calls", T0, at(5000))]

OLD, NEW = [at(n) for n in range(1000)], [at(n) for n in range(700)]
reached = 0
def point():
    global reached
    reached += 1
    if reached == limit:
        os.kill(os.getpid(), signal.SIGKILL)
def watch(event, arguments):
    if event.startswith("os.") or event == "open":
        point()

seen, limit = set(), 0
while True:
    limit += 1
    fresh()
    if what == "replace":
        make_backup(other, work / "copy.db")
    child = os.fork()
    if not child:
        reached = 0
        sys.addaudithook(watch)
        act()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    assert ended in (0, -9), ended
    found = rows(database)
    if what == "restore":
        assert found in (OLD, NEW), (limit, len(found))
        seen.add(len(found))
        for former in work.glob("kizami.db-replaced-*Z"):
            assert rows(former) == OLD, limit
    else:
        assert found == OLD, limit
        copy = work / "copy.db"
        allowed = {"backup": (None, OLD), "replace": (NEW, OLD)}[what]
        there = rows(copy) if copy.exists() else None
        assert there in allowed, (limit, there and len(there))
        seen.add(there and len(there))
    before, limit = limit, 0
    what = "replace" if what == "backup" else what
    act()  # whatever was left is in nobody's way
    what = sys.argv[2]
    assert not [path for path in work.iterdir() if ".part" in path.name], before
    limit = before
    if ended == 0:
        break
assert len(seen) == 2, seen
print(limit)
"""


@pytest.mark.parametrize("what", ["backup", "replace", "restore"])
def test_a_kill_at_any_point_leaves_the_old_state_or_the_new_one(tmp_path: Path, what: str) -> None:
    paths = f"{SOURCES}:{SOURCES.parent / 'tests'}"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path, what],
        env=environment(PYTHONPATH=paths),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10
