"""Keeping for as long as one says: slots are given up, totals stay, the file shrinks, and nothing is missing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.core.coverage import Span
from kizami.core.epoch import to_seconds
from kizami.core.targets.target import Target
from kizami.local.store import statements
from kizami.local.store.buckets import read_buckets
from kizami.local.store.database import open_database, transaction
from kizami.local.store.history.expiry import expire, pack_hours, unpack_hours
from kizami.local.store.history.free_space import give_back
from kizami.local.store.history.sealing import seal_closed
from kizami.local.store.history.sums import count_stored
from kizami.local.store.metrics import KnownMetric, known_metric, register_targets
from kizami.local.store.missing import find_missing
from kizami.local.store.reader import Reader
from kizami.local.store.rows import SentRow, StoredRow
from kizami.local.store.statements import BACKFILL

T0 = datetime(2025, 12, 1, tzinfo=UTC)
DAYS = 6
NOW = T0 + timedelta(days=DAYS)
DAY = 86_400
TARGETS = [
    Target(name="brief", interval_seconds=10, keep_seconds=2 * DAY, keep_totals_seconds=4 * DAY),
    Target(name="slow", interval_seconds=60, keep_seconds=2 * DAY),
    Target(name="ever", interval_seconds=60),
]


@pytest.fixture
def connection(tmp_path: Path) -> apsw.Connection:
    """Six days of three metrics, sealed and then expired as each of them says."""
    connection = open_database(tmp_path / "kizami.db", create=True)
    connection.execute("PRAGMA synchronous = OFF")
    with transaction(connection):
        known = register_targets(connection, TARGETS, T0)
        for target in TARGETS:
            slots = range(to_seconds(T0), to_seconds(NOW), target.interval_seconds)
            statements.store(
                connection,
                [StoredRow(slot, known[target.name].id, slot % 97, slot * 1000, 0, 1, False) for slot in slots],
            )
    for _ in seal_closed(connection, to_seconds(NOW), 0):
        pass
    for _ in expire(connection, to_seconds(NOW)):
        pass
    return connection


def test_slots_are_kept_for_as_long_as_their_target_says(connection: apsw.Connection) -> None:
    reader = Reader(connection, Path("kizami.db"))
    oldest = {target.name: next(reader.records(target.name, T0, NOW)).slot for target in TARGETS}
    kept = NOW - timedelta(days=2)
    assert oldest == {"brief": kept, "slow": kept, "ever": T0}
    assert sum(len(each) for each in reader.columns("ever", T0, NOW)) == DAYS * 1440


def test_of_what_is_given_up_the_totals_of_hours_stay_as_they_were(connection: apsw.Connection) -> None:
    given_up = T0, NOW - timedelta(days=2)
    slow, ever = (known_metric(connection, name) for name in ("slow", "ever"))
    assert slow is not None
    assert ever is not None
    assert read_buckets(connection, slow, *given_up, 3600) == read_buckets(connection, ever, *given_up, 3600)
    assert len(read_buckets(connection, slow, *given_up, 3600)) == 4 * 24
    assert read_buckets(connection, slow, *given_up, 600) == []  # which is finer than what is kept


def test_slots_of_which_only_totals_are_left_are_not_counted_as_stored(connection: apsw.Connection) -> None:
    assert count_stored(connection) == 2 * 8640 + 2 * 1440 + DAYS * 1440


def test_totals_are_kept_for_as_long_as_their_target_says(connection: apsw.Connection) -> None:
    brief = known_metric(connection, "brief")
    assert brief is not None
    hours = read_buckets(connection, brief, T0, NOW, 3600)
    assert [hours[0].start, len(hours)] == [NOW - timedelta(days=4), 4 * 24]
    assert {each.stored for each in hours} == {360}


def test_nothing_that_was_given_up_is_missing_asked_for_or_stored_again(connection: apsw.Connection) -> None:
    reader = Reader(connection, Path("kizami.db"))
    found = find_missing(reader, {target.name: Span(T0, NOW, target.interval_seconds) for target in TARGETS[1:]})
    assert found == {}
    brief, slot = known_metric(connection, "brief"), to_seconds(T0) + 3600
    assert brief is not None
    assert brief.expected_from(NOW) == NOW - timedelta(days=2)
    with transaction(connection):
        assert statements.send(connection, [SentRow(slot, brief.id, 10, slot * 1000)], BACKFILL, 0) == 0
        statements.store(connection, [StoredRow(slot, brief.id, 5, 0, 0, 1, True)])
    assert connection.execute("SELECT count(*) FROM slots").get == 0


def test_it_is_done_once_and_goes_on_from_where_it_was(connection: apsw.Connection) -> None:
    assert list(expire(connection, to_seconds(NOW))) == []
    assert sum(expire(connection, to_seconds(NOW) + 3600)) == 2  # an hour of `brief`, and its totals of another


def test_what_was_given_up_stays_so_when_more_is_to_be_kept(connection: apsw.Connection) -> None:
    with transaction(connection):
        register_targets(connection, [Target(name="slow", interval_seconds=60)], NOW)
    slow = known_metric(connection, "slow")
    assert slow is not None
    assert slow.keep_seconds is None
    assert slow.expected_from(NOW) == NOW - timedelta(days=2)


def test_the_file_gets_smaller_when_much_of_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "kizami.db"
    connection = open_database(path, create=True)
    connection.execute("PRAGMA synchronous = OFF")
    with transaction(connection):
        calls = register_targets(connection, [Target(name="calls", interval_seconds=1)], T0)["calls"].id
        slots = range(to_seconds(T0), to_seconds(T0) + 4 * DAY)
        statements.store(
            connection, [StoredRow(slot, calls, slot % 97, slot * 1000, 0, 1, False) for slot in slots]
        )
    for _ in seal_closed(connection, to_seconds(NOW), 0):
        pass
    before = connection.execute("PRAGMA page_count").get
    assert sum(give_back(connection)) > 0.5 * before
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert path.stat().st_size < 0.5 * 4096 * before
    assert sum(each.stored for each in read_buckets(connection, known(connection), T0, NOW, DAY)) == 4 * DAY
    assert connection.execute("PRAGMA integrity_check").get == "ok"


def known(connection: apsw.Connection) -> KnownMetric:
    metric = known_metric(connection, "calls")
    assert metric is not None
    return metric


@given(st.dictionaries(st.integers(-(10**9), 10**9), st.integers(-(2**53), 2**53), min_size=1, max_size=50))
def test_the_figures_of_hours_are_those_of_a_plain_count(counts: dict[int, int]) -> None:
    slots = sorted(counts)
    hours: dict[int, list[int]] = {}
    for slot in slots:
        hours.setdefault(slot // 3600 * 3600, []).append(counts[slot])
    expected = [(start, len(each), min(each), max(each), sum(each)) for start, each in hours.items()]
    assert unpack_hours(pack_hours(slots, [counts[slot] for slot in slots])) == expected


def test_what_is_sealed_after_all_was_given_up_is_not_read_or_deleted_as_what_was_before(tmp_path: Path) -> None:
    """A machine was off for longer than its slots are kept: the newest of all that is sealed goes."""
    connection = open_database(tmp_path / "kizami.db", create=True)
    later = T0 + timedelta(days=3)
    with transaction(connection):
        known = register_targets(connection, TARGETS, T0)
    for name, start in (("brief", T0), ("ever", later)):
        slots = range(to_seconds(start), to_seconds(start) + 3600, 60)
        with transaction(connection):
            statements.store(
                connection, [StoredRow(slot, known[name].id, 7, 1000 * slot, 0, 1, False) for slot in slots]
            )
        for _ in seal_closed(connection, to_seconds(start) + 2 * DAY, 0):
            pass
        for _ in expire(connection, to_seconds(later)):
            pass
    reader = Reader(connection, tmp_path / "kizami.db")
    assert list(reader.columns("brief", T0, NOW)) == []
    for _ in expire(connection, to_seconds(NOW)):  # the totals, too
        pass
    assert sum(len(each) for each in reader.columns("ever", T0, NOW)) == 60
