"""Prometheus' own programs as clients of the dashboard: they scrape it, query it, and come to the same results."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from kizami.core.epoch import to_seconds
from kizami.core.messages import MetricRecord
from kizami.local.backend import LocalBackend
from kizami.local.store import statements
from kizami.local.store.database import open_database, transaction
from kizami.local.store.rows import StoredRow
from kizami.web import backend_threads
from kizami.web.prometheus import budget
from kizami.web.server import DashboardServer
from programs.fetched_tools import prometheus
from programs.local_processes import hold_port
from programs.prometheus_here import prometheus_with, range_values
from samples.page_database import CALLS, HOSTILE, INTERVAL, ORDERS, FixedClock, build_backend, served, slot_before

NOW = datetime(2025, 12, 2, 10, 0, tzinfo=UTC)
SECONDS = to_seconds(NOW)
DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_backend(tmp_path_factory.mktemp("prometheus") / "kizami.db", NOW)


@pytest.fixture(scope="module")
def url(path: Path) -> Iterator[str]:
    with served(path, NOW) as server:
        yield server.url


@pytest.fixture(scope="module")
def promtool() -> Path:
    return prometheus() / "promtool"


def run(*command: object, text: str | None = None) -> str:
    done = subprocess.run(
        [*map(str, command)], input=text, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def ask(url: str, path: str, status: int = 200, kind: str = "bad_data", **parameters: Any) -> Any:
    answer = requests.get(f"{url}/prometheus/api/v1/{path}", params=parameters, timeout=90)
    assert answer.status_code == status, answer.text
    if status == 200:
        return answer.json()["data"]
    assert (answer.json()["status"], answer.json()["errorType"]) == ("error", kind)
    return answer.json()["error"]


def matching(selector: str) -> dict[str, Any]:
    return {"match[]": selector}


class TestScraping:
    def test_promtool_finds_nothing_wrong_with_the_metrics(self, url: str, promtool: Path) -> None:
        for accept in ("text/plain", "application/openmetrics-text;version=1.0.0"):
            answer = requests.get(f"{url}/metrics", headers={"Accept": accept}, timeout=90)
            assert run(promtool, "check", "metrics", text=answer.text) == ""

    def test_openmetrics_has_its_type_and_its_end(self, url: str) -> None:
        accept = "application/openmetrics-text; version=1.0.0, text/plain;q=0.5"
        answer = requests.get(f"{url}/metrics", headers={"Accept": accept}, timeout=90)
        assert answer.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        assert answer.text.endswith("\n# EOF\n")
        plain = requests.get(f"{url}/metrics", timeout=90)
        assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert answer.text == plain.text + "# EOF\n"

    def test_the_numbers_are_those_of_the_page(self, url: str) -> None:
        lines = requests.get(f"{url}/metrics", timeout=90).text.splitlines()
        assert 'kizami_last_minute_slots{state="stored"} 24' in lines
        assert "kizami_dead_letters 1" in lines
        assert "kizami_missing_slots 6" in lines
        assert 'kizami_targets{condition="collecting"} 1' in lines
        assert 'kizami_targets{condition="incomplete"} 1' in lines
        assert f'kizami_target_newest_slot_timestamp_seconds{{metric="{ORDERS}"}} {SECONDS - 5}' in lines
        assert not any(HOSTILE in line for line in lines)


class TestQuerying:
    def test_grafana_finds_what_it_looks_for(self, url: str) -> None:
        assert ask(url, "query", query="1+1", time=4) == {"resultType": "scalar", "result": [4, "2"]}
        assert ask(url, "status/buildinfo")["version"] == "2.24.0"
        assert ask(url, "labels") == ["__name__", "job"]
        assert ask(url, "label/__name__/values") == [CALLS, ORDERS]
        assert ask(url, "label/job/values", **matching(CALLS)) == ["kizami"]
        assert ask(url, "label/nothing/values") == []
        assert ask(url, "series", **matching(f'{{"{ORDERS}"}}')) == [{"__name__": ORDERS, "job": "kizami"}]
        assert ask(url, "metadata")[CALLS][0]["type"] == "gauge"
        assert list(ask(url, "metadata", metric=ORDERS)) == [ORDERS]

    def test_a_query_may_be_posted_as_grafana_does(self, url: str) -> None:
        body = {"query": CALLS, "start": SECONDS - 60, "end": SECONDS, "step": 5}
        answer = requests.post(f"{url}/prometheus/api/v1/query_range", data=body, timeout=90).json()["data"]
        (series,) = answer["result"]
        assert series["metric"] == {"__name__": CALLS, "job": "kizami"}
        assert series["values"][-1] == [SECONDS, "0"]
        assert len(series["values"]) == 13

    def test_a_missing_slot_is_a_hole_and_the_newest_is_carried_on_until_the_next_is_overdue(
        self, url: str
    ) -> None:
        gone = to_seconds(slot_before(NOW, 65)), to_seconds(slot_before(NOW, 59)) + 5
        (series,) = ask(url, "query_range", query=CALLS, start=gone[0], end=gone[1], step=5)["result"]
        assert [int(moment) for moment, _ in series["values"]] == [gone[0], gone[1]]
        for later, there in ((0, True), (14, True), (15, True), (21, False)):
            assert bool(ask(url, "query", query=CALLS, time=SECONDS + later)["result"]) is there, later

    def test_promtool_can_query_it(self, url: str, promtool: Path) -> None:
        server = f"{url}/prometheus"
        moment = NOW.isoformat()
        assert f'{CALLS}{{job="kizami"}} => 0 @' in run(
            promtool, "query", "instant", "--time", moment, server, CALLS
        )
        start = (NOW - timedelta(minutes=1)).isoformat()
        query = f"max_over_time({CALLS}[10m])"
        found = run(promtool, "query", "range", "--start", start, "--end", moment, "--step", "30s", server, query)
        assert found.count("10 @") == 3
        assert ORDERS in run(promtool, "query", "labels", server, "__name__")
        assert CALLS in run(promtool, "query", "series", "--match", CALLS, server)

    @pytest.mark.parametrize(
        ("endpoint", "parameters", "words"),
        [
            ("query", {}, "query: is missing"),
            ("query", {"query": "histogram_quantile(0.9, calls)"}, "not a function here; known: avg_over_time"),
            (
                "query",
                {"query": "irate(calls[5m])"},
                "is for counters, and a count here is that of its own",
            ),
            ("query", {"query": "calls{"}, "the end"),
            ("query", {"query": "calls", "time": "x"}, "time"),
            ("query", {"query": 'calls + {job="kizami"}'}, "+ meets several series with the same labels; narrow"),
            ("query", {"query": '{job="kizami"} + calls'}, "+ meets several series on one side; narrow it down"),
            ("query", {"query": "1 > 2"}, "between two numbers it is > bool"),
            ("query", {"query": "calls and 1"}, "and stands between two vectors, not a number"),
            ("query", {"query": "topk(calls, calls)"}, "topk wants a number"),
            ("query", {"query": "calls[1h:5m]"}, "can only stand inside a function"),
            ("query", {"query": "max_over_time(calls[1h][5m])"}, "stands after a selector"),
            ("query", {"query": "max_over_time(calls[30d:1s])"}, "more than 11,000 points; use a longer step"),
            ("query", {"query": "rate(calls[1h:5m])"}, "rate wants a selector with a range"),
            ("query", {"query": "sum(1)"}, "wants a vector"),
            ("query", {"query": "vector(calls)"}, "wants a number"),
            ("query", {"query": "quantile_over_time(calls, calls[1m])"}, "wants a number"),
            ("query_range", {"query": "calls", "start": 0, "end": 10}, "step"),
            ("query_range", {"query": "calls", "start": 10, "end": 0, "step": 1}, "end"),
            ("query_range", {"query": "calls", "start": 0, "end": 1e9, "step": 1}, "points"),
            ("query_range", {"query": "calls", "start": 0, "end": 10, "step": 0}, "step"),
            ("query_range", {"query": "calls[5m]", "start": 0, "end": 10, "step": 1}, "inside a function"),
            ("series", {"match[]": "1"}, "selector"),
            ("series", {"match[]": ["calls"] * 11}, "more than 10 times"),
            ("labels", {f"p{number}": 1 for number in range(101)}, "more than 100 parameters"),
        ],
    )
    def test_what_it_cannot_answer_it_refuses_in_words(
        self, url: str, endpoint: str, parameters: dict[str, Any], words: str
    ) -> None:
        assert words in ask(url, endpoint, 400, **parameters)

    def test_what_would_cost_too_much_is_refused_with_its_bound(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        dear = {"query": "quantile_over_time(0.5, calls[30d])", "time": SECONDS + 1}
        assert "would read more than 200,000 samples" in ask(url, "query", 422, "execution", **dear)
        monkeypatch.setattr(budget, "MAX_WORK", 10_000)
        times = {"start": SECONDS - 600, "end": SECONDS, "step": 1}
        for query in (
            "quantile_over_time(0.5, calls[1h])",
            "max_over_time(calls[10m])",
            "max_over_time(calls[10m:5s])",
            "sum(calls + 1 + 1)",
            '{__name__=~"(a|b|c)(a|b|c)(a|b|c)(a|b|c)(a|b|c).*"} * 1',
            "absent_over_time(nobody[1m]) * time() * time()",
        ):
            words = ask(url, "query_range", 422, "execution", query=query, **times)
            assert "would look at more than 10,000 values" in words, query

    def test_a_query_ends_when_its_time_is_over(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(budget, "MAX_SECONDS", 0.0)
        for endpoint in ("query", "series", "labels", "label/job/values"):
            assert "took longer than 0 s" in ask(url, endpoint, 503, "timeout", query=CALLS)

    def test_the_address_of_the_data_source_answers(self, url: str) -> None:
        for path in ("", "/", "/-/healthy", "/-/ready"):
            answer = requests.get(f"{url}/prometheus{path}", timeout=90, allow_redirects=False)
            assert (answer.status_code, "data source" in answer.text) == (200, True), path

    def test_what_came_in_a_range_is_the_sum_of_its_counts(self, url: str) -> None:
        """A count is that of its own window: nothing is extrapolated, nothing taken for the reset of a counter."""

        def value(query: str) -> float:
            return float(ask(url, "query", query=query, time=SECONDS)["result"][0]["value"][1])

        total = value(f"sum_over_time({CALLS}[20m])")
        assert value(f"increase({CALLS}[20m])") == total
        assert value(f"rate({CALLS}[20m])") == pytest.approx(total / 1200)

    def test_a_month_is_read_from_the_tallies(self, url: str) -> None:
        result = ask(
            url,
            "query_range",
            query=f"count_over_time({CALLS}[1h])",
            start=SECONDS - 30 * 86_400,
            end=SECONDS,
            step=3600,
        )["result"]
        assert result == [{"metric": {"job": "kizami"}, "values": [[SECONDS, "712"]]}]


@pytest.fixture(scope="module")
def reserved_port() -> Iterator[int]:
    with hold_port() as port:
        yield port


@pytest.fixture(scope="module")
def oracle(path: Path, reserved_port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Prometheus with the same samples."""
    source = LocalBackend(path)
    found = [(float(each.count), to_seconds(each.slot) + 5) for each in source.records(CALLS, NOW - DAY, NOW)]
    source.close()
    with prometheus_with({CALLS: found}, reserved_port, tmp_path_factory.mktemp("oracle")) as url:
        yield url


