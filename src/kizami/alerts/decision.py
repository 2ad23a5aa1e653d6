"""The decision: incidents and a look in, incidents and messages out (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from kizami.alerts.incidents import Standing, is_calm, standing, track
from kizami.alerts.messages import Message, write_message
from kizami.alerts.notices import (
    MessageState,
    after_message,
    final_state,
    members_for,
    next_state,
    not_in_maintenance,
)
from kizami.alerts.rules.settings import AlertSettings, Rule
from kizami.alerts.seen import Holes, Look, SlotCounter
from kizami.backend.incidents import NOTHING_TOLD, Incident, Member

Topic = tuple[str, str, str]  # a rule's name, a group and a topic

_REMEMBERED = timedelta(days=1)  # the longest pause


@dataclass(frozen=True, slots=True)
class AlertState:
    """What goes on from look to look: unfinished incidents, and when each receiver was told of each topic."""

    incidents: tuple[Incident, ...] = ()
    next_number: int = 1
    told_at: Mapping[Topic, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows from a look: how it goes on, what has changed and is to be kept, and what is to be said."""

    state: AlertState
    changed: tuple[Incident, ...] = ()
    messages: tuple[Message, ...] = ()


def decide(state: AlertState, look: Look, settings: AlertSettings, slots: SlotCounter) -> Decision:
    """What becomes of the incidents after a look, and who is told."""
    before = {incident.number: incident for incident in state.incidents}
    told_at = {topic: at for topic, at in state.told_at.items() if look.now - at < _REMEMBERED}
    tracked, messages = [], []
    for incident in track(state.incidents, look.findings, look.now, state.next_number):
        settled = _Telling(incident, look, settings, slots, told_at)
        tracked.append(settled.carried_on())
        messages += settled.messages
    changed = [incident for incident in tracked if incident is not before.get(incident.number)]
    unfinished = [incident for incident in tracked if incident.is_open or _is_to_be_told(incident, settings.rules)]
    number = max([state.next_number, *(incident.number + 1 for incident in tracked)])
    return Decision(AlertState(tuple(unfinished), number, told_at), tuple(changed), tuple(messages))


def _is_to_be_told(incident: Incident, rules: Sequence[Rule]) -> bool:
    """Whether somebody who was told of it has still to be told that it is over: he has his quiet."""
    notices = incident.notices
    return any(rule.name in notices and notices[rule.name].told_since is not None for rule in rules)


class _Telling:
    """One incident after one look: whether it is over, and who is told what of it."""

    def __init__(
        self,
        incident: Incident,
        look: Look,
        settings: AlertSettings,
        slots: SlotCounter,
        told_at: dict[Topic, datetime],
    ) -> None:
        self._incident = incident
        self._look = look
        self._settings = settings
        self._slots = slots
        self._told_at = told_at
        self._holes: Mapping[str, Holes] | None = None
        self.messages: list[Message] = []

    def carried_on(self) -> Incident:
        """The incident as it goes on; its messages are then in `messages`."""
        incident, now = self._incident, self._look.now
        if not incident.is_silenced(now):
            for rule in self._settings.rules:
                self._tell(rule)
        if incident.is_open and self._standing(list(incident.members.values())) is Standing.OVER:
            return replace(self._incident, over_since=now)
        return self._incident

    def _tell(self, rule: Rule) -> None:
        incident, now = self._incident, self._look.now
        members = members_for(incident, rule)
        loud = not_in_maintenance(members, self._settings.maintenance, now)
        if not loud:
            return
        notice = incident.notices.get(rule.name, NOTHING_TOLD)
        state = final_state(notice, self._standing(members)) if notice.told_since is not None else None
        topic = rule.name, incident.group, incident.topic
        if state is None and incident.is_open:
            state = next_state(notice, rule, incident, loud, now, self._told_at.get(topic))
        if state is None:
            return
        shown = members if state is MessageState.RECOVERED else loud
        told = after_message(notice, state, len(shown), now)
        self._incident = replace(incident, notices={**incident.notices, rule.name: told})
        self._told_at[topic] = now
        self.messages.append(self._message(rule, state, told.messages, shown))

    def _message(self, rule: Rule, state: MessageState, number: int, members: Sequence[Member]) -> Message:
        incident, look, settings = self._incident, self._look, self._settings
        about = members, self._lacking(), self._slots.coverage(members)
        return write_message(incident, rule.name, state, number, *about, look.now, settings)

    def _standing(self, members: Sequence[Member]) -> Standing:
        if not all(is_calm(member, self._look.now) for member in members):
            return Standing.ONGOING  # without counting anything
        return standing(members, self._lacking(), self._look.now)

    def _lacking(self) -> Mapping[str, Holes]:
        if self._holes is None:
            lacking = [member for member in self._incident.members.values() if member.first_slot is not None]
            self._holes = self._slots.holes(lacking) if lacking else {}
        return self._holes
