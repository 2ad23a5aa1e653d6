"""The watch over a backend at both cadences, and a look: targets that are well are passed over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fakes.alert_world import rule
from fakes.watched_backend import WatchedBackend
from kizami.alerts import watch as watching
from kizami.alerts.decision import AlertState, Decision
from kizami.alerts.messages import Message
from kizami.alerts.notices import MessageState
from kizami.alerts.rules.settings import NO_ALERTS, AlertSettings
from kizami.alerts.seen import Look
from kizami.alerts.texts import render_text
from kizami.alerts.troubles import MachineTrouble, WatchRun, find_troubles
from kizami.alerts.watch import DEATHS_SECONDS, BackendSlotCounter, take_look, watch
from kizami.backend.incidents import BACKEND, Kind, Member
from kizami.backend.snapshot import find_doubtful, target_statuses
from kizami.backend.targets import KnownTarget
from kizami.backend.values import Lateness, QueueDepth, TargetTrouble
from kizami.core.epoch import EPOCH
from kizami.core.errors import QueueError, StoreError
from kizami.core.slots import floor_to_slot, shift
from kizami.local.backend import LocalBackend
from samples.database import at, bury_slots, make_database, queue_slots

SLOTS = 240
NOW = at(SLOTS) + timedelta(seconds=5)
WELL = [f"well/{number:03}" for number in range(450)]


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[LocalBackend]:
    """Hundreds that are well; of the others each has something else."""
    stored = dict.fromkeys(WELL, range(SLOTS)) | {
        "silent": range(100),
        "late": [number for number in range(SLOTS) if number != SLOTS - 5],
        "failing": range(SLOTS - 20),
        "dead": [number for number in range(SLOTS) if number != 50],
        "paused": range(100),
        "new": [],
    }
    path = make_database(tmp_path / "kizami.db", stored)
    queue_slots(path, "failing", range(SLOTS - 20, SLOTS), NOW, tried=1)
    bury_slots(path, "dead", [50], "status 404, expected 200", NOW - timedelta(seconds=30))
    backend = LocalBackend(path)
    backend.pause("paused")
    yield backend
    backend.close()


def test_only_those_are_asked_about_that_may_not_be_well(backend: LocalBackend) -> None:
    found = find_doubtful(backend, backend.targets(), {"dead", "paused", *backend.troubles()}, NOW)
    assert [target.name for target in found] == ["dead", "failing", "late", "new", "silent"]


def test_what_is_found_is_what_a_look_at_every_target_finds(backend: LocalBackend) -> None:
    deaths = backend.deaths(shift(NOW, -DEATHS_SECONDS))
    for running_since in (None, NOW - timedelta(seconds=30), NOW - timedelta(hours=1)):
        run = WatchRun(running_since=running_since)
        found = take_look(backend, NO_ALERTS, NOW, run)
        assert found.findings == find_troubles(target_statuses(backend, NOW), deaths, NOW, run)
        assert len(found.targets) == len(WELL) + 6


def test_it_rests_every_few_doubtful_targets_and_finds_the_same(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_PIECE", 2)
    rests: list[None] = []
    found = take_look(backend, NO_ALERTS, NOW, WatchRun(rest=lambda: rests.append(None)))
    assert len(rests) == 3
    assert found == take_look(backend, NO_ALERTS, NOW)


# At the boundary: state and backend in, incidents and messages out.

T0 = datetime(2025, 12, 2, 8, 0, tzinfo=UTC)
BORN = T0 - timedelta(days=30)
RECONCILER = WatchRun(period_seconds=360, polled_seconds=300, refill_seconds=86_400, times_polls=False)
CADENCES = {"daemon": (WatchRun(), 15), "reconciler": (RECONCILER, 300)}
ALL = rule("ops", "fails", "silent", "late", "dead", "queue stuck", "aggregation failed", wait=0, pause=0)
ERROR = "status 503, expected 200"


@dataclass
class Watched:
    """A backend and the watch over it, at the cadence of the daemon or of the reconciler."""

    run: WatchRun = field(default_factory=WatchRun)
    every: int = 15
    settings: AlertSettings = field(default_factory=lambda: AlertSettings((ALL,)))
    backend: WatchedBackend = field(default_factory=WatchedBackend)
    now: datetime = T0
    state: AlertState = field(default_factory=AlertState)
    messages: list[Message] = field(default_factory=list)

    def add(self, *names: str, interval: int = 20, since: datetime = BORN) -> None:
        self.backend.add(*(KnownTarget(name, interval, interval, since) for name in names))

    def store(self, name: str, minutes: float, until: float = 0, count: int = 7) -> None:
        """Store the slots from so many minutes before `now` on."""
        start, end = (floor_to_slot(self.now - timedelta(minutes=each), 20) for each in (minutes, until))
        self.backend.store(name, start, end, count)

    def look(self, seconds: int = 0) -> Decision:
        """Look when so many seconds have passed."""
        self.now += timedelta(seconds=seconds)
        decision = watch(self.backend.port, self.state, self.settings, self.now, self.run)
        self.state = decision.state
        self.messages += decision.messages
        return decision

    def look_for(self, minutes: float, *storing: str) -> None:
        """Look again and again; all slots that are due by then of these targets are stored."""
        until = self.now + timedelta(minutes=minutes)
        while self.now < until:
            self.now += timedelta(seconds=self.every)
            for name in storing:
                self.store(name, self.every / 60 + 1)
            self.look()

    @property
    def said(self) -> list[tuple[str, set[str]]]:
        return [(each.state.value, {kind.value for kind in each.kinds}) for each in self.messages]

    @property
    def bad(self) -> dict[str, set[str]]:
        """What is wrong with each member of an open incident."""
        return {
            name: {kind.value for kind in member.kinds}
            for incident in self.state.incidents
            if incident.is_open
            for name, member in incident.members.items()
            if member.clear_since is None
        }


@pytest.fixture(params=CADENCES)
def watched(request: pytest.FixtureRequest) -> Watched:
    run, every = CADENCES[request.param]
    here = Watched(run, every)
    here.add("a", "b")
    for name in "ab":
        here.store(name, 70)
    return here


def reconciler() -> Watched:
    return Watched(RECONCILER, 300)


def test_a_backend_that_is_well_takes_a_few_questions_however_many_targets_it_has(watched: Watched) -> None:
    watched.add(*(f"c/{number}" for number in range(700)))
    for number in range(700):
        watched.store(f"c/{number}", 10)
    assert watched.look() == Decision(AlertState())
    assert watched.backend.asked.total() <= 8


def test_targets_that_fail_together_are_one_incident_until_what_they_lacked_is_stored(watched: Watched) -> None:
    began = floor_to_slot(watched.now, 20)
    watched.look_for(11)
    assert watched.bad == {name: {"late", "silent"} for name in "ab"}
    watched.backend.failing = dict.fromkeys("ab", TargetTrouble(ERROR))
    watched.look_for(1)
    assert watched.bad == {name: {"late", "silent", "fails"} for name in "ab"}
    watched.backend.failing = {}
    answered = watched.now
    for name in "ab":
        watched.backend.send(name, began, answered)
    watched.look_for(10, "a", "b")
    assert {state for state, _ in watched.said} == {"opened"}, "slots of the outage are on the queue still"
    for name in "ab":
        watched.backend.store(name, began - timedelta(minutes=1), watched.now)
    watched.look_for(10, "a", "b")
    opened, recovered = watched.messages
    assert (opened.targets, opened.since) == (2, began)
    assert recovered.recovered_at is not None
    assert answered <= recovered.recovered_at <= answered + timedelta(minutes=10)
    assert recovered.slots.stored == recovered.slots.expected >= 2 * 3 * 11
    assert watched.state.incidents == ()


def test_a_target_that_stopped_within_the_window_lacks_slots_since_its_newest_one(watched: Watched) -> None:
    watched.run = replace(watched.run, period_seconds=360)
    watched.now += timedelta(minutes=3)
    (incident,) = watched.look().state.incidents
    assert incident.kinds == {Kind.LATE}
    assert {member.first_slot for member in incident.members.values()} == {T0}
    assert incident.shown_since == T0


def test_a_target_with_a_hole_before_its_newest_slot_lacks_slots_of_the_whole_window(watched: Watched) -> None:
    del watched.backend.targets_by_name["a"].counts[T0 - timedelta(seconds=80)]
    (incident,) = watched.look().state.incidents
    target = watched.backend.targets_by_name["a"].known
    assert incident.members["a"].first_slot == watched.run.window(target, T0).start


def test_without_an_answer_of_the_backend_nothing_is_decided(watched: Watched) -> None:
    watched.look_for(10)
    before = watched.state
    for error in (StoreError("no table"), QueueError("no queue")):
        watched.backend.fault = error
        with pytest.raises(type(error)):
            watched.look(watched.every)
    assert watched.state == before


def test_numbers_are_judged_for_every_slot_since_the_look_before() -> None:
    for run, found in ((WatchRun(), False), (RECONCILER, True)):
        here = Watched(run, settings=AlertSettings((rule("ops", "above 50", wait=0),)))
        here.add("a")
        here.store("a", 60, 5)
        here.store("a", 5, 4.6, count=99)
        here.store("a", 4.6)
        here.look()
        assert ([each.cause for each in here.messages] == ["above 50"]) is found


def test_slots_that_died_since_the_look_before_are_news() -> None:
    for run, found in ((WatchRun(), False), (RECONCILER, True)):
        here = Watched(run)
        here.add("a")
        here.store("a", 60)
        slot = T0 - timedelta(minutes=30)
        del here.backend.targets_by_name["a"].counts[slot]
        here.backend.bury("a", [slot], T0 - timedelta(seconds=330))
        here.look()
        assert here.bad == ({"a": {"dead"}} if found else {})


def test_slots_that_died_without_a_reason_are_an_incident_all_the_same(watched: Watched) -> None:
    slot = T0 - timedelta(minutes=30)
    del watched.backend.targets_by_name["a"].counts[slot]
    watched.backend.bury("a", [slot], T0 - timedelta(minutes=1), "")
    watched.look()
    (message,) = watched.messages
    assert render_text(message, "en").title.startswith("✗ a: slots have died since ")


def test_what_came_due_before_the_watch_began_says_nothing(watched: Watched) -> None:
    watched.backend.failing["b"] = TargetTrouble(ERROR)
    watched.run = replace(watched.run, running_since=T0 + timedelta(minutes=10))
    watched.now = T0 + timedelta(minutes=11)
    watched.look()
    assert watched.bad == {"b": {"fails"}}
    watched.look_for(10)
    assert watched.bad == {"a": {"silent"}, "b": {"fails", "silent"}}


def test_a_new_target_is_silent_only_after_it_was_polled_for_long_enough() -> None:
    here = reconciler()
    here.add("new", since=T0)
    here.look_for(5)
    assert here.bad == {}
    here.look_for(5)
    assert here.bad == {"new": {"silent"}}
    daemon = Watched()
    daemon.add("new", since=T0)
    daemon.look_for(2)
    assert daemon.bad == {"new": {"silent"}}


UNKNOWN_AGE = QueueDepth(40, 0, 0, 0, None)


def test_a_queue_whose_age_is_unknown_is_stuck_if_nothing_comes_though_slots_are_overdue() -> None:
    here = reconciler()
    here.add("a", "b")
    for name in "ab":
        here.store(name, 60)
    here.backend.depth = UNKNOWN_AGE
    here.look()
    assert here.bad == {}, "records come"
    assert not here.backend.asked["queue_depth"]
    here.look_for(10)
    assert here.bad[BACKEND] == {"queue stuck"}
    here.backend.failing["b"] = TargetTrouble(ERROR)
    here.look_for(5)
    assert BACKEND not in here.bad, "messages move: requests fail"
    here.backend.failing.clear()
    here.backend.depth = replace(UNKNOWN_AGE, waiting=0)
    here.look_for(5)
    assert BACKEND not in here.bad, "nothing waits: it is not the queue"


def test_in_the_first_minutes_of_a_deployment_no_queue_is_stuck() -> None:
    here = reconciler()
    here.add("original", since=EPOCH)  # without a record every slot is expected
    here.run = replace(RECONCILER, running_since=T0)
    here.backend.depth = UNKNOWN_AGE
    here.look()
    here.look_for(5)
    assert here.bad == {}
    here.look_for(10)
    assert here.bad == {"original": {"silent"}, BACKEND: {"queue stuck"}}


def test_a_queue_whose_age_is_known_is_stuck_by_its_age(watched: Watched) -> None:
    watched.backend.depth = replace(UNKNOWN_AGE, oldest_age_seconds=299.0)
    watched.look_for(20)
    assert BACKEND not in watched.bad
    watched.backend.depth = replace(UNKNOWN_AGE, oldest_age_seconds=301.0)
    watched.look(watched.every)
    assert watched.bad[BACKEND] == {"queue stuck"}


def test_what_no_backend_knows_is_told_at_both_places(watched: Watched) -> None:
    watched.run = replace(
        watched.run, machine=MachineTrouble("the disk is full", {"acme": "007: the run is failed"})
    )
    watched.look()
    assert watched.bad == {BACKEND: {"disk full"}, "acme": {"aggregation failed"}}


def test_requests_that_leave_late_matter_where_they_are_timed() -> None:
    for run, found in ((WatchRun(), True), (RECONCILER, False)):
        here = Watched(run)
        here.add("a")
        here.store("a", 60)
        here.backend.late = Lateness(100, 1500, 4000, 9000)
        here.look()
        assert (BACKEND in here.bad) is found
        assert bool(here.backend.asked["lateness"]) is found


def test_missing_slots_are_awaited_for_as_long_as_they_are_asked_for_again() -> None:
    for run, every, is_over in ((WatchRun(), 15, True), (RECONCILER, 300, False)):
        here = Watched(run, every)
        here.add("a")
        here.store("a", 60, 20)
        here.look()
        assert here.bad == {"a": {"silent"}}
        here.look_for(20, "a")
        assert not here.bad
        assert ([state for state, _ in here.said] == ["opened", "recovered"]) is is_over
        here.look_for(24 * 60, "a")
        (unfilled,) = here.messages[-1].unfilled
        assert here.messages[-1].state is MessageState.RECOVERED
        assert unfilled.slots.missing == unfilled.slots.expected - unfilled.slots.stored > 50


def test_a_target_that_can_only_say_now_is_not_waited_for() -> None:
    here = reconciler()
    here.add("a")
    here.backend.change("a", backfill=False)
    here.store("a", 60, 20)
    here.look()
    here.look_for(15, "a")
    assert [state for state, _ in here.said] == ["opened", "recovered"]


def test_coverage_is_read_of_the_targets_of_the_rule_only(watched: Watched) -> None:
    watched.settings = AlertSettings((rule("ops", "coverage of 1h < 99%", wait=0, targets="a"),))
    for name in "ab":
        for minute in range(40, 50):
            watched.backend.targets_by_name[name].counts.pop(T0 - timedelta(minutes=minute))
    watched.look()
    (message,) = watched.messages
    assert [(each.name, each.detail) for each in message.members] == [("a", "94.4%")]


def test_a_message_goes_without_the_coverage_that_would_take_too_many_requests(watched: Watched) -> None:
    watched.backend.too_large = {"completeness"}
    counter = BackendSlotCounter(watched.backend.port, Look(T0, targets=known_of(watched)))
    assert counter.coverage([member("a")]) is None


def test_so_many_silent_targets_that_nobody_knows_since_when_are_an_incident_all_the_same(
    watched: Watched,
) -> None:
    watched.backend.too_large = {"newest_slots"}
    watched.now += timedelta(minutes=20)
    (incident,) = watched.look().state.incidents
    target = watched.backend.targets_by_name["a"].known
    assert (set(incident.members), set(incident.kinds)) == ({"a", "b"}, {Kind.SILENT})
    assert incident.shown_since == watched.run.window(target, watched.now).start


def test_slots_that_would_take_too_many_requests_to_count_are_not_called_stored(watched: Watched) -> None:
    watched.backend.too_large = {"slot_counts"}
    counter = BackendSlotCounter(watched.backend.port, Look(T0, targets=known_of(watched)), 86_400)
    (holes,) = counter.holes([member("a")]).values()
    assert (holes.lacking, holes.refill_seconds) == (holes.slots.missing, 86_400)
    assert holes.lacking > 0


def known_of(watched: Watched) -> dict[str, KnownTarget]:
    return {name: each.known for name, each in watched.backend.targets_by_name.items()}


def member(name: str) -> Member:
    return Member(name, frozenset({Kind.FAILS}), T0, first_slot=T0 - timedelta(minutes=10))
