"""Live updates: what has changed reaches every open page, and no page can hold up the others or the collecting."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
import requests

from kizami.backend.snapshot import take_snapshot
from kizami.core.epoch import to_ms, to_seconds
from kizami.local.backend import LocalBackend
from kizami.local.daemon_lock import UP, sole_daemon
from kizami.local.store import statements
from kizami.local.store.database import open_database, transaction
from kizami.local.store.rows import StoredRow
from kizami.web.live import TICK_SECONDS
from kizami.web.server import DashboardServer
from programs.daemon import PATIENCE_SECONDS, wait_for
from samples.page_database import (
    CALLS,
    INTERVAL,
    ORDERS,
    FixedClock,
    RunningClock,
    build_backend,
    slot_before,
    this_slot,
)

PAGES = 50


class CountingSource(LocalBackend):
    """Counts how often anybody looks."""

    looks = 0

    def queue_depth(self, now: Any) -> Any:
        type(self).looks += 1
        return super().queue_depth(now)


class Backend:
    """A dashboard over a database that the test writes to."""

    def __init__(self, server: DashboardServer, path: Path, clock: FixedClock) -> None:
        self.server, self.path, self.clock = server, path, clock

    def store(self, back: int, count: int = 3) -> None:
        """Let a slot of `calls` be stored, as if it had just been collected."""
        connection = open_database(self.path)
        with transaction(connection):
            number = LocalBackend(self.path)._reader.metrics()[CALLS].id
            slot = slot_before(self.clock.now(), back)
            row = StoredRow(to_seconds(slot), number, count, to_ms(slot + INTERVAL), 0, 1, False)
            statements.store(connection, [row])
        connection.close()


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    clock = FixedClock(this_slot())
    path = build_backend(tmp_path / "kizami.db", clock.now())
    CountingSource.looks = 0
    with sole_daemon(path, UP), DashboardServer(lambda: CountingSource(path), port=0, clock=clock) as server:
        yield Backend(server, path, clock)


class Page:
    """An open page: the events of one EventSource."""

    def __init__(self, url: str, **query: str) -> None:
        self._connection = HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_SECONDS)
        self._connection.request("GET", f"/api/v1/live?{urlencode(query)}")
        self._answer = self._connection.getresponse()
        assert self._answer.headers["content-type"].startswith("text/event-stream")

    def next(self) -> tuple[str, dict[str, Any]]:
        kind = ""
        while line := self._answer.readline().decode():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ").strip()
            elif line.startswith("data: "):
                return kind, json.loads(line.removeprefix("data: "))
        raise EOFError

    def close(self) -> None:
        self._answer.close()
        self._connection.close()


def test_a_page_is_told_everything_first_and_then_only_what_has_changed(backend: Backend) -> None:
    with closing(Page(backend.server.url, metric=CALLS)) as page:
        kind, first = page.next()
        assert kind == "page"
        assert {"verdict", "tile-day", "episodes", "target-head", "grid-head"} <= first["parts"].keys()
        assert list(first["rows"]) == first["order"]
        assert first["order"] == sorted(first["order"], reverse=True)
        backend.store(72)
        _, second = page.next()  # nothing is told while nothing changes
        while not second["rows"]:
            _, second = page.next()
        assert len(second["rows"]) == 1
        assert (
            {"grid-head", "tile-day"}
            <= second["parts"].keys()
            <= {"grid-head", "tile-day", "tile-hour", "verdict"}
        )
        assert second["holes"] == first["holes"] - 1


def test_the_wall_is_told_every_target_once_and_then_what_has_changed_of_them(backend: Backend) -> None:
    with closing(Page(backend.server.url)) as page:
        _, first = page.next()
        assert first["wall"]["names"] == [CALLS, ORDERS]
        assert first["wall"]["counts"] == [0, 0]
        backend.clock.moment += INTERVAL
        backend.store(0, count=42)
        _, second = page.next()
        while "counts" not in second["wall"]:
            _, second = page.next()
        assert second["wall"]["counts"] == [42, 0]
        assert "names" not in second["wall"]


def test_events_are_compressed_once_for_all_pages_that_can_read_that(backend: Backend) -> None:
    """The parts of every page's stream are the same, and each stream is whole up to its end."""
    url = f"{backend.server.url}/api/v1/live?metric={CALLS}"
    with requests.get(url, headers={"Accept-Encoding": "gzip"}, stream=True, timeout=PATIENCE_SECONDS) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        lines = answer.iter_lines(chunk_size=1)
        assert next(line for line in lines if line.startswith(b"event:")) == b"event: page"
        event = next(line for line in lines if line.startswith(b"data: "))
        assert "verdict" in json.loads(event.removeprefix(b"data: "))["parts"]
    with requests.get(
        url, headers={"Accept-Encoding": "identity"}, stream=True, timeout=PATIENCE_SECONDS
    ) as plain:
        assert "content-encoding" not in plain.headers


