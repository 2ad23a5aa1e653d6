"""The batch on schedule in `kizami up`: the [aggregation] table, and the thread that goes by it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import fakes.fault_server as faults
from fakes.fault_server import FaultServer
from kizami.aggregation import scheduled_runs
from kizami.aggregation.schedule import AggregationSchedule, ScheduledCompany, next_run
from kizami.aggregation.scheduled_runs import ScheduledAggregation
from kizami.aggregation.stores.sqlite import SqliteLockStore, SqlitePointStore
from kizami.aggregation.users_api import API_TIMEOUT_SECONDS
from kizami.core.config import parse_config
from kizami.core.errors import ConfigurationError
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import MOCK_API_URL
from kizami.local.store.database import open_database
from kizami.mock_api.server import MockServer
from kizami.mock_api.users import users_key
from kizami.platform.clock import SystemClock

TARGETS = '[[targets]]\nname = "count"\nurl = "http://127.0.0.1:9"\n'
TOKYO = ZoneInfo("Asia/Tokyo")


def parse(text: str) -> AggregationSchedule | None:
    return parse_config(TARGETS + text).aggregation


def test_without_the_table_nothing_is_scheduled() -> None:
    assert parse("") is None


def test_the_mock_needs_no_more_than_a_company() -> None:
    assert parse('[[aggregation.companies]]\nid = "acme"') == AggregationSchedule(
        (ScheduledCompany("acme", None),), 3600, MOCK_API_URL, TOKYO
    )


def test_a_whole_table() -> None:
    text = """
    [aggregation]
    url = "https://users.example.com/v1"
    every = "15m"
    time_zone = "Europe/Berlin"
    companies = [{ id = "acme", key = "env:ACME_KEY" }, { id = "株式会社", key = "file:/run/secrets/key" }]
    """
    assert parse(text) == AggregationSchedule(
        (
            ScheduledCompany("acme", SecretReference("env", "ACME_KEY")),
            ScheduledCompany("株式会社", SecretReference("file", "/run/secrets/key")),
        ),
        900,
        "https://users.example.com/v1",
        ZoneInfo("Europe/Berlin"),
    )


COMPANY = '[[aggregation.companies]]\nid = "acme"\nkey = "env:KEY"\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("aggregation = 1", "aggregation: must be one table"),
        ("[aggregation]", "aggregation: needs at least one"),
        ("[aggregation]\ncompanies = []", "aggregation: needs at least one"),
        ("[aggregation]\ncompanies = [1]", "aggregation.companies[0]: must be a table"),
        ('[aggregation]\nevry = "1h"\n' + COMPANY, "aggregation: evry: is not a setting"),
        ('[aggregation]\nevery = "1s"\n' + COMPANY, "aggregation.every: must be from 1m to 24h"),
        ('[aggregation]\nevery = "2d"\n' + COMPANY, "aggregation.every: must be from 1m to 24h"),
        ('[aggregation]\nevery = "often"\n' + COMPANY, "aggregation.every: 'often' is not a duration"),
        ('[aggregation]\nurl = "users"\n' + COMPANY, "aggregation.url: must be"),
        ("[aggregation]\nurl = 7\n" + COMPANY, "aggregation.url: must be"),
        ('[aggregation]\ntime_zone = "Mars"\n' + COMPANY, "aggregation.time_zone: 'Mars' is not a time zone"),
        ("[[aggregation.companies]]\n", "aggregation.companies[0].id: is not 1 to 128"),
        ('[[aggregation.companies]]\nid = "a b"', "aggregation.companies[0].id: is not 1 to 128"),
        ('[[aggregation.companies]]\nid = "a"\nname = 1', "aggregation.companies[0]: name: is not a setting"),
        (
            '[[aggregation.companies]]\nid = "a"\nkey = "canary"',
            "aggregation.companies[0].key: must be a",
        ),
        ('[[aggregation.companies]]\nid = "a"\nkey = "env:a canary"', "aggregation.companies[0].key: must name a"),
        (
            '[aggregation]\nurl = "https://u.example.com"\ncompanies = [{ id = "a" }]',
            "aggregation.companies[0].key: is required",
        ),
        (COMPANY + COMPANY, "aggregation.companies[1].id: is there twice"),
    ],
)
def test_a_mistake_names_its_place_and_shows_no_key(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_config(text + "\n" + TARGETS if text.startswith("aggregation =") else TARGETS + text)
    assert str(caught.value).startswith(f"kizami.toml: {problem}")
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("after", "every", "due"),
    [
        ("2025-12-02T10:23:05Z", 3600, "2025-12-02T11:00:00Z"),
        ("2025-12-02T11:00:00Z", 3600, "2025-12-02T12:00:00Z"),
        ("2025-12-02T10:23:05.5Z", 60, "2025-12-02T10:24:00Z"),
        ("2025-12-02T10:23:05Z", 86_400, "2025-12-03T00:00:00Z"),
    ],
)
def test_runs_are_due_at_multiples_of_every(after: str, every: int, due: str) -> None:
    assert next_run(datetime.fromisoformat(after), every) == datetime.fromisoformat(due)


class FastClock:
    """A wall clock on which a minute passes in a twentieth of a second."""

    def __init__(self) -> None:
        self._start, self._from = time.monotonic(), datetime(2025, 12, 2, 3, 0, tzinfo=UTC)

    def turn(self, by: timedelta) -> None:
        self._from += by

    def now(self) -> datetime:
        return self._from + timedelta(seconds=(time.monotonic() - self._start) * 1200)

    def milliseconds(self) -> float:
        return self.now().timestamp() * 1000


@pytest.fixture(scope="module")
def server() -> Iterator[MockServer]:
    with MockServer(port=0) as server:
        yield server


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KEY", "mock-aggregation-key")
    return tmp_path / "kizami.db"


def schedule(url: str, *companies: str, every_seconds: int = 3600) -> AggregationSchedule:
    key = SecretReference("env", "KEY")
    return AggregationSchedule(tuple(ScheduledCompany(name, key) for name in companies), every_seconds, url, TOKYO)


def wait_until(condition: Callable[[], Any], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def total(database: Path, company: str) -> int:
    if not database.exists():
        return 0
    connection = open_database(database)
    try:
        store = SqlitePointStore(connection, database)
        now = datetime.now(TOKYO)  # a month may have begun meanwhile
        months = {now.strftime("%Y%m"), (now - timedelta(hours=1)).strftime("%Y%m"), "202512"}
        return sum(item.points for month in months for item in store.points(company, month))
    finally:
        connection.close()


def test_every_company_is_run_as_soon_as_there_is_a_schedule(server: MockServer, database: Path) -> None:
    scheduled = ScheduledAggregation(database, SystemClock())
    scheduled.use(schedule(server.url, "acme-4", "acme-8"))
    wait_until(lambda: (total(database, "acme-4"), total(database, "acme-8")) == (2, 4))
    scheduled.close()


def test_it_is_run_again_when_the_wall_clock_says_so(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The users API is asked at the start and then every minute of a clock that no timer keeps up with."""
    monkeypatch.setattr("kizami.aggregation.scheduled_runs._LOOK_SECONDS", 0.01)
    with FaultServer(faults.raw(b'{"users": []}')) as api:
        scheduled = ScheduledAggregation(database, FastClock())
        scheduled.use(schedule(api.url, "acme", every_seconds=60))
        wait_until(lambda: len(api.requests) >= 3)
        scheduled.close()
    asked = [int(request.query["timestamp"][0]) for request in api.requests]
    assert all(later // 60 > earlier // 60 for earlier, later in pairwise(asked))


def test_a_clock_that_was_ahead_is_followed_when_it_is_set_right(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run is of the right clock, not a day later."""
    monkeypatch.setattr("kizami.aggregation.scheduled_runs._LOOK_SECONDS", 0.01)
    clock = FastClock()
    with FaultServer(faults.raw(b'{"users": []}')) as api:
        clock.turn(timedelta(days=1))
        scheduled = ScheduledAggregation(database, clock)
        scheduled.use(schedule(api.url, "acme", every_seconds=60))
        wait_until(lambda: len(api.requests) >= 2)
        clock.turn(timedelta(days=-1))
        asked = len(api.requests)
        wait_until(lambda: len(api.requests) >= asked + 3)
        scheduled.close()


def test_a_new_schedule_is_gone_by_at_once_and_none_is_not_to_run(server: MockServer, database: Path) -> None:
    scheduled = ScheduledAggregation(database, SystemClock())
    scheduled.use(None)
    scheduled.use(schedule(server.url, "acme-4"))
    wait_until(lambda: total(database, "acme-4") == 2)
    scheduled.use(None)
    scheduled.use(schedule(server.url, "other-4"))
    wait_until(lambda: total(database, "other-4") == 2)
    scheduled.close()


def test_a_company_that_fails_does_not_keep_the_others_from_their_points(
    server: MockServer, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    companies = (ScheduledCompany("wrong", SecretReference("env", "NOPE")),
                 ScheduledCompany("acme-4", SecretReference("env", "KEY")))  # fmt: skip
    scheduled = ScheduledAggregation(database, SystemClock())
    scheduled.use(AggregationSchedule(companies, 3600, server.url, TOKYO))
    wait_until(lambda: total(database, "acme-4") == 2)
    scheduled.close()
    assert total(database, "wrong") == 0


def test_a_surprise_is_logged_and_the_schedule_goes_on(
    server: MockServer, database: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    look_up = users_key
    surprises = iter([RuntimeError("who would have thought")])

    def surprising_key(environment: Any) -> Any:
        for surprise in surprises:
            raise surprise
        return look_up(environment)

    monkeypatch.setattr(scheduled_runs, "users_key", surprising_key)
    companies = tuple(ScheduledCompany(name, None) for name in ("odd-4", "acme-4"))
    scheduled = ScheduledAggregation(database, SystemClock())
    scheduled.use(AggregationSchedule(companies, 3600, server.url, TOKYO))
    wait_until(lambda: total(database, "acme-4") == 2)
    scheduled.close()
    (line,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert line.exc_info is not None
    assert line.exc_info[0] is RuntimeError
    assert (vars(line)["event"], vars(line)["companyId"]) == ("aggregation.not_run", "odd-4")


def test_closing_does_not_wait_for_an_api_that_hangs(database: Path) -> None:
    with FaultServer(faults.hang_before_headers) as hanging:
        scheduled = ScheduledAggregation(database, SystemClock())
        scheduled.use(schedule(hanging.url, "acme"))
        wait_until(lambda: hanging.requests)
        started = time.monotonic()
        scheduled.close()
        assert time.monotonic() - started < API_TIMEOUT_SECONDS / 2


def test_kizami_up_runs_it_beside_the_pipeline_and_stops_in_time(server: MockServer, tmp_path: Path) -> None:
    (tmp_path / "kizami.toml").write_text(
        f'[[targets]]\nname = "count"\nurl = "{server.url}"\n'
        f'[aggregation]\nurl = "{server.url}"\ncompanies = [{{ id = "acme-4", key = "env:KEY" }}]\n'
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "KEY": "mock-aggregation-key"}
    command = [sys.executable, "-m", "kizami.cli.main", "up", "--no-mock", "--no-rows", "--no-dashboard"]
    log = tmp_path / "log"
    with log.open("w") as stderr:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=stderr)
    try:
        # Its points are there a little before its end is, and a stop in between may cut that short.
        wait_until(lambda: "aggregation completed" in log.read_text() or process.poll() is not None)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (ended,) = [line for line in lines if line["message"] == "aggregation completed"]
    assert total(tmp_path / "kizami.db", "acme-4") == 2
    assert (ended["companyId"], ended["code"], ended["granted"]) == ("acme-4", "AGGREGATION-012", 2)
    connection = open_database(tmp_path / "kizami.db")
    assert SqliteLockStore(connection, tmp_path / "kizami.db").read("acme-4") is None
    connection.close()