@pytest.mark.parametrize(
    "query",
    [
        "calls",
        'calls{job="kizami"} * 2 + 1',
        "10 - calls",
        "-calls ^ 2",
        "calls / 0",
        "calls offset 7m",
        "sum(calls)",
        "count by (job) (calls)",
        "max without (job) (calls)",
        '{__name__=~"ca.*", job!~"nobody|else"}',
        *(
            f"{function}_over_time(calls[4m])"
            for function in ("avg", "min", "max", "sum", "count", "last", "present")
        ),
        "stddev_over_time(calls[4m])",
        "stdvar_over_time(calls[4m])",
        "quantile_over_time(0.9, calls[4m])",
        "absent_over_time(calls[12s])",
        "avg_over_time(calls[4m] offset 5m) % 3",
        "vector(time()) / 60",
        "calls + calls offset 1m",
        "calls > 5",
        "calls > bool 5",
        "5 <= calls",
        "calls != 3",
        "calls == calls offset 55s",
        "3 > bool vector(2)",
        "topk(1, calls)",
        "avg_over_time(calls[4m:30s])",
        "max_over_time((calls * 2 > 4)[4m:15s] offset 1m)",
        "quantile_over_time(0.5, sum_over_time(calls[57s])[4m:20s])",
        "absent_over_time(calls[12s:5s])",
    ],
)
def test_the_results_are_those_of_prometheus_itself(url: str, oracle: str, query: str) -> None:
    # Between two samples the two agree; at a sample, versions 2 and 3 of Prometheus themselves do not.
    bounds = SECONDS - 600 + 2.5, SECONDS - 5, 10
    expected = range_values(oracle, query, *bounds)
    assert expected
    assert range_values(f"{url}/prometheus", query, *bounds) == expected


