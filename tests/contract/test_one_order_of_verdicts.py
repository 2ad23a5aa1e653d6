"""One state, colour, cause and time of each target, wherever it is read, in every situation and on both backends.

It is read from the overview, the target's own page, the JSON API, `kizami status` in words and as JSON and, on one
machine, from the incidents that the watch opens.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from aws_here.deployed import Deployment
from aws_here.local_aws import lead_to
from kizami.alerts.decision import AlertState
from kizami.alerts.rules.settings import NO_ALERTS
from kizami.alerts.watch import watch
from kizami.aws.backend import AwsBackend
from kizami.aws.known_targets import ON_AWS
from kizami.aws.store.block_items import BlockItem, BlockItems
from kizami.backend.port import Backend
from kizami.backend.targets import ONE_MACHINE, KnownTarget, Pace
from kizami.cli.terminal.status_text import Status, read_status, status_lines
from kizami.cli.verbs.status import status_fields
from kizami.core.blocking import Trouble
from kizami.core.config import Config
from kizami.core.epoch import to_ms, to_seconds
from kizami.core.messages import MetricRecord
from kizami.core.slots import format_second, slots_between
from kizami.core.targets.target import Target
from kizami.local.alerts.incident_rows import save_incidents
from kizami.local.backend import LocalBackend
from kizami.local.daemon_lock import UP, sole_daemon
from kizami.local.store import statements
from kizami.local.store.blocks import save_block
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import known_metrics, register_targets
from kizami.local.store.rows import SentRow, StoredRow
from kizami.local.store.statements import LIVE
from kizami.platform.config_file import LoadedConfig
from kizami.web.server import DashboardServer
from samples.page_database import FixedClock, newest_due

NOW = datetime(2025, 12, 2, 10, 23, 10, tzinfo=UTC)
FIRST = NOW - timedelta(minutes=70)
STEP = timedelta(seconds=5)
REFUSED = "status 401, expected 200; the key is refused: check headers"
SINCE_BLOCKED = NOW - timedelta(minutes=9)
NAMES = ("blocked", "fine", "incomplete", "late", "silent")
TARGETS = {name: Target(name, lag_seconds=5) for name in NAMES}
LEVELS = {"stopped": "bad", "silent": "bad", "blocked": "bad", "late": "notice", "incomplete": "notice"}
ORDER = list(LEVELS)
SITUATIONS = [
    *([name] for name in NAMES if name != "fine"),
    ["late", "incomplete"],
    ["blocked", "late"],
    ["blocked", "silent"],
    ["blocked", "incomplete", "late", "silent"],
]


def slots_of(name: str, pace: Pace) -> list[datetime]:
    """The slots that are stored."""
    target = KnownTarget(name, 5, 5, FIRST, pace=pace)
    every = list(slots_between(FIRST, newest_due(TARGETS[name], NOW) + STEP, 5))
    gone: dict[str, Collection[datetime]] = {
        "silent": [slot for slot in every if slot >= NOW - timedelta(minutes=58)],
        "blocked": [slot for slot in every if slot >= SINCE_BLOCKED - STEP],
        "late": [target.current(NOW).start],
        "incomplete": [NOW - timedelta(minutes=20)],
        "fine": [],
    }
    return [slot for slot in every if slot not in gone[name]]


TROUBLE = Trouble(SINCE_BLOCKED, REFUSED, NOW - timedelta(seconds=20), 9, 3, NOW + timedelta(minutes=2))


@dataclass(frozen=True)
class World:
    """A backend that shows these targets at NOW."""

    backend: Backend
    url: str
    has_incidents: bool


@pytest.fixture(scope="module")
def deployed(moto_endpoint: str) -> Iterator[Deployment]:
    with pytest.MonkeyPatch.context() as patch:
        lead_to(moto_endpoint, patch)
        deployment = Deployment(moto_endpoint)
        deployment.store(
            MetricRecord(name, slot, 7, slot + STEP) for name in NAMES for slot in slots_of(name, ON_AWS)
        )
        assert BlockItems(deployment.table).save("blocked", BlockItem(TROUBLE))
        yield deployment


def database(path: Path) -> Path:
    """The slots that are not stored wait on the queue, after an error that the silent target got."""
    with closing(open_database(path, create=True)) as connection, transaction(connection):
        known = register_targets(connection, list(TARGETS.values()), FIRST)
        known = known_metrics(connection) | known
        for name in NAMES:
            metric, stored = known[name].id, slots_of(name, ONE_MACHINE)
            rows = [StoredRow(to_seconds(each), metric, 7, to_ms(each + STEP), 4, 1, False) for each in stored]
            statements.store(connection, rows)
            if name in ("silent", "late"):
                every = slots_between(FIRST, newest_due(TARGETS[name], NOW) + STEP, 5)
                waiting = [each for each in every if each not in set(stored)]
                sent = [SentRow(to_seconds(each), metric, 5, to_ms(each + STEP)) for each in waiting]
                statements.send(connection, sent, LIVE, to_ms(NOW))
        connection.execute("UPDATE metrics SET first_slot = ?", (to_seconds(FIRST),))
        save_block(connection, known["blocked"].id, TROUBLE, 0)
    return path


def open_incidents(path: Path, backend: LocalBackend) -> None:
    """As the watch of the daemon does at NOW."""
    decision = watch(backend, AlertState(), NO_ALERTS, NOW)
    with closing(open_database(path)) as connection, transaction(connection):
        save_incidents(connection, decision)


def local_world(stack: ExitStack, path: Path, names: Sequence[str], has_daemon: bool) -> World:
    config = LoadedConfig(Config(tuple(TARGETS[name] for name in (*names, "fine"))), Path("kizami.toml"))
    database(path)

    def open_backend() -> LocalBackend:
        return LocalBackend(path, lambda: config)

    backend = stack.enter_context(closing(open_backend()))
    open_incidents(path, backend)
    if has_daemon:
        stack.enter_context(sole_daemon(path, UP))
    server = stack.enter_context(DashboardServer(open_backend, port=0, clock=FixedClock(NOW)))
    return World(backend, server.url, has_daemon)


def aws_world(stack: ExitStack, deployed: Deployment, names: Sequence[str]) -> World:
    targets = [TARGETS[name] for name in (*names, "fine")]
    backend = AwsBackend(deployed.places, targets, FixedClock(NOW), grace_seconds=960)
    server = stack.enter_context(DashboardServer(lambda: backend, port=0, clock=FixedClock(NOW)))
    return World(backend, server.url, False)


State = tuple[str, str, str | None, str]  # condition, level, since, cause


def read_html(text: str) -> tuple[str | None, str]:
    """The time and the cause that a piece of a page shows."""
    time = re.search(r'<time datetime="([^"]+)"', text)
    words = html.unescape(re.sub(r"<[^>]+>", "", re.sub(r'<span class="since">.*?</span>', "", text, flags=re.S)))
    return (time[1] if time else None), words.strip(" ·\n")


def of_rows(page: str) -> dict[str, State]:
    found: dict[str, State] = {}
    rows = r'<li class="row (\w+)" data-key="(\w+)">.*?<span class="error">(.*?)</span>\n  <span class="newest'
    for condition, name, rest in re.findall(rows, page, re.DOTALL):
        found[name] = (condition, LEVELS.get(condition, "good"), *read_html(rest))
    return found


def of_target_page(page: str) -> State:
    """What its head says, which its verdict must say too."""
    head = page[page.index('id="target-head"') : page.index('id="verdict"')]
    condition = re.findall(r'<span class="state (\w+)">', head)[0]
    trouble = re.search(r'<p class="trouble">(.*?)</p>', head)
    level = re.findall(r'<section class="verdict (\w+)"', page)[0]
    state = condition, level, read_html(head)[0], html.unescape(trouble[1]) if trouble else ""
    assert of_verdict(page) == state if condition != "collecting" else of_verdict(page) is None
    return state


def of_verdict(page: str) -> State | None:
    level = re.findall(r'<section class="verdict (\w+)"', page)[0]
    found = re.search(r'<p class="culprits" id="culprits" data-condition="(\w+)">(.*?)</p>', page, re.DOTALL)
    if found is None:
        return None
    cause = re.search(r'<span class="cause">(.*?)</span>', found[2])
    return found[1], level, read_html(found[2])[0], html.unescape(cause[1]) if cause else ""


def of_json(fields: dict[str, Any]) -> State:
    return fields["condition"], fields["level"], fields["since"], fields["cause"] or ""


def require_one_state(world: World, expected: dict[str, State]) -> None:
    def get(path: str, **query: str) -> requests.Response:
        return requests.get(f"{world.url}{path}", params=query, timeout=90)

    overview = get("/", lang="en").text
    status = read_status(world.backend, NOW)
    fields = status_fields(status)
    worst = min(expected, key=lambda name: (([*ORDER, "collecting"]).index(expected[name][0]), name))
    assert of_verdict(overview) == of_json(get("/api/v1/status").json()) == of_json(fields["verdict"])
    assert of_verdict(overview) == expected[worst]
    rows = {name: state for name, state in of_rows(overview).items() if name in expected}
    items = {each["metricName"]: of_json(each) for each in get("/api/v1/targets").json()["items"]}
    told = {each["metricName"]: of_json(each) for each in fields["metrics"]}
    pages = {name: of_target_page(get(f"/targets/{name}", lang="en").text) for name in expected}
    assert rows == pages == {name: items[name] for name in expected} == {name: told[name] for name in expected}
    assert rows == expected
    require_in_words(status, expected)
    if world.has_incidents:
        require_in_incidents(world, expected)


def require_in_words(status: Status, expected: dict[str, State]) -> None:
    lines = status_lines(status, show_all=True)
    for name, (condition, _, since, cause) in expected.items():
        assert any(re.match(rf"{name} +{condition} ", line) for line in lines)
        if condition in ("silent", "blocked", "late"):
            (line,) = [each for each in lines if each.startswith(f"failing   {name}: ")]
            assert line.startswith(f"failing   {name}: {condition}" + (f" since {since}" if since else ""))
            assert line.endswith(cause)


def require_in_incidents(world: World, expected: dict[str, State]) -> None:
    """A target that is silent, blocked or late has an open incident of that time and cause; no other has one."""
    for name, (condition, level, since, cause) in expected.items():
        query = {"metric": name, "state": "open"}
        items = requests.get(f"{world.url}/api/v1/incidents", params=query, timeout=90).json()["items"]
        assert [each["cause"] for each in items] == ([cause] if condition in ("silent", "blocked", "late") else [])
        page = requests.get(f"{world.url}/targets/{name}", params={"lang": "en"}, timeout=90).text
        shown = page[page.index('<section class="panel incidents"') : page.index('<section class="panel orders"')]
        for item in items:
            assert item["since"] == since
            sentence = re.findall(r'<p class="sentence">(.*?)</p>', shown)[0]
            assert read_html(sentence)[0] == since
            assert re.findall(r'<li class="(\w+)" data-key="\d+" tabindex', shown) == [level]
            problem = re.sub(r"; .*", "", cause) or {"silent": "no record", "late": "records come late"}[condition]
            assert problem in html.unescape(sentence)


def expected_states(backend: Backend, names: Sequence[str]) -> dict[str, State]:
    """Worked out from what was stored."""
    stop = format_second(newest_due(TARGETS["fine"], NOW) + STEP)
    first_late = [format_second(each.current(NOW).start) for each in backend.targets(["late"])]
    states: dict[str, State] = {
        "fine": ("collecting", "good", None, ""),
        "silent": ("silent", "bad", format_second(NOW - timedelta(minutes=58)), ""),
        "blocked": ("blocked", "bad", format_second(SINCE_BLOCKED), REFUSED),
        "late": ("late", "notice", first_late[0] if first_late else None, ""),
        "incomplete": ("incomplete", "notice", None, ""),
    }
    running = backend.daemon()
    if running is not None and not running.is_running:
        return dict.fromkeys((*names, "fine"), ("stopped", "bad", stop, ""))
    if running is None:
        states["late"] = ("late", "notice", None, "")  # no incident was opened there
    return {name: states[name] for name in (*names, "fine")}


@pytest.mark.parametrize("names", SITUATIONS, ids="+".join)
@pytest.mark.parametrize("has_daemon", [True, False], ids=["", "stopped"])
def test_on_one_machine(tmp_path: Path, names: list[str], has_daemon: bool) -> None:
    with ExitStack() as stack:
        world = local_world(stack, tmp_path / "kizami.db", names, has_daemon)
        require_one_state(world, expected_states(world.backend, names))


@pytest.mark.parametrize("names", SITUATIONS, ids="+".join)
def test_on_aws(deployed: Deployment, names: list[str]) -> None:
    with ExitStack() as stack:
        world = aws_world(stack, deployed, names)
        require_one_state(world, expected_states(world.backend, names))


def test_a_database_of_which_nothing_was_ever_polled_is_stopped_without_a_daemon(tmp_path: Path) -> None:
    path = tmp_path / "kizami.db"
    open_database(path, create=True).close()
    with closing(LocalBackend(path)) as backend:
        fields = status_fields(read_status(backend, NOW))
    assert fields["verdict"]["condition"] == fields["verdict"]["finding"] == "stopped"
