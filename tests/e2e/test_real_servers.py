"""Recipes against the servers they are for: events are put in at known times, and both homes count them."""

from __future__ import annotations

import base64
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
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
from programs.fetched_tools import datasette, etcd, influxdb, pouchdb_server, prometheus
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


@contextmanager
def prometheus_server(directory: Path) -> Iterator[str]:
    """A counter that grows by 4 with each scrape, every 15 seconds of the first and the last minute."""
    samples = [
        (START + timedelta(seconds=15 * number), 4 * number) for number in range(13) if number not in (5, 6, 7)
    ]
    text = "".join(f"http_requests_total {value} {to_seconds(at)}\n" for at, value in samples)
    (directory / "samples").write_text(f"# TYPE http_requests_total counter\n{text}# EOF\n")
    (directory / "prometheus.yml").write_text("")
    tools = prometheus()
    promtool = [str(tools / "promtool"), "tsdb", "create-blocks-from", "openmetrics", "--quiet"]
    subprocess.run([*promtool, directory / "samples", directory / "data"], check=True, timeout=60)
    with hold_port() as port:
        options = {
            "config.file": directory / "prometheus.yml",
            "storage.tsdb.path": directory / "data",
            "storage.tsdb.retention.time": "50y",
            "web.listen-address": f"127.0.0.1:{port}",
        }
        command = [str(tools / "prometheus"), *(f"--{name}={value}" for name, value in options.items())]
        with served(command, port, "/-/ready") as url:
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
    """What each home would store."""
    return {
        read_records(ask(target, message), message, target, message.window.end)[0].count
        for ask in (ask_on_one_machine, ask_on_aws)
    }


@pytest.fixture
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both homes find it, each where it looks for one."""
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
def test_both_homes_count_the_events_of_each_minute(name: str, tmp_path: Path) -> None:
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


def test_both_homes_read_the_growth_of_a_counter_in_prometheus(tmp_path: Path) -> None:
    with prometheus_server(tmp_path) as url:
        target = recipe("prometheus", url)
        growth = [counted(target, message_for_slot(START + timedelta(minutes=each), target)) for each in range(5)]
    assert growth[0] == {16}
    assert growth[2] == {16}
    assert growth[4] == {0}  # no sample: no series


def test_both_homes_count_the_keys_that_etcd_has_now(tmp_path: Path) -> None:
    with etcd_server(tmp_path) as url:
        target = recipe("etcd", url)
        message = message_for_slot(floor_to_slot(datetime.now(UTC), target.interval_seconds), target)
        assert counted(target, message) == {0}
        for key in ("YOUR-PREFIX/a", "YOUR-PREFIX/b", "another"):
            body = {"key": base64.b64encode(key.encode()).decode(), "value": ""}
            must(requests.post(f"{url}/v3/kv/put", json=body, timeout=60))
        assert counted(target, message) == {2}
