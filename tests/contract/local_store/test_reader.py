"""The read API of the one-machine database: what verbs and the dashboard are told, against a plain count."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.backend.values import lateness_of
from kizami.core.coverage import Span, due_span, find_gaps
from kizami.core.epoch import to_ms, to_seconds
from kizami.core.errors import StoreError
from kizami.core.sender import message_for_slot
from kizami.core.targets.target import Target
from kizami.local.store import statements
from kizami.local.store.backfill_queue import BackfillQueue
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import register_targets
from kizami.local.store.reader import Reader
from kizami.local.store.rows import StoredRow
from samples.database import make_database

T0 = datetime(2025, 12, 2, 9, 55, tzinfo=UTC)
SLOTS = 720
TARGETS = [Target(name=name, lag_seconds=5) for name in ("calls", "errors", "silent")]


class FixedClock:
    def now(self) -> datetime:
        return T0 + timedelta(hours=1)


def at(index: int) -> datetime:
    return T0 + timedelta(seconds=5 * index)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An hour of `calls` without slots 100 to 109 and 500; every tenth slot of `errors`; `silent` has none."""
    path = tmp_path_factory.mktemp("reader") / "kizami.db"
    connection = open_database(path, create=True)
    with transaction(connection):
        known = register_targets(connection, TARGETS, T0)
        calls, errors = known["calls"].id, known["errors"].id
        gone = {*range(100, 110), 500}
        rows = [stored_row(n, calls, late_ms=n % 100) for n in range(SLOTS) if n not in gone]
        rows += [stored_row(n, errors, late_ms=60_000, backfilled=True) for n in range(0, SLOTS, 10)]
        statements.store(connection, rows)
    connection.close()
    queue = BackfillQueue(path, FixedClock())
    queue.send_backfill([message_for_slot(at(105), TARGETS[0])])
    queue.close()
    return path


def stored_row(index: int, metric_id: int, late_ms: int, *, backfilled: bool = False) -> StoredRow:
    slot = to_seconds(at(index))
    return StoredRow(slot, metric_id, index % 11, to_ms(at(index)) + 5123, late_ms, 1, backfilled)


@pytest.fixture
def reader(path: Path) -> Iterator[Reader]:
    with Reader.opened(path) as reader:
        yield reader


def test_metrics_are_known_by_name_and_expected_from_the_tick_after_they_were_first_seen(reader: Reader) -> None:
    metrics = reader.metrics()
    assert list(metrics) == ["calls", "errors", "silent"]
    assert metrics["calls"].first_slot == T0  # the next tick is T0 + 5 s, and asks for the slot one lag before
    assert (metrics["calls"].interval_seconds, metrics["calls"].lag_seconds) == (5, 5)


def test_with_another_interval_only_slots_that_begin_later_are_expected(tmp_path: Path) -> None:
    """An earlier one may be stored already, with the count of the former interval."""
    connection = open_database(tmp_path / "kizami.db", create=True)
    with transaction(connection):
        register_targets(connection, [TARGETS[0]], T0)
        changed = Target(name="calls", interval_seconds=10, lag_seconds=60)
        known = register_targets(connection, [changed], T0 + timedelta(seconds=3))
    connection.close()
    assert known["calls"].first_slot == T0 + timedelta(seconds=10)


def test_the_newest_slot_of_each_metric(reader: Reader) -> None:
    assert reader.newest_slots() == {"calls": at(719), "errors": at(710)}


def test_the_newest_slots_of_some_are_those_of_all(tmp_path: Path) -> None:
    stored = {f"m{number}": range(number) for number in range(9)}
    with Reader.opened(make_database(tmp_path / "kizami.db", stored)) as reader:
        every = reader.newest_slots()
        assert len(every) == 8
        for names in (["m0"], ["m4"], ["m0", "m7"], ["m8", "who"], [], list(stored)):
            assert reader.newest_slots(names) == {name: every[name] for name in names if name in every}