def test_a_new_slot_arrives_in_the_chart_s_tail(backend: Backend) -> None:
    with closing(Page(backend.server.url, metric=CALLS)) as page:
        _, before = page.next()
        backend.clock.moment += INTERVAL
        backend.store(0, count=42)
        _, after = page.next()
        while after["tail"]["mean"][-1] != 42 and after["tail"]["mean"][-2] != 42:
            _, after = page.next()
        assert after["tail"]["to"] > before["tail"]["to"]


def test_pages_in_two_languages_and_of_two_targets_are_told_each_its_own(backend: Backend) -> None:
    url = backend.server.url
    with (
        closing(Page(url, metric=CALLS, lang="en")) as english,
        closing(Page(url, metric=ORDERS, lang="ja")) as other,
    ):
        assert "are stored" in english.next()[1]["parts"]["verdict"]
        event = other.next()[1]
        assert "保存済み" in event["parts"]["verdict"]
        assert event["tail"]["metricName"] == ORDERS


def test_fifty_pages_cost_one_look_and_none_when_they_are_gone(backend: Backend) -> None:
    backend.server._application.state.live._clock = RunningClock(backend.clock.now())
    with ExitStack() as open_pages:
        pages = [open_pages.enter_context(closing(Page(backend.server.url, metric=CALLS))) for _ in range(PAGES)]
        for page in pages:
            page.next()
        looks, began = CountingSource.looks, time.monotonic()
        for page in pages:
            page.next()
            page.next()
        # One look a tick for all of them, however long this takes, and not two for each.
        ticks = (time.monotonic() - began) / TICK_SECONDS
        assert CountingSource.looks - looks <= ticks + 3
    wait_for(lambda: pages_open(backend) == 0, "the end of all pages")
    wait_for(lambda: nobody_looks_for(1.5), "the last look")


def nobody_looks_for(seconds: float) -> bool:
    looks = CountingSource.looks
    time.sleep(seconds)
    return CountingSource.looks == looks


def pages_open(backend: Backend) -> int:
    text = requests.get(f"{backend.server.url}/metrics", timeout=PATIENCE_SECONDS).text
    return int(next(line for line in text.splitlines() if line.startswith("kizami_dashboard_pages ")).split()[1])


def test_trouble_is_told_and_its_end_too(backend: Backend) -> None:
    with closing(Page(backend.server.url, metric=CALLS)) as page:
        page.next()
        backend.clock.moment = None  # type: ignore[assignment]
        kind, event = page.next()
        while kind != "trouble":
            kind, event = page.next()
        assert event == {"detail": "an unexpected error; the log has its details"}
        backend.clock.moment = this_slot()
        while kind != "page":
            kind, event = page.next()


def test_an_unknown_metric_is_trouble_for_its_own_page_only(backend: Backend) -> None:
    with closing(Page(backend.server.url, metric="nobody")) as lost, closing(Page(backend.server.url)) as found:
        kind, event = lost.next()
        assert (kind, "never polled" in event["detail"]) == ("trouble", True)
        assert found.next()[0] == "page"


def test_a_query_that_is_no_view_is_refused(backend: Backend) -> None:
    answer = requests.get(f"{backend.server.url}/api/v1/live", params={"range": "1y"}, timeout=PATIENCE_SECONDS)
    assert (answer.status_code, answer.json()["parameter"]) == (400, "range")


def test_the_server_ends_at_once_with_pages_open(tmp_path: Path) -> None:
    path = build_backend(tmp_path / "kizami.db", this_slot())
    server = DashboardServer(lambda: LocalBackend(path), port=0)
    with ExitStack() as open_pages:
        with server:
            pages = [open_pages.enter_context(closing(Page(server.url))) for _ in range(5)]
            for page in pages:
                page.next()
            began = time.monotonic()
        assert time.monotonic() - began < PATIENCE_SECONDS / 2  # their events would go on for ever
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("dashboard")]


def test_collecting_goes_on_while_the_dashboard_reads_a_month(backend: Backend) -> None:
    """The dashboard's questions never keep a writer from the database."""
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            source = LocalBackend(backend.path)
            take_snapshot(source, backend.clock.now())
            source.buckets(CALLS, backend.clock.now() - timedelta(days=30), backend.clock.now(), 5)
            source.close()

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for back in range(60, 66):
            backend.store(back)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    source = LocalBackend(backend.path)
    assert take_snapshot(source, backend.clock.now()).overview.gaps == 0
    source.close()


def test_a_page_is_told_everything_again_after_an_action_on_it(backend: Backend) -> None:
    """The answer to the action may have shown what no event has told: a change from there is not seen as one."""
    with closing(Page(backend.server.url)) as page:
        _, first = page.next()
        body = json.dumps({"metric": ORDERS}).encode()
        headers = {"Content-Type": "application/json", "Origin": backend.server.url}
        connection = HTTPConnection(urlsplit(backend.server.url).netloc, timeout=PATIENCE_SECONDS)
        with closing(connection):
            connection.request("POST", "/api/v1/targets/pause?page=", body, headers)
            answer = json.load(connection.getresponse())
        assert answer["page"]["wall"]["names"] == first["wall"]["names"]
        _, second = page.next()
        assert second["wall"] == answer["page"]["wall"]
        assert second["parts"].keys() == first["parts"].keys()
