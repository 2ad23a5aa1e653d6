"""Recipes against the servers they are for: events are put in at known times, and both backends count them."""

from __future__ import annotations

import base64
import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests

from kizami.aws.client import secrets
from kizami.core.collector import read_records
from kizami.core.config import parse_config
from kizami.core.epoch import to_seconds
from kizami.core.errors import ApiError
from kizami.core.messages import ScheduleMessage
from kizami.core.sender import message_for_slot
from kizami.core.slots import floor_to_slot
from kizami.core.targets.target import Target
from kizami.recipes.catalogue import read_recipe
from programs.both_clients import ask_on_aws, ask_on_one_machine
from programs.command import environment
from programs.fetched_tools import (
    JSON_SERVER,
    JSON_SERVERS_1,
    datasette,
    etcd,
    influxdb,
    json_server,
    pouchdb_server,
    prometheus,
    prometheus_3,
    victoria_metrics,
)
from programs.local_processes import hold_port, running, wait_for
from samples.recipe_answers import pointed_at, secret_of

START = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
# So many events in each minute: some, none, and one at its very beginning.
MINUTES = {0: (0, 20, 59), 1: (), 2: (0,)}
EVENTS = [START + timedelta(minutes=minute, seconds=second) for minute in MINUTES for second in MINUTES[minute]]


@contextmanager
def served(command: list[str], port: int, path: str = "/", **variables: str) -> Iterator[str]:
    """A server that is ready as soon as it answers at `path`."""
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool | None:
        try:
            return requests.get(url + path, timeout=10).ok or None
        except requests.ConnectionError:
            return None

    with running(command, environment(**variables)) as words:
        wait_for(answers, words)
        yield url


def must(answer: requests.Response) -> Any:
    assert answer.ok, answer.text
    return answer


@contextmanager
def influxdb_server(directory: Path) -> Iterator[str]:
    with hold_port() as port, hold_port() as other:
        config = directory / "influxdb.conf"
        config.write_text(
            f'reporting-disabled = true\nbind-address = "127.0.0.1:{other}"\n[meta]\ndir = "{directory}/meta"\n'
            f'[data]\ndir = "{directory}/data"\nwal-dir = "{directory}/wal"\n[monitor]\nstore-enabled = false\n'
            f'[http]\nbind-address = "127.0.0.1:{port}"\n'
        )
        with served([str(influxdb() / "influxd"), "-config", str(config)], port, "/ping") as url:
            must(requests.post(f"{url}/query", params={"q": "CREATE DATABASE events"}, timeout=60))
            lines = "\n".join(f"visits n={number} {to_seconds(at)}" for number, at in enumerate(EVENTS))
            must(requests.post(f"{url}/write", params={"db": "events", "precision": "s"}, data=lines, timeout=60))
            yield url


@contextmanager
def datasette_server(directory: Path) -> Iterator[str]:
    database = directory / "events.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE visits (at TEXT)")
        connection.executemany("INSERT INTO visits VALUES (?)", [(f"{at:%Y-%m-%dT%H:%M:%SZ}",) for at in EVENTS])
    connection.close()
    with hold_port() as port:
        command = [sys.executable, "-m", "datasette", "serve", str(database), "--port", str(port)]
        with served(command, port, "/-/versions.json", PYTHONPATH=str(datasette()), HOME=str(directory)) as url:
            yield url


@contextmanager
def couchdb_server(directory: Path) -> Iterator[str]:
    script = pouchdb_server()
    with hold_port() as port:
        options = ["--in-memory", "--host", "127.0.0.1", "--port", str(port), "--dir", str(directory)]
        command = ["sh", "-c", f'cd "{directory}" && exec node "{script}" "$@"', "sh", *options]
        with served(command, port) as url:
            me = ("me", secret_of("COUCHDB_PASSWORD"))
            must(requests.put(f"{url}/_config/admins/me", json=me[1], timeout=60))
            must(requests.put(f"{url}/events", auth=me, timeout=60))
            view = {"map": "function (doc) { if (doc.at) { emit(doc.at); } }", "reduce": "_count"}
            design = {"views": {"by_time": view}}
            must(requests.put(f"{url}/events/_design/visits", json=design, auth=me, timeout=60))
            documents = [{"at": f"{at:%Y-%m-%dT%H:%M:%SZ}"} for at in EVENTS]
            must(requests.post(f"{url}/events/_bulk_docs", json={"docs": documents}, auth=me, timeout=60))
            yield url


@contextmanager
def etcd_server(directory: Path) -> Iterator[str]:
    with hold_port() as port, hold_port() as peer:
        addresses = {
            "listen-client-urls": port,
            "advertise-client-urls": port,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
        }
        options = [f"--{name}=http://127.0.0.1:{number}" for name, number in addresses.items()]
        cluster = [f"--initial-cluster=default=http://127.0.0.1:{peer}", f"--data-dir={directory}/etcd"]
        command = [str(etcd() / "etcd"), *options, *cluster, "--unsafe-no-fsync", "--log-level=error"]
        with served(command, port, "/health") as url:
            yield url


