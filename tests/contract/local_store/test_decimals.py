"""Values with decimal places and below zero: kept as whole numbers of units, shown by every reader as they are."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from kizami.backend.chart import draw
from kizami.backend.grid import cells_between
from kizami.backend.wire import chart_json, slot_json
from kizami.cli.terminal.record_formats import write_csv_columns, write_parquet
from kizami.core.answers.answer import Answer
from kizami.core.epoch import to_ms, to_seconds
from kizami.core.errors import ConfigurationError
from kizami.core.messages import write_record
from kizami.core.slots import Window
from kizami.core.targets.target import Target
from kizami.local.backend import LocalBackend
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import KnownMetric, register_targets
from kizami.local.store.rows import StoredRow
from kizami.local.store.statements import store
from kizami.web.prometheus.budget import Budget
from kizami.web.prometheus.samples import Samples
from samples.database import T0, at

UNITS = [10, 20, -5, 123_456]  # 0.1, 0.2, -0.05, 1234.56
COST = Target(name="cost", lag_seconds=5, answer=Answer(decimals=2, minimum=-100))


def register(path: Path, *targets: Target, now: datetime = T0) -> dict[str, KnownMetric]:
    connection = open_database(path, create=True)
    try:
        with transaction(connection):
            return register_targets(connection, targets, now)
    finally:
        connection.close()


def put(path: Path, metric: KnownMetric, units: list[int]) -> None:
    rows = [
        StoredRow(to_seconds(at(n)), metric.id, each, to_ms(at(n + 1)), 0, 1, False)
        for n, each in enumerate(units)
    ]
    connection = open_database(path)
    with transaction(connection):
        store(connection, rows)
    connection.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kizami.db"


@pytest.fixture
def backend(path: Path) -> Iterator[LocalBackend]:
    put(path, register(path, COST)["cost"], UNITS)
    backend = LocalBackend(path)
    yield backend
    backend.close()


def test_records_are_the_exact_numbers(backend: LocalBackend) -> None:
    records = list(backend.records("cost", T0, at(9)))
    assert [record.count for record in records] == [0.1, 0.2, -0.05, 1234.56]
    assert [json.dumps(write_record(record)["count"]) for record in records] == ["0.1", "0.2", "-0.05", "1234.56"]


def test_files_have_them_exactly(backend: LocalBackend) -> None:
    lines = io.StringIO()
    write_csv_columns(backend.record_columns("cost", T0, at(9)), lines)
    assert [line.split(",")[2] for line in lines.getvalue().splitlines()[1:]] == ["0.1", "0.2", "-0.05", "1234.56"]
    file = io.BytesIO()
    (target,) = backend.targets(["cost"])
    write_parquet(backend.record_columns("cost", T0, at(9)), file, target.decimals)
    counts: list[Any] = pyarrow.parquet.read_table(io.BytesIO(file.getvalue()))["count"].to_pylist()
    assert counts == [Decimal("0.1"), Decimal("0.2"), Decimal("-0.05"), Decimal("1234.56")]


@pytest.mark.parametrize("seconds", [20, 600])
def test_the_chart_has_them_exactly(backend: LocalBackend, seconds: int) -> None:
    (target,) = backend.targets(["cost"])
    buckets = backend.buckets("cost", T0, at(4), seconds)
    drawn = chart_json("cost", 5, draw(target, Window(T0, at(4)), seconds, buckets, at(99)))
    assert (drawn["lowest"], drawn["highest"], drawn["mean"]) == ([-0.05], [1234.56], [308.7025])


def test_the_grid_has_them_exactly(backend: LocalBackend) -> None:
    (target,) = backend.targets(["cost"])
    cells = cells_between(target, T0, at(4), backend.slot_details("cost", T0, at(4)), at(99))
    assert [slot_json("cost", cell)["count"] for cell in cells] == [0.1, 0.2, -0.05, 1234.56]


def test_prometheus_has_them_exactly(backend: LocalBackend) -> None:
    samples = Samples(backend, Budget())
    (target,) = backend.targets(["cost"])
    assert samples.at(target, [to_ms(at(1)), to_ms(at(3))]) == [0.1, -0.05]
    assert samples.over(target, [to_ms(at(2))], 10_000, "sum", 0) == [0.3]
    assert samples.over(target, [to_ms(T0 + timedelta(minutes=10))], 600_000, "sum", 0) == [1234.81]


def test_records_that_are_there_keep_their_decimal_places(backend: LocalBackend, path: Path) -> None:
    other = Target(name="cost", lag_seconds=5, answer=Answer(decimals=3))
    with pytest.raises(ConfigurationError) as refusal:
        register(path, other)
    assert str(refusal.value) == (
        "cost: decimals: its records have decimals = 2, and stay as they are; use that, or another name"
    )
    assert backend.targets(["cost"])[0].decimals == 2


def test_a_metric_without_a_record_may_have_others(path: Path) -> None:
    assert register(path, COST)["cost"].decimals == 2
    assert register(path, Target(name="cost", lag_seconds=5))["cost"].decimals == 0


def test_another_interval_leaves_them_as_they_are(backend: LocalBackend, path: Path) -> None:
    slower = Target(name="cost", interval_seconds=10, lag_seconds=10, answer=COST.answer)
    assert register(path, slower, now=at(50))["cost"].decimals == 2
    assert [record.count for record in backend.records("cost", T0, at(2))] == [0.1, 0.2]
