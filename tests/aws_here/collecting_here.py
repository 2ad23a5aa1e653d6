"""Deliveries of configured targets, carried out one by one over AWS in memory, with an API on the loopback.

    with collecting(targets("a", "b"), tmp_path) as world:
        world.api.ways["b"] = 503
        assert world.collect(world.live())
        assert world.values() == {"a": (1,)}
        (message, delay), = world.sent("retry")

The clock goes on by itself and moves with `world.advance`. A `Crash` ends a delivery as the end of a process does.
"""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

from aws_here.memory_aws import MemoryAws, led_to, memory_aws
from fakes.fault_server import Behaviour, Exchange, FaultServer, raw
from kizami.aws.blocks import Blocks
from kizami.aws.client.json_client import Fields
from kizami.aws.collect import CollectSettings, DeliveryCollector
from kizami.aws.deliveries import Delivery
from kizami.aws.files import PackagedTargets, write_files
from kizami.aws.marks import Marks
from kizami.aws.settings import QueueUrls
from kizami.aws.ticks import Ticks
from kizami.core.bundles import Bundle, BundlePlan, make_plan
from kizami.core.config import parse_config
from kizami.core.holding import TargetState
from kizami.core.messages import BundleMessage, read_bundle, write_bundle
from kizami.core.slots import Window, shift
from kizami.core.ticks import Tick

TABLE = "Metrics"
START = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
URLS = QueueUrls(*(f"https://sqs.test/1/{name}" for name in ("live", "retry", "backfill", "dead")))


class Crash(BaseException):
    """The end of a function's process."""


@dataclass
class Api:
    """Answers each request with another count, or as it is told for a name: a status, a behaviour, a count."""

    url: str = ""
    ways: dict[str, int | Behaviour] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)  # name and beginning of the window
    given: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    count: int = 0

    def __call__(self, exchange: Exchange) -> None:
        name = urlsplit(exchange.request.target).path.split("/")[1]
        window = {name: values[0] for name, values in exchange.request.query.items()}
        slot = window.get("from", "")
        self.asked.append((name, slot))
        way = self.ways.get(name, 200)
        if callable(way):
            way(exchange)
            return
        self.count += 1
        if way == 200:
            self.given.setdefault((name, slot), []).append(self.count)
        raw(json.dumps({**window, "count": self.count}).encode(), way)(exchange)


