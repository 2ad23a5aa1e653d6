"""A world for alerts without a backend: targets that fail and heal as told, their slots, and the looks at them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from kizami.alerts.decision import AlertState, Decision, decide
from kizami.alerts.documents import read_members, read_notices, write_document
from kizami.alerts.findings import AlertFinding, collect, topic_of
from kizami.alerts.messages import Message
from kizami.alerts.rules.conditions import parse_condition
from kizami.alerts.rules.settings import AlertSettings, Rule
from kizami.alerts.seen import Holes, Look
from kizami.backend.health import SlotTally
from kizami.backend.incidents import TROUBLE, Incident, Kind, Member
from kizami.core.coverage import Completeness, add_up
from kizami.core.targets.references import SecretReference

START = datetime(2025, 12, 2, 8, 34, tzinfo=UTC)
LOOK_SECONDS = 15
DAY_SLOTS = 5760


def rule(name: str = "ops", *when: str, wait: int = 120, pause: int = 900, targets: str = "*") -> Rule:
    conditions = tuple(parse_condition(text, "when") for text in when or ("fails", "silent", "dead"))
    return Rule(name, SecretReference("env", name.upper()), conditions, (targets,), wait, pause)


@dataclass
class WorldTarget:
    """A target whose every look is a slot: it is stored, or lacks because of an error."""

    error: str = ""
    lost: str = ""  # it answers, and slots have died lately of this error
    pending: int = 0
    dead: int = 0
    filled: int = 0
    first_slot: datetime | None = None  # of what it lacks

    @property
    def holes(self) -> SlotTally:
        return SlotTally(self.filled, self.pending, self.dead, 0)


@dataclass
class AlertWorld:
    """Targets, the clock, what was decided so far and all that was said."""

    rules: tuple[Rule, ...]
    settings: AlertSettings = field(init=False)
    now: datetime = START
    targets: dict[str, WorldTarget] = field(default_factory=dict)
    state: AlertState = field(default_factory=AlertState)
    messages: list[Message] = field(default_factory=list)
    kept: dict[int, Incident] = field(default_factory=dict)  # all incidents that there ever were

    def __post_init__(self) -> None:
        self.settings = AlertSettings(self.rules)

    def fail(self, name: str, error: str = "status 503, expected 200") -> None:
        self.targets[name].error = error

    def heal(self, name: str) -> None:
        self.targets[name].error = ""

    def fill(self, name: str, slots: int = 1_000_000) -> None:
        """So many slots that wait are asked for with success."""
        target = self.targets[name]
        done = min(slots, target.pending)
        target.pending -= done
        target.filled += done

    def kill(self, name: str, slots: int) -> None:
        """So many slots that wait are given up."""
        target = self.targets[name]
        dead = min(slots, target.pending)
        target.pending -= dead
        target.dead += dead

    def look(self) -> list[Message]:
        """Time goes on by a look; what is said then."""
        self.now += timedelta(seconds=LOOK_SECONDS)
        for target in self.targets.values():
            if target.error:
                target.pending += 1
                target.first_slot = target.first_slot or self.now
        decision = decide(self.state, self.seen(), self.settings, self)
        self._keep(decision)
        return list(decision.messages)

    def look_for(self, seconds: int) -> list[Message]:
        """Look again and again; all that is said meanwhile."""
        return [message for _ in range(seconds // LOOK_SECONDS) for message in self.look()]

    def restart(self) -> None:
        """Go on from what was kept, as after kill -9."""
        self.state = AlertState(
            tuple(_read_again(incident) for incident in self.state.incidents),
            self.state.next_number,
            self.state.told_at,
        )

    def seen(self) -> Look:
        bad = [
            AlertFinding(
                TROUBLE,
                topic_of(target.error or target.lost),
                name,
                frozenset(_kinds(target)),
                target.error or target.lost,
                first_slot=target.first_slot,
            )
            for name, target in self.targets.items()
            if target.error or target.lost
        ]
        return Look(self.now, collect(bad))

    def holes(self, members: Collection[Member]) -> Mapping[str, Holes]:
        """What the store has of what they lacked."""
        return {member.name: Holes(self.targets[member.name].holes) for member in members}

    def coverage(self, members: Collection[Member]) -> Completeness | None:
        """How much of a day they have."""
        targets = [self.targets[member.name] for member in members]
        return add_up(Completeness(DAY_SLOTS - each.pending - each.dead, DAY_SLOTS) for each in targets)

    def _keep(self, decision: Decision) -> None:
        self.state = decision.state
        self.kept |= {incident.number: incident for incident in decision.changed}
        self.messages += decision.messages
        for incident in decision.changed:
            for name in incident.members if not incident.is_open else ():
                target = self.targets[name]
                if not target.error:
                    self.targets[name] = WorldTarget(target.error)


def _kinds(target: WorldTarget) -> Iterator[Kind]:
    if target.error:
        yield Kind.FAILS
    if target.dead or target.lost:
        yield Kind.DEAD


def _read_again(incident: Incident) -> Incident:
    document = write_document(incident)
    again = Incident(
        incident.number,
        incident.group,
        incident.topic,
        incident.cause,
        incident.since,
        read_members(document),
        read_notices(document),
        incident.over_since,
        incident.acknowledged_at,
        incident.acknowledged_by,
        incident.silenced_until,
    )
    assert again == incident
    return again
