"""Pages over a thousand targets on AWS: how much is asked of DynamoDB and SQS, as a count of requests."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from unittest.mock import patch
from urllib.request import urlopen

import pytest

from aws_here.fleet import DAY, NOW, SEALED, STEP, Fleet, make_fleet
from aws_here.stack_here import QueuesHere
from kizami.alerts.rules.settings import NO_ALERTS
from kizami.alerts.watch import take_look
from kizami.aws.ticks_backend import TicksBackend
from kizami.backend.calendar import read_cell
from kizami.backend.health import TargetCondition
from kizami.backend.snapshot import take_snapshot
from kizami.core.slots import shift
from kizami.web.pages import see
from kizami.web.server import DashboardServer
from kizami.web.view.address import View
from kizami.web.wall.watch import Watch

COUNT, BUNDLES = 1000, 10
MOST_REQUESTS = 30
DEAD = 20  # members of each of four bundles


@pytest.fixture(scope="module")
def healthy() -> Fleet:
    return make_fleet(COUNT, days=2)


@pytest.fixture(scope="module")
def troubled() -> Fleet:
    found = make_fleet(COUNT, days=2, dead_share=0.34, dead_members=DEAD)
    found.seal_dead()
    return found


def backend_of(fleet: Fleet) -> TicksBackend:
    return TicksBackend(QueuesHere(), fleet.targets, fleet)


@contextmanager
def asking(fleet: Fleet) -> Iterator[Counter[str]]:
    with patch("kizami.aws.client.machine.now", fleet.now), fleet.asking() as asked:
        yield asked


def test_a_snapshot_of_a_healthy_fleet_takes_a_query_for_each_bundle_and_few_others(healthy: Fleet) -> None:
    backend = backend_of(healthy)
    for most in (MOST_REQUESTS, MOST_REQUESTS - 8):  # the first one also finds out which plans there were
        with asking(healthy) as asked:
            snapshot = take_snapshot(backend, NOW)
        assert sum(asked.values()) <= most, asked
        assert asked["Query"] <= BUNDLES + 3
    assert Counter(each.condition for each in snapshot.targets.values()) == {TargetCondition.COLLECTING: COUNT}
    assert snapshot.overview.day.stored == snapshot.overview.day.expected == COUNT * DAY // timedelta(seconds=STEP)
    assert len(snapshot.counts) == COUNT
    # Live polls of the last ten minutes: of each member, to the second before now.
    assert 115 * COUNT <= snapshot.overview.lateness.polls <= 120 * COUNT
    assert (snapshot.overview.gaps, snapshot.overview.queue.dead) == (0, 0)


def test_a_snapshot_costs_no_more_for_each_target_in_trouble(troubled: Fleet) -> None:
    backend = backend_of(troubled)
    with asking(troubled) as asked:
        snapshot = take_snapshot(backend, NOW)
    assert sum(asked.values()) <= MOST_REQUESTS + BUNDLES, asked
    conditions = Counter(each.condition for each in snapshot.targets.values())
    assert conditions == {TargetCondition.COLLECTING: COUNT - 4 * DEAD, TargetCondition.SILENT: 4 * DEAD}
    assert snapshot.overview.gaps == 0  # they were given up


def test_an_answer_is_the_same_without_a_look(troubled: Fleet) -> None:
    backend = backend_of(troubled)
    with asking(troubled) as alone:
        targets = backend.targets()
        spans = {target.name: target.recent(DAY, NOW) for target in targets}
        counts, newest = backend.slot_counts(spans), backend.newest_slots()
        lateness = backend.lateness(shift(NOW, -600), NOW)
    with asking(troubled) as together, backend.look() as one:
        assert (one.targets(), one.newest_slots()) == (targets, newest)
        assert one.slot_counts(spans) == counts
        assert one.lateness(shift(NOW, -600), NOW) == lateness
        assert one.completeness(spans).keys() == counts.keys()
    assert sum(together.values()) < sum(alone.values())


def test_a_page_asks_in_one_look_and_later_for_little(healthy: Fleet) -> None:
    backend, watch = backend_of(healthy), Watch()
    with asking(healthy) as first:
        screen = see(backend, View(), healthy, watch)
    assert len(screen.snapshot.targets) == COUNT
    assert sum(first.values()) <= MOST_REQUESTS + 3, first  # with incidents and events
    with asking(healthy) as later:
        see(backend, View(), healthy, watch)
    assert sum(later.values()) <= MOST_REQUESTS


def test_a_look_for_alerts_takes_a_query_for_each_bundle(healthy: Fleet, troubled: Fleet) -> None:
    for fleet, most in ((healthy, MOST_REQUESTS), (troubled, MOST_REQUESTS + BUNDLES)):
        backend = backend_of(fleet)
        with asking(fleet) as asked, backend.look() as one:
            look = take_look(one, NO_ALERTS, NOW)
        assert len(look.targets) == COUNT
        assert sum(asked.values()) <= most, asked


def test_the_rows_in_sight_and_the_calendar_are_read_by_bundles(troubled: Fleet) -> None:
    backend, watch = backend_of(troubled), Watch()
    with asking(troubled):
        targets = backend.targets(troubled.names[:40])
    with asking(troubled) as asked:
        trends = watch.trends.read(backend, targets, NOW)
    assert len(trends) == 40
    assert sum(asked.values()) <= MOST_REQUESTS, asked
    hour = shift(SEALED, -1800)
    with asking(troubled) as asked:
        cell = read_cell(backend, backend.targets(), hour, hour + timedelta(minutes=30), NOW)
    assert (cell.part.missing, cell.lacking) == (4 * DEAD * 360, 4 * DEAD)
    assert sum(asked.values()) <= 2 * BUNDLES


def test_the_page_and_its_calendar_are_served(healthy: Fleet) -> None:
    backend = backend_of(healthy)
    with asking(healthy), DashboardServer(lambda: backend, port=0, clock=healthy) as server:
        for path in ("/", "/calendar"):
            with urlopen(f"{server.url}{path}") as answer:
                assert answer.status == 200
        days = "by=day&from=2025-12-01T00:00:00Z&to=2025-12-02T00:00:00Z"
        with urlopen(f"{server.url}/api/v1/calendar?{days}") as answer:
            (cell,) = json.load(answer)["cells"]
    assert cell["stored"] == cell["expected"] == COUNT * 86_400 // STEP
