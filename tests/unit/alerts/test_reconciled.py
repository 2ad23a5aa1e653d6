"""On AWS a run of the reconciler is the look, and the same incidents and words come of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from fakes.alert_world import rule
from kizami.alerts.decision import AlertState, decide
from kizami.alerts.messages import Message
from kizami.alerts.notices import MessageState
from kizami.alerts.reconciled import RunSlotCounter, SeenTarget, find_low_coverage, look_of_run
from kizami.alerts.rules.conditions import parse_condition
from kizami.alerts.rules.settings import AlertSettings
from kizami.alerts.texts import render_text
from kizami.backend.incidents import Kind, Member
from kizami.backend.targets import KnownTarget
from kizami.backend.values import Deaths, TargetTrouble
from kizami.core.coverage import Completeness, Span
from kizami.core.reconcile import ReconcilePolicy

T0 = datetime(2025, 12, 2, 8, 0, tzinfo=UTC)
POLICY = ReconcilePolicy()
TARGETS = {name: KnownTarget(name, 60, 60, T0 - timedelta(days=30)) for name in ("a", "b", "c")}
REFUSED = "status 401, expected 200; the key is refused: check headers"


class Table:
    """What is stored: all slots but those; of some targets nobody can say."""

    def __init__(self, *lacking: datetime, unreadable: str = "") -> None:
        self.lacking = set(lacking)
        self.unreadable = unreadable

    def count(self, spans: Mapping[str, Span]) -> dict[str, Completeness]:
        return {name: self._count(span) for name, span in spans.items() if name != self.unreadable}

    def _count(self, span: Span) -> Completeness:
        missing = sum(span.start <= slot < span.end for slot in self.lacking)
        return Completeness(span.expected - missing, span.expected)


def seen(name: str, lacking: int = 0, error: str = "", dead: int = 0) -> SeenTarget:
    trouble = TargetTrouble(error) if error else None
    deaths = Deaths(dead, T0, error) if dead else None
    return SeenTarget(TARGETS[name], Completeness(5 - lacking, 5), T0 if lacking else None, trouble, deaths)


def kinds(*found: SeenTarget) -> dict[str, set[Kind]]:
    look = look_of_run(found, AlertSettings(), T0 + timedelta(minutes=30))
    return {name: set(each.kinds) for (_, name), each in look.findings.bad.items()}


def counter(table: Table, now: datetime, **dead: int) -> RunSlotCounter:
    return RunSlotCounter(TARGETS.get, POLICY, now, table.count, dead)


def test_targets_that_fail_of_one_cause_are_one_incident_until_the_last_slot_is_filled() -> None:
    settings, table = AlertSettings((rule("topic", "fails", "silent"),)), Table()
    table.lacking = {T0 + timedelta(minutes=minute) for minute in range(12)}
    state = AlertState()
    messages: list[Message] = []
    for minute in range(30, 75, 5):
        now = T0 + timedelta(minutes=minute)
        if minute >= 60:
            table.lacking.clear()
        found = [seen(name, 5, REFUSED) for name in TARGETS] if minute < 50 else []
        dead = dict.fromkeys(TARGETS, 12)
        decision = decide(state, look_of_run(found, settings, now), settings, counter(table, now, **dead))
        state = decision.state
        messages += decision.messages
    opened, recovered = messages
    assert (opened.state, opened.targets, opened.cause) == (MessageState.OPENED, 3, REFUSED)
    assert render_text(opened, "en").title.endswith("since 08:00 UTC, 36 slots dead")
    assert recovered.at == T0 + timedelta(minutes=60), "not before the last slot is filled, the dead ones included"
    assert recovered.slots.stored == recovered.slots.expected > 36
    expected = recovered.slots.expected
    assert render_text(recovered, "en").title.endswith(
        f"{expected} of {expected} slots filled; coverage of 24 h 100%"
    )


def test_kinds_are_told_by_the_newest_slots_the_notes_and_the_deaths() -> None:
    assert kinds(seen("a", 5), seen("b", 2), seen("c")) == {"a": {Kind.SILENT}, "b": {Kind.LATE}}
    assert kinds(seen("a", 5, "status 503")) == {"a": {Kind.FAILS, Kind.SILENT}}
    assert kinds(seen("a", 1, "status 503", dead=2)) == {"a": {Kind.FAILS, Kind.DEAD}}
    assert kinds(seen("a", 0, "status 503")) == {}, "it answers by now"
    assert kinds(seen("a", 0, "status 503", dead=2)) == {"a": {Kind.DEAD}}


def test_a_blocked_target_fails_though_nothing_of_it_was_due() -> None:
    blocked = SeenTarget(TARGETS["a"], Completeness(0, 0), None, TargetTrouble(REFUSED, T0))
    assert kinds(blocked) == {"a": {Kind.FAILS}}


def test_low_coverage_is_found_and_of_who_cannot_be_counted_nothing_is_said() -> None:
    condition = parse_condition("coverage of 1h < 99%", "when")
    now = T0 + timedelta(hours=2)
    table = Table(now - timedelta(minutes=30), unreadable="b")
    findings = find_low_coverage(condition, list(TARGETS.values()), table.count, now)
    assert {name: each.detail for (_, name), each in findings.bad.items()} == {"a": "98.3%", "c": "98.3%"}
    assert set(findings.unjudged) == {(condition.text, "b")}


def test_what_lies_too_far_back_to_be_asked_for_again_is_missing_and_the_rest_is_on_its_way_or_dead() -> None:
    now, first = T0 + timedelta(hours=4), T0 + timedelta(minutes=30)
    table = Table(first, T0 + timedelta(hours=2), T0 + timedelta(hours=2, minutes=1))
    member = Member("a", frozenset({Kind.FAILS}), first, first_slot=first, clear_since=T0 + timedelta(hours=3))
    (holes,) = counter(table, now, a=1).holes([member]).values()
    tally = holes.slots
    assert (tally.pending, tally.dead, tally.missing, tally.expected) == (1, 1, 1, 149)
    assert holes.awaited == 2


def test_slots_are_counted_until_the_target_answered_though_dead_ones_were_news_for_longer() -> None:
    answered = T0 + timedelta(minutes=20)
    member = Member("a", frozenset({Kind.DEAD}), T0, "", T0, T0 + timedelta(minutes=26), answered)
    (holes,) = counter(Table(T0), T0 + timedelta(hours=1)).holes([member]).values()
    assert (holes.slots.expected, holes.lacking) == (19, 1)


def test_what_cannot_be_counted_is_not_called_whole() -> None:
    member = Member("a", frozenset({Kind.FAILS}), T0, first_slot=T0, clear_since=T0 + timedelta(minutes=20))
    (holes,) = counter(Table(unreadable="a"), T0 + timedelta(hours=1)).holes([member]).values()
    assert holes.awaited == holes.lacking == 19


def test_a_target_that_failed_before_it_had_a_record_lacks_nothing_from_before_it_had_one() -> None:
    """A stack that is new looks hours back, to when nobody collected: its first incident is over all the same."""
    first, now = T0 - timedelta(hours=3), T0 + timedelta(minutes=30)
    member = Member("a", frozenset({Kind.SILENT}), T0, first_slot=first, clear_since=T0 + timedelta(minutes=10))
    counter = RunSlotCounter(TARGETS.get, POLICY, now, lambda spans: dict.fromkeys(spans, Completeness(8, 8)), {})
    (holes,) = counter.holes([member]).values()
    assert (holes.slots.pending, holes.slots.missing, holes.slots.expected) == (0, 0, 8)


def test_what_an_api_that_can_only_say_now_has_missed_stays_missing() -> None:
    target = KnownTarget("now", 60, 60, T0, backfill=False)
    member = Member("now", frozenset({Kind.FAILS}), T0, first_slot=T0, clear_since=T0 + timedelta(minutes=10))
    now = T0 + timedelta(hours=1)
    (holes,) = RunSlotCounter({"now": target}.get, POLICY, now, Table(T0).count, {}).holes([member]).values()
    assert (holes.slots.missing, holes.slots.pending, holes.is_refilled) == (1, 0, False)


def test_members_that_are_no_targets_any_more_need_no_counting() -> None:
    gone = Member("gone", frozenset({Kind.FAILS}), T0, first_slot=T0)
    slots = counter(Table(), T0 + timedelta(hours=1))
    assert slots.holes([gone]) == {}
    assert slots.coverage([gone]) is None


def test_an_incident_keeps_the_slot_with_which_a_target_fell_silent() -> None:
    """A run sees only the newest slots; the page, which sees the newest record, shows the same time."""
    lacking, state = T0 + timedelta(minutes=3), AlertState()
    for minute, stored in ((5, 2), (10, 0), (15, 0)):
        now = T0 + timedelta(minutes=minute)
        first = lacking if stored else now - timedelta(minutes=5)
        found = SeenTarget(TARGETS["a"], Completeness(stored, 5), first)
        state = decide(
            state, look_of_run([found], AlertSettings(), now), AlertSettings(), counter(Table(), now)
        ).state
        (incident,) = state.incidents
        assert (incident.shown_since, incident.members["a"].since) == (lacking, T0 + timedelta(minutes=5))
    refused = SeenTarget(TARGETS["a"], Completeness(0, 5), first, TargetTrouble("status 401", now, now))
    state = decide(
        state, look_of_run([refused], AlertSettings(), now), AlertSettings(), counter(Table(), now)
    ).state
    assert (state.incidents[0].shown_since, state.incidents[0].shown_cause) == (now, "status 401")
