"""The SQLite store: the first record of a slot stays for ever, whoever writes, also after reopening."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from fakes.sqlite_records import SqliteRecords
from kizami.core.errors import StoreError
from kizami.core.messages import MetricRecord
from kizami.core.ports import PutOutcome
from kizami.local.daemon_lock import UP, AlreadyRunning, sole_daemon
from kizami.local.store import database
from kizami.local.store.database import LOG_BYTES, open_database
from kizami.local.store.schema import VERSION

SLOT = datetime(2025, 12, 2, 10, 23, 5, tzinfo=UTC)
LATER = datetime(2025, 12, 2, 10, 23, 11, tzinfo=UTC)


def record(slot: datetime = SLOT, count: int = 7, metric: str = "ai_response_count") -> MetricRecord:
    return MetricRecord(metric, slot, count, LATER)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kizami.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteRecords]:
    store = SqliteRecords(path, create=True)
    yield store
    store.close()


def test_one_of_two_racing_writers_stores_and_the_other_has_a_duplicate(store: SqliteRecords, path: Path) -> None:
    outcomes: list[PutOutcome] = []
    start = threading.Barrier(2)

    def race(count: int) -> None:
        own = SqliteRecords(path)
        start.wait()
        outcomes.extend(own.put_if_absent(record(SLOT + timedelta(seconds=5 * n), count)) for n in range(50))
        own.close()

    racers = [threading.Thread(target=race, args=(count,)) for count in (1, 2)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert outcomes.count(PutOutcome.STORED) == outcomes.count(PutOutcome.DUPLICATE) == 50


def test_slots_of_a_finer_interval_than_before_are_found_too(store: SqliteRecords) -> None:
    slots = [datetime(2025, 12, 2, 10, 23, second, tzinfo=UTC) for second in (0, 30, 35, 37)]
    for slot in slots:
        store.put_if_absent(record(slot))
    found = store.query("ai_response_count", slots[0], slots[0] + timedelta(minutes=1))
    assert [entry.slot for entry in found] == slots


def test_records_survive_closing_and_opening_again(store: SqliteRecords, path: Path) -> None:
    store.put_if_absent(record())
    store.close()
    again = SqliteRecords(path)
    assert again.put_if_absent(record()) is PutOutcome.DUPLICATE
    again.close()


def test_the_file_itself_refuses_to_change_a_stored_slot(store: SqliteRecords, path: Path) -> None:
    store.put_if_absent(record())
    with pytest.raises(apsw.ConstraintError, match="never changes"):
        open_database(path).execute("UPDATE slots SET count = 9")


@pytest.mark.parametrize("version", [0, 1, 8, 9, 11, 99])
def test_a_file_of_another_version_is_refused_and_left_as_it_is(path: Path, version: int) -> None:
    connection = open_database(path, create=True)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    before = path.read_bytes()
    words = (
        f"{path}: was made by another version of kizami (schema {version}, this one has {VERSION}); "
        "use another --database, or export its records with that version"
    )
    for create in (False, True):
        with pytest.raises(StoreError) as refusal:
            open_database(path, create=create)
        assert str(refusal.value) == words
    assert path.read_bytes() == before


def test_a_version_that_is_in_the_log_alone_is_refused_too(path: Path) -> None:
    with closing(open_database(path, create=True)) as connection:
        connection.execute("PRAGMA user_version = 8")
        with pytest.raises(StoreError, match="another version of kizami"):
            open_database(path)


def test_the_file_takes_a_count_below_zero(store: SqliteRecords) -> None:
    store.put_if_absent(record(count=-3))
    assert [each.count for each in store.query("ai_response_count", SLOT, LATER)] == [-3]


def test_a_log_that_another_database_has_left_behind_is_not_taken_for_the_new_ones(
    store: SqliteRecords, path: Path
) -> None:
    store.put_if_absent(record())
    moved = path.rename(path.with_name("moved.db"))
    with pytest.raises(StoreError, match=r"kizami\.db-wal: has rows of a database that is no longer beside it"):
        open_database(path, create=True)
    moved.rename(path)
    assert list(store.query("ai_response_count", SLOT, LATER)) == [record()]


def test_a_database_that_another_process_makes_at_the_same_time_is_not_replaced(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def be_overtaken(path: Path) -> None:
        monkeypatch.undo()
        first = SqliteRecords(path, create=True)
        first.put_if_absent(record())
        first.close()

    monkeypatch.setattr(database, "_refuse_orphaned_log", be_overtaken)
    second = SqliteRecords(path, create=True)
    assert list(second.query("ai_response_count", SLOT, LATER)) == [record()]
    second.close()


def test_an_empty_file_and_a_link_to_nothing_are_filled(tmp_path: Path) -> None:
    empty, link = tmp_path / "empty.db", tmp_path / "link.db"
    empty.touch()
    link.symlink_to(tmp_path / "real.db")
    for path in (empty, link):
        open_database(path, create=True).close()
    assert link.is_symlink()


def test_one_daemon_works_on_a_database_by_whatever_name(tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "kizami.db")
    with sole_daemon(tmp_path / "kizami.db", UP), pytest.raises(AlreadyRunning), sole_daemon(link, UP):
        pass


def test_a_copy_made_by_vacuum_is_used_like_the_file_it_was_made_from(store: SqliteRecords, path: Path) -> None:
    """Such a copy has a rollback journal, with which readers and the daemon would hold up each other."""
    store.put_if_absent(record())
    copy = path.with_name("copy.db")
    connection = open_database(path)
    connection.execute("VACUUM INTO ?", (str(copy),))
    connection.close()
    restored = open_database(copy, create=True)
    assert restored.execute("PRAGMA journal_mode").get == "wal"
    assert restored.execute("SELECT count FROM slots").get == 7
    restored.close()


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_strangers_database_is_refused_and_nothing_is_put_beside_it(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "photos.db"
    other = apsw.Connection(str(path))
    other.execute(f"PRAGMA journal_mode = {mode}; CREATE TABLE photos (id)").fetchall()
    other.close()
    before = path.read_bytes()
    for refused in (open_database, database.require_intact):
        with pytest.raises(StoreError, match="belongs to another application; it is left untouched"):
            refused(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", ["directory", "short"])
def test_what_is_no_database_at_all_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "kizami.db"
    if kind == "directory":
        path.mkdir()
    else:
        path.write_text("short")
    with pytest.raises(StoreError, match="is not an SQLite database; it is left untouched"):
        open_database(path)


def test_a_database_that_somebody_else_has_left_half_written_is_not_taken_for_damaged(tmp_path: Path) -> None:
    """A copy made by VACUUM has a rollback journal; after a crash that is what makes it whole."""
    path, crashed = tmp_path / "kizami.db", tmp_path / "crashed.db"
    open_database(path, create=True).close()
    other = apsw.Connection(str(path))
    other.execute("PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1; PRAGMA cache_spill = 1").fetchall()
    other.execute("BEGIN; CREATE TABLE filler (text)")
    other.executemany("INSERT INTO filler VALUES (?)", [("x" * 3000,)] * 200)
    crashed.write_bytes(path.read_bytes())
    crashed.with_name("crashed.db-journal").write_bytes(path.with_name("kizami.db-journal").read_bytes())
    other.close()
    database.require_intact(crashed)


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_copy_that_somebody_writes_to_is_waited_for(path: Path, lock: str) -> None:
    open_database(path, create=True).close()
    other = apsw.Connection(str(path))
    other.execute("PRAGMA journal_mode = DELETE").fetchall()
    other.execute(lock)
    release = threading.Timer(0.3, lambda: other.execute("ROLLBACK"))
    release.start()
    connection = open_database(path, create=True)
    assert connection.execute("PRAGMA journal_mode").get == "wal"
    connection.close()
    release.join()
    other.close()


def test_every_connection_keeps_what_is_acknowledged_and_lets_the_log_shrink(
    path: Path, store: SqliteRecords
) -> None:
    connection = open_database(path)
    pragmas = {
        name: connection.execute(f"PRAGMA {name}").get
        for name in ("synchronous", "journal_size_limit", "journal_mode")
    }
    connection.close()
    assert pragmas == {"synchronous": 2, "journal_size_limit": LOG_BYTES, "journal_mode": "wal"}
