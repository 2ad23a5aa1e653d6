"""Sealed or not, a slot is the same in SQL, in exported files and in backups."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kizami.backend.columns import RecordColumns
from kizami.cli.sql.session import SqlSession
from kizami.cli.terminal.record_formats import write_csv_columns, write_jsonl, write_parquet
from kizami.core.epoch import to_seconds
from kizami.local.backend import LocalBackend
from kizami.local.copies.backup import make_backup
from kizami.local.copies.restore import restore_backup
from kizami.local.store.database import open_database, transaction
from kizami.local.store.history.sealing import seal_closed
from samples.database import T0, FixedClock, at, make_database

SLOTS = 5 * 720
NOW = at(SLOTS)
LATE = (100, 1500)  # which come after their hours were sealed
STATEMENTS = (
    "SELECT * FROM records",
    "SELECT metric, count(*), sum(units), sum(late_ms), max(attempts) FROM records GROUP BY metric",
    "SELECT slot, collected_at, state FROM records WHERE metric = 'calls' AND slot >= '2025-12-02T10:55' LIMIT 99",
    "SELECT * FROM records WHERE metric = 'calls' AND slot = '2025-12-02T09:08:20Z'",
    "SELECT metric, newest_slot FROM metrics",
)


def seal(path: Path) -> int:
    with closing(open_database(path)) as connection:
        return sum(seal_closed(connection, to_seconds(NOW), 3600))


def told(path: Path) -> list[object]:
    """All that SQL and files say of a database."""
    backend = LocalBackend(path)
    with closing(backend), closing(SqlSession(backend, FixedClock(NOW))) as session:
        answers: list[object] = [[*session.ask(statement).rows] for statement in STATEMENTS]
        for write in (write_csv_columns, write_jsonl):
            text = io.StringIO()
            write(_pieces(backend), text)
            answers.append(text.getvalue())
        file = io.BytesIO()
        write_parquet(_pieces(backend), file)
        return [*answers, file.getvalue()]


def _pieces(backend: LocalBackend) -> Iterator[RecordColumns]:
    for name in backend.names():
        yield from backend.record_columns(name, T0 - timedelta(days=1), NOW)


def make(path: Path, *, sealed: bool) -> Path:
    """Hours of two metrics, sealed but for the last or not at all, with two slots that came after that."""
    numbers = [number for number in range(SLOTS) if number not in LATE and number % 50]
    make_database(path, {"calls": numbers, "応答数": range(0, SLOTS, 7)}, counts=97)
    assert not sealed or seal(path) > 2000
    with closing(open_database(path)) as connection, transaction(connection):
        identity = connection.execute("SELECT id FROM metrics WHERE name = 'calls'").get
        for number in LATE:
            row = to_seconds(at(number)), identity, 5, to_seconds(NOW) * 1000, 60_000, 2, 1
            connection.execute("INSERT INTO slots VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    return path


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return make(tmp_path / "kizami.db", sealed=True)


def test_sql_and_files_say_the_same_of_both(tmp_path: Path, database: Path) -> None:
    assert told(database) == told(make(tmp_path / "plain.db", sealed=False))


def test_an_hour_is_read_without_the_others(database: Path) -> None:
    backend = LocalBackend(database)
    with closing(backend):
        pieces = [*backend.record_columns("calls", at(720), at(1440), details=True)]
    slots = [slot for piece in pieces for slot in piece.slots]
    assert len(slots) == len({*slots}) == 720 - 14
    assert (slots[0], slots[-1]) == (to_seconds(at(720)), to_seconds(at(1439)))
    assert all(len(piece.backfilled) == len(piece) for piece in pieces)


def test_a_backup_has_all_of_it_and_a_restore_gives_it_back(database: Path, tmp_path: Path) -> None:
    before = told(database)
    made = make_backup(database, tmp_path / "copy.db")
    assert made.records == sum(1 for line in str(before[-3]).splitlines()) - 1
    assert told(made.file) == before
    database.unlink()
    restored = restore_backup(made.file, database, datetime(2026, 1, 1, tzinfo=UTC))
    assert restored.records == made.records
    assert told(database) == before
    assert seal(database) == len(LATE)
    assert told(database) == before
