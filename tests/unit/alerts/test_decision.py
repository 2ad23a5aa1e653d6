"""Who is told what: states and times in, messages out, for hours and a thousand targets in a moment."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from fakes.alert_world import LOOK_SECONDS, START, AlertWorld, WorldTarget, rule
from kizami.alerts.messages import Message
from kizami.alerts.notices import MessageState
from kizami.alerts.rules.maintenance import parse_maintenance

OPENED, GROWN, REMINDED, RECOVERED = (
    *(MessageState.OPENED, MessageState.GROWN),
    *(MessageState.REMINDED, MessageState.RECOVERED),
)


def world(*names: str, wait: int = 120, pause: int = 900) -> AlertWorld:
    made = AlertWorld((rule(wait=wait, pause=pause),))
    made.targets = {name: WorldTarget() for name in names or ("chat/a",)}
    return made


def states(messages: list[Message]) -> list[MessageState]:
    return [message.state for message in messages]


def test_all_well_says_nothing() -> None:
    assert world().look_for(3600) == []


def test_a_failure_is_told_after_the_wait_and_its_end_when_the_last_hole_is_filled() -> None:
    here = world()
    here.fail("chat/a")
    assert here.look_for(120) == []
    (opened,) = here.look_for(60)
    assert (opened.state, opened.targets, opened.cause) == (OPENED, 1, "status 503, expected 200")
    here.look_for(300)
    here.heal("chat/a")
    healed_at = here.now + timedelta(seconds=LOOK_SECONDS)
    assert here.look_for(600) == [], "slots are still on the queue"
    lacking = here.targets["chat/a"].pending
    here.fill("chat/a")
    (recovered,) = here.look_for(30)
    assert (recovered.state, recovered.recovered_at) == (RECOVERED, healed_at)
    assert (recovered.slots.stored, recovered.slots.expected) == (lacking, lacking)
    assert recovered.coverage is not None
    assert recovered.coverage.ratio == 1
    assert here.look_for(3600) == []


def test_a_recovery_says_which_slots_are_not_filled() -> None:
    here = world()
    here.fail("chat/a")
    here.look_for(300)
    here.heal("chat/a")
    here.kill("chat/a", 3)
    here.fill("chat/a")
    (recovered,) = here.look_for(120)
    assert recovered.slots.dead == 3
    assert [(each.name, each.slots.dead) for each in recovered.unfilled] == [("chat/a", 3)]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_clock_that_was_a_day_ahead_delays_neither_an_end_nor_the_next_message(restarted: bool) -> None:
    here = world()
    here.now += timedelta(days=1)
    here.fail("chat/a")
    assert states(here.look_for(300)) == [OPENED]
    here.heal("chat/a")
    here.fill("chat/a")
    assert here.look() == []
    here.now -= timedelta(days=1)
    if restarted:
        here.restart()
    assert states(here.look_for(180)) == [RECOVERED]
    here.fail("chat/a")
    assert states(here.look_for(1200)) == [OPENED], "after the pause"


def test_what_is_over_within_the_wait_is_not_told_at_all() -> None:
    here = world()
    here.fail("chat/a")
    here.look_for(90)
    here.heal("chat/a")
    here.fill("chat/a")
    assert here.look_for(3600) == []
    assert [incident.is_open for incident in here.kept.values()] == [False]


def test_a_thousand_targets_that_fail_at_once_are_one_message() -> None:
    names = [f"shop/{number:04}" for number in range(1000)]
    here = world(*names)
    for number, name in enumerate(names):
        here.fail(name, f"connection refused by api{number}.example.com:443")
    (opened,) = here.look_for(300)
    assert (opened.state, opened.targets, len(opened.members)) == (OPENED, 1000, 10)
    for name in names:
        here.heal(name)
        here.fill(name)
    (recovered,) = here.look_for(90)
    assert (recovered.state, recovered.targets) == (RECOVERED, 1000)
    assert recovered.slots.stored == recovered.slots.expected


def test_different_causes_are_different_incidents() -> None:
    here = world("a", "b")
    here.fail("a", "status 503, expected 200")
    here.fail("b", "status 401, expected 200; the key is refused: check headers")
    told = here.look_for(300)
    assert sorted(message.cause for message in told) == [
        "status 401, expected 200; the key is refused: check headers",
        "status 503, expected 200",
    ]


def test_targets_that_join_soon_are_told_of_once_after_the_pause() -> None:
    here = world("a", "b", "c")
    here.fail("a")
    here.look_for(300)
    here.fail("b")
    here.fail("c")
    told = here.look_for(3600)
    assert [(message.state, message.targets) for message in told] == [(GROWN, 3)]


def test_one_that_fails_of_the_same_cause_an_hour_later_is_another_incident() -> None:
    here = world("a", "b")
    here.fail("a")
    here.look_for(3600)
    here.fail("b")
    told = here.look_for(600)
    assert [(message.state, message.targets, message.incident) for message in told] == [(OPENED, 1, 2)]


def test_a_flapping_target_is_one_incident_and_sends_no_stream() -> None:
    here = world()
    for _ in range(240):  # four hours, 30 s up, 30 s down
        here.fail("chat/a")
        here.look_for(30)
        here.heal("chat/a")
        here.fill("chat/a")
        here.look_for(30)
    assert states(here.messages) == [OPENED]
    assert len(here.kept) == 1


def test_one_that_recovers_and_fails_again_keeps_the_pause_between_messages() -> None:
    here = world()
    for _ in range(18):  # three hours, five minutes up, five down
        here.fail("chat/a")
        here.look_for(300)
        here.heal("chat/a")
        here.fill("chat/a")
        here.look_for(300)
    opened = [message.at for message in here.messages if message.state is OPENED]
    assert all(later - sooner >= timedelta(seconds=900) for sooner, later in pairwise(opened))
    assert len(here.messages) <= 2 * (3 * 3600 // 900)
    assert Counter(states(here.messages))[RECOVERED] == len(opened)


def test_an_incident_that_stays_is_reminded_of_once_a_day() -> None:
    here = world()
    here.fail("chat/a")
    told = here.look_for(3 * 86_400 + 600)
    assert states(told) == [OPENED, REMINDED, REMINDED, REMINDED]
    gaps = [later.at - sooner.at for sooner, later in pairwise(told)]
    assert all(gap >= timedelta(days=1) for gap in gaps)


def lose_slots(here: AlertWorld, name: str) -> None:
    """It answers again, and slots of before have died."""
    here.targets[name].lost = here.targets[name].error
    here.heal(name)


def test_nobody_is_reminded_of_a_target_that_answers_though_slots_died_lately() -> None:
    here = world()
    here.fail("chat/a")
    assert states(here.look_for(86_400)) == [OPENED]
    lose_slots(here, "chat/a")
    assert here.look_for(300) == []


def test_slots_that_go_on_dying_are_reminded_of_also_of_a_target_that_answers() -> None:
    here = world()
    here.fail("chat/a")
    here.look_for(300)
    lose_slots(here, "chat/a")
    assert states(here.look_for(86_400)) == [REMINDED]


def test_a_rule_about_failures_is_not_told_of_a_target_that_answers_within_the_wait_though_slots_died() -> None:
    here = world()
    here.rules = rule("ops", "fails"), rule("all", "fails", "dead")
    here.settings = replace(here.settings, rules=here.rules)
    here.fail("chat/a")
    here.look_for(60)
    lose_slots(here, "chat/a")
    assert [(message.receiver, message.state) for message in here.look_for(240)] == [("all", OPENED)]


def change(here: AlertWorld, **changes: object) -> None:
    """What somebody does to the only incident there is."""
    (incident,) = here.state.incidents
    here.state = replace(here.state, incidents=(replace(incident, **changes),))  # type: ignore[arg-type]


def test_an_acknowledged_incident_keeps_quiet_until_it_is_over() -> None:
    here = world()
    here.fail("chat/a")
    here.look_for(300)
    change(here, acknowledged_at=here.now, acknowledged_by="ann")
    assert here.look_for(3 * 86_400) == []
    here.heal("chat/a")
    here.fill("chat/a")
    assert states(here.look_for(300)) == [RECOVERED]


def test_a_silenced_incident_is_told_of_when_the_silence_is_over() -> None:
    here = world()
    here.fail("chat/a")
    here.look_for(60)
    change(here, silenced_until=here.now + timedelta(hours=2))
    assert here.look_for(7140) == []
    assert states(here.look_for(120)) == [OPENED]


def test_a_recovery_during_the_silence_is_told_after_it() -> None:
    here = world()
    here.fail("chat/a")
    here.look_for(300)
    change(here, silenced_until=here.now + timedelta(hours=2))
    here.heal("chat/a")
    here.fill("chat/a")
    assert here.look_for(7140) == []
    here.restart()
    assert states(here.look_for(120)) == [RECOVERED]
    assert here.state.incidents == ()


def test_maintenance_keeps_quiet_about_its_targets_only() -> None:
    here = world("chat/a", "orders")
    window = {"from": START, "to": START + timedelta(hours=1), "targets": ["chat/*"]}
    here.settings = replace(here.settings, maintenance=(parse_maintenance(window, "maintenance[0]"),))
    here.fail("chat/a")
    here.fail("orders")
    (opened,) = here.look_for(3300)
    assert [member.name for member in opened.members] == ["orders"]
    (grown,) = here.look_for(1200)
    assert (grown.state, grown.targets) == (GROWN, 2)


def test_each_receiver_is_told_of_its_own_targets_and_of_their_end() -> None:
    here = AlertWorld((rule("chat", targets="chat/*"), rule("all", wait=600)))
    here.targets = {"chat/a": WorldTarget(), "orders": WorldTarget()}
    here.fail("chat/a")
    here.fail("orders")
    told = here.look_for(900)
    assert [(message.receiver, message.targets) for message in told] == [("chat", 1), ("all", 2)]
    here.heal("chat/a")
    here.fill("chat/a")
    assert [(each.receiver, each.state) for each in here.look_for(300)] == [("chat", RECOVERED)]
    here.heal("orders")
    here.fill("orders")
    assert [(each.receiver, each.state) for each in here.look_for(300)] == [("all", RECOVERED)]


def test_a_receiver_that_asked_for_another_kind_is_not_told() -> None:
    here = AlertWorld((rule("ops", "late", "disk full"),))
    here.targets = {"a": WorldTarget()}
    here.fail("a")
    assert here.look_for(3600) == []


def test_a_target_whose_state_is_unknown_stays_in_its_incident() -> None:
    here = world()
    here.fail("chat/a")
    here.look_for(300)
    seen = here.seen()
    unknown = replace(seen, findings=replace(seen.findings, bad={}, unjudged={("trouble", "chat/a")}))
    here.seen = lambda: replace(unknown, now=here.now)  # type: ignore[method-assign]
    assert here.look_for(600) == []
    (incident,) = here.state.incidents
    assert incident.members["chat/a"].clear_since is None


@pytest.mark.parametrize("seed", range(2))
def test_24_hours_of_changing_weather_are_told_in_pairs(seed: int) -> None:
    from random import Random

    chance = Random(seed)
    names = [f"t{number:02}" for number in range(40)]
    here = world(*names)
    for _ in range(24 * 60):
        for name in chance.sample(names, 2):
            if here.targets[name].error:
                here.heal(name)
            elif chance.random() < 0.3:
                here.fail(name, chance.choice(["status 503, expected 200", "status 500, expected 200"]))
            else:
                here.fill(name)
        here.look_for(60)
    for name in names:
        here.heal(name)
        here.fill(name)
    here.look_for(1800)
    assert here.state.incidents == (), "all is well, and everybody knows"
    opened = {(message.incident, message.receiver) for message in here.messages if message.state is OPENED}
    over = {(message.incident, message.receiver) for message in here.messages if message.state is RECOVERED}
    assert opened == over
    assert opened
