"""A backup appears when it is whole and verified, and replaces nothing unasked."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from kizami.core.errors import InvalidInput, StoreError
from kizami.local.copies import copying
from kizami.local.copies.backup import make_backup
from kizami.local.store.database import open_database, transaction
from kizami.local.store.reader import Reader
from samples.database import T0, at, make_database


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return make_database(tmp_path / "kizami.db", {"calls": range(500), "応答数": range(20)})


def slots(path: Path, metric: str = "calls") -> int:
    with Reader.opened(path) as reader:
        return sum(1 for _ in reader.records(metric, T0, at(10_000)))


def test_it_is_one_file_of_its_owner_with_all_that_the_database_has(database: Path, tmp_path: Path) -> None:
    made = make_backup(database, tmp_path / "copy.db")
    assert (made.records, made.metrics, made.bytes) == (520, 2, (tmp_path / "copy.db").stat().st_size)
    assert stat.S_IMODE(made.file.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "kizami.db"]
    assert (slots(made.file), slots(made.file, "応答数")) == (500, 20)


def test_an_old_sqlite_reads_it_where_nothing_may_be_written(database: Path, tmp_path: Path) -> None:
    made = make_backup(database, tmp_path / "copy.db")
    with closing(sqlite3.connect(f"file:{made.file}?mode=ro", uri=True)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT count(*) FROM metrics").fetchone() == (2,)
    assert not list(tmp_path.glob("copy.db-*"))


def test_it_is_of_one_moment_whatever_is_written_meanwhile(database: Path, tmp_path: Path) -> None:
    with closing(open_database(database)) as writer:

        def write(done: int, pages: int) -> None:
            with transaction(writer):
                writer.execute("INSERT INTO points VALUES ('c', '202601', ?, 1, 0)", (f"user {done}",))

        made = make_backup(database, tmp_path / "copy.db", progress=write)
        assert writer.execute("SELECT count(*) FROM points").get > 0
    with closing(open_database(made.file)) as copy:
        assert copy.execute("SELECT count(*) FROM points").get == 0


def test_a_file_of_another_version_is_refused(database: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA user_version = 3")
    with pytest.raises(StoreError, match="another version of kizami"):
        make_backup(database, tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


@pytest.mark.parametrize("replace", [True, False])
def test_a_name_that_is_taken_is_replaced_only_if_asked(database: Path, tmp_path: Path, replace: bool) -> None:
    file = make_database(tmp_path / "copy.db", {"calls": range(3)})
    if replace:
        make_backup(database, file, replace=True)
    else:
        with pytest.raises(InvalidInput, match="is there already; choose another name, or --force"):
            make_backup(database, file)
    assert slots(file) == (500 if replace else 3)


def _a_text(directory: Path) -> Path:
    (directory / "notes.txt").write_text("mine")
    return directory / "notes.txt"


def _a_database_in_use(directory: Path) -> Path:
    other = make_database(directory / "other.db", {"calls": range(3)})
    (directory / "other.db-wal").write_bytes(b"x")
    return other


def _a_link_to_the_database(directory: Path) -> Path:
    os.link(directory / "kizami.db", directory / "same.db")
    return directory / "same.db"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_a_text, "is no backup, so it is not replaced"),
        (_a_database_in_use, "belongs to a database of that name"),
        (_a_link_to_the_database, "is the database itself"),
        (lambda directory: directory, "is no backup"),
    ],
)
def test_what_is_no_backup_is_never_replaced(
    database: Path, tmp_path: Path, make: Callable[[Path], Path], words: str
) -> None:
    file = make(tmp_path)
    before = file.read_bytes() if file.is_file() else b""
    with pytest.raises(InvalidInput, match=words):
        make_backup(database, file, replace=True)
    assert (file.read_bytes() if file.is_file() else b"") == before


def test_where_it_does_not_fit_it_says_how_much_is_free(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: _Usage(5_000))
    with pytest.raises(StoreError, match=r"copy\.db: needs 1 MB, and 1 MB are free there; make room"):
        make_backup(database, tmp_path / "copy.db")
    assert not list(tmp_path.glob("*copy*"))


class _Usage:
    def __init__(self, free: int) -> None:
        self.free = free


def test_one_that_is_ended_leaves_nothing(database: Path, tmp_path: Path) -> None:
    def end(done: int, pages: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_backup(database, tmp_path / "copy.db", progress=end)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kizami.db"]


def test_a_copy_that_is_not_sound_is_no_backup(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damage(done: int, pages: int) -> None:
        (part,) = tmp_path.glob(".copy.db.*.part")
        if done == pages:
            with part.open("r+b") as file:
                file.seek(4096 * 3)
                file.write(b"\xff" * 4096)

    with pytest.raises(StoreError, match=r"damaged|rows are not those"):
        make_backup(database, tmp_path / "copy.db", progress=_after_commit(damage, monkeypatch))
    assert not list(tmp_path.glob("*copy*"))


def _after_commit(
    damage: Callable[[int, int], None], monkeypatch: pytest.MonkeyPatch
) -> Callable[[int, int], None]:
    """Damage the part once it is closed, before it is verified."""
    verify = copying.require_sound

    def damaged_first(*arguments: object) -> None:
        damage(1, 1)
        verify(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("kizami.local.copies.backup.require_sound", damaged_first)
    return lambda done, pages: None


def test_what_a_killed_one_has_left_is_removed_by_the_next(database: Path, tmp_path: Path) -> None:
    for pid in (999_999_999, os.getpid()):  # a process in a container has the id of the one before
        for name in (f".copy.db.{pid}", f".copy-of-yesterday.db.{pid}"):
            for ending in ("", "-journal", "-wal", "-shm", "-lock"):
                (tmp_path / f"{name}.kizami.part{ending}").write_bytes(b"half")
        (tmp_path / f".alone.db.{pid}.kizami.part-journal").write_bytes(b"half")
    (tmp_path / ".another-programs.99999999.part").write_bytes(b"half")
    make_backup(database, tmp_path / "copy.db")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [".another-programs.99999999.part", "copy.db", "kizami.db"]


def test_one_that_another_container_makes_of_the_same_name_is_left_alone(database: Path, tmp_path: Path) -> None:
    """Both have the same process id, and what is running in the one cannot be seen from the other."""
    made: list[Path] = []

    def make_another(done: int, pages: int) -> None:
        if not made:
            parts = {path for path in tmp_path.iterdir() if ".kizami.part" in path.name}
            assert parts
            made.append(make_backup(database, tmp_path / "copy.db").file)
            assert parts <= {*tmp_path.iterdir()}

    make_backup(database, tmp_path / "copy.db", replace=True, progress=make_another)
    assert made
    assert slots(tmp_path / "copy.db") == 500
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "kizami.db"]