# A counter that has grown by one at each of these moments, of which some are the first and the last of a minute.
GROWTH = {-1: 1, 0: 3, 1: 0, 2: 1, 3: 1}
GROWN_AT = [START - timedelta(seconds=1), *EVENTS, START + timedelta(minutes=3)]


def counter(scrape: timedelta, each: int = 1, restarts: datetime | None = None) -> str:
    """Its samples, as Prometheus' text format writes them, from ten minutes before to five minutes after.

    It grows by `each`, and from the moment on at which its program restarts it has grown from 0.
    """
    first = START - timedelta(minutes=10)
    moments = [first + number * scrape for number in range(timedelta(minutes=15) // scrape)]
    lines = []
    for at in moments:
        since, before = (restarts, 0) if restarts and restarts <= at else (first, 10**6)
        grown = sum(since < moment <= at for moment in GROWN_AT)
        lines.append(f"http_requests_total {before + each * grown} {at.timestamp():.3f}\n")
    return "".join(lines)


@contextmanager
def prometheus_server(directory: Path, samples: str, programs: Callable[[], Path] = prometheus) -> Iterator[str]:
    (directory / "samples").write_text(f"# TYPE http_requests_total counter\n{samples}# EOF\n")
    (directory / "prometheus.yml").write_text("")
    promtool = [str(prometheus() / "promtool"), "tsdb", "create-blocks-from", "openmetrics", "--quiet"]
    subprocess.run([*promtool, directory / "samples", directory / "data"], check=True, timeout=60)
    with hold_port() as port:
        options = {
            "config.file": directory / "prometheus.yml",
            "storage.tsdb.path": directory / "data",
            "storage.tsdb.retention.time": "50y",
            "web.listen-address": f"127.0.0.1:{port}",
        }
        command = [str(programs() / "prometheus"), *(f"--{name}={value}" for name, value in options.items())]
        with served(command, port, "/-/ready") as url:
            yield url


@contextmanager
def victoriametrics_server(directory: Path, samples: str) -> Iterator[str]:
    with hold_port() as port:
        options = {"storageDataPath": directory / "data", "retentionPeriod": "50y"}
        options["httpListenAddr"] = f"127.0.0.1:{port}"
        program = victoria_metrics() / "victoria-metrics"
        with served(
            [str(program), *(f"-{name}={value}" for name, value in options.items())], port, "/health"
        ) as url:
            in_milliseconds = re.sub(r"\.(\d{3})$", r"\1", samples, flags=re.MULTILINE)
            must(requests.post(f"{url}/api/v1/import/prometheus", data=in_milliseconds, timeout=60))
            must(requests.get(f"{url}/internal/force_flush", timeout=60))
            yield url


@contextmanager
def json_server_of(package: str, directory: Path) -> Iterator[str]:
    (directory / "db.json").write_text(
        json.dumps(
            {"events": [{"id": f"{number}", "at": f"{at:%Y-%m-%dT%H:%M:%SZ}"} for number, at in enumerate(EVENTS)]}
        )
    )
    with hold_port() as port:
        command = ["node", str(json_server(package)), "--host", "127.0.0.1", "--port", str(port)]
        with served([*command, str(directory / "db.json")], port, "/events") as url:
            yield url


def recipe(name: str, url: str, **filled_in: str) -> Target:
    """The recipe, pointed at the server, with what is to be filled in."""
    text = pointed_at(url, read_recipe(name).text)
    for place, value in filled_in.items():
        assert place.replace("_", "-") in text
        text = text.replace(place.replace("_", "-"), value)
    (target,) = parse_config(text).targets
    return target


def counted(target: Target, message: ScheduleMessage) -> set[float]:
    """What each backend would store."""
    return {
        read_records(ask(target, message), message, target, message.window.end)[0].count
        for ask in (ask_on_one_machine, ask_on_aws)
    }


@pytest.fixture
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both backends find it, each where it looks for one."""
    monkeypatch.setattr(secrets, "_fetch", lambda reference: secret_of(reference.name))
    for name in ("INFLUX_PASSWORD", "COUCHDB_PASSWORD"):
        monkeypatch.setenv(name, secret_of(name))


Server = Callable[[Path], Any]
YOURS: dict[str, tuple[Server, Mapping[str, str]]] = {
    "influxdb": (
        influxdb_server,
        {"YOUR_DATABASE": "events", "YOUR_MEASUREMENT": "visits", "YOUR_FIELD": "n", "YOUR_USER": "me"},
    ),
    "datasette": (datasette_server, {"YOUR_DATABASE": "events", "YOUR_TABLE": "visits"}),
    "couchdb": (
        couchdb_server,
        {"YOUR_DATABASE": "events", "YOUR_DESIGN": "visits", "YOUR_VIEW": "by_time", "YOUR_USER": "me"},
    ),
}


@pytest.mark.usefixtures("password")
@pytest.mark.parametrize("name", YOURS)
def test_both_backends_count_the_events_of_each_minute(name: str, tmp_path: Path) -> None:
    server, filled_in = YOURS[name]
    with server(tmp_path) as url:
        target = recipe(name, url, **filled_in)
        for minute, seconds in MINUTES.items():
            message = message_for_slot(START + timedelta(minutes=minute), target)
            assert counted(target, message) == {len(seconds)}
        wrong = recipe(name, url, **{**filled_in, "YOUR_DATABASE": "nothing-of-that-name"})
        for ask in (ask_on_one_machine, ask_on_aws):
            with pytest.raises(ApiError):
                read_records(ask(wrong, message), message, wrong, message.window.end)


SECOND = timedelta(seconds=1)
GROWING: dict[str, tuple[str, Callable[..., Any]]] = {
    "prometheus": ("prometheus", prometheus_server),
    "prometheus 3": ("prometheus", partial(prometheus_server, programs=prometheus_3)),
    "victoriametrics": ("victoriametrics", victoriametrics_server),
}


@pytest.mark.parametrize("name", GROWING)
def test_both_backends_count_a_counters_growth_from_the_first_moment_of_a_minute_to_its_last(
    name: str, tmp_path: Path
) -> None:
    of_recipe, server = GROWING[name]
    with server(tmp_path, counter(SECOND)) as url:
        target = recipe(of_recipe, url)
        growth = {each: counted(target, message_of(each, target)) for each in (*GROWTH, 60)}
    assert growth == {each: {number} for each, number in GROWTH.items()} | {60: {0}}  # no sample: no series


@pytest.mark.parametrize("name", GROWING)
def test_of_a_counter_that_is_read_seldom_nothing_is_lost_or_counted_twice(name: str, tmp_path: Path) -> None:
    of_recipe, server = GROWING[name]
    with server(tmp_path, counter(timedelta(seconds=15, milliseconds=250))) as url:
        target = recipe(of_recipe, url)
        growth = [counted(target, message_of(each, target)) for each in range(-2, 5)]
    assert sum(number for numbers in growth for number in numbers) == len(GROWN_AT)
    assert all(len(numbers) == 1 for numbers in growth)


@pytest.mark.parametrize("name", GROWING)
def test_large_growth_is_exact_and_a_restart_of_the_program_loses_nothing(name: str, tmp_path: Path) -> None:
    of_recipe, server = GROWING[name]
    with server(tmp_path, counter(SECOND, each=100_000, restarts=START + timedelta(seconds=90))) as url:
        target = recipe(of_recipe, url)
        growth = {each: counted(target, message_of(each, target)) for each in (-1, 0, 1)}
        after = [counted(target, message_of(each, target)) for each in (2, 3)]
    assert growth == {-1: {100_000}, 0: {300_000}, 1: {0}}
    # A counter at 0 is known not to have grown before, so Prometheus takes the millisecond off its window itself.
    assert all(abs(number - 100_000) <= 2 for numbers in after for number in numbers)


def message_of(minute: int, target: Target) -> ScheduleMessage:
    return message_for_slot(START + timedelta(minutes=minute), target)


@pytest.mark.parametrize("package", [JSON_SERVER, *JSON_SERVERS_1])
def test_both_backends_count_the_items_of_each_minute_in_json_server(package: str, tmp_path: Path) -> None:
    with json_server_of(package, tmp_path) as url:
        target = recipe("json-server" if package == JSON_SERVER else "json-server-1", url)
        found = {minute: counted(target, message_of(minute, target)) for minute in MINUTES}
    assert found == {minute: {len(seconds)} for minute, seconds in MINUTES.items()}


def test_the_recipe_of_json_server_1_names_the_oldest_version_that_it_counts_with() -> None:
    oldest = JSON_SERVERS_1[0].partition("@")[2]
    assert f"json-server {oldest} or newer" in read_recipe("json-server-1").counts


def test_both_backends_count_the_keys_that_etcd_has_now(tmp_path: Path) -> None:
    with etcd_server(tmp_path) as url:
        target = recipe("etcd", url)
        message = message_for_slot(floor_to_slot(datetime.now(UTC), target.interval_seconds), target)
        assert counted(target, message) == {0}
        for key in ("YOUR-PREFIX/a", "YOUR-PREFIX/b", "another"):
            body = {"key": base64.b64encode(key.encode()).decode(), "value": ""}
            must(requests.post(f"{url}/v3/kv/put", json=body, timeout=60))
        assert counted(target, message) == {2}
