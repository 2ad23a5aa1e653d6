"""The dashboard's API on a real socket over a real database: reading, paging, acting, refusing."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import requests

from kizami.aggregation.lock import lock_for
from kizami.aggregation.points import point_day
from kizami.aggregation.schedule import parse_schedule
from kizami.aggregation.stores.sqlite import SqliteLockStore, SqlitePointStore
from kizami.core.blocking import Trouble
from kizami.core.config import Config
from kizami.core.epoch import from_seconds
from kizami.core.errors import ConfigurationError
from kizami.core.slots import format_instant
from kizami.core.targets.target import Target
from kizami.local.backend import LocalBackend
from kizami.local.daemon_lock import UP, sole_daemon
from kizami.local.store.blocks import save_block
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import known_metric
from kizami.platform.config_file import LoadedConfig
from kizami.web import security
from kizami.web.security import access_for
from kizami.web.server import DashboardServer
from programs.daemon import wait_for
from samples.page_database import (
    CALLS,
    HOSTILE,
    INTERVAL,
    ORDERS,
    FixedClock,
    build_backend,
    build_targets,
    newest_due,
    served,
    slot_before,
    this_slot,
)

TOKEN = "sesame-open-yourself"


class Client:
    """Asks a dashboard as its own page would."""

    def __init__(self, url: str, now: datetime, path: Path) -> None:
        self.url, self.now, self.path = url, now, path
        self.session = requests.Session()

    def get(self, path: str, status: int = 200, /, **query: Any) -> Any:
        answer = self.session.get(f"{self.url}{path}", params=query, timeout=90)
        assert answer.status_code == status, answer.text
        return answer

    def json(self, path: str, status: int = 200, /, **query: Any) -> Any:
        return self.get(path, status, **query).json()

    def post(self, path: str, body: Any, status: int = 200, **headers: str) -> Any:
        headers = {"Origin": self.url, **headers}
        answer = self.session.post(f"{self.url}{path}", json=body, headers=headers, timeout=90)
        assert answer.status_code == status, answer.text
        return answer.json()

    def slot(self, back: int) -> str:
        return format_instant(slot_before(self.now, back))

    def states(self, first: int, last: int) -> list[str]:
        """The states of the slots from `last` before now to `first` before now, oldest first."""
        query: dict[str, Any] = {"metric": CALLS, "from": self.slot(last), "to": self.slot(first - 1)}
        return [item["state"] for item in self.json("/api/v1/slots", **query)["items"]]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    now = this_slot()
    path = build_backend(tmp_path / "kizami.db", now)
    with served(path, now) as server:
        client = Client(server.url, now, path)
        yield client
        client.session.close()


def test_the_status_has_the_verdict_and_every_number_of_the_tiles(client: Client) -> None:
    status = client.json("/api/v1/status", lang="ja")
    assert status["level"] == "notice"
    assert status["sentence"].startswith("直近1分の24スロットはすべて保存済みです。")
    assert (status["lastMinuteStored"], status["lastMinuteExpected"]) == (24, 24)
    # The two newest slots of each could still be on their way; they are there, so they count.
    assert (status["stored24h"], status["expected24h"]) == (1440 - 8, 1440)
    assert (status["gaps"], status["gapSlots"], status["deadLetters"]) == (1, 6, 1)
    assert status["newestSlot"] == client.slot(0)
    assert (status["furthestBehind"], status["furthestBehindSlot"]) == (CALLS, client.slot(0))
    assert status["targetsBehind"] == 0
    assert (status["queueWaiting"], status["latenessP50Ms"]) == (1, 4)


def test_every_list_has_its_csv_twin(client: Client) -> None:
    for path, query in {
        "/api/v1/records": {"metric": ORDERS},
        "/api/v1/slots": {"metric": CALLS},
        "/api/v1/gaps": {},
        "/api/v1/dead-letters": {},
        "/api/v1/targets": {},
        "/api/v1/companies": {},
    }.items():
        items = client.json(path, **query, limit="5000")["items"]
        answer = client.get(path, **query, format="csv")
        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        assert rows == [
            {name: "" if value is None else str(value) for name, value in item.items()} for item in items
        ]
    (row,) = csv.DictReader(io.StringIO(client.get("/api/v1/status", format="csv").text))
    assert row["gapSlots"] == "6"


def test_pages_follow_one_another_without_loss_or_repetition(client: Client) -> None:
    for path, query in {
        "/api/v1/records": {"metric": ORDERS, "last": "10m"},
        "/api/v1/slots": {"metric": CALLS, "last": "10m"},
        "/api/v1/targets": {},
    }.items():
        whole = client.json(path, **query, limit="5000")["items"]
        items, cursor = [], None
        while True:
            page = client.json(path, **query, limit="1" if path.endswith("targets") else "50", **cursor or {})
            items += page["items"]
            if page["next"] is None:
                break
            cursor = {"cursor": page["next"]}
        assert items == whole
        assert len(whole) > 1


def test_dead_letters_and_gaps_are_paged_newest_first(client: Client) -> None:
    client.post("/api/v1/targets/pause", {"metric": ORDERS})  # its slots are not expected: no gap from it
    (letter,) = client.json("/api/v1/dead-letters")["items"]
    assert (letter["slotTime"], letter["reason"], letter["receives"]) == (client.slot(70), HOSTILE, 5)
    (gap,) = client.json("/api/v1/gaps", last="1h")["items"]
    assert (gap["metricName"], gap["from"], gap["slots"]) == (CALLS, client.slot(65), 6)
    assert client.json("/api/v1/gaps", metric=CALLS, **{"from": client.slot(62), "to": client.slot(20)})[
        "items"
    ] == [{**gap, "from": client.slot(62), "slots": 3}]


def test_each_slot_has_its_state(client: Client) -> None:
    assert client.states(59, 66) == ["stored", *["missing"] * 6, "stored"]
    assert client.states(70, 76) == ["backfilled", "retried", "late", "stored", "pending", "stored", "dead"]


def test_the_chart_has_holes_where_slots_are_missing(client: Client) -> None:
    chart = client.json("/api/v1/chart", metric=CALLS, **{"from": client.slot(66), "to": client.slot(58)})
    assert chart["grainSeconds"] == chart["intervalSeconds"] == 5
    assert chart["mean"] == [66 % 11, *[None] * 6, 59 % 11]
    assert (chart["stored"], chart["expected"]) == ([1, *[0] * 6, 1], [1] * 8)
    coarse = client.json("/api/v1/chart", metric=CALLS, last="30d")
    assert coarse["grainSeconds"] == 1800
    assert sum(coarse["stored"]) == 712
    assert max(value for value in coarse["highest"] if value is not None) == 10


def test_a_backfill_is_previewed_then_asked_for_and_a_dead_slot_of_it_redriven(client: Client) -> None:
    order = {"metric": CALLS, "slots": [client.slot(back) for back in (59, 60, 61, 70, 72)]}
    preview = client.post("/api/v1/backfill", {**order, "dryRun": True})
    told = {name: preview[name] for name in ("missing", "dead", "stored", "pending", "sent", "redriven")}
    assert told == {"missing": 2, "dead": 1, "stored": 1, "pending": 1, "sent": 0, "redriven": 0}
    assert (preview["first"], preview["last"]) == (client.slot(70), client.slot(60))
    assert client.states(60, 61) == ["missing", "missing"]
    done = client.post("/api/v1/backfill", order)
    assert (done["sent"], done["redriven"], done["dryRun"]) == (2, 1, False)
    assert client.states(60, 61) == ["pending", "pending"]
    assert client.states(70, 70) == ["pending"]
    assert client.states(62, 65) == ["missing"] * 4


def test_a_range_or_all_gaps_can_be_backfilled_at_once(client: Client) -> None:
    everything = client.post("/api/v1/backfill", {"allGaps": True, "dryRun": True})
    assert (everything["missing"], everything["metrics"]) == (6, [CALLS])
    half = client.post("/api/v1/backfill", {"metric": CALLS, "from": client.slot(65), "to": client.slot(62)})
    assert half["sent"] == 3
    assert client.post("/api/v1/backfill", {"allGaps": True})["sent"] == 3
    assert client.post("/api/v1/backfill", {"allGaps": True})["sent"] == 0
    assert client.json("/api/v1/gaps")["items"] == []


@pytest.fixture
def various(tmp_path: Path) -> Iterator[Client]:
    """Targets of every pace, which all lack some slots: each has been known for a part of the last day."""
    now = this_slot()
    path = build_targets(
        tmp_path / "kizami.db",
        now,
        {
            Target(name="second", interval_seconds=1, lag_seconds=3): range(20, 27),
            Target(name="five", interval_seconds=5, lag_seconds=5): {*range(10, 14), 30},
            Target(name="minute", interval_seconds=60, lag_seconds=120): range(4, 9),
            Target(name="thirty", interval_seconds=30, lag_seconds=600): range(2, 4),
        },
        slots=40,
    )
    with served(path, now) as server:
        client = Client(server.url, now, path)
        yield client
        client.session.close()


def test_one_that_answers_does_not_hide_one_that_does_not(tmp_path: Path) -> None:
    now = this_slot()
    silent, quick = Target(name="silent", lag_seconds=5), Target(name="quick", interval_seconds=1, lag_seconds=1)
    slow = Target(name="slow", interval_seconds=60, lag_seconds=600)  # old by its nature, and not behind
    path = build_targets(tmp_path / "kizami.db", now, {silent: range(20), quick: (), slow: ()})
    with served(path, now) as server:
        client = Client(server.url, now, path)
        status = client.json("/api/v1/status")
        client.session.close()
    assert status["newestAgeSeconds"] == 1
    assert (status["furthestBehind"], status["targetsBehind"]) == ("silent", 1)
    assert status["furthestBehindAgeSeconds"] == 105


def test_the_preview_of_a_backfill_has_the_first_and_the_last_slot_that_are_then_asked_for(
    various: Client,
) -> None:
    for order in ({"allGaps": True, "metric": "five"}, {"allGaps": True}):
        preview = various.post("/api/v1/backfill", {**order, "dryRun": True})
        before = queued_slots(various.path)
        done = various.post("/api/v1/backfill", {**order, "asOf": preview["asOf"]})
        asked_for = sorted(slot for _, slot in queued_slots(various.path) - before)
        assert (preview["first"], preview["last"]) == (asked_for[0], asked_for[-1])
        assert preview["missing"] == done["sent"] == len(asked_for)
        assert {name: done[name] for name in ("first", "last", "missing", "asOf")} == {
            name: preview[name] for name in ("first", "last", "missing", "asOf")
        }


def queued_slots(path: Path) -> set[tuple[str, str]]:
    """Every message on the queue, by metric and slot."""
    connection = open_database(path)
    query = "SELECT name, slot FROM messages JOIN metrics ON id = metric_id"
    found = {(name, format_instant(from_seconds(slot))) for name, slot in connection.execute(query)}
    connection.close()
    return found


@pytest.mark.parametrize("order", [{"allGaps": True}, {"metric": "five", "from": "first", "to": "end"}])
def test_what_falls_due_between_preview_and_order_is_left_alone(tmp_path: Path, order: dict[str, Any]) -> None:
    now = this_slot()
    clock = FixedClock(now + timedelta(milliseconds=700))
    target = Target(name="five", interval_seconds=5, lag_seconds=5)
    path = build_targets(tmp_path / "kizami.db", now, {target: range(5)}, slots=20)
    newest = newest_due(target, now)
    named = {"first": format_instant(newest - 4 * INTERVAL), "end": format_instant(newest + 20 * INTERVAL)}
    order = {name: named.get(value, value) for name, value in order.items()}
    with sole_daemon(path, UP), DashboardServer(lambda: LocalBackend(path), port=0, clock=clock) as server:
        client = Client(server.url, now, path)
        preview = client.post("/api/v1/backfill", {**order, "dryRun": True})
        clock.moment += timedelta(minutes=1)
        done = client.post("/api/v1/backfill", {**order, "asOf": preview["asOf"]})
        assert 3 <= preview["missing"] == done["sent"] == len(queued_slots(path))
        later = client.post("/api/v1/backfill", {**order, "dryRun": True})
        assert later["missing"] >= 10
        client.session.close()


def test_dead_letters_are_redriven_one_or_all(client: Client) -> None:
    redrive = "/api/v1/dead-letters/redrive"
    assert client.post(redrive, {"metric": CALLS, "slots": [client.slot(1)]}) == {"redriven": 0, "kept": 0}
    client.post("/api/v1/targets/pause", {"metric": CALLS})
    assert client.post(redrive, {"all": True}) == {"redriven": 0, "kept": 1}
    client.post("/api/v1/targets/resume", {"metric": CALLS})
    assert client.post(redrive, {"metric": CALLS, "slots": [client.slot(70)]}) == {"redriven": 1, "kept": 0}
    assert client.post(redrive, {"all": True}) == {"redriven": 0, "kept": 0}
    assert client.json("/api/v1/status")["deadLetters"] == 0


def test_a_paused_target_is_not_expected_and_not_backfilled_until_it_is_resumed(client: Client) -> None:
    assert client.post("/api/v1/targets/pause", {"metric": CALLS}) == {"metric": CALLS, "paused": True}
    status = client.json("/api/v1/status")
    assert (status["pausedTargets"], status["gaps"], status["lastMinuteExpected"]) == (1, 0, 12)
    (calls, orders) = client.json("/api/v1/targets")["items"]
    assert (calls["condition"], orders["condition"]) == ("paused", "collecting")
    assert calls["pausedSince"]
    assert client.json("/api/v1/targets", condition="paused")["items"] == [calls]
    assert client.json("/api/v1/targets", condition="silent")["items"] == []
    refusal = client.post("/api/v1/backfill", {"metric": CALLS, "slots": [client.slot(60)]}, 400)
    assert "not polled" in refusal["detail"]
    client.post("/api/v1/targets/resume", {"metric": CALLS})
    assert client.json("/api/v1/status")["gaps"] == 1


def test_a_blocked_target_is_shown_with_its_reason_and_when_it_is_probed(client: Client) -> None:
    reason = "status 401, expected 200; the key is refused: check headers.x-api-key (env:<KEY>)"
    trouble = Trouble(slot_before(client.now, 6), reason, client.now, 2, 3, slot_before(client.now, -24))
    connection = open_database(client.path)
    with transaction(connection):
        known = known_metric(connection, CALLS)
        assert known is not None
        save_block(connection, known.id, trouble, 0)
    connection.close()
    (calls, orders) = client.json("/api/v1/targets")["items"]
    assert (calls["condition"], calls["lastError"]) == ("blocked", reason)
    assert (calls["blockedSince"], calls["nextProbe"]) == (client.slot(6), client.slot(-24))
    assert (orders["condition"], orders["lastError"], orders["blockedSince"]) == ("collecting", None, None)
    assert client.json("/api/v1/targets", condition="blocked")["items"] == [calls]
    assert "1 target blocked" in client.json("/api/v1/status", lang="en")["sentence"]
    # A page that opens may be shown what was seen a moment before.
    page = wait_for(lambda: blocked_page(client), "the block")
    assert "is blocked" in client.get("/", lang="en").text
    assert "check headers.x-api-key (env:&lt;KEY&gt;)" in page
    assert 'kizami_targets{condition="blocked"} 1' in client.get("/metrics").text


def blocked_page(client: Client) -> str | None:
    page = client.get(f"/targets/{CALLS}", lang="en").text
    return page if '>blocked</span> <span class="since">' in page else None


@pytest.mark.parametrize(
    ("path", "query", "parameter"),
    [
        ("records", {}, "metric"),
        ("targets", {"condition": "tired"}, "condition"),
        ("records", {"metric": "no such name"}, "metric"),
        ("status", {"lang": "xx"}, "lang"),
        ("targets", {"search": "x" * 129}, "search"),
        ("chart", {"metric": CALLS, "last": "5m", "to": "2025-12-02T09:00:00Z"}, "last"),
        ("slots", {"metric": CALLS, "last": "32d"}, "last"),
        ("slots", {"metric": CALLS, "from": "2025-12-02"}, "from"),
        ("chart", {"metric": CALLS, "from": "2025-12-02T10:00:00Z", "to": "2025-12-02T09:00:00Z"}, "from"),
        ("gaps", {"cursor": "bm9uc2Vuc2U"}, "cursor"),
        ("gaps", {"cursor": "AAAA!"}, "cursor"),
        ("records", {"metric": CALLS, "cursor": "Wzk5OTk5OTk5OTk5OTk5OTk5OTldMQ"}, "cursor"),
        ("records", {"metric": CALLS, "cursor": "Wzk5OTk5OTk5OTk5OTk5OTk5OTld"}, "cursor"),
        ("targets", {"limit": "5001"}, "limit"),
        ("targets", {"format": "xml"}, "format"),
        ("targets", {"colour": "red"}, "colour"),
    ],
)
def test_a_mistake_gets_a_problem_that_names_the_parameter(
    client: Client, path: str, query: dict[str, str], parameter: str
) -> None:
    answer = client.get(f"/api/v1/{path}", 400, **query)
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["status"], problem["title"], problem["parameter"]) == (400, "Bad Request", parameter)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("backfill", []),
        ("backfill", {}),
        ("backfill", {"metric": CALLS, "slots": []}),
        ("backfill", {"metric": CALLS, "slots": ["2025-12-02T10:00:01Z"]}),
        ("backfill", {"metric": CALLS, "slots": ["now"]}),
        ("backfill", {"metric": CALLS, "slots": "all"}),
        ("backfill", {"metric": CALLS, "from": "2025-12-02T10:00:00Z"}),
        ("backfill", {"metric": CALLS, "from": "2020-01-01T00:00:00Z", "to": "2025-12-02T10:00:00Z"}),
        ("backfill", {"metric": CALLS, "slots": ["0001-01-01T00:00:00Z", "9999-12-31T23:59:55Z"]}),
        ("backfill", {"allGaps": "yes"}),
        ("backfill", {"allGaps": True, "asOf": "0001-01-01T00:00:00Z"}),
        ("backfill", {"allGaps": True, "asOf": "9999-12-31T23:59:59Z"}),
        ("backfill", {"allGaps": True, "asOf": 7}),
        ("backfill", {"metric": CALLS, "slot": "2025-12-02T10:00:00Z"}),
        ("backfill", {"allGaps": True, "slots": ["2025-12-02T10:00:00Z"]}),
        ("backfill", {"metric": CALLS, "slots": ["2025-12-02T10:00:00Z"], "to": "2025-12-02T10:00:05Z"}),
        ("dead-letters/redrive", {}),
        ("dead-letters/redrive", {"all": True, "slots": ["2025-12-02T10:00:00Z"]}),
        ("dead-letters/redrive", {"metric": CALLS, "slots": ["9999-12-31T23:59:55Z"]}),
        ("targets/pause", {"metric": None}),
    ],
)
def test_an_order_that_makes_no_sense_is_refused_and_changes_nothing(
    client: Client, path: str, body: object
) -> None:
    before = client.json("/api/v1/status")
    problem = client.post(f"/api/v1/{path}", body, 400)
    assert problem["status"] == 400
    after = client.json("/api/v1/status")
    assert [after[name] for name in ("gapSlots", "deadLetters", "queueWaiting", "pausedTargets")] == [
        before[name] for name in ("gapSlots", "deadLetters", "queueWaiting", "pausedTargets")
    ]


def test_a_target_that_was_never_polled_is_not_found(client: Client) -> None:
    for path in ("records", "slots", "chart", "gaps", "dead-letters"):
        assert client.json(f"/api/v1/{path}", 404, metric="nobody")["parameter"] == "metric"
    for order in ("targets/pause", "targets/resume", "dead-letters/redrive", "backfill"):
        assert "nobody" in client.post(f"/api/v1/{order}", {"metric": "nobody"}, 404)["detail"]
    assert "nobody" in client.get("/", 404, metric="nobody").text


def test_orders_are_json_of_bounded_size(client: Client) -> None:
    url, origin = f"{client.url}/api/v1/backfill", {"Origin": client.url}
    form = requests.post(url, data={"allGaps": "true"}, headers=origin, timeout=90)
    assert (form.status_code, form.headers["content-type"]) == (415, "application/problem+json")
    broken = requests.post(url, data="{", headers={**origin, "Content-Type": "application/json"}, timeout=90)
    assert broken.status_code == 400
    huge = requests.post(
        url, data=b"x" * 300_000, headers={**origin, "Content-Type": "application/json"}, timeout=90
    )
    assert huge.status_code == 413


def test_a_foreign_host_is_refused_everywhere(client: Client) -> None:
    for path in ("/", "/api/v1/status", "/metrics", "/healthz", "/static/dashboard.js"):
        answer = requests.get(f"{client.url}{path}", headers={"Host": "evil.example"}, timeout=90)
        assert answer.status_code == 421
        assert "script-src 'self'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("origin", [None, "http://evil.example", "null", "http://localhost:1"])
def test_an_action_from_elsewhere_is_refused(client: Client, origin: str | None) -> None:
    headers = {"Origin": origin} if origin else {}
    for path in ("backfill", "dead-letters/redrive", "targets/pause", "targets/resume"):
        answer = requests.post(f"{client.url}/api/v1/{path}", json={"allGaps": True}, headers=headers, timeout=90)
        assert answer.status_code == 403
    assert client.json("/api/v1/status")["gaps"] == 1


def test_unknown_paths_and_methods_are_problems(client: Client) -> None:
    assert client.json("/api/v1/nothing", 404)["title"] == "Not Found"
    assert client.json("/api/v1/backfill", 405)["status"] == 405
    client.get("/static/%2e%2e/security.py", 404)
    assert (
        requests.delete(f"{client.url}/api/v1/targets", headers={"Origin": client.url}, timeout=90).status_code
        == 405
    )


def test_a_browser_keeps_the_page_s_files_until_they_change(client: Client) -> None:
    stylesheet = re.search(r'href="(/static/v-[0-9a-f]{12}/)page.css"', client.get("/").text)
    assert stylesheet
    kept = client.get(f"{stylesheet[1]}page.css").headers["cache-control"]
    assert kept == "public, max-age=31536000, immutable"
    modules = re.findall(r'<link rel="modulepreload" href="(.+?)">', client.get("/").text)
    assert f"{stylesheet[1]}live.js" in modules
    for module in modules:
        assert client.get(module).headers["content-type"].startswith("text/javascript")
    of_before_an_upgrade, of_nobody = "/static/v-0123456789ab/wall.js", "/static/wall.js"
    for path in (of_before_an_upgrade, of_nobody):
        assert client.get(path).headers["cache-control"] == "no-cache"
    client.get(f"{stylesheet[1]}nothing.js", 404)
    client.get(f"{stylesheet[1]}%2e%2e/%2e%2e/security.py", 404)


def test_every_answer_has_the_safe_headers(client: Client) -> None:
    for path in ("/", "/api/v1/status", "/api/v1/nothing", "/static/dashboard.js", "/metrics"):
        headers = client.session.get(client.url + path, timeout=90).headers
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
        assert headers["cache-control"] in ("no-store", "no-cache")
        assert "server" not in headers


def test_hostile_texts_are_inert_in_the_page(client: Client) -> None:
    page = client.get("/", metric=CALLS).text
    assert HOSTILE not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script>alert" not in client.get("/", search="<script>alert(1)</script>").text
    assert "<script>" not in client.get("/", 400, range="<script>alert(1)</script>").text


def test_the_page_speaks_the_reader_s_language_and_remembers_the_choice(client: Client) -> None:
    def language(**headers: str) -> str:
        page = client.session.get(client.url, headers=headers, timeout=90).text
        return page.split('<html lang="')[1][:2]

    assert language() == "en"
    assert language(**{"Accept-Language": "ja-JP,en;q=0.5"}) == "ja"
    answer = client.session.get(f"{client.url}/?range=1h&lang=ja", timeout=90)
    assert answer.url == f"{client.url}/?range=1h"
    assert language() == "ja"


def test_a_dashboard_with_a_token_shows_nothing_without_it(tmp_path: Path) -> None:
    path = build_backend(tmp_path / "kizami.db", this_slot())
    with DashboardServer(lambda: LocalBackend(path), port=0, token=TOKEN) as server:
        url = server.url
        for secret in (
            "/api/v1/status",
            "/metrics",
            "/prometheus/api/v1/labels",
            "/api/v1/live",
            "/api/v1/openapi.json",
        ):
            answer = requests.get(url + secret, timeout=90)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, 'Bearer realm="kizami"')
        page = requests.get(f"{url}/?range=1h", timeout=90)
        assert (page.status_code, "calls" in page.text) == (401, False)
        assert requests.get(f"{url}/healthz", timeout=90).json() == {"status": "ok"}
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert requests.get(f"{url}/api/v1/status", headers=bearer, timeout=90).status_code == 200
        order = {"metric": CALLS}
        assert (
            requests.post(f"{url}/api/v1/targets/pause", json=order, headers=bearer, timeout=90).status_code == 200
        )
        forged = {**bearer, "Authorization": "Bearer sesame-open-yoursel"}
        assert (
            requests.post(f"{url}/api/v1/targets/resume", json=order, headers=forged, timeout=90).status_code
            == 401
        )


def test_a_browser_logs_in_with_the_token_and_stays_in(tmp_path: Path) -> None:
    path = build_backend(tmp_path / "kizami.db", this_slot())
    with DashboardServer(lambda: LocalBackend(path), port=0, token=TOKEN) as server, requests.Session() as browser:
        browser.headers["Origin"] = server.url
        wrong = browser.post(f"{server.url}/login", data={"token": "guess", "next": "/"}, timeout=90)
        assert (wrong.status_code, "not the token" in wrong.text) == (401, True)
        right = browser.post(f"{server.url}/login", data={"token": TOKEN, "next": "/?range=1h"}, timeout=90)
        assert (right.status_code, right.url) == (200, f"{server.url}/?range=1h")
        cookie = right.history[0].headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert TOKEN not in cookie
        assert (
            browser.post(f"{server.url}/api/v1/targets/pause", json={"metric": CALLS}, timeout=90).status_code
            == 200
        )
        del browser.headers["Origin"]
        assert (
            browser.post(f"{server.url}/api/v1/targets/resume", json={"metric": CALLS}, timeout=90).status_code
            == 403
        )
        away = browser.post(
            f"{server.url}/login",
            data={"token": TOKEN, "next": "//evil.example"},
            headers={"Origin": server.url},
            allow_redirects=False,
            timeout=90,
        )
        assert away.headers["location"] == "/"


@pytest.fixture
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No wait between guesses ends."""
    monkeypatch.setattr(security, "monotonic", lambda: 0.0)


