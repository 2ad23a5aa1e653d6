"""What a seed draws: what is deployed, and what befalls it, AWS and the polled APIs, and when."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from simulation.world.timeline import SECOND

HOSTS = 3
SERVICES = ("dynamodb", "sqs", "secretsmanager", "sns")
FUNCTIONS = ("sender", "collector", "reconciler", "dispatcher", "aggregation")

Table = dict[str, Any]  # of a kizami.toml

_VALUES = {"one": "/count", "two": "/double"}


class Shape(Enum):
    """How targets are deployed."""

    ORIGINAL = "the original target, by its environment"
    PLAN = "targets of a kizami.toml, in bundles of a plan"


class Fault(Enum):
    """What can befall a stack."""

    MOOD = "mood of a host"
    CRASH = "containers crash in their calls"
    SERVICE = "a service of AWS fails"
    SLOW = "a service of AWS is slow"
    THROTTLE = "functions are throttled"
    TWICE = "messages are delivered twice"
    LATE = "messages are late"
    FORGETFUL = "deleted messages come back"
    PARTLY = "batches are taken in part"
    NO_TRIGGER = "triggers are missing"
    TRIGGERS_TWICE = "triggers are doubled"
    LATE_TRIGGER = "triggers are late"
    ROTATION = "a secret is rotated"
    DEPLOYMENT = "another configuration is deployed"
    COLD = "all containers are replaced"
    STRANGER = "a message that is none of ours"
    STATUS = "status read"
    REDRIVE = "dead letters put back"
    BACKFILL = "missing slots asked for"


_WEIGHTS = {
    Fault.MOOD: 10,
    Fault.CRASH: 4,
    Fault.SERVICE: 6,
    Fault.SLOW: 2,
    Fault.THROTTLE: 2,
    Fault.TWICE: 2,
    Fault.LATE: 2,
    Fault.FORGETFUL: 2,
    Fault.PARTLY: 2,
    Fault.NO_TRIGGER: 2,
    Fault.TRIGGERS_TWICE: 2,
    Fault.LATE_TRIGGER: 2,
    Fault.ROTATION: 3,
    Fault.DEPLOYMENT: 3,
    Fault.COLD: 2,
    Fault.STRANGER: 1,
    Fault.STATUS: 3,
    Fault.REDRIVE: 2,
    Fault.BACKFILL: 2,
}


@dataclass(frozen=True, slots=True)
class StackEvent:
    """A fault, when it comes, and how long it stays; `pick` chooses among whatever there is then."""

    moment: int
    fault: Fault
    seconds: float
    pick: random.Random


@dataclass(frozen=True, slots=True)
class Stack:
    """A deployment, as the context of CDK and a kizami.toml say it."""

    shape: Shape
    targets: tuple[Table, ...]
    visibility_seconds: int
    max_receives: int
    batch_size: int
    reconcile_hours: int
    aggregation_minutes: int
    page_items: int
    bundle_values: int  # that a bundle of a plan has at most
    most_at_once: tuple[int, int, int]  # invocations of the Collector: for live slots, tried again, and backfilled
    former: tuple[Table, ...] = ()  # the targets of the deployment before, which may come back
    alerts: bool = True  # to a receiver of their own, besides the topic

    @property
    def grace_seconds(self) -> int:
        """As kizami.cdk.settings has it."""
        return 60 + self.visibility_seconds * self.max_receives


def draw_stack(chance: random.Random, hours: float) -> Stack:
    shape = chance.choice((Shape.ORIGINAL, Shape.PLAN, Shape.PLAN, Shape.PLAN))
    number = chance.choice((1, 3, 4, 6, 9)) if shape is Shape.PLAN else 0
    return Stack(
        shape,
        tuple(draw_target(chance, f"t{place}") for place in range(number)),
        chance.choice((30, 30, 60, 180)),
        chance.choice((2, 3, 5)),
        chance.choice((1, 1, 1, 5, 10)),
        max(3, int(hours) + 3),
        chance.choice((5, 10)),
        chance.choice((7, 50, 1000)),
        chance.choice((2, 3, 100)),
        chance.choice(((1, 1, 1), (4, 2, 2), (16, 10, 4))),
    )


def draw_target(chance: random.Random, name: str) -> Table:
    host = f"host{chance.randrange(HOSTS)}"
    table: Table = {
        "name": name,
        "url": f"https://{host}.example",
        "path": f"/count?name={name}&from={{from}}&to={{to}}",
        **_draw_timing(chance),
        "timeout": chance.choice(("1s", "5s", "10s")),
        "headers": {"x-api-key": f"secretsmanager:{host}"},
    }
    if chance.random() < 0.15:
        return {**table, "backfill": False, "lag": table["interval"]}
    return {**table, "values": _VALUES} if chance.random() < 0.2 else table


def _draw_timing(chance: random.Random) -> Table:
    interval = chance.choice((5, 10, 15, 30, 60, 60))
    return {"interval": f"{interval}s", "lag": f"{interval * chance.choice((1, 1, 2))}s"}


def with_more(stack: Stack, chance: random.Random) -> Stack:
    """The same with some targets whose records go after a while, maybe their totals too; and maybe alerts."""
    targets = tuple({**table, **_draw_keep(chance)} for table in stack.targets)
    return replace(stack, targets=targets, alerts=chance.random() < 0.7)


def _draw_keep(chance: random.Random) -> Table:
    if chance.random() < 0.6:
        return {}
    return {"keep": "2d", **chance.choice(({}, {}, {"keep_totals": "2d"}, {"keep_totals": "30d"}))}


def changed_stack(stack: Stack, chance: random.Random) -> Stack:
    """The same with one target more, one less, or one that is asked otherwise; or as it was before."""
    if stack.shape is Shape.ORIGINAL:
        return replace(stack, batch_size=chance.choice((1, 5, 10)))
    changed = {table["name"]: table for table in stack.targets}
    name = chance.choice(list(changed))
    table = changed[name]
    match chance.choice(("more", "less", "timeout", "enabled", "timing", "values", "back", "back")):
        case "more":
            added = draw_target(chance, f"n{chance.randrange(1000)}")
            changed[added["name"]] = added
        case "less" if _polled(changed) - {name}:
            del changed[name]
        case "enabled" if _polled(changed) - {name}:
            changed[name] = {**table, "enabled": name not in _polled(changed)}
        case "timing" if "backfill" not in table:
            changed[name] = {**table, **_draw_timing(chance)}
        case "values" if "values" in table:
            changed[name] = {setting: said for setting, said in table.items() if setting != "values"}
        case "values":
            changed[name] = {**table, "values": _VALUES}
        case "back" if stack.former:
            changed = {table["name"]: table for table in stack.former}
        case _:
            changed[name] = {**table, "timeout": chance.choice(("1s", "5s", "10s"))}
    return replace(stack, targets=tuple(changed.values()), former=stack.targets)


def _polled(tables: Mapping[str, Table]) -> set[str]:
    return {name for name, table in tables.items() if table.get("enabled", True)}


def draw_stack_events(
    chance: random.Random, start: int, seconds: float, per_day: float, kinds: Sequence[Fault] = tuple(_WEIGHTS)
) -> Iterator[StackEvent]:
    """The faults of so long a time, about so many a day."""
    weights = [_WEIGHTS[kind] for kind in kinds]
    moment = start
    while True:
        moment += round(chance.expovariate(per_day / 86_400) * SECOND)
        if moment >= start + seconds * SECOND:
            return
        lasts = chance.choice((2.0, 15.0, 90.0, 600.0)) * (0.5 + chance.random())
        yield StackEvent(moment, chance.choices(kinds, weights)[0], lasts, random.Random(chance.getrandbits(64)))
