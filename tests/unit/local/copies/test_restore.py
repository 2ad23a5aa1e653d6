"""A restored backup takes the place of the database, which is kept; what is refused changes nothing."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kizami.core.errors import InvalidInput, KizamiError, StoreError
from kizami.local.copies.backup import make_backup
from kizami.local.copies.restore import restore_backup
from kizami.local.daemon_lock import UP, sole_daemon
from kizami.local.store.database import open_database
from kizami.local.store.reader import Reader
from samples.database import T0, at, make_database

NOW = datetime(2026, 11, 17, 2, 30, tzinfo=UTC)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return make_database(tmp_path / "kizami.db", {"calls": range(500)})


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    other = make_database(tmp_path / "other.db", {"calls": range(300)})
    make_backup(other, tmp_path / "backup.db")
    other.unlink()
    return tmp_path / "backup.db"


def slots(path: Path) -> int:
    with Reader.opened(path) as reader:
        return sum(1 for _ in reader.records("calls", T0, at(10_000)))


def test_the_backup_is_there_and_the_former_database_is_kept(database: Path, backup: Path) -> None:
    database.chmod(0o640)
    restored = restore_backup(backup, database, NOW)
    assert restored.records == slots(database) == 300
    assert restored.former == database.with_name("kizami.db-replaced-20261117T023000Z")
    assert slots(restored.former) == 500
    assert slots(backup) == 300
    assert stat.S_IMODE(database.stat().st_mode) == 0o640


def test_a_second_one_in_the_same_second_replaces_nothing(database: Path, backup: Path) -> None:
    first, second = (restore_backup(backup, database, NOW).former for _ in range(2))
    assert first
    assert second
    assert slots(first) == 500
    assert slots(second) == 300


def test_where_there_is_no_database_it_is_made(backup: Path, tmp_path: Path) -> None:
    assert restore_backup(backup, tmp_path / "new.db", NOW).former is None
    assert slots(tmp_path / "new.db") == 300


def test_rows_that_are_in_the_log_alone_are_kept_with_the_former_database(
    database: Path, backup: Path, tmp_path: Path
) -> None:
    with closing(open_database(database)) as connection:
        connection.execute("DELETE FROM metrics WHERE name = 'nobody'")
        connection.execute("INSERT INTO points VALUES ('c', '202601', 'u', 1, 0)")
        (tmp_path / "crashed").mkdir()
        for name in ("kizami.db", "kizami.db-wal"):
            (tmp_path / "crashed" / name).write_bytes((tmp_path / name).read_bytes())
    restored = restore_backup(backup, tmp_path / "crashed" / "kizami.db", NOW)
    assert restored.former is not None
    with closing(open_database(restored.former)) as former:
        assert former.execute("SELECT points FROM points").get == 1
    assert not (tmp_path / "crashed" / "kizami.db-wal").exists()


def _damage(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(os.urandom(4096 * 3))


def test_a_damaged_database_is_replaced_and_kept_with_its_log(database: Path, backup: Path) -> None:
    database.write_bytes(b"\0" * 8192)
    log = database.with_name("kizami.db-wal")
    log.write_bytes(b"not a log")
    restored = restore_backup(backup, database, NOW)
    assert slots(database) == 300
    assert restored.former
    assert restored.former.read_bytes() == b"\0" * 8192
    assert restored.former.with_name(restored.former.name + "-wal").read_bytes() == b"not a log"


_CALLS = ("open", "fsync", "link", "replace", "unlink", "chmod", "chown")


@pytest.mark.parametrize("state", ["whole", "damaged", "absent"])
def test_whichever_call_of_the_system_fails_the_outcome_that_is_told_is_true(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """An error leaves all as it was; a success that cannot be confirmed is a success with a warning."""
    outcomes = set()
    for call in _CALLS:
        for number in count(1):
            place = tmp_path / f"{call}-{number}"
            place.mkdir()
            before = _former_state(place, state)
            with monkeypatch.context() as patch:
                failed = _fail(patch, call, number, place)
                try:
                    restored = restore_backup(backup, place / "kizami.db", NOW)
                except StoreError:
                    outcomes.add("refused")
                    assert _files(place) == before, (call, number)
                else:
                    outcomes.add("warned" if restored.warning else "restored")
                    assert restored.records == slots(place / "kizami.db") == 300
                    if state == "whole":
                        assert restored.former
                        assert slots(restored.former) == 500
            if not failed:
                break
    assert outcomes == {"refused", "warned", "restored"}


def _former_state(place: Path, state: str) -> dict[str, bytes]:
    if state == "whole":
        make_database(place / "kizami.db", {"calls": range(500)})
    elif state == "damaged":
        (place / "kizami.db").write_bytes(b"\0" * 8192)
        (place / "kizami.db-wal").write_bytes(b"not a log")
    return _files(place)


def _files(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in place.iterdir() if not path.name.endswith("-lock")}


def _fail(patch: pytest.MonkeyPatch, name: str, number: int, place: Path) -> list[str]:
    """Let the call of `os.name` with this number fail that is about the directory or a descriptor; it is noted."""
    real, calls, failed = getattr(os, name), count(1), list[str]()

    def call(*arguments: Any, **named: Any) -> Any:
        about = str(arguments[0])
        if (about.isdecimal() or about.startswith(str(place))) and next(calls) == number:
            failed.append(about)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(*arguments, **named)

    patch.setattr(os, name, call)
    return failed


def _truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 4096 * 3)


def _make_newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")


def _make_foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA application_id = 1")


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (_damage, r"backup\.db: is damaged \(.*the database is left as it was, use another backup"),
        (_truncate, r"backup\.db: .*(damaged|malformed)"),
        (
            _make_newer,
            r"backup\.db: was made by another version of kizami \(schema 99, .*\); use another --database, or ",
        ),
        (_make_foreign, r"backup\.db: belongs to another application; the database is left"),
        (lambda path: path.write_text("text"), r"backup\.db: is not an SQLite database; the database is left"),
        (Path.unlink, r"FILE: .*backup\.db is not there"),
    ],
)
def test_what_is_no_good_backup_changes_nothing(
    database: Path, backup: Path, harm: Callable[[Path], object], words: str
) -> None:
    harm(backup)
    before = database.read_bytes()
    with pytest.raises(KizamiError, match=words) as refusal:
        restore_backup(backup, database, NOW)
    assert "\n" not in str(refusal.value)
    assert database.read_bytes() == before
    assert not [path for path in database.parent.iterdir() if "part" in path.name or "replaced" in path.name]


def test_it_is_refused_while_a_daemon_runs(database: Path, backup: Path) -> None:
    with sole_daemon(database, UP), pytest.raises(StoreError, match=r"\(pid \d+\) already works on it; stop it"):
        restore_backup(backup, database, NOW)
    assert slots(database) == 500


def test_the_database_itself_and_another_applications_are_refused(database: Path, backup: Path) -> None:
    with pytest.raises(InvalidInput, match="is the database itself"):
        restore_backup(database, database, NOW)
    _make_foreign(database)
    with pytest.raises(StoreError, match="belongs to another application; use another --database"):
        restore_backup(backup, database, NOW)
