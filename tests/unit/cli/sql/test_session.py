"""Records in SQL: the rows that the backend has, read no further than asked, and nothing that could be changed."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kizami.backend.columns import RecordColumns
from kizami.cli.sql.session import SqlSession
from kizami.core.answers.answer import Answer
from kizami.core.epoch import to_seconds
from kizami.core.errors import InvalidInput
from kizami.core.targets.target import Target
from kizami.local.backend import LocalBackend
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import register_targets
from samples.database import T0, FixedClock, at, bury_slots, make_database, queue_slots

NOW = at(1000)
NAMES = ["calls", "chat/a", "chat/b", "応答数"]


class WatchedBackend(LocalBackend):
    """Notes what is read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.read: list[tuple[str, datetime, datetime, bool]] = []

    def record_columns(
        self, metric: str, start: datetime, end: datetime, *, details: bool = False
    ) -> Iterator[RecordColumns]:
        self.read.append((metric, start, end, details))
        yield from super().record_columns(metric, start, end, details=details)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sql") / "kizami.db"
    make_database(path, {name: range(number, 900, number + 1) for number, name in enumerate(NAMES)}, counts=97)
    bury_slots(path, "chat/a", [0], "status 500\nof the API", NOW)
    with closing(open_database(path)) as connection, transaction(connection):
        cost = Target(name="cost", lag_seconds=5, answer=Answer(decimals=2))
        known = register_targets(connection, [cost], T0)["cost"]
        rows = [(10, 7, 1, 0), (20, 1001, 1, 0), (-5, 7, 2, 0), (123_456, 7, 1, 1)]
        for number, row in enumerate(rows):
            slot = to_seconds(at(number))
            values = slot, known.id, row[0], slot * 1000 + 1234, *row[1:]
            connection.execute("INSERT INTO slots VALUES (?, ?, ?, ?, ?, ?, ?)", values)
    return path


@pytest.fixture
def backend(database: Path) -> Iterator[WatchedBackend]:
    backend = WatchedBackend(database)
    yield backend
    backend.close()


@pytest.fixture
def session(backend: WatchedBackend) -> Iterator[SqlSession]:
    session = SqlSession(backend, FixedClock(NOW))
    yield session
    session.close()


def rows(session: SqlSession, statement: str) -> list[tuple[Any, ...]]:
    return [*session.ask(statement).rows]


def test_a_record_is_a_row_with_readable_names(session: SqlSession) -> None:
    found = session.ask("SELECT * FROM records WHERE metric = 'cost'")
    assert " ".join(found.columns) == "metric slot count collected_at late_ms attempts backfilled state"
    start = "2025-12-02T09:00:0"
    assert [*found.rows] == [
        ("cost", f"{start}0Z", 0.1, f"{start}1.234Z", 7, 1, 0, "stored"),
        ("cost", f"{start}5Z", 0.2, f"{start}6.234Z", 1001, 1, 0, "late"),
        ("cost", "2025-12-02T09:00:10Z", -0.05, "2025-12-02T09:00:11.234Z", 7, 2, 0, "retried"),
        ("cost", "2025-12-02T09:00:15Z", 1234.56, "2025-12-02T09:00:16.234Z", 7, 1, 1, "backfilled"),
    ]


def test_decimal_places_are_exact_in_units(session: SqlSession) -> None:
    assert rows(
        session, "SELECT sum(units), max(decimals), typeof(sum(units)) FROM records WHERE metric = 'cost'"
    ) == [(123_481, 2, "integer")]


def test_the_other_tables(session: SqlSession) -> None:
    assert rows(session, "SELECT metric, interval_seconds, decimals FROM metrics WHERE metric > 'cost'") == [
        ("応答数", 5, 0)
    ]
    (letter,) = rows(session, "SELECT metric, slot, attempts, reason FROM dead_letters")
    assert letter == ("chat/a", "2025-12-02T09:00:00Z", 5, "status 500\nof the API")


def test_the_queue_is_a_table(tmp_path: Path) -> None:
    with closing(
        open_database(make_database(tmp_path / "kizami.db", {"calls": [0], "chat/a": [0]}))
    ) as connection:
        queue_slots(tmp_path / "kizami.db", "calls", [3, 4], NOW, tried=2)
        queue_slots(tmp_path / "kizami.db", "chat/a", [5], NOW)
        with transaction(connection):
            connection.execute("UPDATE messages SET last_error = 'status 500', held = 0 WHERE slot % 2")
    with (
        closing(LocalBackend(tmp_path / "kizami.db")) as backend,
        closing(SqlSession(backend, FixedClock(NOW))) as session,
    ):
        assert rows(
            session, "SELECT metric, slot, attempts, in_flight, backfill, last_error FROM queue ORDER BY slot"
        ) == [
            ("calls", "2025-12-02T09:00:15Z", 2, 0, 1, "status 500"),
            ("calls", "2025-12-02T09:00:20Z", 2, 1, 1, None),
            ("chat/a", "2025-12-02T09:00:25Z", 0, 0, 1, "status 500"),
        ]
        (moments,) = rows(session, "SELECT due_at, visible_at FROM queue WHERE metric = 'calls' AND in_flight")
        assert moments == ("2025-12-02T09:00:25Z", "2025-12-02T10:23:20Z")


