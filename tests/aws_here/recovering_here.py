"""Runs of the reconciler over AWS in memory, on a clock that a test steps; answers are written without an API.

with recovering(targets("a", "b"), tmp_path) as world:
    world.poll(minutes=20)              # as live deliveries do
    world.pass_by(minutes=30)           # nothing is polled
    world.run()
    world.deliver()                     # what was sent is answered
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from unittest.mock import patch

from aws_here.collecting_here import START, TABLE, URLS, pack, targets
from aws_here.memory_aws import MemoryAws, led_to, memory_aws
from kizami.aws.client.json_client import Fields
from kizami.aws.files import PackagedTargets, write_kept
from kizami.aws.marks import Marks
from kizami.aws.plans import Plans
from kizami.aws.reconcile import Recovery, RecoverySettings
from kizami.aws.sealed import SealedItems, SummaryKey
from kizami.aws.ticks import TickFacts, Ticks
from kizami.core.bundles import Bundle, BundlePlan
from kizami.core.config import parse_config
from kizami.core.epoch import to_seconds
from kizami.core.messages import BundleMessage, read_bundle
from kizami.core.recovery import LookedAfter, Mark, Recovered, seal_mark
from kizami.core.slots import Window, floor_to_minute, shift, slots_between
from kizami.core.summaries import summarize
from kizami.core.ticks import Answered

__all__ = ["START", "TABLE", "URLS", "Facts", "Recovering", "recovering", "targets"]

Facts = Callable[[datetime, frozenset[int]], TickFacts | None]  # what a delivery about a slot finds out


def all_answer(slot: datetime, places: frozenset[int]) -> TickFacts | None:
    """Every member answers."""
    return TickFacts({place: Answered((7,), 0, 9) for place in places})


def without(*places: int) -> Facts:
    """Live deliveries in which these members stay outstanding."""

    def facts(slot: datetime, every: frozenset[int]) -> TickFacts:
        answers = dict.fromkeys(every - set(places), Answered((7,), 0, 9))
        return TickFacts(answers, outstanding=frozenset(places))

    return facts


def holding(place: int) -> Facts:
    """Live deliveries that leave a member out because its target is held."""

    def facts(slot: datetime, every: frozenset[int]) -> TickFacts:
        return TickFacts(dict.fromkeys(every - {place}, Answered((7,), 0, 9)), held=frozenset({place}))

    return facts


@dataclass
class Recovering:
    """A deployment and its clock."""

    aws: MemoryAws
    plan: BundlePlan
    settings: RecoverySettings
    now: datetime = START
    asked: list[BundleMessage] = field(default_factory=list)  # what the last run sent

    @property
    def bundle(self) -> Bundle:
        """The only bundle, or the first of several."""
        return self.plan.bundles[0]

    @property
    def mark(self) -> Mark:
        """The mark of the bundle."""
        return Marks(TABLE).all().of(self.bundle.name)

    def poll(self, minutes: int, facts: Facts = all_answer) -> None:
        """Let minutes pass in which the live deliveries of all bundles find these facts out."""
        plans, ticks = Plans(TABLE), Ticks(TABLE)
        for _ in range(minutes):
            minute = floor_to_minute(self.now)
            assert plans.claim(self.plan, minute)
            for bundle in self.plan.bundles:
                first = shift(minute, -bundle.lag_seconds)
                for slot in slots_between(first, shift(first, 60), bundle.interval_seconds):
                    found = facts(slot, frozenset(range(len(bundle.members))))
                    if found is not None:
                        ticks.put(bundle, slot, found)
            self.now = shift(self.now, 60)

    def pass_by(self, minutes: float) -> None:
        """Let minutes pass in which nothing is polled."""
        self.now = shift(self.now, 60 * minutes)

    def run(self, seconds: float = 120, shard: int = 0, shards: int = 1) -> Recovered:
        """One run, which has so many seconds."""
        before = len(self.queue("backfill"))
        found = Recovery(self.settings, lambda: seconds, shard, shards).run(self.now)
        self.asked = self.queue("backfill")[before:]
        return found

    def run_one(self) -> LookedAfter:
        """One run; return what it found about the only bundle."""
        (found,) = self.run().bundles
        return found

    def queue(self, name: str) -> list[BundleMessage]:
        """The messages on a queue."""
        return [read_bundle(message.body) for message in self.aws.queues.get(name, ())]

    def lose(self) -> None:
        """Let the messages of the backfill queue be lost."""
        self.aws.queues.pop("backfill", None)

    def deliver(self, facts: Facts = all_answer, most: int = 1_000_000) -> int:
        """Deliver messages of the backfill queue as a Collector does; return about how many slots they were."""
        ticks, marks, slots = Ticks(TABLE), Marks(TABLE), 0
        queue = self.aws.queues.get("backfill", None)
        for _ in range(min(most, len(queue or ()))):
            assert queue is not None
            message = read_bundle(queue.popleft().body)
            bundle = self.named(message.bundle)
            for slot in slots_between(message.window.start, message.window.end, bundle.interval_seconds):
                slots += 1
                tick = ticks.at([(bundle, slot)]).get((bundle.name, slot))
                places = frozenset(bundle.places[name] for name in message.metrics)
                places -= tick.answers.keys() if tick else frozenset()
                found = facts(slot, places) if places else None
                if found is not None:
                    marks.note_late(bundle.name, slot, self.now)
                    ticks.record(bundle, slot, found)
        return slots

    def seal(self, end: datetime) -> None:
        """Seal the bundle up to there: a summary, no ticks, and the mark; the values are left out."""
        ticks, bundle, start = Ticks(TABLE), self.bundle, self.mark.sealed_until
        first, last = to_seconds(start), to_seconds(end)
        summary = summarize(bundle, first, last, list(ticks.read(bundle, start, end)))
        assert SealedItems(TABLE).write_summary(SummaryKey(bundle.name, first - first % 3600), summary, None)
        items = list(ticks.items(bundle, start, end))
        for number in range(0, len(items), 25):
            ticks.delete(items[number : number + 25])
        assert Marks(TABLE).save(seal_mark(self.mark, end))

    def place(self, name: str) -> int:
        """The place of a member of the bundle."""
        return self.bundle.places[name]

    def named(self, name: str) -> Bundle:
        found = Plans(TABLE).bundle(name)
        assert found is not None
        return found

    def lacking(self, bundle: Bundle | None = None) -> dict[datetime, frozenset[int]]:
        """Which members have no answer, of the slots from the start until now, by slot."""
        wanted = bundle or self.bundle
        end = shift(self.now, -wanted.lag_seconds)
        ticks = {tick.slot: tick for tick in Ticks(TABLE).read(wanted, shift(START, -86_400), end)}
        every = frozenset(range(len(wanted.members)))
        return {
            slot: places
            for slot in slots_between(shift(START, -wanted.lag_seconds), end, wanted.interval_seconds)
            if (places := every - (ticks[slot].answers.keys() if slot in ticks else frozenset()))
        }

    def windows(self) -> list[Window]:
        """What the messages of the last run ask for."""
        return [message.window for message in self.asked]

    def items(self, partition: str) -> list[Fields]:
        """The items of a partition."""
        return [item for (name, _), item in self.aws.dynamodb.tables[TABLE].items.items() if name == partition]

    def deploy(self, text: str, folder: Path) -> None:
        """Deploy another configuration, whose first minute is the present one."""
        self.plan, packaged = _pack(text, folder)
        Plans(TABLE).register(self.plan)
        self.settings = replace(self.settings, targets=packaged)


def _pack(text: str, folder: Path) -> tuple[BundlePlan, PackagedTargets]:
    filled = text.replace("{url}", "https://api.test").replace("{{", "{").replace("}}", "}")
    packed = pack(filled, folder)
    for name, body in write_kept(parse_config(filled).targets).items():
        (folder / name).write_bytes(body)
    return packed


@contextmanager
def recovering(text: str, folder: Path, aws: MemoryAws | None = None, **changes: object) -> Iterator[Recovering]:
    """A deployment of these targets, polled from START on."""
    plan, packaged = _pack(text, folder)
    there = aws or memory_aws()
    fields: Mapping[str, object] = {"table": TABLE, "urls": URLS, "targets": packaged, **changes}
    world = Recovering(there, plan, RecoverySettings(**fields))  # type: ignore[arg-type]
    in_turn = patch("kizami.aws.client.machine.map_in_threads", lambda call, items, at_once: map(call, items))
    with led_to(there), patch("kizami.aws.client.machine.now", lambda: world.now), in_turn:
        Plans(TABLE).register(plan)
        yield world
