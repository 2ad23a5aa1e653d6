"""Missing slots found by tallies, against the plain way: every slot that is accounted for, one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kizami.core.answers.answer import Answer
from kizami.core.answers.values import parse_expression
from kizami.core.coverage import Span, find_gaps
from kizami.core.epoch import from_seconds, to_ms, to_seconds
from kizami.core.sender import message_for_slot
from kizami.core.slots import INTERVALS, floor_to_slot, shift
from kizami.core.targets.target import Target
from kizami.local.store import dead_letters, statements
from kizami.local.store.backfill_queue import BackfillQueue
from kizami.local.store.database import open_database, transaction
from kizami.local.store.dead_letters import DeadLetters
from kizami.local.store.history.sealing import seal_closed
from kizami.local.store.metrics import register_targets
from kizami.local.store.missing import count_dead, count_pending, find_missing
from kizami.local.store.reader import Reader
from kizami.local.store.rows import SlotKey, StoredRow
from samples.database import make_database

T0 = datetime(2025, 12, 2, 9, 55, tzinfo=UTC)
SLOTS = 720
DAYS_LATER = 2 * 17_280
CALLS = Target(name="calls", lag_seconds=5)


class FixedClock:
    def now(self) -> datetime:
        return T0 + timedelta(days=3)


def at(index: int) -> datetime:
    return T0 + timedelta(seconds=5 * index)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An hour of `calls` with small and large holes, then two days of nothing, then ten slots.

    Of the holes, slot 105 is on the queue and slots 400 to 403 are dead. `silent` has nothing at all.
    """
    path = tmp_path_factory.mktemp("missing") / "kizami.db"
    connection = open_database(path, create=True)
    with transaction(connection):
        known = register_targets(connection, [CALLS, Target(name="silent")], T0)
        gone = {0, *range(100, 110), *range(250, 430), 500, SLOTS - 1}
        indices = [n for n in range(SLOTS) if n not in gone] + list(range(DAYS_LATER, DAYS_LATER + 10))
        calls = known["calls"].id
        rows = [StoredRow(to_seconds(at(n)), calls, n % 11, to_ms(at(n)) + 5123, 0, 1, False) for n in indices]
        statements.store(connection, rows)
    connection.close()
    queue = BackfillQueue(path, FixedClock())
    queue.send_backfill(message_for_slot(at(n), CALLS) for n in (105, *range(400, 404)))
    queue.close()
    connection = open_database(path)
    with transaction(connection):
        statements.bury(connection, [SlotKey(to_seconds(at(n)), calls) for n in range(400, 404)], 0)
    connection.close()
    return path


@pytest.fixture
def reader(path: Path) -> Iterator[Reader]:
    with Reader.opened(path) as reader:
        yield reader


_ACCOUNTED = """
SELECT slot FROM (SELECT slot, metric_id FROM slots UNION SELECT slot, metric_id FROM messages
                  UNION SELECT slot, metric_id FROM dead_letters)
JOIN metrics ON id = metric_id WHERE name = 'calls' AND slot >= ? AND slot < ? ORDER BY slot
"""


def accounted_slots(reader: Reader, span: Span) -> list[datetime]:
    """The slots of `calls` that are stored, pending or dead."""
    bounds = (to_seconds(span.start), to_seconds(span.end))
    return [from_seconds(slot) for (slot,) in reader.rows(_ACCOUNTED, bounds)]


def test_what_is_pending_or_dead_is_not_missing(reader: Reader) -> None:
    found = find_missing(reader, {"calls": Span(at(0), at(SLOTS), 5)})
    runs = [(gap.start, gap.slots) for gap in found["calls"]]
    assert runs == [
        (at(0), 1),
        (at(100), 5),
        (at(106), 4),
        (at(250), 150),
        (at(404), 26),
        (at(500), 1),
        (at(719), 1),
    ]


def test_a_metric_with_nothing_missing_is_left_out_and_one_with_nothing_at_all_is_one_gap(reader: Reader) -> None:
    spans = {"calls": Span(at(1), at(100), 5), "silent": Span(at(0), at(SLOTS), 5)}
    found = find_missing(reader, spans)
    assert list(found) == ["silent"]
    assert [(gap.start, gap.end, gap.slots) for gap in found["silent"]] == [(at(0), at(SLOTS), SLOTS)]


def test_a_metric_of_which_nothing_is_due_yet_has_no_gap_beside_others(reader: Reader) -> None:
    # The first slots of a new target: one that is missing, and one in a bucket where nothing is known of it.
    for metric in ("calls", "silent"):
        beside = {"silent": Span(at(0), at(3), 5)} if metric == "calls" else {"calls": Span(at(1), at(3), 5)}
        assert metric not in find_missing(reader, {metric: Span(at(101), at(101), 5), **beside})


