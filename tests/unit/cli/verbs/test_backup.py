"""backup and restore as verbs: their words, JSON and exit codes, and the flags of `kizami up` over its file."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from kizami.cli.backends import BackendOptions
from kizami.cli.backup_options import BackupFlags
from kizami.cli.exit_codes import FAILURE, OK, USAGE
from kizami.core.config import BackupPlan, parse_config
from kizami.core.errors import StoreError
from kizami.local.daemon_lock import UP, sole_daemon
from kizami.platform.clock import SystemClock
from programs.command import Command
from samples.database import at, make_database

SLOTS = 720
NOW = at(SLOTS) + timedelta(hours=30)


@pytest.fixture
def kizami(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SystemClock, "now", lambda self: NOW)
    make_database(tmp_path / "kizami.db", {"calls": range(SLOTS)})
    Path("kizami.toml").write_text('[[targets]]\nname = "calls"\nurl = "http://h/?f={from}&t={to}"\n')
    return Command(capsys)


def test_a_backup_is_told_and_can_be_looked_into(kizami: Command) -> None:
    found = kizami("backup", "copy.db", "--json")
    assert (found.code, found.json["records"], found.json["metrics"]) == (OK, SLOTS, 1)
    assert found.err.startswith("kizami: copy.db: 720 records of 1 metric, 0.")
    assert len(kizami("export", "--database", "copy.db").out.splitlines()) == SLOTS + 1


def test_in_a_directory_it_is_called_by_its_time(kizami: Command) -> None:
    Path("kept").mkdir()
    assert kizami("backup", "kept").code == OK
    assert [path.name for path in Path("kept").iterdir()] == ["kizami-20251203T160000Z.db"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["backup", "copy.db", "--database", "none.db"], FAILURE, "none.db: there is no database yet"),
        (["backup", "none/copy.db"], FAILURE, "none/copy.db: there is no directory "),
        (["backup", "kizami.db", "--force"], USAGE, "is the database itself"),
        (["backup", "kizami.toml", "--force"], USAGE, "is no backup, so it is not replaced"),
        (["restore", "none.db"], USAGE, "FILE: none.db is not there"),
        (["restore", "kizami.toml"], FAILURE, "kizami.toml: is not an SQLite database; the database is left"),
        (["up", "--backup-every", "soon"], USAGE, "--backup-every: 'soon' is not a duration"),
        (["up", "--backup-every", "5s"], USAGE, "--backup-every: must be from 1m to 366d"),
        (["up", "--backup-keep", "0"], USAGE, "0 is not in the range"),
    ],
)
def test_what_cannot_be_done_is_one_line(kizami: Command, arguments: list[str], code: int, words: str) -> None:
    found = kizami(*arguments)
    assert (found.code, found.out, found.err.count("\n")) == (code, "", 1)
    assert words in found.err


def test_a_restore_says_what_is_caught_up_with_and_what_is_older(kizami: Command) -> None:
    kizami("backup", "copy.db")
    found = kizami("restore", "copy.db", "--json")
    assert (found.code, found.json["records"], found.json["newestSlot"]) == (OK, SLOTS, "2025-12-02T09:59:55Z")
    recent, older = found.json["toCatchUp"], found.json["older"]
    assert (recent, older) == (24 * 720 - 2, 6 * 720)
    assert Path(found.json["former"]).is_file()
    remedy = "`kizami backfill --gaps --from 2025-12-02T09:00:00Z`"
    assert f"catch up with {recent:,} slots; {older:,} slots older than catch_up: {remedy}\n" in found.err


def test_a_restore_while_a_daemon_runs_is_refused(kizami: Command) -> None:
    kizami("backup", "copy.db")
    with sole_daemon(Path("kizami.db"), UP):
        found = kizami("restore", "copy.db")
    assert (found.code, found.out) == (FAILURE, "")
    assert "`kizami up` (pid " in found.err
    assert found.err.endswith("; stop it, then restore\n")


def test_flags_win_over_the_file() -> None:
    text = '[[targets]]\nname = "a"\nurl = "http://h/?{from}{to}"\n[backup]\nevery = "1d"\ndirectory = "kept"\n'
    stated = parse_config(text).below("/etc").backup
    assert stated == BackupPlan(86_400, 7, "/etc/kept")
    assert BackupFlags().plan(stated) == stated
    assert BackupFlags().plan(None) is None
    assert BackupFlags(keep=3).plan(None) is None
    assert BackupFlags(3600, 3, Path("/x")).plan(stated) == BackupPlan(3600, 3, "/x")
    assert BackupFlags(3600).plan(None) == BackupPlan(3600, 7, None)


def test_a_restore_whose_outcome_cannot_be_read_back_is_still_told_as_one(
    kizami: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backup is in place by then: an error would have it restored again."""
    kizami("backup", "copy.db")
    monkeypatch.setattr(BackendOptions, "opened", _refuse)
    found = kizami("restore", "copy.db", "--json")
    assert (found.code, found.json["records"], found.json["newestSlot"]) == (OK, SLOTS, None)
    assert (found.json["toCatchUp"], found.json["older"]) == (None, None)
    assert "the backup is in place, but what is missing cannot be counted: kizami.db: locked\n" in found.err
    assert Path(found.json["former"]).is_file()


def _refuse(options: BackendOptions) -> None:
    raise StoreError(f"{options.database}: locked")
