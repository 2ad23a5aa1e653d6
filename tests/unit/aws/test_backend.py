"""The first page over a thousand targets on AWS: how much is asked of DynamoDB and SQS, as a count."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from aws_here.bundled import create_ledger_table
from aws_here.deployed import Deployment, GivenPlaces
from aws_here.local_aws import lead_to
from fakes.ports import ManualClock
from kizami.aws.backend import AwsBackend
from kizami.aws.client.json_client import JsonClient
from kizami.aws.dynamodb import dynamodb_client
from kizami.backend.calendar import read_cell
from kizami.backend.health import TargetCondition
from kizami.core.epoch import from_seconds
from kizami.core.messages import MetricRecord
from kizami.core.slots import format_instant, slots_between
from kizami.core.targets.bundles import make_bundles
from kizami.core.targets.target import Target
from kizami.web.pages import see
from kizami.web.server import DashboardServer
from kizami.web.view.address import View
from kizami.web.wall.watch import Watch

NOW = datetime(2025, 12, 2, 10, 23, 7, tzinfo=UTC)
INTERVAL = 900
COUNT = 1000
NEWEST = datetime(2025, 12, 2, 10, 0, tzinfo=UTC)
START = NEWEST - timedelta(hours=30)
NAMES = [f"chat/t-{number:04}" for number in range(COUNT)]
TARGETS = [Target(name, interval_seconds=INTERVAL, lag_seconds=INTERVAL) for name in NAMES]
BUNDLES = make_bundles(TARGETS)
SILENT = BUNDLES[0].members[3]
FAILED = BUNDLES[1].members[:5]  # at one tick, six hours ago


class Asked:
    """What was asked of AWS since it was last looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.operations: Counter[str] = Counter()
        self.queried: Counter[str] = Counter()
        call = JsonClient.call

        def counting(client: JsonClient, operation: str, parameters: dict[str, Any], *rest: Any) -> dict[str, Any]:
            self.operations[operation] += 1
            values = parameters.get("ExpressionAttributeValues", {})
            self.queried.update([value["S"] for name, value in values.items() if name == ":metric"])
            return call(client, operation, parameters, *rest)

        monkeypatch.setattr(JsonClient, "call", counting)

    def take(self) -> Counter[str]:
        found, self.operations = self.operations, Counter()
        self.queried.clear()
        return found


@pytest.fixture(scope="module")
def places(moto_endpoint: str) -> Iterator[GivenPlaces]:
    """A day of ticks; of the records themselves the table has only the newest: who reads others finds nothing."""
    with pytest.MonkeyPatch.context() as patch:
        lead_to(moto_endpoint, patch)
        deployment, table = Deployment(moto_endpoint), create_ledger_table(moto_endpoint)
        _write(table, (_tick(each.name, place, slot) for place, each in enumerate(BUNDLES) for slot in _slots()))
        deployment.store(MetricRecord(name, NEWEST, 7, NEWEST) for name in NAMES if name != SILENT)
        given = deployment.places
        yield GivenPlaces(given.table, given.queue, given.backfill_queue, given.dead_letter_queue, table)


@pytest.fixture
def backend(places: GivenPlaces) -> AwsBackend:
    return AwsBackend(places, TARGETS, ManualClock(NOW), grace_seconds=960)


def _slots() -> list[datetime]:
    return list(slots_between(START, NEWEST + timedelta(seconds=INTERVAL), INTERVAL))


def _tick(bundle: str, place: int, slot: datetime) -> dict[str, Any]:
    failed = place == 1 and slot == NEWEST - timedelta(hours=6)
    lacking = {0: ["3"], 1: [str(number) for number in range(5)] if failed else []}.get(place)
    item = {"bundle": {"S": bundle}, "tick": {"S": format_instant(slot)}}
    return {**item, "lacking": {"NS": lacking}} if lacking else item


def _write(table: str, items: Any) -> None:
    items = iter(items)
    while some := list(islice(items, 25)):
        request = {table: [{"PutRequest": {"Item": item}} for item in some]}
        dynamodb_client().call("BatchWriteItem", {"RequestItems": request})