def test_a_gap_of_days_is_one_gap(reader: Reader) -> None:
    found = find_missing(reader, {"calls": Span(at(600), at(DAYS_LATER + 10), 5)})
    assert [(gap.start, gap.end) for gap in found["calls"]] == [(at(719), at(DAYS_LATER))]


def test_records_of_a_former_interval_do_not_stand_for_those_of_the_present_one(reader: Reader) -> None:
    # Slots of 10 s in a bucket that has more than enough rows of 5 s for all of them.
    span = Span(at(96), at(120), 10)
    plain = list(find_gaps(span, accounted_slots(reader, span)))
    assert [(gap.start, gap.slots) for gap in plain] == [(at(100), 5)]
    assert find_missing(reader, {"calls": span})["calls"] == plain


@given(st.integers(-200, SLOTS + 200), st.integers(-200, SLOTS + 200))
def test_over_any_span_it_finds_what_the_plain_way_finds(path: Path, first: int, last: int) -> None:
    span = Span(at(first), at(max(first, last)), 5)
    with Reader.opened(path) as reader:
        plain = list(find_gaps(span, accounted_slots(reader, span)))
        assert find_missing(reader, {"calls": span}).get("calls", []) == plain


@given(
    interval=st.sampled_from([each for each in INTERVALS if each >= 60]),
    stored=st.sets(st.integers(0, 60)),
    first=st.integers(-3, 30),
    length=st.integers(0, 60),
)
@settings(max_examples=25, deadline=None)
def test_of_intervals_that_tile_no_bucket_it_finds_what_the_plain_way_finds(
    tmp_path_factory: pytest.TempPathFactory, interval: int, stored: set[int], first: int, length: int
) -> None:
    start = floor_to_slot(T0, interval)
    path = tmp_path_factory.mktemp("slow") / "kizami.db"
    connection = open_database(path, create=True)
    with transaction(connection):
        slow = Target(name="slow", interval_seconds=interval)
        number = register_targets(connection, [slow], T0)["slow"].id
        slots = [to_seconds(start) + each * interval for each in sorted(stored)]
        statements.store(connection, [StoredRow(slot, number, 1, 0, 0, 1, False) for slot in slots])
    connection.close()
    begin = shift(start, first * interval)
    span = Span(begin, shift(begin, length * interval), interval)
    with Reader.opened(path) as reader:
        plain = list(find_gaps(span, [from_seconds(slot) for slot in slots]))
        assert find_missing(reader, {"slow": span}).get("slow", []) == plain
        assert reader.completeness({"slow": span})["slow"].missing == sum(gap.slots for gap in plain)
        assert [record.slot for record in reader.records("slow", span.start, span.end)] == [
            slot for slot in map(from_seconds, slots) if span.start <= slot < span.end
        ]
        assert reader.newest_slots() == ({"slow": from_seconds(slots[-1])} if slots else {})


def test_what_is_on_the_queue_is_counted_within_the_span_only(reader: Reader) -> None:
    assert count_pending(reader, {"calls": Span(at(0), at(SLOTS), 5)}) == {"calls": 1}
    assert count_pending(reader, {"calls": Span(at(0), at(105), 5)}) == {}
    assert count_pending(reader, {"silent": Span(at(0), at(SLOTS), 5)}) == {}


def test_rows_of_an_interval_before_do_not_fill_what_follows(tmp_path: Path) -> None:
    """Every 5 s for half of a bucket gives as many rows as every 10 s for all of it."""
    path, middle = tmp_path / "kizami.db", datetime(2025, 12, 2, 10, 5, tzinfo=UTC)
    connection = open_database(path, create=True)
    with transaction(connection):
        calls = register_targets(connection, [CALLS], T0)["calls"].id
        slots = range(to_seconds(middle) - 300, to_seconds(middle), 5)
        statements.store(connection, [StoredRow(slot, calls, 1, 1000 * slot, 0, 1, False) for slot in slots])
    connection.close()
    with Reader.opened(path) as reader:
        (gap,) = find_missing(reader, {"calls": Span(middle, middle + timedelta(seconds=300), 10)})["calls"]
    assert (gap.start, gap.slots) == (middle, 30)