@pytest.mark.usefixtures("no_time_passes")
def test_guesses_are_slowed_down_and_the_rightful_are_not_kept_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = build_backend(tmp_path / "kizami.db", this_slot())
    with DashboardServer(lambda: LocalBackend(path), port=0, token=TOKEN) as server, requests.Session() as inside:

        def log_in(token: str, **headers: str) -> requests.Response:
            form, headers = {"token": token}, {"Origin": server.url, **headers}
            return inside.post(f"{server.url}/login", data=form, headers=headers, timeout=90)

        assert log_in(TOKEN).status_code == 200
        guesses = [log_in(f"guess-{number}") for number in range(8)]
        statuses = [answer.status_code for answer in guesses]
        assert statuses == [401] * 5 + [429] * 3
        assert int(guesses[-1].headers["retry-after"]) >= 1
        assert "Too many wrong tokens. Wait " in guesses[-1].text
        assert "誤ったトークンが続いています。" in log_in("guess", **{"Accept-Language": "ja"}).text
        assert log_in(TOKEN).status_code == 429  # else the guessing could go on
        assert inside.get(f"{server.url}/api/v1/status", timeout=90).status_code == 200
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert requests.get(f"{server.url}/api/v1/status", headers=bearer, timeout=90).status_code == 200
    lines = [str(vars(record)) for record in caplog.records if vars(record).get("event") == "token.refused"]
    assert len(lines) == 5
    assert not any("guess-" in line for line in lines)