@dataclass
class Collecting:
    """A deployment, its table and queues, and what a test does with them."""

    api: Api
    aws: MemoryAws
    plan: BundlePlan
    settings: CollectSettings
    offset: float = 0.0  # of the clock
    began: float = field(default_factory=time.monotonic)

    @property
    def bundle(self) -> Bundle:
        """The only bundle, or the first of several."""
        return self.plan.bundles[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The members of the bundle, in their order."""
        return tuple(member.name for member in self.bundle.members)

    def now(self) -> datetime:
        return shift(self.slot(), self.bundle.lag_seconds + time.monotonic() - self.began + self.offset)

    def advance(self, seconds: float) -> None:
        self.offset += seconds

    def slot(self, number: int = 0) -> datetime:
        """The slot that is due when the clock starts, or one so many intervals later."""
        return shift(START, number * self.bundle.interval_seconds)

    def live(self, number: int = 0) -> BundleMessage:
        """The live message of that slot; the clock stands at its tick at least."""
        late = (self.now() - self.bundle.due(self.slot(number))).total_seconds()
        self.advance(max(0.0, -late))
        return self.message(self.names, number)

    def message(self, names: tuple[str, ...], number: int = 0, slots: int = 1, **fields: Any) -> BundleMessage:
        start = self.slot(number)
        window = Window(start, shift(start, slots * self.bundle.interval_seconds))
        return BundleMessage(window, names, self.bundle.name, **fields)

    def collect(self, message: BundleMessage | str, receives: int = 1, seconds: float = 30) -> bool:
        """Carry out a delivery; return True if it is acknowledged."""
        body = message if isinstance(message, str) else write_bundle(message)
        collector = DeliveryCollector(self.settings, lambda: seconds)
        return collector.settle(Delivery("message-0", body, str(receives), "receipt-0"))

    def sent(self, queue: str) -> list[tuple[BundleMessage, int]]:
        """Take the messages off a queue, each with the delay that was asked for."""
        messages = list(self.aws.queues.get(queue, ()))
        self.aws.queues.get(queue, messages).clear()
        return [(read_bundle(message.body), message.delay) for message in messages]

    def letters(self) -> list[dict[str, Any]]:
        """Take the dead letters: body and attributes."""
        letters = list(self.aws.queues.get("dead", ()))
        self.aws.queues.get("dead", letters).clear()
        return [
            {"body": each.body, **{name: value["StringValue"] for name, value in each.attributes.items()}}
            for each in letters
        ]

    def tick(self, number: int = 0) -> Tick:
        """The tick of a slot, which is there."""
        (tick,) = Ticks(TABLE).read(self.bundle, self.slot(number), self.slot(number + 1))
        return tick

    def item(self, number: int = 0) -> Fields:
        """The tick as DynamoDB has it."""
        (item,) = Ticks(TABLE).items(self.bundle, self.slot(number), self.slot(number + 1))
        return item

    def values(self, number: int = 0) -> dict[str, tuple[int, ...]]:
        """What is stored of a slot, by target."""
        ticks = Ticks(TABLE).read(self.bundle, self.slot(number), self.slot(number + 1))
        return {self.names[place]: each.values for tick in ticks for place, each in tick.answers.items()}

    def outstanding(self, number: int = 0) -> set[str]:
        return {self.names[place] for place in self.tick(number).outstanding}

    def dead(self, number: int = 0) -> set[str]:
        return {self.names[place] for place in self.tick(number).dead}

    def held(self, number: int = 0) -> set[str]:
        return {self.names[place] for place in self.tick(number).held}

    def is_quiet(self) -> bool:
        """Return True if nothing is on any queue."""
        return not any(self.aws.queues.values())

    def states(self) -> dict[str, TargetState]:
        return Blocks(TABLE).all()

    def late_days(self) -> set[str]:
        """The days of the bundle that are to be sealed again."""
        return {str(day) for day in Marks(TABLE).all().of(self.bundle.name).late_days}

    def calls(self, do: Callable[[], object]) -> dict[str, int]:
        """Return which AWS calls something makes, and how often."""
        self.aws.calls.clear()
        do()
        return dict(self.aws.calls)


def targets(*names: str, **settings: Any) -> str:
    """The configuration of some targets; the API is where `{url}` stands."""
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    return "".join(
        f'[[targets]]\nname = "{name}"\nurl = "{{url}}/{name}"\n{lines}'
        + ("" if "path" in settings else 'path = "/count?from={{from}}&to={{to}}"\n')
        for name in names
    )


def pack(text: str, folder: Path) -> tuple[BundlePlan, PackagedTargets]:
    """Write a configuration in pieces, as it is deployed."""
    config = parse_config(text)
    plan = make_plan(target for target in config.targets if target.enabled)
    tables = {table["name"]: table for table in tomllib.loads(text)["targets"]}
    disabled = [target.name for target in config.targets if not target.enabled]
    for name, body in write_files(plan, tables, disabled).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    return plan, PackagedTargets(str(folder / "bundles"))


@contextmanager
def collecting(text: str, folder: Path, aws: MemoryAws | None = None) -> Iterator[Collecting]:
    """A deployment of these targets; with the `aws` of another one it is the next deployment."""
    api = Api()
    with FaultServer(api) as server:
        api.url = server.url
        plan, packaged = pack(text.replace("{url}", server.url).replace("{{", "{").replace("}}", "}"), folder)
        there = aws or memory_aws()
        world = Collecting(api, there, plan, CollectSettings(TABLE, packaged, URLS, max_attempts=5))
        with led_to(there), patch("kizami.aws.client.machine.now", world.now):
            yield world


def a_while(seconds: float) -> Behaviour:
    """A right answer that takes so long."""

    def behave(exchange: Exchange) -> None:
        exchange.stopping.wait(seconds)
        window = {name: values[0] for name, values in exchange.request.query.items()}
        raw(json.dumps({**window, "count": 7}).encode())(exchange)

    return behave
