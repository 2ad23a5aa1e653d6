"""Whatever targets do and people order, nobody hears of an end without a beginning, and nobody hears nothing."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fakes.alert_world import LOOK_SECONDS, AlertWorld, WorldTarget
from fakes.alert_world import rule as alert_rule
from kizami.alerts.messages import Message
from kizami.alerts.notices import MessageState
from kizami.backend.health import SlotTally, add_tallies
from kizami.backend.incidents import Incident

NAMES = ("chat/a", "chat/b", "orders", "mail")
ERRORS = ("status 503, expected 200", "status 401, expected 200; check the key", "no connection to h1.example.com")
WAIT, PAUSE = 120, 900
names = st.sampled_from(NAMES)


class AlertsMachine(RuleBasedStateMachine):
    """Four targets, two receivers, and a person who acknowledges and silences."""

    def __init__(self) -> None:
        super().__init__()
        self.world = AlertWorld(
            (alert_rule("ops", wait=WAIT, pause=PAUSE), alert_rule("chat", wait=0, pause=PAUSE, targets="chat/*"))
        )
        self.world.targets = {name: WorldTarget() for name in NAMES}
        self.bad_since: dict[str, datetime] = {}
        self.told: dict[tuple[str, int], list[Message]] = defaultdict(list)

    @rule(name=names, error=st.sampled_from(ERRORS))
    def a_target_fails(self, name: str, error: str) -> None:
        self.world.fail(name, error)

    @rule(name=names)
    def a_target_heals(self, name: str) -> None:
        self.world.heal(name)
        self.bad_since.pop(name, None)

    @rule(name=names, looks=st.integers(1, 20), times=st.integers(2, 4))
    def a_target_comes_and_goes(self, name: str, looks: int, times: int) -> None:
        for _ in range(times):
            self.a_target_fails(name, ERRORS[0])
            self.time_goes_on(looks)
            self.a_target_heals(name)
            self.world.fill(name)
            self.time_goes_on(looks)

    @rule(name=names, slots=st.integers(1, 50))
    def slots_are_filled(self, name: str, slots: int) -> None:
        self.world.fill(name, slots)

    @rule(name=names, slots=st.integers(1, 5))
    def slots_die(self, name: str, slots: int) -> None:
        self.world.kill(name, slots)

    @rule(looks=st.integers(1, 100))
    def time_goes_on(self, looks: int) -> None:
        for _ in range(looks):
            for name, target in self.world.targets.items():
                if target.error:
                    self.bad_since.setdefault(name, self.world.now + timedelta(seconds=LOOK_SECONDS))
            before = {name: target.holes for name, target in self.world.targets.items() if not target.error}
            for message in self.world.look():
                self.check_counts(message, before)
                self.told[message.receiver, message.incident].append(message)

    def check_counts(self, message: Message, before: dict[str, SlotTally]) -> None:
        """What a recovery says about slots is what the store has."""
        if message.state is MessageState.RECOVERED:
            lacking = [before[member.name] for member in message.members]
            assert message.slots == add_tallies(lacking)
            assert message.slots.pending == 0

    @rule(at=st.integers(0, 5))
    def somebody_acknowledges(self, at: int) -> None:
        self.change(at, acknowledged_at=self.world.now, acknowledged_by="ann")

    @rule(at=st.integers(0, 5), minutes=st.integers(1, 120))
    def somebody_silences(self, at: int, minutes: int) -> None:
        self.change(at, silenced_until=self.world.now + timedelta(minutes=minutes))

    @rule()
    def the_process_is_killed_and_started(self) -> None:
        self.world.restart()

    def change(self, at: int, **changes: object) -> None:
        incidents = list(self.world.state.incidents)
        if at < len(incidents):
            incidents[at] = replace(incidents[at], **changes)  # type: ignore[arg-type]
            self.world.state = replace(self.world.state, incidents=tuple(incidents))

    @invariant()
    def one_message_a_state_in_their_order(self) -> None:
        for messages in self.told.values():
            assert [message.number for message in messages] == list(range(1, len(messages) + 1))
            is_told = False
            for message in messages:
                if message.state in (MessageState.OPENED, MessageState.RECOVERED):
                    assert is_told == (message.state is MessageState.RECOVERED)
                    is_told = message.state is MessageState.OPENED
                assert is_told or message.state is MessageState.RECOVERED

    @invariant()
    def no_stream(self) -> None:
        """Two messages about one topic are a pause apart, unless the second is about the end."""
        last: dict[tuple[str, str], datetime] = {}
        for message in self.world.messages:
            topic = message.receiver, self.world.kept[message.incident].topic
            if message.state is not MessageState.RECOVERED:
                assert topic not in last or message.at - last[topic] >= timedelta(seconds=PAUSE)
            last[topic] = message.at

    @invariant()
    def nobody_is_left_in_the_dark(self) -> None:
        """A target that has failed for longer than wait and pause is in an incident that was told, or is quiet."""
        for name, since in self.bad_since.items():
            if self.world.now - since > timedelta(seconds=WAIT + PAUSE + 2 * LOOK_SECONDS):
                holders = [each for each in self.world.state.incidents if name in each.members and each.is_open]
                assert any(self.is_told_or_quiet(each, since) for each in holders), name

    def is_told_or_quiet(self, incident: Incident, since: datetime) -> bool:
        quiet_until = incident.silenced_until
        was_quiet = quiet_until is not None and self.world.now - quiet_until < timedelta(seconds=WAIT + PAUSE)
        notice = incident.notices.get("ops")
        return bool(incident.acknowledged_at or was_quiet or (notice and notice.told_since))

    @invariant()
    def what_is_over_is_no_longer_kept_in_mind(self) -> None:
        for incident in self.world.state.incidents:
            assert incident.is_open or any(notice.told_since for notice in incident.notices.values())

    def teardown(self) -> None:
        """When all is well for long enough, everybody who was told of a beginning is told of its end."""
        for name in NAMES:
            self.world.heal(name)
            self.world.fill(name)
        self.bad_since.clear()
        self.time_goes_on(2 * 3600 // LOOK_SECONDS + 20)
        assert self.world.state.incidents == ()
        for messages in self.told.values():
            assert messages[-1].state is MessageState.RECOVERED


AlertsMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestAlerts = AlertsMachine.TestCase
