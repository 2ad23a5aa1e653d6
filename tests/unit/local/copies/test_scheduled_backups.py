"""The daemon's backups: made when due, the oldest removed, failures told and tried again; a stop ends them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kizami.backend.values import BackupState
from kizami.core.config import BackupPlan
from kizami.local.copies import scheduled_backups
from kizami.local.copies.backup import Backup, make_backup
from kizami.local.copies.backup_report import read_report
from kizami.local.copies.rotation import backup_name
from kizami.local.copies.scheduled_backups import ScheduledBackups
from programs.daemon import wait_for
from samples.database import FixedClock, make_database

NOW = datetime(2026, 11, 17, 2, 30, tzinfo=UTC)
DAY = BackupPlan(86_400, 2)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return make_database(tmp_path / "kizami.db", {"calls": range(50)})


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW)


@pytest.fixture
def backups(
    database: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[ScheduledBackups]:
    monkeypatch.setattr(scheduled_backups, "_LOOK_SECONDS", 0.01)
    caplog.set_level(logging.INFO)
    scheduled = ScheduledBackups(database, clock)
    yield scheduled
    scheduled.close()


def names(database: Path) -> list[str]:
    return sorted(path.name for path in (database.parent / "backups").glob("*"))


def events(caplog: pytest.LogCaptureFixture, event: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if getattr(record, "event", None) == event]


def test_one_is_made_when_the_newest_is_old_enough_and_the_oldest_go(
    database: Path, clock: FixedClock, backups: ScheduledBackups, caplog: pytest.LogCaptureFixture
) -> None:
    backups.use(DAY)
    for count in range(1, 5):
        _wait_for_backups(caplog, count)
        clock.moment += timedelta(days=1)
    backups.close()
    assert names(database) == [backup_name(NOW + timedelta(days=day)) for day in (2, 3)]
    made = events(caplog, "backup.made")[-1]
    assert (made.records, made.removed) == (50, 1)  # type: ignore[attr-defined]


def _wait_for_backups(caplog: pytest.LogCaptureFixture, count: int) -> None:
    wait_for(lambda: len(events(caplog, "backup.made")) == count, f"{count} backups")


def test_after_a_restart_the_next_one_is_waited_for(
    database: Path, clock: FixedClock, backups: ScheduledBackups, caplog: pytest.LogCaptureFixture
) -> None:
    (database.parent / "backups").mkdir()
    newest = backup_name(NOW - timedelta(hours=23))
    (database.parent / "backups" / newest).write_bytes(b"")
    (database.parent / "backups" / "kizami-20200101T000000Z.db.gz").write_bytes(b"mine")
    backups.use(DAY)
    state = BackupState(str(database.parent / "backups"), 86_400, NOW - timedelta(hours=23))
    wait_for(lambda: read_report(database) == state, "the report")
    clock.moment += timedelta(hours=1)
    wait_for(lambda: events(caplog, "backup.made"), "a backup")
    backups.close()
    assert names(database) == sorted([newest, backup_name(clock.moment), "kizami-20200101T000000Z.db.gz"])


def test_one_that_is_made_while_the_clock_is_set_ahead_is_not_the_oldest(
    database: Path,
    clock: FixedClock,
    backups: ScheduledBackups,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (database.parent / "backups").mkdir()
    ahead = [backup_name(NOW + timedelta(minutes=minute)) for minute in (1, 2)]
    for name in ahead:  # made before the clock was set back
        (database.parent / "backups" / name).write_bytes(b"")

    def make_slowly(*given: Any, **named: Any) -> Backup:
        backup = make_backup(*given, **named)
        clock.moment += timedelta(hours=1)
        return backup

    monkeypatch.setattr(scheduled_backups, "make_backup", make_slowly)
    backups.use(DAY)
    _wait_for_backups(caplog, 1)
    backups.close()
    assert names(database) == [backup_name(NOW), ahead[-1]]


def test_a_failure_is_told_and_tried_again(
    database: Path, clock: FixedClock, backups: ScheduledBackups, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = database.parent / "backups"
    in_the_way.write_text("a file")
    backups.use(DAY)
    wait_for(lambda: (read_report(database) or BackupState("", 0)).reason, "the report")
    report = read_report(database)
    assert report
    assert report.failed_at == NOW
    assert "File exists" in str(report.reason)
    assert len(events(caplog, "backup.failed")) == 1
    in_the_way.unlink()
    clock.moment += timedelta(minutes=10)
    wait_for(lambda: events(caplog, "backup.made"), "a backup")
    wait_for(
        lambda: read_report(database) == replace(report, newest=clock.moment, failed_at=None, reason=None), "it"
    )


def test_without_a_plan_there_is_no_report(database: Path, backups: ScheduledBackups) -> None:
    backups.use(DAY)
    wait_for(lambda: read_report(database), "the report")
    backups.use(None)
    wait_for(lambda: read_report(database) is None, "no report")


def test_a_stop_ends_the_one_in_hand_and_leaves_nothing(
    database: Path, backups: ScheduledBackups, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    class Endless(scheduled_backups._Rest):
        def __call__(self, done: int, pages: int) -> None:
            begun.set()
            while True:
                super().__call__(done, pages)

    monkeypatch.setattr(scheduled_backups, "_Rest", Endless)
    backups.use(DAY)
    assert begun.wait(60)
    backups.close()
    wait_for(lambda: names(database) == [], "nothing")
    assert not backups._thread or not backups._thread.is_alive()


def test_a_failure_of_a_clock_that_was_ahead_delays_nothing_once_it_is_right(
    database: Path, clock: FixedClock, backups: ScheduledBackups, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = database.parent / "backups"
    in_the_way.write_text("a file")
    clock.moment = NOW + timedelta(days=1)
    backups.use(DAY)
    wait_for(lambda: events(caplog, "backup.failed"), "the failure")
    in_the_way.unlink()
    clock.moment = NOW
    _wait_for_backups(caplog, 1)