@pytest.mark.parametrize("function", ["avg", "min", "max", "sum", "count"])
def test_what_is_read_from_the_tallies_is_the_same_as_from_the_samples(
    url: str, oracle: str, function: str
) -> None:
    query = f"{function}_over_time(calls[20m])"
    found = range_values(f"{url}/prometheus", query, SECONDS - 2400, SECONDS, 600)
    expected = range_values(oracle, query, SECONDS - 2400 + 0.001, SECONDS + 0.001, 600)
    assert found == expected
    assert len(found['{"job": "kizami"}']) == 5


def test_an_instant_query_of_a_range_gives_the_samples(url: str, oracle: str) -> None:
    def samples(server: str) -> list[list[Any]]:
        parameters: dict[str, Any] = {"query": "calls[40s] offset 5m", "time": SECONDS + 1}
        answer = requests.get(f"{server}/api/v1/query", params=parameters, timeout=90).json()["data"]
        assert answer["resultType"] == "matrix"
        return answer["result"][0]["values"]  # type: ignore[no-any-return]

    assert samples(f"{url}/prometheus") == samples(oracle)


class SlowSource(LocalBackend):
    """A backend whose records never end."""

    began, ended = threading.Event(), threading.Event()

    def records(self, metric: str, start: datetime, end: datetime) -> Iterator[MetricRecord]:
        self.began.set()
        try:
            while not self.ended.wait(0.0002):
                yield MetricRecord(metric, start, 1, NOW)
        finally:
            self.ended.set()


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DashboardServer]:
    monkeypatch.setattr(budget, "MAX_SECONDS", 1e6)
    monkeypatch.setattr(SlowSource, "began", threading.Event())
    monkeypatch.setattr(SlowSource, "ended", threading.Event())
    path = build_backend(tmp_path / "kizami.db", NOW)
    with DashboardServer(lambda: SlowSource(path), port=0, clock=FixedClock(NOW)) as server:
        yield server
        SlowSource.ended.set()


