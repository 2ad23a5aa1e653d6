"""Figures through the API on a real socket over a real database: by the hour or minute, of a zone, compared."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import requests

from kizami.core.epoch import from_seconds
from kizami.core.slots import format_instant
from samples.page_database import CALLS, HOUR_SLOTS, ORDERS, build_backend, served, slot_before

NOW = datetime(2025, 12, 2, 10, 0, 5, tzinfo=UTC)
GONE = {*range(60, 66), 70, 72}
FIRST, LAST = "2025-12-02T09:52:00Z", "2025-12-02T09:56:00Z"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = build_backend(tmp_path_factory.mktemp("figures") / "kizami.db", NOW)
    with served(path, NOW) as server:
        yield server.url


def get(url: str, path: str, status: int = 200, /, **query: str) -> Any:
    answer = requests.get(f"{url}/api/v1/{path}", params=query, timeout=60)
    assert answer.status_code == status, answer.text
    return answer


def counts(start: str, end: str, gone: set[int]) -> list[int]:
    """The counts of the slots of a range."""
    slots = {format_instant(slot_before(NOW, back)): back for back in range(HOUR_SLOTS)}
    return [back % 11 for slot, back in slots.items() if start <= slot < end and back not in gone]


def test_each_stretch_has_its_figures_and_completeness(url: str) -> None:
    found = get(url, "figures", metric=CALLS, every="1m", **{"from": FIRST, "to": LAST}).json()
    (metric,) = found["metrics"]
    assert (found["every"], found["timeZone"], found["compare"]) == ("1m", "UTC", None)
    assert (metric["metricName"], metric["stored"], metric["expected"]) == (CALLS, 40, 48)
    for bucket in metric["buckets"]:
        own = counts(bucket["from"], bucket["to"], GONE)
        assert (bucket["sum"], bucket["min"], bucket["max"]) == (sum(own), min(own), max(own))
        assert bucket["mean"] == round(sum(own) / len(own), 6)
        assert (bucket["stored"], bucket["expected"]) == (len(own), 12)


def test_several_metrics_one_figure_and_a_zone(url: str) -> None:
    found = get(url, "figures", metric=f"{CALLS},注文/*", figures="sum", last="today", tz="Asia/Kathmandu").json()
    assert [metric["metricName"] for metric in found["metrics"]] == [CALLS, ORDERS]
    assert found["from"] == "2025-12-01T18:15:00Z"
    (bucket,) = found["metrics"][1]["buckets"]
    assert set(bucket) == {"from", "to", "stored", "expected", "sum"}
    assert bucket["sum"] == sum(back % 11 for back in range(HOUR_SLOTS))


def test_beside_the_same_time_before(url: str) -> None:
    found = get(url, "figures", metric=CALLS, every="1m", compare="1m", **{"from": FIRST, "to": LAST}).json()
    first, second, *_ = found["metrics"][0]["buckets"]
    assert second["before"] == {name: first[name] for name in second["before"]}
    assert second["change"]["sum"] == second["sum"] - first["sum"]


def test_csv_has_a_line_for_each_stretch(url: str) -> None:
    answer = get(url, "figures", metric=ORDERS, every="5m", figures="max,sum", last="10m", format="csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert list(rows[0]) == ["metricName", "from", "to", "stored", "expected", "max", "sum"]
    assert [(row["metricName"], row["from"][11:16], row["max"]) for row in rows] == [
        (ORDERS, "09:50", "10"),
        (ORDERS, "09:55", "10"),
        (ORDERS, "10:00", "0"),
    ]


def test_the_chart_is_drawn_by_the_hours_of_a_zone_beside_the_same_time_before(url: str) -> None:
    drawn = get(url, "chart", metric=ORDERS, last="6h", every="1h", tz="Asia/Kolkata", compare="30m").json()
    assert [from_seconds(second).minute for second in drawn["time"]] == [30] * len(drawn["time"])
    assert drawn["stored"][-3:] == [0, 359, 361]
    assert drawn["before"]["stored"][-2:] == [0, 360]
    assert sum(value or 0 for value in drawn["sum"]) == sum(back % 11 for back in range(HOUR_SLOTS))
    plain = get(url, "chart", metric=ORDERS, last="15m", compare="15m").json()
    assert (plain["grainSeconds"], len(plain["time"])) == (5, len(plain["before"]["time"]))
    assert get(url, "chart", metric=ORDERS).json()["before"] is None


@pytest.mark.parametrize(
    ("path", "query", "parameter", "words"),
    [
        ("figures", {"every": "7m"}, "every", "does not divide a day"),
        ("figures", {"every": "1s"}, "every", "no multiple of the interval"),
        ("figures", {"tz": "Mars/Base"}, "tz", "is not a time zone like Asia/Tokyo"),
        ("figures", {"compare": "0s"}, "compare", "is not some time before"),
        ("figures", {"figures": "sum,median"}, "figures", "'median' is none of sum, mean, min, max"),
        ("figures", {"from": "2025-12-01T00:00"}, "from", "has no time zone; add Z or an offset"),
        ("figures", {"last": "30mo"}, "last", "is not a duration"),
        ("figures", {"last": "1100w"}, "last", "the range is longer than 7,320 days"),
        ("figures", {"every": "5s", "last": "30d"}, "every", "more than 100,000"),
        ("figures", {"every": "30s", "last": "20d"}, "every", "57,6"),
        ("figures", {"condition": "late"}, "condition", "is not a parameter; known: compare, every, figures"),
        ("chart", {"every": "5m", "last": "30d"}, "every", "8,641 points are more than 1,500"),
        ("chart", {"tz": "nowhere"}, "tz", "is not a time zone"),
        ("records", {"last": "5 parsecs"}, "last", "is not a duration like 30s, 5min, 1h30m or 7d"),
    ],
)
def test_a_mistake_is_named(url: str, path: str, query: dict[str, str], parameter: str, words: str) -> None:
    problem = get(url, path, 400, metric=CALLS, **query).json()
    assert problem["parameter"] == parameter
    assert words in problem["detail"]


def test_an_unknown_metric_is_not_found_and_a_missing_one_asked_for(url: str) -> None:
    assert "was never polled here" in get(url, "figures", 404, metric="nobody/*").json()["detail"]
    assert get(url, "figures", 400).json()["parameter"] == "metric"


def test_times_in_peoples_words_are_read_by_every_list(url: str) -> None:
    hour = {"from": "today 09:30", "to": "today 09:40"}
    found = get(url, "records", metric=ORDERS, limit="5000", **hour).json()["items"]
    assert len(found) == 120
    assert found[0]["slotTime"] == "2025-12-02T09:30:00Z"
    assert len(get(url, "records", metric=ORDERS, limit="5000", last="1h30m").json()["items"]) == HOUR_SLOTS
    assert get(url, "gaps", **{"from": "2025-12-02T18:00", "to": "now", "tz": "Asia/Tokyo"}).json()["items"]
    assert NOW - timedelta(hours=1) == slot_before(NOW, HOUR_SLOTS - 1)