@pytest.mark.usefixtures("no_time_passes")
def test_a_header_is_no_way_around_the_limit(tmp_path: Path) -> None:
    path = build_backend(tmp_path / "kizami.db", this_slot())
    with DashboardServer(lambda: LocalBackend(path), port=0, token=TOKEN) as server:

        def ask(token: str) -> requests.Response:
            headers = {"Authorization": f"Bearer {token}"}
            return requests.get(f"{server.url}/api/v1/status", headers=headers, timeout=90)

        assert [ask("of last year").status_code for _ in range(20)] == [401] * 20
        assert [ask(f"guess-{number}").status_code for number in range(8)] == [401] * 4 + [429] * 4
        refused = ask(TOKEN)
        assert (refused.status_code, refused.json()["detail"][:21]) == (429, "too many wrong tokens")
        assert int(refused.headers["retry-after"]) >= 1


@pytest.mark.parametrize("headers", [{"X-Forwarded-Proto": "https"}, {}])
def test_over_tls_the_cookie_is_for_tls_alone(tmp_path: Path, headers: dict[str, str]) -> None:
    path, name = build_backend(tmp_path / "kizami.db", this_slot()), "kizami.example"
    server = DashboardServer(lambda: LocalBackend(path), port=0, access=access_for("127.0.0.1", TOKEN, [name]))
    with server:
        headers = {"Host": name, "Origin": f"https://{name}", **headers}
        answer = requests.post(
            f"{server.url}/login", data={"token": TOKEN}, headers=headers, allow_redirects=False, timeout=90
        )
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-kizami_session=")
        assert {"HttpOnly", "Path=/", "SameSite=strict", "Secure"} <= set(cookie.split("; "))
        back = {"Host": name, "Cookie": cookie.partition(";")[0]}
        assert requests.get(f"{server.url}/api/v1/status", headers=back, timeout=90).status_code == 200


