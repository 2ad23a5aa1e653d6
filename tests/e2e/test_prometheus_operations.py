"""Operations between several series, and figures over long ranges, with the results of Prometheus itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import thread_time

import pytest

from kizami.backend.port import Backend
from kizami.core.epoch import to_seconds
from kizami.core.targets.target import Target
from kizami.local.backend import LocalBackend
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import register_targets
from kizami.web.prometheus.budget import Budget
from kizami.web.prometheus.evaluation import evaluate
from kizami.web.prometheus.samples import Samples
from kizami.web.prometheus.syntax import parse_query
from programs.local_processes import hold_port
from programs.prometheus_here import prometheus_with, range_values
from samples.page_database import served

NOW = datetime(2025, 12, 2, 10, 0, tzinfo=UTC)
SECONDS, WEEK = to_seconds(NOW), 7 * 86_400
# Each with its values by the number of its slot, and the slots that it lacks.
SERIES: dict[str, tuple[Callable[[int], int], range]] = {
    "asked": (lambda number: number * 7 % 31, range(700, 704)),
    "failed": (lambda number: number % 5, range(690, 695)),
    "users": (lambda number: 10 + number % 3, range(0)),
}
SLOTS = 720


def samples_of(name: str) -> list[tuple[int, int]]:
    count, gone = SERIES[name]
    return [(count(n), SECONDS - 5 * (SLOTS - n)) for n in range(SLOTS) if n not in gone]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An hour of three metrics."""
    path = tmp_path_factory.mktemp("operations") / "kizami.db"
    store(path, {name: samples_of(name) for name in SERIES})
    with served(path, NOW) as server:
        yield f"{server.url}/prometheus"


def store(path: Path, series: dict[str, list[tuple[int, int]]]) -> None:
    connection = open_database(path, create=True)
    with transaction(connection):
        for name, samples in series.items():
            known = register_targets(connection, [Target(name=name, lag_seconds=5)], NOW - timedelta(days=8))
            rows = [[slot, known[name].id, count] for count, slot in samples]
            connection.execute(_INSERT, (json.dumps(rows),))
    connection.close()


_INSERT = "INSERT INTO slots SELECT value ->> 0, value ->> 1, value ->> 2, 0, 0, 1, 0 FROM json_each(?)"


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Prometheus with the same samples, which stand at the end of their windows."""
    series = {name: [(float(count), slot + 5) for count, slot in samples_of(name)] for name in SERIES}
    with hold_port() as port, prometheus_with(series, port, tmp_path_factory.mktemp("oracle")) as address:
        yield address


@pytest.mark.parametrize(
    "query",
    [
        "failed / asked",
        "100 * failed / (asked + failed)",
        "asked - on (job) failed",
        "asked * ignoring (job) failed",
        "failed > asked",
        "failed > bool asked",
        "asked != on (job) failed",
        "asked >= bool ignoring (job) users",
        '{__name__=~"asked|failed"} > on (job) group_left users',
        'users < on (job) group_right {__name__=~"asked|failed"}',
        "asked and failed",
        "asked and (failed > 2)",
        "asked unless failed > 2",
        "asked or failed",
        "failed or asked",
        "(asked > 20) or users",
        "asked > 25 or asked < 3",
        "asked and on (job) failed unless ignoring (job) users > 11",
        'topk(2, {job="kizami"})',
        'bottomk(1, {job="kizami"})',
        'topk by (__name__) (1, {job="kizami"})',
        'topk(0, {job="kizami"}) or users',
        "sum(asked + failed) / count({job='kizami'})",
        "sum_over_time(failed[5m]) / sum_over_time(asked[5m])",
        "max_over_time((failed / asked)[5m:10s])",
        "2 ^ failed % 3",
        "-asked + failed * 2 == bool 4 or users",
    ],
)
def test_the_results_are_those_of_prometheus_itself(url: str, oracle: str, query: str) -> None:
    bounds = SECONDS - 300 + 2.5, SECONDS - 5, 10
    expected = range_values(oracle, query, *bounds)
    assert expected
    assert range_values(url, query, *bounds) == expected


@pytest.mark.parametrize("function", ["sum", "avg", "min", "max", "count"])
@pytest.mark.parametrize(("length", "step"), [("17m", 61), ("1h", 600), ("7s", 20)])
def test_figures_are_those_of_prometheus_wherever_the_edges_lie(
    url: str, oracle: str, function: str, length: str, step: int
) -> None:
    bounds = SECONDS - 1800 + 2.5, SECONDS - 2.5, step
    query = f"{function}_over_time(asked[{length}])"
    assert range_values(url, query, *bounds) == range_values(oracle, query, *bounds)


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A week of one metric."""
    path = tmp_path_factory.mktemp("week") / "kizami.db"
    store(path, {"asked": [(n * 7 % 31, SECONDS - WEEK + 5 * n) for n in range(WEEK // 5)]})
    backend = LocalBackend(path)
    yield backend
    backend.close()


@pytest.mark.parametrize("function", ["sum", "avg", "min", "max", "count"])
def test_a_week_takes_a_few_milliseconds(week: Backend, function: str) -> None:
    """By the hour, and as a whole from second to second; reading its 120,960 samples takes half a second."""
    hours = [1000 * (SECONDS - WEEK + 3600 * n) for n in range(1, 169)]
    for query, times in (
        (f"{function}_over_time(asked[1h])", hours),
        (f"{function}_over_time(asked[1w])", [hours[-1] - 7000]),
    ):
        took = []
        for _ in range(3):
            started = thread_time()
            (series,) = evaluate(parse_query(query), Samples(week, Budget()), times)  # type: ignore[misc]
            took.append(thread_time() - started)
        assert len(series.values) == len(times)
        assert min(took) < 0.03, took
