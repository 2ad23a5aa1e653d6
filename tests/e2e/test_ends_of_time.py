"""The ends of time, in every zone, wherever somebody may ask for a time: one line or a 4xx, never a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import requests

from kizami.cli.exit_codes import CHECK_FAILED, CONFIGURATION, FAILURE, OK, UNREACHABLE, USAGE
from kizami.mock_api.server import MockServer
from kizami.web.server import DashboardServer
from programs.command import Command
from samples.database import at, bury_slots, make_database
from samples.page_database import served

FIRST, LAST = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"
TIMES = [
    *(FIRST, "0001-01-01", "0001-01-02 00:00", "0001-01-01T00:00:00+14:00", "0000-01-01T00:00:00Z"),
    *(LAST, "9999-12-31", "9999-12-30 23:00", "9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59.999999Z"),
    *("10000-01-01T00:00:00Z", "-999999999d", "-2024y"),
]
LASTS = ["999999999d", "738000d", "17760000h"]
# With rules of summer time for ever, now ahead of UTC and once behind it, and as far as an offset goes.
ZONES = ["Europe/Berlin", "Pacific/Kiritimati", "UTC", "Etc/GMT+12", "+23:59", "-23:59"]
RANGES: list[dict[str, str]] = [
    *({"from": each} for each in TIMES),
    *({"to": each} for each in TIMES),
    *({"from": each, "to": "2025-12-02T10:00:00Z"} for each in TIMES),
    *({"from": "2025-12-02T10:00:00Z", "to": each} for each in TIMES),
    *({"from": one, "to": other} for one, other in product((FIRST, LAST), repeat=2)),
    *({"last": each} for each in LASTS),
]
VERBS = [
    ("query", "calls", "--json"),
    ("chart", "calls"),
    ("chart", "calls", "--every", "1d", "--json"),
    ("gaps", "calls"),
    ("export", "calls", "--format", "csv", "-o", "-"),
    ("backfill", "calls", "--dry-run"),
    ("backfill", "--gaps", "--dry-run"),
    ("dead-letters", "list", "--json"),
]
ENDINGS = {OK, FAILURE, USAGE, CONFIGURATION, UNREACHABLE, CHECK_FAILED}


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("ends")
    make_database(directory / "kizami.db", {"calls": range(1440)})
    bury_slots(directory / "kizami.db", "calls", [1441], "status 500", at(1500))
    (directory / "kizami.toml").write_text('[[targets]]\nname = "calls"\nurl = "http://127.0.0.1:9"\n')
    return directory


@pytest.fixture
def kizami(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, backend: Path) -> Command:
    monkeypatch.chdir(backend)
    return Command(capsys)


def assert_one_line_or_well(kizami: Command, *arguments: str) -> None:
    found = kizami(*arguments)  # which ends by SystemExit, else the test does
    assert found.code in ENDINGS, arguments
    assert "Traceback" not in found.err, arguments
    if found.code != OK:
        assert found.err.count("\n") == 1, (arguments, found.err)


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_that_takes_a_range(kizami: Command, verb: tuple[str, ...]) -> None:
    for wanted, zone in product(RANGES, ZONES[:3]):
        options = [f"--{name}={text}" for name, text in wanted.items()]
        assert_one_line_or_well(kizami, *verb, *options, f"--tz={zone}")


def test_the_line_names_the_option_and_the_moment(kizami: Command) -> None:
    found = kizami("query", "calls", "--from", LAST, "--tz", "Europe/Berlin")
    assert (found.code, found.out, found.err.count("\n")) == (USAGE, "", 1)
    assert f"--from: nothing is due yet from {LAST} on" in found.err


@pytest.mark.parametrize("zone", ZONES)
def test_every_verb_that_takes_a_moment(kizami: Command, zone: str) -> None:
    for moment in TIMES:
        assert_one_line_or_well(kizami, "dead-letters", "show", "calls", f"--tz={zone}", "--", moment)
        assert_one_line_or_well(kizami, "try", "calls", f"--at={moment}", f"--tz={zone}")
        statement = f"SELECT count(*) FROM records WHERE slot >= '{moment}' AND slot < ago('{moment.strip('-')}')"
        assert_one_line_or_well(kizami, "sql", statement)


@pytest.fixture(scope="module")
def server(backend: Path) -> Iterator[DashboardServer]:
    with served(backend / "kizami.db", at(1440)) as server:
        yield server


def ask(url: str, query: dict[str, Any]) -> None:
    answer = requests.get(url, params=query, timeout=90)
    assert answer.status_code < 500, (url, query, answer.text[:300])


@pytest.mark.parametrize(
    "path",
    [
        *(f"/api/v1/{name}" for name in ("chart", "figures", "records", "slots", "gaps", "calendar")),
        *("/", "/targets/calls", "/calendar", "/api/v1/records?format=csv", "/api/v1/chart?every=1d"),
        *("/api/v1/chart?compare=week", "/api/v1/figures?every=1mo"),
    ],
)
def test_every_page_and_list_that_takes_a_range(server: DashboardServer, path: str) -> None:
    for wanted, zone in product(RANGES, ZONES[:3]):
        ask(f"{server.url}{path}", {"metric": "calls", "tz": zone, **wanted})


@pytest.mark.parametrize("expression", ["calls", "rate(calls[9999y])", "calls offset 9000y", "timestamp(calls)"])
def test_the_prometheus_api(server: DashboardServer, expression: str) -> None:
    moments = [FIRST, LAST, "-62135596800", "253402300799.999", "253402300800", "-62135596801", "1e308", "nan"]
    for moment in moments:
        ask(f"{server.url}/prometheus/api/v1/query", {"query": expression, "time": moment})
    for start, end in product(moments, repeat=2):
        query = {"query": expression, "start": start, "end": end, "step": "1e6"}
        ask(f"{server.url}/prometheus/api/v1/query_range", query)
        ask(f"{server.url}/prometheus/api/v1/series", {"match[]": "calls", "start": start, "end": end})


def test_the_actions(server: DashboardServer) -> None:
    orders: list[tuple[str, dict[str, Any]]] = [
        *(("backfill", {"metrics": ["calls"], **wanted}) for wanted in RANGES),
        *(("incidents/silence", {"incident": 1, "by": "x", "minutes": each}) for each in (10**18, 10**10, -1)),
        *(("dead-letters/redrive", {"metric": "calls", "slots": [each]}) for each in TIMES),
    ]
    for path, body in orders:
        url = f"{server.url}/api/v1/{path}"
        answer = requests.post(url, json=body, headers={"Origin": server.url}, timeout=90)
        assert answer.status_code < 500, (path, body, answer.text)


def test_the_mock_api() -> None:
    with MockServer(port=0) as mock:
        for start, end in product(
            [FIRST, LAST, "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"], repeat=2
        ):
            ask(f"{mock.url}/response_count", {"from": start, "to": end})
