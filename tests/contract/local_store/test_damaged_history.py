"""A flipped bit in sealed history is named with its metric and hour by every reader; no value is another one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
import requests
from click.testing import CliRunner, Result

from kizami.cli.exit_codes import FAILURE, OK
from kizami.cli.verbs.backfill import command as backfill_verb
from kizami.core.coverage import Span
from kizami.core.epoch import to_seconds
from kizami.core.errors import InvalidInput
from kizami.local.store.buckets import read_buckets, read_counts, read_figures, read_totals
from kizami.local.store.database import open_database, transaction
from kizami.local.store.history.expiry import expire
from kizami.local.store.history.sealed import DamagedHistory, SealedSpan, require_sound_history, sealed_keys
from kizami.local.store.history.sealing import seal_closed
from kizami.local.store.metrics import known_metric
from kizami.local.store.missing import find_missing
from kizami.local.store.reader import Reader
from kizami.local.store.rows import SlotKey
from kizami.mock_api.server import MockServer
from programs.command import run_process
from samples.database import T0, at, make_database
from samples.page_database import served

HOURS = 3  # of `calls` and `others`, all sealed
SLOTS = HOURS * 720
RANGE = ("--from", "2025-12-02T09:00:00Z", "--to", "2025-12-02T12:00:00Z")
DAMAGED_HOUR = "calls: the sealed slots from 2025-12-02T10:00:00Z to 2025-12-02T11:00:00Z are damaged; "
REMEDY = (
    "`kizami restore` a backup, or `kizami backfill calls --from 2025-12-02T10:00:00Z --to 2025-12-02T11:00:00Z`"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    numbers = [number for number in range(SLOTS) if number % 97]
    database = make_database(tmp_path / "kizami.db", {"calls": numbers, "others": numbers}, counts=1009)
    with closing(open_database(database)) as connection:
        assert sum(seal_closed(connection, to_seconds(at(SLOTS)) + 60, 0)) == 2 * len(numbers)
    return database


@pytest.fixture
def connection(path: Path) -> Iterator[apsw.Connection]:
    with closing(open_database(path)) as connection:
        yield connection


def readers(connection: apsw.Connection, path: Path) -> dict[str, Callable[[], Any]]:
    """Every way on which values leave the store, each as a function that reads all of `calls`."""
    reader, metric = Reader(connection, path), known_metric(connection, "calls")
    assert metric is not None
    start, end = T0, at(SLOTS)
    slots = [at(number) for number in range(0, SLOTS, 50)]
    halves = [at(300), at(900), at(1500)]
    return {
        "records": lambda: list(reader.records("calls", start, end)),
        "details": lambda: list(reader.stored("calls", start, end)),
        "hours": lambda: read_buckets(connection, metric, start, end, 3600),
        "minutes": lambda: read_buckets(connection, metric, start, end, 60),
        "figures": lambda: read_figures(connection, metric, halves),
        "totals": lambda: read_totals(connection, [metric], start, end),
        "counts": lambda: read_counts(connection, metric, slots),
        "backup": lambda: require_sound_history(connection),
    }


def read_all(found: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """What each reader gives, or the words of its refusal."""
    outcomes = {}
    for name, read in found.items():
        try:
            outcomes[name] = read()
        except DamagedHistory as error:
            outcomes[name] = str(error)
    return outcomes


def assert_true_or_named(before: dict[str, Any], after: dict[str, Any], *, named: str) -> None:
    refused = [name for name in before if isinstance(after[name], str)]
    for name in before.keys() - refused:
        assert after[name] == before[name], name
    assert "backup" in refused, "a backup verifies every bit"
    assert all(named in after[name] for name in refused), after


def flip(connection: apsw.Connection, table: str, number: int, bit: int) -> None:
    """Flip a bit of what is packed, as a disk does: without a statement that a trigger could see."""
    with connection.blob_open("main", table, "packed", number, True) as blob:
        blob.seek(bit // 8)
        (byte,) = blob.read(1)
        blob.seek(bit // 8)
        blob.write(bytes([byte ^ 1 << bit % 8]))


def test_whichever_bit_of_packed_slots_flips_no_reader_gives_another_value(
    connection: apsw.Connection, path: Path
) -> None:
    found = readers(connection, path)
    before = read_all(found)
    assert not [name for name, outcome in before.items() if isinstance(outcome, str)]
    number, size = middle_hour(connection)
    chance = random.Random(1)
    bits = {*range(8 * 24), *range(8 * (size - 6), 8 * size), *chance.sample(range(8 * size), 150)}
    for bit in sorted(bits):
        flip(connection, "sealed_slots", number, bit)
        after = read_all(found)
        assert_true_or_named(before, after, named=DAMAGED_HOUR + REMEDY)
        assert isinstance(after["records"], str), bit
        flip(connection, "sealed_slots", number, bit)
    assert read_all(found) == before


def middle_hour(connection: apsw.Connection) -> tuple[int, int]:
    """The number of what is packed of the hour at ten, and its size."""
    sql = """SELECT s.id, length(packed) FROM sealed_spans JOIN metrics ON metrics.id = metric_id
    JOIN sealed_slots AS s ON s.id = slots_id WHERE name = 'calls' ORDER BY start LIMIT 1 OFFSET 1"""
    number, size = connection.execute(sql).get
    return number, size


def test_every_single_bit_of_packed_slots_is_covered(connection: apsw.Connection) -> None:
    number, size = middle_hour(connection)
    for bit in range(8 * size):
        flip(connection, "sealed_slots", number, bit)
        with pytest.raises(DamagedHistory):
            require_sound_history(connection)
        flip(connection, "sealed_slots", number, bit)


@pytest.mark.parametrize("column", [name for name in SealedSpan._fields if name not in ("metric_id", "start")])
def test_whichever_bit_of_its_figures_flips_no_reader_gives_another_value(
    connection: apsw.Connection, path: Path, column: str
) -> None:
    found = readers(connection, path)
    before = read_all(found)
    connection.execute("DROP TRIGGER sealed_spans_never_change")
    where = "metric_id = (SELECT id FROM metrics WHERE name = 'calls') AND start = ?"
    hour = to_seconds(at(720))
    for bit in range(32 if column == "checksum" else 63):
        connection.execute("BEGIN")
        flipped = f"({column} | (1 << {bit})) - ({column} & (1 << {bit}))"  # SQLite has no XOR
        connection.execute(f"UPDATE sealed_spans SET {column} = {flipped} WHERE {where}", (hour,))
        assert_true_or_named(before, read_all(found), named="calls: ")
        connection.execute("ROLLBACK")


def test_the_slots_of_another_span_are_no_slots_of_this_one(connection: apsw.Connection, path: Path) -> None:
    found = readers(connection, path)
    connection.execute("DROP TRIGGER sealed_slots_never_change")
    number, _ = middle_hour(connection)
    connection.execute(
        "UPDATE sealed_slots SET packed = (SELECT packed FROM sealed_slots WHERE id != ? LIMIT 1) WHERE id = ?",
        (number, number),
    )
    assert DAMAGED_HOUR in read_all(found)["records"]


def test_figures_of_hours_that_are_left_are_checked_too(connection: apsw.Connection, path: Path) -> None:
    connection.execute("UPDATE metrics SET keep_seconds = 60")
    assert sum(expire(connection, to_seconds(at(SLOTS)) + 3600)) == 2 * HOURS
    found = readers(connection, path)
    before = read_all(found)
    hours: list[Any] = connection.execute("SELECT id, length(packed) FROM sealed_hours").fetchall()
    for number, size in hours:
        for bit in range(8 * size):
            flip(connection, "sealed_hours", number, bit)
            assert_true_or_named(before, read_all(found), named="the sealed slots from 2025-12-02T")
            flip(connection, "sealed_hours", number, bit)


def test_a_damaged_hour_stops_neither_writing_nor_a_count_nor_what_else_is_sealed_or_given_up(
    connection: apsw.Connection, path: Path
) -> None:
    number, _ = middle_hour(connection)
    flip(connection, "sealed_slots", number, 200)
    calls, others = known_metric(connection, "calls"), known_metric(connection, "others")
    assert calls
    assert others
    assert sealed_keys(connection, [SlotKey(to_seconds(at(721)), calls.id)]) == set()
    spans = {name: Span(T0, at(SLOTS), 5) for name in ("calls", "others")}
    missing = find_missing(Reader(connection, path), spans)
    assert [gap.slots for gap in missing["calls"] if gap.slots > 1] == [720]
    late = [to_seconds(at(number)) for number in (97 * 8, 97 * 16)]  # the former lies in the damaged hour
    with transaction(connection):
        for metric in (calls, others):
            for slot in late:
                connection.execute("INSERT INTO slots VALUES (?, ?, 1, 1, 1, 1, 0)", (slot, metric.id))
    assert sum(seal_closed(connection, to_seconds(at(SLOTS)) + 60, 0)) == 3
    assert connection.execute("SELECT count(*) FROM slots").get == 1, "the one beside damaged slots stays a row"
    connection.execute("UPDATE metrics SET keep_seconds = 60")
    assert sum(expire(connection, to_seconds(at(SLOTS)) + 3600)) == 2 * HOURS


def test_verbs_the_page_and_backups_name_it_and_a_backfill_mends_it(path: Path) -> None:
    directory = path.parent
    with closing(open_database(path)) as connection:
        number, _ = middle_hour(connection)
        flip(connection, "sealed_slots", number, 200)
    for verb in (
        ("query", "calls", *RANGE, "--json"),
        ("chart", "calls", *RANGE, "--json"),
        ("export", "calls", *RANGE, "--format", "csv", "-o", "calls.csv"),
        ("export", "calls", *RANGE, "--format", "parquet", "-o", "calls.parquet"),
        ("sql", "SELECT sum(count) FROM records WHERE metric = 'calls'"),
        ("backup", "bad.db"),
    ):
        found = run_process(*verb, cwd=directory)
        assert found.code == FAILURE, (verb, found)
        assert f"{DAMAGED_HOUR}{REMEDY}" in found.err, verb
        assert found.err.count("\n") == 1, (verb, found.err)
        assert not [each for each in directory.iterdir() if each.name.startswith(("calls.", "bad", ".bad"))], verb
    assert run_process("query", "others", *RANGE, cwd=directory).code == OK
    with served(path, at(SLOTS)) as server:
        for name in ("records", "slots", "chart", "figures"):
            query = {"metric": "calls", "from": "2025-12-02T10:10:00Z", "to": "2025-12-02T10:20:00Z"}
            answer = requests.get(f"{server.url}/api/v1/{name}", params=query, timeout=60)
            assert (answer.status_code, DAMAGED_HOUR in answer.text) == (503, True), (name, answer.text)
    (directory / "copy.db").write_bytes(path.read_bytes())
    refused = run_process("restore", "copy.db", "--database", "new.db", cwd=directory)
    assert (refused.code, (directory / "new.db").exists()) == (FAILURE, False)
    assert f"{DAMAGED_HOUR}the database is left as it was, use another backup" in refused.err
    with MockServer(port=0) as mock:
        (directory / "kizami.toml").write_text(f'[[targets]]\nname = "calls"\nurl = "{mock.url}"\n')
        hour = ("--from", "2025-12-02T10:00:00Z", "--to", "2025-12-02T11:00:00Z")
        assert run_process("backfill", "calls", *hour, "--dry-run", cwd=directory).code == OK
        assert run_process("query", "calls", *RANGE, cwd=directory).code == FAILURE
        mended = run_process("backfill", "calls", *hour, "--json", cwd=directory)
    assert (mended.code, mended.json["asked"], mended.json["stored"]) == (OK, 720, 720), mended.err
    assert "1 damaged piece of history given up, to be asked for again\n" in mended.err
    found = run_process("query", "calls", *hour, cwd=directory)
    assert (found.code, found.err) == (OK, "kizami: 720/720 (100%) slots stored\n")
    assert run_process("backup", "good.db", cwd=directory).code == OK


def test_a_backfill_that_is_refused_or_of_a_part_of_the_hour_gives_up_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_database(path)) as connection:
        number, _ = middle_hour(connection)
        flip(connection, "sealed_slots", number, 200)
    (path.parent / "kizami.toml").write_text('[[targets]]\nname = "calls"\nurl = "http://127.0.0.1:9"\n')
    monkeypatch.chdir(path.parent)

    def backfill(start: str, end: str) -> Result:
        moments = (f"2025-12-02T{start}:00Z", f"2025-12-02T{end}:00Z")
        return CliRunner().invoke(backfill_verb, ["calls", "--from", moments[0], "--to", moments[1], "--no-wait"])

    def is_there() -> bool:
        with closing(open_database(path)) as connection:
            return bool(connection.execute("SELECT count(*) FROM sealed_slots WHERE id = ?", (number,)).get)

    for part in (("10:10", "10:20"), ("09:30", "10:30"), ("10:30", "11:30")):
        assert "given up" not in backfill(*part).stderr
        assert is_there(), part
    with monkeypatch.context() as few:
        few.setattr("kizami.cli.verbs.backfill.MOST_QUEUED", 719)
        assert isinstance(backfill("10:00", "11:00").exception, InvalidInput)
    assert is_there()
    assert "1 damaged piece of history given up" in backfill("10:00", "11:00").stderr
    assert not is_there()