CONDITIONS = [
    "metric = 'calls'",
    "metric IN ('calls', 'chat/b')",
    "metric LIKE 'CHAT/%'",
    "metric GLOB 'chat/[ab]'",
    "metric GLOB '*数'",
    "metric = 'CALLS' COLLATE NOCASE",
    "metric > 'chat/a'",
    "metric = 5",
    "metric LIKE 5",
    "slot >= '2025-12-02T09:30'",
    "slot > '2025-12-02T09:30:00Z'",
    "slot < '2025-12-02T09:30:00Z'",
    "slot <= '2025-12-02T09:30:00Z'",
    "slot <= '2025-12-02'",
    "slot > '2025-12'",
    "slot = '2025-12-02T09:30:00Z'",
    "slot = '2025-12-02'",
    "slot BETWEEN '2025-12-02T09:10' AND '2025-12-02T09:20:00Z'",
    "slot IN ('2025-12-02T09:30:00Z', '2025-12-02T09:31:00Z')",
    "slot > NULL",
    "slot LIKE '2025-12-02T09:3%'",
    "count > 50",
    "count IS NOT NULL",
]


def test_every_condition_gives_the_rows_that_a_plain_table_gives(session: SqlSession) -> None:
    columns = "metric, slot, count, collected_at, late_ms, attempts, backfilled, state, units, decimals"
    plain = sqlite3.connect(":memory:")
    plain.execute(
        f"CREATE TABLE records ({columns.replace(',', ' TEXT,').replace('count TEXT', 'count NUMERIC')})"
    )
    everything = rows(session, f"SELECT {columns} FROM records")
    plain.executemany(f"INSERT INTO records VALUES ({', '.join('?' * 10)})", everything)
    chance = random.Random(1)
    joined = [
        f"({a}) {join} ({b})" for join in ("AND", "OR") for a in CONDITIONS for b in chance.sample(CONDITIONS, 3)
    ]
    orders = ["metric, slot", "slot, metric", "slot DESC, metric", "metric DESC, slot DESC", "count, metric, slot"]
    for condition in [*CONDITIONS, *joined, *(f"NOT ({each})" for each in CONDITIONS)]:
        statement = f"SELECT metric, slot FROM records WHERE {condition} ORDER BY {chance.choice(orders)}"
        assert rows(session, statement) == plain.execute(statement).fetchall(), statement
    plain.close()


def test_only_what_is_asked_for_is_read(session: SqlSession, backend: WatchedBackend) -> None:
    assert len(rows(session, "SELECT slot FROM records WHERE metric = 'calls' AND slot >= '2025-12-02T10'")) == 180
    assert backend.read == [("calls", at(720), datetime.max.replace(microsecond=0, tzinfo=T0.tzinfo), False)]
    backend.read.clear()
    rows(session, "SELECT state FROM records WHERE metric GLOB 'chat/*' AND slot < '2025-12-02T09:00:05Z'")
    assert [(metric, end, details) for metric, _, end, details in backend.read] == [
        ("chat/a", at(1), True),
        ("chat/b", at(1), True),
    ]


def test_the_first_rows_are_there_before_the_others_are_read(session: SqlSession, backend: WatchedBackend) -> None:
    assert len(rows(session, "SELECT * FROM records LIMIT 3")) == 3
    assert [metric for metric, *_ in backend.read] == ["calls"]


def test_a_query_holds_nothing_open_on_the_database(session: SqlSession, database: Path) -> None:
    answer = session.ask("SELECT * FROM records")
    next(answer.rows)
    with closing(sqlite3.connect(database)) as other:
        assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO records (metric) VALUES ('a')",
        "UPDATE records SET count = 1",
        "DELETE FROM records WHERE metric = 'calls'",
        "CREATE TABLE a (b)",
        "CREATE TEMP VIEW a AS SELECT 1",
        "DROP TABLE records",
        "ATTACH 'other.db' AS other",
        "PRAGMA user_version = 7",
        "VACUUM INTO 'other.db'",
        "BEGIN",
        "REPLACE INTO metrics (metric) VALUES ('a')",
    ],
)
def test_what_writes_is_refused_in_one_line(session: SqlSession, statement: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"^SQL: kizami sql only reads; write a SELECT$"):
        rows(session, statement)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("SELEC 1", """SQL: near "SELEC": syntax error, at character 1: 'SELEC 1'"""),
        ("SELECT '応答数', foo FROM records", "SQL: no such column: foo, at character 15: 'foo FROM records'"),
        ("SELECT * FROM slots", "SQL: no such table: slots"),
        ("SELECT 1; SELECT 2", "SQL: one statement at a time; leave out 'SELECT 2'"),
        ("SELECT * FROM records WHERE metric = ?", "SQL: has a ? or :name; write the value in its place"),
        ("SELECT * FROM records WHERE slot > datetime('now')", "slot: '20"),
        ("SELECT * FROM records WHERE slot > 1764670980", "slot: 1764670980 is none; slots are written 2025"),
        ("SELECT * FROM records WHERE slot < '2025-13-01'", "slot: '2025-13-01' is none; slots are written 2025"),
        ("SELECT ago('soon')", "ago: 'soon' is not a duration like"),
        ("SELECT abs(-9223372036854775808)", "SQL: integer overflow"),
        ("SELECT (", "SQL: incomplete input"),
    ],
)
def test_a_mistake_is_one_line_with_the_place(session: SqlSession, statement: str, words: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        rows(session, statement)
    assert str(refusal.value).startswith(words)
    assert "\n" not in str(refusal.value)


def test_ago_is_a_slot_time(session: SqlSession) -> None:
    moment = NOW - timedelta(hours=1)
    assert rows(session, "SELECT ago('1h')") == [(moment.strftime("%Y-%m-%dT%H:%M:%SZ"),)]
    assert rows(session, "SELECT count(*) FROM records WHERE metric = 'calls' AND slot >= ago('1h')") == [(620,)]


def test_a_statement_without_rows_has_its_columns(session: SqlSession) -> None:
    assert list(session.ask("SELECT slot, count AS n FROM records WHERE metric = 'nobody'").columns) == [
        "slot",
        "n",
    ]
    assert list(session.ask("-- nothing").columns) == []