def test_what_a_sealed_span_lacks_is_known_without_asking_for_each_of_its_slots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day of hundreds of targets with a hole in each hour is millions of slots."""
    path, hour = tmp_path / "kizami.db", T0.replace(hour=9, minute=0)
    connection = open_database(path, create=True)
    with transaction(connection):
        number = register_targets(connection, [CALLS], hour)["calls"].id
        slots = [to_seconds(shift(hour, 5 * n)) for n in range(1440) if n % 720 not in (100, 101)]
        statements.store(connection, [StoredRow(slot, number, 1, slot * 1000, 0, 1, False) for slot in slots])
    for _ in seal_closed(connection, to_seconds(hour) + 86_400, 0):
        pass
    connection.close()
    looked_up: list[int] = []
    without_sealed = Reader.without_sealed

    def counting(reader: Reader, rows: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
        looked_up.append(len(rows))
        return without_sealed(reader, rows)

    monkeypatch.setattr(Reader, "without_sealed", counting)
    with Reader.opened(path) as reader:
        found = find_missing(reader, {"calls": Span(hour, shift(hour, 7200), 5)})
    assert [(gap.start, gap.slots) for gap in found["calls"]] == [
        (shift(hour, 500), 2),
        (shift(hour, 4100), 2),
    ]
    assert sum(looked_up) == 0


def databases_of_more(folder: Path) -> Iterator[tuple[int, Path, apsw.Connection]]:
    """One of a hundred targets and one of four hundred, open for the length of a turn."""
    for targets in (100, 400):
        path = make_database(folder / f"{targets}.db", {f"t{number}": [] for number in range(targets)})
        with closing(open_database(path)) as connection:
            yield targets, path, connection


def count_steps(connection: apsw.Connection) -> list[bool]:
    """Has an entry more for each fifty steps that SQLite takes from now on."""
    steps: list[bool] = []

    def step() -> bool:
        steps.append(False)
        return False

    connection.set_progress_handler(step, 50)
    return steps


@pytest.mark.parametrize("count", [count_pending, count_dead])
def test_the_work_grows_with_the_targets_in_trouble_and_not_with_their_square(
    tmp_path: Path, count: Callable[[Reader, Mapping[str, Span]], dict[str, int]]
) -> None:
    """A third of ten thousand fails: their minute was 40,000 rows, read through 3,333 times."""
    work = {}
    for targets, path, connection in databases_of_more(tmp_path):
        with transaction(connection):
            for table, columns in (
                ("messages", "1, 0, 0, 0, 1, 0, NULL"),
                ("dead_letters", "0, 0, 0, 0, 1, 'why'"),
            ):
                of_each = f"{to_seconds(T0)} + 5 * value, metrics.id, 5, {columns}"
                slots = f"SELECT {of_each} FROM metrics JOIN json_each(?)"
                connection.execute(f"INSERT INTO {table} {slots}", (json.dumps(list(range(12))),))
        spans = {f"t{number}": Span(T0, at(12), 5) for number in range(targets)}
        steps = count_steps(connection)
        assert count(Reader(connection, path), spans) == dict.fromkeys(spans, 12)
        work[targets] = len(steps)
    assert work[400] < 6 * work[100]


def test_of_several_values_those_are_pending_that_are_not_stored(tmp_path: Path) -> None:
    answer = Answer(values=(("x", parse_expression("/x")), ("y", parse_expression("/y"))))
    several, path = Target(name="several", lag_seconds=5, answer=answer), tmp_path / "kizami.db"
    connection = open_database(path, create=True)
    with transaction(connection):
        known = register_targets(connection, [several], T0)
        statements.store(connection, [StoredRow(to_seconds(T0), known["several/x"].id, 1, 0, 0, 1, False)])
        asked = to_seconds(T0), known["several"].id
        connection.execute("INSERT INTO messages VALUES (?, ?, 5, 1, 0, 0, 0, 1, 0, NULL)", asked)
    connection.close()
    with Reader.opened(path) as reader:
        spans = {name: Span(T0, at(12), 5) for name in ("several/x", "several/y")}
        assert count_pending(reader, spans) == {"several/y": 1}


def test_the_work_of_telling_deaths_and_pauses_grows_with_them_and_not_with_their_square(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 54,000 dead letters of 150 targets among 10,000 a look of the alerts took 30 s of CPU."""
    work = {}
    for targets, path, connection in databases_of_more(tmp_path):
        with transaction(connection):
            of_each = f"{to_seconds(T0)}, id, 5, 1, 0, 0, {to_ms(T0)}, 5, 'why'"
            connection.execute(f"INSERT INTO dead_letters SELECT {of_each} FROM metrics")
            connection.execute("INSERT INTO pauses SELECT id, 0 FROM metrics")
        steps = count_steps(connection)
        monkeypatch.setattr(dead_letters, "open_database", lambda _, given=connection: given)
        assert len(DeadLetters(path, FixedClock()).since(T0)) == targets
        assert len(Reader(connection, path).paused()) == targets
        work[targets] = len(steps)
    assert work[400] < 6 * work[100]
