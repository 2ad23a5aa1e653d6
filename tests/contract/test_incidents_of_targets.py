"""Both backends list the incidents and the events of one target: its own, and those that are about no target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aws_here.local_aws import create_metrics_table
from kizami.alerts.decision import AlertState, Decision
from kizami.aws.incidents import AwsIncidentLog, IncidentItems
from kizami.backend.incidents import BACKEND, TROUBLE, BackendEvent, Incident, Kind, Member
from kizami.backend.port import IncidentLog
from kizami.core.targets.target import Target
from kizami.local.alerts.event_rows import KEPT, write_events
from kizami.local.alerts.incident_log import LocalIncidentLog
from kizami.local.alerts.incident_rows import save_incidents
from kizami.local.backend import LocalBackend
from kizami.local.store.database import open_database, transaction
from samples.database import FixedClock
from samples.page_database import build_targets

NOW = datetime(2025, 12, 2, 10, 23, 10, tzinfo=UTC)
FIRST = NOW - timedelta(hours=1)
MANY = [f"chat/{number:03}" for number in range(300)]
ASKERS = {"billing/eu": "billing"}  # two of the values that one request of `billing` brings


def incident(number: int, *names: str, group: str = TROUBLE, over: bool = False) -> Incident:
    kinds = frozenset({Kind.AGGREGATION_FAILED if group == Kind.AGGREGATION_FAILED.value else Kind.FAILS})
    members = {name: Member(name, kinds, FIRST, "", FIRST) for name in names}
    return Incident(number, group, "503", "status 503", FIRST, members, over_since=NOW if over else None)


INCIDENTS = (
    incident(1, "chat/007", over=True),
    incident(2, *MANY),
    incident(3, "orders"),
    incident(4, BACKEND, group=Kind.LATE.value),
    incident(5, "orders", group=Kind.AGGREGATION_FAILED.value),  # a company of that name
    incident(6, "billing"),
    incident(7, "billing/eu"),
)


DECISION = Decision(AlertState(tuple(each for each in INCIDENTS if each.is_open)), INCIDENTS)


def test_on_one_machine_a_target_s_incidents_are_its_own_and_those_of_kizami_itself(tmp_path: Path) -> None:
    path = tmp_path / "kizami.db"
    with closing(open_database(path, create=True)) as connection:
        with transaction(connection):
            save_incidents(connection, DECISION)
        require_own(LocalIncidentLog(connection, path, FixedClock(NOW), asker))


def test_on_aws_a_target_s_incidents_are_its_own_and_those_of_kizami_itself(
    transacting_endpoint: str,
) -> None:
    items = IncidentItems(create_metrics_table(transacting_endpoint))
    assert items.save(DECISION, {}, items.read())
    require_own(AwsIncidentLog(items, FixedClock(NOW), asker))


def asker(metric: str) -> str:
    return ASKERS.get(metric, metric)


def require_own(log: IncidentLog) -> None:
    def numbers(metric: str | None, **how: bool) -> list[int]:
        return [each.number for each in log.incidents(metric=metric, **how)]

    assert numbers(None) == [7, 6, 5, 4, 3, 2, 1]
    assert numbers("chat/007") == [4, 2, 1]
    assert numbers("chat/007", open_only=True) == [4, 2]
    assert numbers("chat/299") == [4, 2]
    assert numbers("orders") == [4, 3]
    assert numbers("billing/eu") == [7, 6, 4]
    assert numbers("billing/us") == numbers("chat") == [4]
    # Others that are newer take none of the places that a limit leaves.
    assert [each.number for each in log.incidents(1, metric="orders")] == [4]
    assert [each.number for each in log.incidents(1, 4, metric="orders")] == [3]


@dataclass(frozen=True)
class World:
    """A database and its backend."""

    path: Path
    backend: LocalBackend

    def write(self, *events: BackendEvent) -> None:
        with closing(open_database(self.path)) as connection, transaction(connection):
            write_events(connection, events)

    def events(self, metric: str | None, limit: int = -1) -> list[str]:
        return [each.event for each in self.backend.incident_log.events(limit, metric=metric)]


@pytest.fixture
def world(tmp_path: Path) -> Iterable[World]:
    targets: Mapping[Target, range] = {Target(name, lag_seconds=5): range(10) for name in (*MANY, "orders")}
    path = build_targets(tmp_path / "kizami.db", NOW, targets)
    with closing(LocalBackend(path, clock=FixedClock(NOW), actor="ann")) as backend:
        yield World(path, backend)


def happened(event: str, **details: object) -> BackendEvent:
    return BackendEvent(0, NOW, event, "kizami up", details)


def test_a_target_s_events_are_its_own_and_those_about_no_target(world: World) -> None:
    world.write(
        happened("daemon.started", targets=301, database="kizami.db"),
        happened("target.blocked", metric="chat/007", reason="status 401"),
        happened("target.blocked", metric="orders", reason="status 401"),
        happened("aggregation.not_run", companyId="orders"),
        happened("alert.undeliverable", receiver="ops", alert="3-1"),
    )
    assert world.events("orders") == ["alert.undeliverable", "target.blocked", "daemon.started"]
    assert world.events("chat/007") == ["alert.undeliverable", "target.blocked", "daemon.started"]
    assert world.events("chat/008") == ["alert.undeliverable", "daemon.started"]
    assert len(world.events(None)) == 5


def test_what_is_ordered_for_three_hundred_targets_is_an_event_of_each_of_them(world: World) -> None:
    """The event itself names the first ones only."""
    from kizami.core.messages import ScheduleMessage
    from kizami.core.slots import Window

    slot = NOW - timedelta(seconds=30)
    window = Window(slot, slot + timedelta(seconds=5))
    assert world.backend.backfill(ScheduleMessage(window, name) for name in MANY) == 300
    world.backend.pause("orders")
    for metric in ("chat/000", "chat/150", "chat/299"):
        assert world.events(metric) == ["slots.backfilled"]
    assert world.events("orders") == ["target.paused"]
    (found,) = world.backend.incident_log.events(metric="chat/299")
    assert (found.details["slots"], found.details["of"], len(found.details["metrics"])) == (300, 300, 10)


def test_what_becomes_of_an_incident_is_an_event_of_its_targets(world: World) -> None:
    with closing(open_database(world.path)) as connection, transaction(connection):
        save_incidents(connection, Decision(AlertState(INCIDENTS[1:3]), INCIDENTS[1:3]))
    world.write(happened("incident.opened", incident=2, metric="chat/000", targets=300))
    world.backend.incident_log.acknowledge(2, "ann")
    world.backend.incident_log.silence(3, NOW, "ann")
    assert world.events("chat/299") == ["incident.acknowledged", "incident.opened"]
    assert world.events("orders") == ["incident.silenced"]


def test_events_of_others_do_not_push_out_a_target_s_own(
    world: World,
) -> None:
    world.write(happened("target.blocked", metric="orders"))
    world.write(*(happened("target.blocked", metric="chat/000") for _ in range(600)))
    assert world.events("orders", 500) == ["target.blocked"]
    world.write(*(happened("clock.jumped") for _ in range(KEPT)))
    assert world.events("orders", 500)[0] == "clock.jumped"
    with closing(open_database(world.path)) as connection:
        assert connection.execute("SELECT count(*) FROM event_targets WHERE metric = 'orders'").get == 0
