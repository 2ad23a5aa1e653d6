"""Those who are told of incidents: they answer, refuse, hang, or take a message and let nobody know."""

from __future__ import annotations

import random
from collections.abc import Callable
from enum import Enum

from kizami.alerts.rules.settings import AlertSettings, Rule, parse_alerts
from kizami.local.alerts.calls import TIMEOUT_SECONDS, Undelivered
from kizami.local.alerts.outbox import OutgoingMessage
from simulation.world.timeline import Timeline

NAMES = ("ops", "night")

OnHearing = Callable[[str, OutgoingMessage, bool], None]  # who, what, and whether the answer arrives


class ReceiverMood(Enum):
    """How a receiver behaves for a while."""

    WELL = "well"
    SLOW = "slow"
    REFUSES = "refuses"
    HANGS = "hangs"
    UNHEARD = "unheard"  # it takes the message, and its answer is lost


class SimulatedReceivers:
    """All of them, each in its mood; `on_hearing` is told of each message that one has."""

    def __init__(self, chance: random.Random, on_hearing: OnHearing) -> None:
        self._chance = chance
        self._on_hearing = on_hearing
        self._moods: dict[str, ReceiverMood] = {}

    def set_mood(self, name: str, mood: ReceiverMood) -> None:
        self._moods[name] = mood

    def make_well(self) -> None:
        self._moods.clear()

    def deliver(self, timeline: Timeline, rule: Rule, outgoing: OutgoingMessage) -> None:
        """As `kizami.local.alerts.receivers.deliver`, in simulated time."""
        mood, seconds = self._moods.get(rule.name, ReceiverMood.WELL), 0.01 + self._chance.random() * 0.2
        if mood is ReceiverMood.SLOW:
            seconds = self._chance.random() * TIMEOUT_SECONDS
        if mood in (ReceiverMood.HANGS, ReceiverMood.UNHEARD):
            if mood is ReceiverMood.UNHEARD:
                self._on_hearing(rule.name, outgoing, False)
            timeline.pause(TIMEOUT_SECONDS)
            raise Undelivered(f"no answer within {TIMEOUT_SECONDS:g} s")
        timeline.pause(seconds)
        if mood is ReceiverMood.REFUSES:
            raise Undelivered("status 503, expected 200 to 299")
        self._on_hearing(rule.name, outgoing, True)


def draw_alerts(chance: random.Random) -> AlertSettings:
    """Somebody who wants to know everything, and somebody who is patient."""
    ops = {"name": NAMES[0], "to": "https://ops.example/", "wait": chance.choice(("0s", "30s", "2m"))}
    night = {"name": NAMES[1], "to": "https://night.example/", "wait": "5m", "targets": ["t1*", "n*"]}
    pause = chance.choice(("0s", "5m", "15m"))
    return parse_alerts({"alerts": [ops | {"pause": pause}, night]}, "simulated")