READS = ("/api/v1/status", "/api/v1/live", "/metrics", "/prometheus/api/v1/query?query=1", "/static/dashboard.js")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_foreign_page_cannot_make_the_browser_ask(client: Client, site: str) -> None:
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    for path in (*READS, "/"):
        assert requests.get(client.url + path, headers=headers, timeout=90).status_code == 403, path
    framed = {**headers, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
    assert requests.get(client.url, headers=framed, timeout=90).status_code == 403
    followed = {**framed, "Sec-Fetch-Dest": "document"}
    assert requests.get(client.url, headers=followed, timeout=90).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://[", "http://localhost:1"])
def test_a_foreign_page_cannot_post_a_query(client: Client, origin: str) -> None:
    for path in ("query", "query_range", "series", "labels"):
        url = f"{client.url}/prometheus/api/v1/{path}"
        answer = requests.post(url, data={"query": "1"}, headers={"Origin": origin}, timeout=90)
        assert answer.status_code == 403
        assert "another site" in answer.json()["detail"]


def test_another_address_needs_a_token_from_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--token-env"):
        DashboardServer(lambda: LocalBackend(tmp_path / "kizami.db"), host="0.0.0.0", port=0)


def test_without_a_database_everything_says_so_until_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "kizami.db"
    with DashboardServer(lambda: LocalBackend(path), port=0) as server:
        problem = requests.get(f"{server.url}/api/v1/status", timeout=90)
        assert (problem.status_code, "kizami up" in problem.json()["detail"]) == (503, True)
        page = requests.get(server.url, timeout=90)
        assert (page.status_code, "kizami up" in page.text) == (503, True)
        assert requests.get(f"{server.url}/healthz", timeout=90).status_code == 200
        assert requests.get(f"{server.url}/readyz", timeout=90).status_code == 503
        build_backend(path, this_slot())
        assert requests.get(f"{server.url}/readyz", timeout=90).json() == {"status": "ok"}
        assert requests.get(f"{server.url}/api/v1/status", timeout=90).status_code == 200


def test_a_target_that_the_configuration_no_longer_has_is_not_missed(tmp_path: Path) -> None:
    now = this_slot() - timedelta(hours=2)
    path = build_backend(tmp_path / "kizami.db", now)
    listed = Config((Target(name=CALLS, enabled=False),))
    configured = LoadedConfig(listed, Path("kizami.toml"))
    with sole_daemon(path, UP), DashboardServer(lambda: LocalBackend(path, lambda: configured), port=0) as server:
        items = requests.get(f"{server.url}/api/v1/targets", timeout=90).json()["items"]
        assert {item["metricName"]: item["condition"] for item in items} == {CALLS: "disabled", ORDERS: "removed"}
        status = requests.get(f"{server.url}/api/v1/status", timeout=90).json()
        assert (status["expected24h"], status["gaps"], status["level"]) == (0, 0, "idle")


def test_the_companies_of_the_aggregation_batch_with_lock_and_points(tmp_path: Path) -> None:
    path, now = tmp_path / "kizami.db", datetime(2025, 11, 30, 20, 0, tzinfo=UTC)  # in Tokyo it is December
    build_backend(path, now)
    connection = open_database(path)
    locks, points = SqliteLockStore(connection, path), SqlitePointStore(connection, path)
    day = point_day(now, ZoneInfo("Asia/Tokyo"))
    points.grant("acme", ["u1", "u2"], day)
    points.grant("acme", ["u1"], replace(day, start=day.now + 1, now=day.now + 2))
    points.grant("acme", ["u1"], replace(day, month="202511"))
    for company, minutes in (("acme", 5), ("stuck", 150)):
        locks.acquire(company, None, lock_for("message", "run", now - timedelta(minutes=minutes)))
    connection.close()
    schedule = parse_schedule({"companies": [{"id": "new"}]}, "kizami.toml")
    configured = LoadedConfig(Config(aggregation=schedule), None)
    with DashboardServer(lambda: LocalBackend(path, lambda: configured), port=0, clock=FixedClock(now)) as server:
        items = requests.get(f"{server.url}/api/v1/companies", timeout=90).json()["items"]
        assert [tuple(item.values()) for item in items] == [
            ("acme", "2025-11-30T19:55:00Z", 300.0, "2025-12", 2, 3),
            ("new", None, None, "2025-12", 0, 0),
            ("stuck", "2025-11-30T17:30:00Z", 9000.0, "2025-12", 0, 0),
        ]
        page = requests.get(server.url, timeout=90).text
        assert "held for 5 min" in page
        assert "expired, held for 2 h 30 min" in page
        assert "Points in 2025-12" in page


def test_the_document_describes_every_path_and_only_those(client: Client) -> None:
    described = set(client.json("/api/v1/openapi.json")["paths"])
    from kizami.web.application import dashboard

    routes = {route.path for route in dashboard(lambda: LocalBackend(client.path)).routes}  # type: ignore[attr-defined]
    page_only = {"/", "/targets/{metric:path}", "/calendar", "/login", "/static/{path:path}"}
    assert described == {path for path in routes - page_only if not path.startswith("/prometheus")}
    assert json.loads(client.get("/api/v1/openapi.json").text)["openapi"] == "3.1.0"
