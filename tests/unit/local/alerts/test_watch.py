"""What the daemon sees and keeps: real rows in, incidents, messages and events in the file."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import apsw
import pytest

from kizami.alerts.rules.conditions import parse_condition
from kizami.alerts.rules.settings import AlertSettings, Rule
from kizami.backend.incidents import Incident, Kind
from kizami.core.coverage import Span
from kizami.core.epoch import to_seconds
from kizami.core.targets.target import Target
from kizami.local.alerts.event_rows import EventCollector, read_events, write_events
from kizami.local.alerts.incident_rows import list_incidents, read_state
from kizami.local.alerts.outbox import undelivered
from kizami.local.alerts.watch import AlertWatch
from kizami.local.backend import LocalBackend
from kizami.local.store.database import open_database, transaction
from kizami.local.store.history.sealing import seal_closed
from kizami.local.store.metrics import register_targets
from samples.database import FixedClock, at, bury_slots, make_database

SLOTS = 240
NOW = at(SLOTS) + timedelta(seconds=5)


class Watched:
    """A database and the watch over it, a look at a time, with a clock that is turned by hand."""

    def __init__(self, path: Path, *when: str, targets: tuple[str, ...] = ("*",)) -> None:
        conditions = tuple(parse_condition(text, "when") for text in when or ("fails", "silent", "dead"))
        self.path = path
        self.clock = FixedClock(NOW)
        self.backend = LocalBackend(path)
        self.connection = open_database(path)
        self.full: str | None = None
        self.failed: dict[str, str] = {}
        self.watch = AlertWatch(path, lambda: self.backend, self.clock)
        self.watch.unwritable, self.watch.failed_companies = lambda: self.full, lambda: self.failed
        self.watch._settings = AlertSettings((Rule("ops", "https://k.example", conditions, targets, 0),))
        self.watch._running_since = NOW - timedelta(hours=1)
        self.watch._state = read_state(self.connection, NOW)

    def look(self, now: datetime | None = None) -> list[Incident]:
        """The incidents after a look."""
        self.clock.moment = now or self.clock.moment
        self.watch._look(self.connection, self.backend)
        return list_incidents(self.connection)

    def restart(self) -> None:
        """As after kill -9."""
        self.watch._state = read_state(self.connection, self.clock.now())

    @property
    def waiting(self) -> int:
        """Messages in the outbox."""
        return undelivered(self.connection).get("ops", (0, None))[0]

    def close(self) -> None:
        self.connection.close()
        self.backend.close()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[list[Watched]]:
    every: list[Watched] = []
    yield every
    for each in every:
        each.close()


def watched(opened: list[Watched], path: Path, *when: str, targets: tuple[str, ...] = ("*",)) -> Watched:
    opened.append(Watched(path, *when, targets=targets))
    return opened[-1]


def test_a_backend_that_is_well_has_no_incidents(tmp_path: Path, opened: list[Watched]) -> None:
    here = watched(opened, make_database(tmp_path / "kizami.db", {"calls": range(SLOTS)}))
    assert here.look() == []


def test_a_thousand_silent_targets_are_one_incident_and_one_message(tmp_path: Path, opened: list[Watched]) -> None:
    path = make_database(tmp_path / "kizami.db", {f"shop/{number:03}": [0] for number in range(1000)})
    here = watched(opened, path)
    (incident,) = here.look()
    assert (len(incident.members), set(incident.kinds), here.waiting) == (1000, {Kind.SILENT}, 1)
    here.look(NOW + timedelta(seconds=15))
    here.restart()
    assert len(here.look(NOW + timedelta(seconds=30))) == 1
    assert here.waiting == 1, "the restart repeats nothing"


def test_slots_that_died_are_an_incident_with_their_reason_until_they_are_old_news(
    tmp_path: Path, opened: list[Watched]
) -> None:
    stored = [number for number in range(SLOTS) if number not in (100, 101)]
    path = make_database(tmp_path / "kizami.db", {"calls": stored})
    bury_slots(path, "calls", [100, 101], "status 404, expected 200", NOW - timedelta(seconds=30))
    here = watched(opened, path)
    (incident,) = here.look()
    member = incident.members["calls"]
    assert (incident.cause, member.first_slot) == ("status 404, expected 200", at(100))
    assert member.kinds == {Kind.DEAD}


def test_numbers_are_looked_at_for_the_targets_of_the_rule_only(tmp_path: Path, opened: list[Watched]) -> None:
    path = make_database(tmp_path / "kizami.db", {"calls": range(SLOTS), "errors": range(SLOTS)})
    here = watched(opened, path, "above 9", "sum of 10m above 500", "zero for 10m", targets=("calls",))
    found = {incident.group: incident.members["calls"].detail for incident in here.look()}
    (target,) = here.backend.targets(["calls"])
    numbers = [
        (slot - at(0)) // timedelta(seconds=5) for slot in target.recent(timedelta(minutes=10), NOW).slots()
    ]
    assert found == {"above 9": "10", "sum of 10m above 500": str(sum(number % 11 for number in numbers))}


def test_a_sum_over_whole_and_partial_buckets_is_that_of_the_slots(tmp_path: Path) -> None:
    backend = LocalBackend(make_database(tmp_path / "kizami.db", {"calls": range(SLOTS), "none": []}))
    (target,) = backend.targets(["calls"])
    span = target.within(at(13), at(233), NOW)
    (found,) = backend.totals({"calls": span, "none": span}).values()
    counts = [number % 11 for number in range(13, 233)]
    assert (found.stored, found.lowest, found.highest, found.total) == (220, 0, 10, sum(counts))
    connection = open_database(tmp_path / "kizami.db")
    assert sum(seal_closed(connection, to_seconds(at(100_000)), 0)) == SLOTS
    connection.close()
    assert backend.totals({"calls": span, "none": span}) == {"calls": found}, "sealed or not, it is the same"
    backend.close()


def test_a_day_of_the_largest_counts_has_its_exact_sum(tmp_path: Path) -> None:
    path, most = make_database(tmp_path / "kizami.db", {"calls": []}), 2**53 - 1
    connection = open_database(path)
    with transaction(connection):
        number = connection.execute("SELECT id FROM metrics").get
        rows = [(to_seconds(at(slot)), number, most) for slot in range(3000)]
        connection.executemany("INSERT INTO slots VALUES (?, ?, ?, 0, 0, 1, 0)", rows)
    connection.close()
    backend = LocalBackend(path)
    (found,) = backend.totals({"calls": Span(at(7), at(2999), 5)}).values()
    assert found.total == 2992 * most
    backend.close()


def test_a_full_disk_and_a_failed_company_come_and_go(tmp_path: Path, opened: list[Watched]) -> None:
    here = watched(opened, make_database(tmp_path / "kizami.db", {"calls": range(SLOTS)}), "disk full")
    here.full, here.failed = "the disk is full; make room", {"acme": "007: the run is failed"}
    assert {incident.group for incident in here.look()} == {"disk full", "aggregation failed"}
    here.full, here.failed = None, {}
    here.look(NOW + timedelta(seconds=15))
    over = here.look(NOW + timedelta(seconds=80))
    assert [incident.is_open for incident in over if incident.group == "aggregation failed"] == [False]


def test_what_people_order_is_obeyed_and_kept(tmp_path: Path, opened: list[Watched]) -> None:
    here = watched(opened, make_database(tmp_path / "kizami.db", {"calls": [0]}))
    here.look()
    log = here.backend.incident_log
    log.acknowledge(1, "ann")
    assert log.acknowledge(1, "bob").acknowledged_by == "ann"
    log.silence(1, NOW + timedelta(hours=1), "ann")
    (incident,) = here.look(NOW + timedelta(days=2))
    assert (incident.acknowledged_by, incident.silenced_until) == ("ann", NOW + timedelta(hours=1))
    assert here.waiting == 1, "no reminder"
    assert [(event.event, event.by) for event in log.events()][:2] == [
        ("incident.silenced", "ann"),
        ("incident.acknowledged", "ann"),
    ]


def test_a_decision_that_cannot_be_kept_is_taken_again(
    tmp_path: Path, opened: list[Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = watched(opened, make_database(tmp_path / "kizami.db", {"calls": [0]}))
    here.watch.events.add("daemon.started", NOW)

    def full(*_: object) -> None:
        raise apsw.FullError

    with monkeypatch.context() as patched:
        patched.setattr("kizami.local.alerts.watch.put_messages", full)
        with pytest.raises(apsw.FullError):
            here.look()
    assert list_incidents(here.connection) == []
    assert len(here.look(NOW + timedelta(seconds=15))) == 1
    assert here.waiting == 1
    assert [event.event for event in read_events(here.connection)] == ["daemon.started"]


def test_the_log_of_events_takes_the_lines_that_are_worth_it_and_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector, log = EventCollector(), logging.getLogger("kizami.test.events")
    log.addHandler(collector)
    log.warning("words", extra={"event": "clock.jumped", "clock_jumped_seconds": 3.5})
    log.warning("words", extra={"event": "targets.failing"})
    log.removeHandler(collector)
    (event,) = collector.take()
    assert (event.event, event.by, dict(event.details)) == (
        "clock.jumped",
        "kizami up",
        {"clock_jumped_seconds": 3.5},
    )
    connection = open_database(tmp_path / "kizami.db", create=True)
    monkeypatch.setattr("kizami.local.alerts.event_rows.KEPT", 5)
    for _ in range(9):
        with transaction(connection):
            write_events(connection, [event])
    assert [each.number for each in read_events(connection)] == [9, 8, 7, 6, 5]
    assert [each.number for each in read_events(connection, 2, before=8)] == [7, 6]
    connection.close()


def test_a_target_of_several_values_dies_in_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "kizami.db"
    connection = open_database(path, create=True)
    from kizami.core.answers.answer import Answer, parse_values

    answer = Answer(values=parse_values({"paid": "/a", "open": "/b"}))
    with transaction(connection):
        register_targets(connection, [Target(name="orders", lag_seconds=5, answer=answer)], at(0))
    connection.close()
    bury_slots(path, "orders", [3], "status 500, expected 200", NOW)
    backend = LocalBackend(path)
    deaths = backend.deaths(NOW - timedelta(minutes=5))
    assert {"orders/paid", "orders/open"} <= deaths.keys()
    backend.close()