@pytest.mark.parametrize(
    ("interval", "lag"), [(3600, 3600), (86_400, 86_400), (5, 2_678_400), (86_400, 2_678_400)]
)
def test_the_newest_slot_and_the_lateness_of_a_long_interval_or_lag(
    tmp_path: Path, interval: int, lag: int
) -> None:
    target = Target(name="slow", interval_seconds=interval, lag_seconds=lag, catch_up_seconds=0)
    newest = due_span(target, T0 - timedelta(days=40), T0).end - timedelta(seconds=interval)
    connection = open_database(tmp_path / "kizami.db", create=True)
    with transaction(connection):
        known = register_targets(connection, [*TARGETS, target], T0 - timedelta(days=40))
        slow, calls = to_seconds(newest), to_seconds(T0)
        rows = [StoredRow(slow - back * interval, known["slow"].id, 1, 0, 7, 1, False) for back in (0, 1)]
        statements.store(connection, [*rows, StoredRow(calls, known["calls"].id, 1, 0, 9, 1, False)])
    connection.close()
    with Reader.opened(tmp_path / "kizami.db") as reader:
        assert reader.newest_slots() == {"calls": T0, "slow": newest}
        due = newest + timedelta(seconds=lag)
        told = reader.lateness(due, due + timedelta(minutes=10))
        assert (told.polls >= 1, told.p50_ms) == (True, 7)


def test_records_are_those_of_the_range_with_how_they_came_about(reader: Reader) -> None:
    stored = list(reader.stored("calls", at(98), at(112)))
    assert [entry.slot for entry in stored] == [at(98), at(99), at(110), at(111)]
    assert (stored[0].count, stored[0].late_ms, stored[0].receives, stored[0].backfilled) == (10, 98, 1, False)
    assert stored[0].collected_at == at(98) + timedelta(seconds=5, milliseconds=123)
    assert [entry.count for entry in reader.records("calls", at(98), at(112))] == [entry.count for entry in stored]


@given(st.integers(-200, SLOTS + 200), st.integers(-200, SLOTS + 200))
def test_counts_over_any_range_are_those_of_a_plain_count(path: Path, first: int, last: int) -> None:
    gone = {*range(100, 110), 500}
    calls = sum(n not in gone for n in range(max(0, first), min(SLOTS, last)))
    errors = sum(n % 10 == 0 for n in range(max(0, first), min(SLOTS, last)))
    expected = {name: count for name, count in (("calls", calls), ("errors", errors)) if count}
    with Reader.opened(path) as reader:
        assert reader.stored_counts(at(first), at(last)) == expected
        assert reader.stored_count("calls", at(first), at(last)) == calls


def test_completeness_is_told_for_every_metric_asked_about(reader: Reader) -> None:
    whole, half = Span(at(0), at(SLOTS), 5), Span(at(0), at(360), 5)
    told = reader.completeness({"calls": whole, "errors": whole, "silent": half, "unknown": half})
    assert {name: str(each) for name, each in told.items()} == {
        "calls": "709/720",
        "errors": "72/720",
        "silent": "0/360",
        "unknown": "0/360",
    }


def test_gaps_are_what_lies_between_the_stored_slots(reader: Reader) -> None:
    stored = (record.slot for record in reader.records("calls", at(0), at(SLOTS)))
    gaps = [(gap.start, gap.slots) for gap in find_gaps(Span(at(0), at(SLOTS), 5), stored)]
    assert gaps == [(at(100), 10), (at(500), 1)]


def test_a_pending_slot_is_told_with_its_moments(reader: Reader) -> None:
    (pending,) = reader.pending("calls", at(0), at(SLOTS))
    assert (pending.slot, pending.backfill, pending.in_flight, pending.receives) == (at(105), True, False, 0)
    assert (pending.due_at, pending.visible_at) == (at(106), at(106))


def test_lateness_speaks_of_live_polls_only(reader: Reader) -> None:
    everything = reader.lateness(at(0), at(100))
    assert (everything.polls, everything.p50_ms, everything.p99_ms, everything.max_ms) == (100, 49, 98, 99)


@given(st.lists(st.integers(0, 10_000), min_size=1))
def test_percentiles_are_values_that_occur_with_at_least_that_share_at_or_below(late: list[int]) -> None:
    lateness = lateness_of(sorted(Counter(late).items()))
    for percent, value in ((50, lateness.p50_ms), (99, lateness.p99_ms)):
        assert value in late
        assert sum(each <= value for each in late) * 100 >= percent * len(late)
        assert sum(each < value for each in late) * 100 < percent * len(late)


def test_opening_waits_for_one_who_has_the_whole_file_locked(path: Path) -> None:
    holder = apsw.Connection(str(path))
    holder.execute("PRAGMA locking_mode = EXCLUSIVE; SELECT count(*) FROM metrics").fetchall()
    opened: list[int] = []

    def open_and_read() -> None:
        with Reader.opened(path) as reader:
            opened.append(len(reader.metrics()))

    waiting = threading.Thread(target=open_and_read)
    waiting.start()
    waiting.join(0.2)
    assert opened == []
    holder.close()
    waiting.join()
    assert opened == [3]


def test_reading_where_there_is_no_database_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="kizami up"), Reader.opened(tmp_path / "none.db"):
        pass
