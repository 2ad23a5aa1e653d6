"""A database that may only be read, such as a backup on a read-only mount: every verb that reads works on it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from conftest import skip_for_lack_of
from kizami.cli.exit_codes import FAILURE, OK
from kizami.local.copies.backup import make_backup
from kizami.local.store.database import open_database
from kizami.local.store.history.sealing import seal_closed
from programs.command import KIZAMI, Outcome, environment, run_process
from programs.daemon import obey_permissions
from samples.database import T0, make_database

SLOTS = 1440
RANGE = ("--from", "2025-12-02T09:00:00Z", "--to", "2025-12-02T11:00:00Z")
READING = [
    ("status", "--json"),
    ("query", "calls", *RANGE, "--json"),
    ("chart", "calls", *RANGE, "--json"),
    ("gaps", "calls", *RANGE, "--json"),
    ("export", "calls", *RANGE, "--format", "csv"),
    ("sql", "SELECT count(*), sum(count) FROM records WHERE metric = 'calls'"),
    ("dead-letters", "list", "--json"),
    ("alerts", "list", "--json"),
    ("aggregate", "points", "--company-id", "acme", "--json"),
]


def make_files(directory: Path) -> None:
    """A backup, and a database as a daemon leaves it that has stopped, both with slots that are sealed."""
    database = make_database(directory / "kizami.db", {"calls": [n for n in range(SLOTS) if n != 7]})
    with closing(open_database(database)) as connection:
        assert sum(seal_closed(connection, int(T0.timestamp()) + 6000, 0))
    make_backup(database, directory / "backup.db")
    (directory / "kizami.toml").write_text('[[targets]]\nname = "calls"\nurl = "http://127.0.0.1:9"\n')


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("read-only")
    make_files(directory)
    return directory


def read_only(directory: Path, *arguments: str) -> Outcome:
    """A verb in a name space of mounts where the directory is mounted for reading alone."""
    remount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && cd "$0" && exec "$@"'
    return run_process(
        *arguments, cwd=directory, program=["unshare", "--mount", "sh", "-c", remount, str(directory), *KIZAMI]
    )


@pytest.fixture(scope="module")
def mounts(place: Path) -> None:
    """Skipped where a read-only mount cannot be made."""
    if shutil.which("unshare") is None or os.geteuid() != 0:
        skip_for_lack_of("root and unshare", "run the tests as root to try a read-only mount")
    command = ["unshare", "--mount", "mount", "--bind", "-o", "ro", str(place), str(place)]
    if subprocess.run(command, capture_output=True).returncode:
        skip_for_lack_of("a read-only mount", "run the tests where mounts may be made")


@pytest.mark.usefixtures("mounts")
@pytest.mark.parametrize("file", ["backup.db", "kizami.db"])
@pytest.mark.parametrize("verb", READING, ids=" ".join)
def test_on_a_read_only_mount_a_verb_reads_what_it_reads_elsewhere(
    place: Path, tmp_path: Path, file: str, verb: Sequence[str]
) -> None:
    shutil.copytree(place, tmp_path, dirs_exist_ok=True)
    there = run_process(*verb, "--database", file, cwd=tmp_path)
    here = read_only(place, *verb, "--database", file)
    assert there.code == OK, there.err
    assert (here.code, comparable(verb, here.out)) == (there.code, comparable(verb, there.out)), here.err
    assert "Traceback" not in here.err
    assert sorted(path.name for path in place.iterdir()) == ["backup.db", "kizami.db", "kizami.toml"]


def comparable(verb: Sequence[str], text: str) -> str:
    """The output; of a status, which is of the moment of the call, without its numbers."""
    return re.sub(r"\d+", "0", text) if verb[0] == "status" else text


@pytest.mark.usefixtures("mounts")
def test_a_verb_that_writes_says_on_one_line_that_it_cannot(place: Path) -> None:
    found = read_only(place, "backfill", "calls", *RANGE, "--no-wait", "--database", "backup.db")
    assert (found.code, found.err.count("\n")) == (FAILURE, 1)
    assert "cannot be written" in found.err


@pytest.mark.usefixtures("mounts")
def test_a_database_whose_log_cannot_be_read_there_is_refused_in_one_line(tmp_path: Path) -> None:
    """Without the log it would show what was, as if it were all."""
    make_files(tmp_path)
    with closing(open_database(tmp_path / "kizami.db")) as connection:
        connection.execute("UPDATE metrics SET lag_seconds = 7")
        shutil.copyfile(tmp_path / "kizami.db", tmp_path / "killed.db")
        shutil.copyfile(tmp_path / "kizami.db-wal", tmp_path / "killed.db-wal")
    found = read_only(tmp_path, "status", "--database", "killed.db")
    assert (found.code, found.out, found.err.count("\n")) == (FAILURE, "", 1)
    assert "killed.db" in found.err


@pytest.mark.parametrize("verb", READING[:3], ids=" ".join)
def test_a_user_who_may_only_read_a_backup_reads_it(tmp_path: Path, verb: Sequence[str]) -> None:
    """Wherever it is: neither the file nor its directory may be written."""
    make_files(tmp_path)
    before = (tmp_path / "backup.db").read_bytes()
    (tmp_path / "backup.db").chmod(0o444)
    tmp_path.chmod(0o555)
    done = subprocess.run(
        [*KIZAMI, *verb, "--database", "backup.db"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        preexec_fn=obey_permissions if os.getuid() == 0 else None,
    )
    tmp_path.chmod(0o755)
    expected = run_process(*verb, "--database", "backup.db", cwd=tmp_path)
    assert (done.returncode, comparable(verb, done.stdout)) == (expected.code, comparable(verb, expected.out)), (
        done.stderr
    )
    assert (tmp_path / "backup.db").read_bytes() == before


@pytest.mark.parametrize("verb", [["status"], ["up"], ["backup", "new.db"], ["restore", "copy.db"]])
def test_a_directory_that_may_not_be_searched_is_named_in_one_line(tmp_path: Path, verb: list[str]) -> None:
    make_files(tmp_path)
    (tmp_path / "backup.db").rename(tmp_path / "copy.db")
    (tmp_path / "locked" / "inner").mkdir(parents=True)
    (tmp_path / "locked").chmod(0)
    done = subprocess.run(
        [*KIZAMI, *verb, "--database", "locked/inner/kizami.db"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        preexec_fn=obey_permissions if os.getuid() == 0 else None,
        timeout=20,
    )
    (tmp_path / "locked").chmod(0o755)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (FAILURE, "", 1), done.stderr
    assert re.search(r"locked/inner/kizami\.db(-lock)?: .*Permission denied", done.stderr), done.stderr


def test_a_look_into_a_backup_changes_nothing_of_it(tmp_path: Path) -> None:
    make_files(tmp_path)
    before = (tmp_path / "backup.db").read_bytes()
    for verb in READING:
        run_process(*verb, "--database", "backup.db", cwd=tmp_path)
    assert (tmp_path / "backup.db").read_bytes() == before
    assert not list(tmp_path.glob("backup.db?*"))


def test_a_file_of_another_version_is_refused_in_one_line(tmp_path: Path) -> None:
    make_files(tmp_path)
    with closing(apsw.Connection(str(tmp_path / "backup.db"))) as connection:
        connection.execute("PRAGMA user_version = 1")
    (tmp_path / "backup.db").chmod(0o444)
    done = subprocess.run(
        [*KIZAMI, "status", "--database", "backup.db"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        preexec_fn=obey_permissions if os.getuid() == 0 else None,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (FAILURE, "", 1)
    assert "was made by another version of kizami (schema 1," in done.stderr