def test_the_first_page_of_a_thousand_targets_takes_some_calls_for_each_bundle_and_none_for_each_target(
    places: GivenPlaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, watch, clock = Asked(monkeypatch), Watch(), ManualClock(NOW)
    backend = AwsBackend(places, TARGETS, clock, grace_seconds=960)
    screen = see(backend, View(), clock, watch)
    statuses = screen.snapshot.targets
    assert len(statuses) == COUNT
    assert statuses[SILENT].condition is TargetCondition.SILENT
    conditions = Counter(each.condition for each in statuses.values())
    assert conditions[TargetCondition.INCOMPLETE] == len(FAILED)
    assert conditions[TargetCondition.COLLECTING] == COUNT - 1 - len(FAILED)
    # 24 hours of four slots, one of which failed for five targets; the silent one has none.
    assert {name: 96 - each.day.stored for name, each in statuses.items() if each.day.missing} == {
        SILENT: 96,
        **dict.fromkeys(FAILED, 1),
    }
    assert list(screen.snapshot.counts.values()) == [7] * (COUNT - 1)
    # Whose records are read: those whose lateness stands for their bundle's, and the one that has no ticks.
    representatives = {bundle.members[0] for bundle in BUNDLES}
    assert {name for name in asked.queried if not name.startswith("#")} == representatives | {SILENT}
    first = asked.take()
    assert first["BatchGetItem"] == COUNT / 100
    assert first.total() <= 10 * len(BUNDLES), first

    # A moment later only the newest ticks are looked at.
    clock.advance(5)
    see(backend, View(), clock, watch)
    assert asked.take().total() <= 4 * len(BUNDLES)


def test_the_rows_in_sight_and_the_calendar_of_all_are_told_by_the_ledger(
    backend: AwsBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch()
    see(backend, View(), ManualClock(NOW), watch)
    asked = Asked(monkeypatch)
    shown = [FAILED[0], *(target.name for target in TARGETS[:39])]
    trends = watch.trends.read(backend, backend.targets(shown, recent=True), NOW)
    assert [part.missing for part in trends[FAILED[0]].hours].count(1) == 1
    assert set(asked.queried.values()) == {1}  # the hours that a sparkline is in, of each row once
    assert asked.take().total() <= len(shown)

    since = backend.counted_since(NOW)
    assert since == NOW - timedelta(days=2)
    hour = NEWEST - timedelta(hours=6)
    cell = read_cell(backend, backend.targets(recent=True), hour, hour + timedelta(hours=1), NOW)
    assert (cell.part.expected, cell.part.missing, cell.lacking) == (4 * COUNT, 4 + len(FAILED), 1 + len(FAILED))
    assert asked.take().total() <= 2 * len(BUNDLES)


def test_a_day_of_long_ago_of_one_target_is_counted_and_not_read(
    backend: AwsBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(monkeypatch)
    edges = [START - timedelta(days=back) for back in range(30, 0, -1)]
    assert backend.stored_between(TARGETS[0].name, edges) == [0] * 29
    assert asked.take()["Query"] <= 29 + len(BUNDLES)


def test_an_old_slot_that_was_asked_for_again_tells_nothing_of_the_time_since(
    backend: AwsBackend, places: GivenPlaces
) -> None:
    """Its tick stands alone: what expired between it and now is not lacking because of that."""
    old = from_seconds(int((NOW - timedelta(days=40)).timestamp()) // INTERVAL * INTERVAL)
    _write(places.ledger or "", [_tick(BUNDLES[2].name, 2, old)])
    name = BUNDLES[2].members[0]
    edges = [NOW - timedelta(days=10), NOW - timedelta(days=9)]
    (target,) = backend.targets([name], recent=True)
    assert backend.stored_between(name, edges) == [0]
    day = backend.completeness({name: target.recent(timedelta(days=1), NOW)})[name]
    assert (day.stored, day.expected) == (96, 96)


def test_the_calendar_of_all_targets_says_how_far_it_reaches_and_refuses_to_count_what_is_older(
    backend: AwsBackend,
) -> None:
    with DashboardServer(lambda: backend, port=0, clock=ManualClock(NOW)) as server:
        with urlopen(f"{server.url}/calendar") as answer:
            page = answer.read().decode()
        assert "Of all targets together the last two days are counted" in page
        assert 'data-first="2025-12-01T11:23:07Z"' in page  # an hour more than a day after the ledger's reach
        days = "by=day&from=2025-11-20T00:00:00Z&to=2025-11-21T00:00:00Z"
        with pytest.raises(HTTPError, match="400") as refused:
            urlopen(f"{server.url}/api/v1/calendar?{days}")
        assert "counted since 2025-11-30T10:23:07Z; ask for one metric" in refused.value.read().decode()
        with urlopen(f"{server.url}/api/v1/calendar?{days}&metric={TARGETS[0].name}") as answer:
            (cell,) = json.load(answer)["cells"]
        assert (cell["stored"], cell["expected"]) == (0, 0)  # before its first slot