SLOW_QUERY = f"/prometheus/api/v1/query?query={CALLS}%5B1m%5D"


def test_the_page_does_not_wait_for_slow_queries(slow: DashboardServer) -> None:
    with contextlib.ExitStack() as opened:
        for _ in range(8):
            asking = opened.enter_context(socket.create_connection(("127.0.0.1", slow.port), timeout=90))
            asking.sendall(f"GET {SLOW_QUERY} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        assert SlowSource.began.wait(90)
        for path in ("/", "/readyz", f"/api/v1/chart?metric={CALLS}"):
            assert requests.get(slow.url + path, timeout=90).status_code == 200
        assert not SlowSource.ended.is_set()


def test_a_query_ends_when_nobody_waits_for_it(slow: DashboardServer) -> None:
    with socket.create_connection(("127.0.0.1", slow.port), timeout=90) as asking:
        asking.sendall(f"GET {SLOW_QUERY} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        assert SlowSource.began.wait(90)
    assert SlowSource.ended.wait(90)


def test_one_question_too_many_is_told_to_come_back(
    slow: DashboardServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend_threads, "MAX_WAITING", 1)
    with socket.create_connection(("127.0.0.1", slow.port), timeout=90) as asking:
        asking.sendall(f"GET {SLOW_QUERY} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        assert SlowSource.began.wait(90)
        assert "waiting already" in ask(slow.url, "query", 503, "unavailable", query=CALLS)
        refused = requests.get(f"{slow.url}/api/v1/targets", timeout=90)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")


def test_a_hostile_label_value_is_escaped(tmp_path: Path, promtool: Path) -> None:
    path = tmp_path / "kizami.db"
    connection = open_database(path, create=True)
    with transaction(connection):
        name = 'a"b\\c\nd'
        connection.execute(
            "INSERT INTO metrics (id, name, interval_seconds, lag_seconds, step_seconds, first_slot)"
            " VALUES (1, ?, 5, 5, 5, ?)",
            (name, SECONDS - 600),
        )
        statements.store(connection, [StoredRow(SECONDS - 5, 1, 3, 0, 0, 1, False)])
    connection.close()
    with DashboardServer(lambda: LocalBackend(path), port=0, clock=FixedClock(NOW + INTERVAL)) as server:
        text = requests.get(f"{server.url}/metrics", timeout=90).text
        assert r'{metric="a\"b\\c\nd"}' in text
        assert run(promtool, "check", "metrics", text=text) == ""
        page = requests.get(server.url, timeout=90)
        assert page.status_code == 200
