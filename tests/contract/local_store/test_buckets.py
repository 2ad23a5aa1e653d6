"""Buckets for the chart: the same numbers from the tallies and from the slots as from a plain count."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.core.epoch import to_ms, to_seconds
from kizami.core.targets.target import Target
from kizami.local.store import statements
from kizami.local.store.buckets import read_buckets, read_counts
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import KnownMetric, register_targets
from kizami.local.store.rows import StoredRow

T0 = datetime(2025, 12, 2, 9, 50, tzinfo=UTC)
SLOTS = 1440
GONE = {*range(100, 130), *range(480, 600), 1000}


def at(index: int) -> datetime:
    return T0 + timedelta(seconds=5 * index)


def count_of(index: int) -> int:
    return index * index % 97


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[apsw.Connection, KnownMetric]]:
    """Two hours of `calls` with holes, one of them ten minutes long, beside another metric that is in the way."""
    path: Path = tmp_path_factory.mktemp("buckets") / "kizami.db"
    connection = open_database(path, create=True)
    with transaction(connection):
        known = register_targets(connection, [Target(name="calls"), Target(name="other")], T0)
        calls, other = known["calls"].id, known["other"].id
        rows = [
            StoredRow(to_seconds(at(n)), calls, count_of(n), to_ms(at(n)), 0, 1, False)
            for n in range(SLOTS)
            if n not in GONE
        ]
        rows += [StoredRow(to_seconds(at(n)), other, 5_000, to_ms(at(n)), 0, 1, False) for n in range(SLOTS)]
        statements.store(connection, rows)
    yield connection, known["calls"]
    connection.close()


@given(st.integers(-200, SLOTS), st.integers(1, SLOTS), st.sampled_from([5, 15, 60, 300, 600, 1800, 3600]))
def test_buckets_are_those_of_a_plain_count(
    backend: tuple[apsw.Connection, KnownMetric], first: int, length: int, seconds: int
) -> None:
    start, end = at(first), at(first + length)
    expected: dict[int, list[int]] = {}
    low = to_seconds(start) // seconds * seconds
    high = -(-to_seconds(end) // seconds) * seconds
    for index in set(range(SLOTS)) - GONE:
        slot = to_seconds(at(index))
        if low <= slot < high:
            expected.setdefault(slot // seconds * seconds, []).append(count_of(index))
    found = read_buckets(*backend, start, end, seconds)
    assert [(to_seconds(each.start), each.stored, each.lowest, each.highest, each.total) for each in found] == [
        (bucket, len(counts), min(counts), max(counts), sum(counts)) for bucket, counts in sorted(expected.items())
    ]


@given(st.lists(st.integers(-5, SLOTS + 5), max_size=50))
def test_counts_at_any_slots(backend: tuple[apsw.Connection, KnownMetric], wanted: list[int]) -> None:
    found = read_counts(*backend, [at(index) for index in wanted])
    assert found == {at(i): count_of(i) for i in wanted if 0 <= i < SLOTS and i not in GONE}


def test_the_largest_counts_fit_into_a_tally(tmp_path: Path) -> None:
    connection = open_database(tmp_path / "kizami.db", create=True)
    with transaction(connection):
        metric = register_targets(connection, [Target(name="calls", interval_seconds=1)], T0)["calls"]
        rows = [StoredRow(to_seconds(T0) + n, metric.id, 2**53 - 1, 0, 0, 1, False) for n in range(600)]
        statements.store(connection, rows)
    (bucket,) = read_buckets(connection, metric, T0, T0 + timedelta(minutes=10), 600)
    assert (bucket.stored, bucket.total) == (600, 600 * (2**53 - 1))
    connection.close()
