"""What a seed draws: the targets, and what befalls them, their hosts and their machine, and when."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from kizami.core.answers.answer import Answer
from kizami.core.answers.values import parse_expression
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target
from simulation.world.apis import SECRET_NAME, Mood
from simulation.world.timeline import SECOND

PATH = "/count?name={name}&from={{from}}&to={{to}}"

_HOSTS = 4
_KEPT = (600, 7800, 14_400)  # seconds after the lag: less than may be said in production


@dataclass(frozen=True, slots=True)
class Pace:
    """How many targets there are, and how often they are polled."""

    targets: int
    intervals: tuple[int, ...]


def draw_pace(chance: random.Random, many: int) -> Pace:
    """A few quick ones, some of all kinds, or many slow ones."""
    quick, mixed = Pace(3, (1, 2, 5)), Pace(8, (5, 10, 15, 30, 60, 300))
    return chance.choice((quick, mixed, Pace(many, (300, 900, 900, 1800, 3600, 3600))))


class Fault(Enum):
    """What can befall a machine; a mood befalls a host."""

    MOOD = "mood of a host"
    KILL = "kill -9"
    POWER = "loss of power"
    KILL_IN_WRITE = "kill -9 in a write"
    POWER_IN_WRITE = "loss of power in a write"
    STOP = "stop and start"
    FULL_DISK = "full disk"
    FAILING_DISK = "failing disk"
    SLOW_DISK = "slow disk"
    CLOCK_JUMP = "clock set"
    CLOCK_DRIFT = "clock drifts"
    STALL = "process stood still"
    RELOAD = "reload"
    PAUSE = "pause"
    RESUME = "resume"
    BACKFILL = "backfill of gaps"
    REDRIVE = "redrive"
    PURGE = "purge"
    STATUS = "status read"
    COPY = "backup by hand"
    RESTORE = "restore of a backup"
    RECEIVER = "mood of a receiver"
    READER = "long read by another"


_WEIGHTS = {
    Fault.MOOD: 14,
    Fault.KILL: 3,
    Fault.POWER: 3,
    Fault.KILL_IN_WRITE: 3,
    Fault.POWER_IN_WRITE: 3,
    Fault.STOP: 2,
    Fault.FULL_DISK: 2,
    Fault.FAILING_DISK: 1,
    Fault.SLOW_DISK: 2,
    Fault.CLOCK_JUMP: 2,
    Fault.CLOCK_DRIFT: 1,
    Fault.STALL: 2,
    Fault.RELOAD: 4,
    Fault.PAUSE: 2,
    Fault.RESUME: 3,
    Fault.BACKFILL: 3,
    Fault.REDRIVE: 3,
    Fault.PURGE: 1,
    Fault.STATUS: 4,
    Fault.COPY: 1,
    Fault.RESTORE: 1,
    Fault.RECEIVER: 4,
    Fault.READER: 1,
}


@dataclass(frozen=True, slots=True)
class Event:
    """A fault, when it comes, and how long it stays; `pick` chooses among whatever there is then."""

    moment: int
    fault: Fault
    seconds: float
    pick: random.Random


def draw_targets(chance: random.Random, pace: Pace) -> list[Target]:
    """Targets at a few hosts."""
    return [draw_target(chance, f"t{number}", pace.intervals) for number in range(pace.targets)]


def draw_target(chance: random.Random, name: str, intervals: Sequence[int]) -> Target:
    interval = chance.choice(intervals)
    target = Target(
        name=name,
        url=f"http://host{chance.randrange(_HOSTS)}.example",
        path=PATH.format(name=name),
        interval_seconds=interval,
        lag_seconds=interval * chance.choice((1, 1, 1, 2)),
        timeout_seconds=chance.choice((1.0, 5.0, 10.0)),
        headers={"x-api-key": SecretReference("env", SECRET_NAME)},
        backfill=chance.random() > 0.1,
        answer=Answer(echo=chance.choice((True, None))),
    )
    if chance.random() < 0.3:
        target = replace(target, keep_seconds=target.lag_seconds + chance.choice(_KEPT))
    if chance.random() < 0.15:
        values = (("one", parse_expression("/count")), ("two", parse_expression("/double")))
        return replace(target, answer=replace(target.answer, values=values))
    return target


def changed_targets(targets: Sequence[Target], chance: random.Random) -> list[Target]:
    """The targets of another file: one more, one less, or one that is asked otherwise."""
    changed, intervals = list(targets), [target.interval_seconds for target in targets]
    number = chance.randrange(len(changed))
    match chance.randrange(4):
        case 0:
            changed.append(draw_target(chance, f"n{chance.randrange(1000)}", intervals))
        case 1 if len(changed) > 2:
            del changed[number]
        case 2:
            changed[number] = _asked_otherwise(
                changed[number], draw_target(chance, changed[number].name, intervals)
            )
        case _:
            changed[number] = replace(changed[number], enabled=not changed[number].enabled)
    return list({target.name: target for target in changed}.values())


def _asked_otherwise(before: Target, drawn: Target) -> Target:
    """As drawn; but whether it has one value or several cannot change."""
    return replace(drawn, answer=replace(drawn.answer, values=before.answer.values, count=before.answer.count))


def draw_events(chance: random.Random, start: int, seconds: float, per_day: float) -> Iterator[Event]:
    """The faults of so long a time, about so many a day."""
    kinds, weights = list(_WEIGHTS), list(_WEIGHTS.values())
    moment = start
    while True:
        moment += round(chance.expovariate(per_day / 86_400) * SECOND)
        if moment >= start + seconds * SECOND:
            return
        lasts = chance.choice((2.0, 15.0, 90.0, 600.0, 3600.0)) * (0.5 + chance.random())
        yield Event(moment, chance.choices(kinds, weights)[0], lasts, random.Random(chance.getrandbits(64)))


def draw_mood(chance: random.Random) -> tuple[str, Mood]:
    return f"host{chance.randrange(_HOSTS)}.example", chance.choice(
        [mood for mood in Mood if mood is not Mood.WELL]
    )
