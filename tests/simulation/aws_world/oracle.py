"""Who knows every right answer, and looks at everything that happens on AWS whether it may."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

from kizami.aggregation.points import point_day
from kizami.aws.backend import AwsBackend
from kizami.aws.deliveries import ATTEMPTS
from kizami.aws.ticks_backend import TicksBackend
from kizami.core.coverage import due_span, find_gaps
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.errors import InvalidInput, KizamiError, QueueError, StoreError
from kizami.core.messages import read_bundle
from kizami.core.slots import format_instant, parse_instant
from simulation.aws_world.containers import CURRENT
from simulation.aws_world.deployment import COMPANIES, METRICS, Deployment
from simulation.aws_world.dynamodb import SimulatedDynamoDb, Table
from simulation.aws_world.expressions import Item
from simulation.aws_world.sqs import Message, SimulatedQueue
from simulation.aws_world.ticks_oracle import TicksOracle
from simulation.world.apis import Asked
from simulation.world.oracle import Violation
from simulation.world.timeline import SECOND, Timeline

_ZONE = ZoneInfo("Asia/Tokyo")
_LINES, _LINES_A_STEP = 1000, 8  # of the log: at most so many, and so many an invocation or a request
_WAITING = 5000  # messages on all queues, at most
_OF_KIZAMI = "which is a fault of kizami"

Slot = tuple[str, str]  # of which metric, which one


class StackOracle:
    """What was asked, answered, stored and settled so far. A violation ends the simulation, whoever causes it."""

    def __init__(
        self,
        timeline: Timeline,
        queues: dict[str, SimulatedQueue],
        steps: Callable[[], int],
        happened: Callable[..., None] = lambda *_: None,
    ) -> None:
        self.secrets: set[str] = set()
        self.requests = self.records = 0
        self.is_quiet = False  # nothing befalls the stack any more
        self.deployment: Deployment | None = None
        self._timeline = timeline
        self._queues = queues
        self._steps = steps
        self._dynamodb: SimulatedDynamoDb | None = None
        self._answers: dict[tuple[str, int], set[int]] = {}
        self._granted: set[tuple[str, str, int]] = set()
        self._told: dict[int, str] = {}  # of each incident, what its receiver was told last
        self._lines = 0
        self.ticks = TicksOracle(timeline, queues, self._answers, self.broken, happened)

    def watch(self, dynamodb: SimulatedDynamoDb) -> None:
        self._dynamodb = dynamodb
        self.ticks.watch(dynamodb)

    def deployed(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.ticks.deployed(deployment)

    @property
    def _has_plan(self) -> bool:
        return self.deployment is not None and self.deployment.has_plan

    def broken(self, words: str) -> None:
        """Raised outside of the functions, which would catch it."""

        def raise_it() -> None:
            raise Violation(words)

        self._timeline.at(self._timeline.now, raise_it)

    # APIs

    def asked(self, asked: Asked) -> None:
        self.requests += 1
        if self._timeline.now < (asked.slot + asked.seconds) * SECOND:
            self.broken(f"{asked} was asked before its end")
        if self._has_plan:
            self.ticks.asked(asked)

    def answered(self, asked: Asked, value: int) -> None:
        for metric, count in ((asked.name, value), (f"{asked.name}/one", value), (f"{asked.name}/two", 2 * value)):
            self._answers.setdefault((metric, asked.slot), set()).add(count)

    def told(self, body: bytes) -> None:
        """A receiver has taken a message about an incident: first that it has begun, last that it is over."""
        message = json.loads(body)
        number, state = message["incident"]["number"], message["state"]
        if number not in self._told and state != "opened":
            self.broken(f"incident {number} is told to be {state}, and never to have begun")
        self._told[number] = state

    # Tables

    def changed(self, table: str, before: Item | None, after: Item | None) -> None:
        """An item is about to change."""
        match table:
            case "AiResponseMetrics" if self._has_plan:
                self.ticks.changed(before, after)
            case "AiResponseMetrics":
                self._record_changed(before, after)
            case "Points":
                self._points_changed(before, after)

    def _record_changed(self, before: Item | None, after: Item | None) -> None:
        item = after or before
        assert item is not None
        metric, slot = item["metricName"]["S"], item["slotTime"]["S"]
        if metric.startswith("#"):
            return
        if before is not None or after is None:
            self.broken(f"{metric} {slot} was {before}, and is {after}")
            return
        self.records += 1
        count = int(after["count"]["N"])
        if count not in self._answers.get((metric, to_seconds(parse_instant(slot))), ()):
            self.broken(f"{metric} {slot} is stored as {count}, which no API has ever answered")

    def _points_changed(self, before: Item | None, after: Item | None) -> None:
        assert after is not None
        company, user = after["CompanyId"]["S"], after["UserMonth"]["S"]
        day = point_day(from_seconds(int(after["UpdateTimestamp"]["N"])), _ZONE).start
        if int(after["Points"]["N"]) != int(before["Points"]["N"] if before else 0) + 1:
            self.broken(f"the points of {user} went from {before} to {after}")
        if (company, user, day) in self._granted:
            self.broken(f"{user} of {company} got a second point for {from_seconds(day)}")
        self._granted.add((company, user, day))
        self._require_lock(company)

    def _require_lock(self, company: str) -> None:
        """Who grants has the lock; a message that came twice shares its own."""
        container = CURRENT.get(None)
        if container is None:
            return  # a call that hung, and was carried out after all
        assert self._dynamodb is not None
        owner = self._dynamodb.tables[COMPANIES].items[company, ""].get("LockOwner", {}).get("S")
        queue = self._queues["companies"]
        came_once = all(queue.messages[id].receives == 1 for id in container.deliveries if id in queue.messages)
        if came_once and owner not in container.deliveries:
            self.broken(f"{company}: {container.deliveries} grants points while {owner} has the lock")

    # Queues

    def settled(self, queue: SimulatedQueue, message: Message) -> None:
        """A message is deleted: what it asked for is there, or somebody else sees to it."""
        if queue.name == "companies":
            return
        if self._has_plan:
            self.ticks.settled(message)
            return
        for metric, slot in _slots_of(message):
            if not self._is_stored(metric, slot) and (metric, slot) not in self.waiting(except_for=message):
                self.broken(f"{message.id} is settled, but {metric} {slot} is nowhere")

    def waiting(self, except_for: Message | None = None) -> set[Slot]:
        """What is on a queue, or a dead letter."""
        names = ("live", "dead")
        messages = (each for name in names for each in self._queues[name].messages.values())
        return {slot for message in messages if message is not except_for for slot in _slots_of(message)}

    def sent(self, queue: SimulatedQueue, message: Message, limit: int) -> None:
        """A message was put on a queue."""
        made = int(message.attributes.get(ATTEMPTS, "0"))
        if self._has_plan:
            self.ticks.sent(queue, message, limit)
        elif made > limit or (made == limit and queue.name != "dead"):
            self.broken(f"{message.id} comes after {made} of {limit} attempts")
        if sum(len(each.messages) for each in self._queues.values()) > _WAITING:
            self._require_few(limit)

    def _require_few(self, limit: int) -> None:
        """SQS may deliver a message twice at each attempt, and so make many of it; different ones are few."""
        copies = Counter(each.body for queue in self._queues.values() for each in queue.messages.values())
        if len(copies) > _WAITING or max(copies.values()) > 2 * 2**limit:
            self.broken(f"{copies.total()} messages are on the queues, {len(copies)} of them different")

    def _is_stored(self, metric: str, slot: str) -> bool:
        assert self._dynamodb is not None
        return (metric, slot) in self._dynamodb.tables[METRICS].items

    # Functions

    def raised(self, function: str, error: KizamiError) -> None:
        """Who is called by a rule fails only as long as a service of AWS does."""
        is_weather = isinstance(error, StoreError | QueueError) and not self.is_quiet
        if function in ("sender", "reconciler", "dispatcher") and not is_weather:
            self.broken(f"the {function} fails: {error}")

    # The log

    def logged(self, line: str) -> None:
        self._lines += 1
        for secret in self.secrets:
            if secret in line:
                self.broken(f"a secret is in the log: {line}")
        if _OF_KIZAMI in line or ('"slot.failed"' in line and '"stackTrace"' in line):
            self.broken(f"a fault of kizami: {line}")
        if self._lines > _LINES + _LINES_A_STEP * self._steps():
            self.broken(f"{self._lines} log lines after {self._steps()} steps; the last: {line[:200]}")

    # What is told

    def check_told(self, backend: AwsBackend | TicksBackend, now: datetime) -> None:
        """No slot of the original target is told in two states, and what is stored is told as stored."""
        assert self._dynamodb is not None
        order = self._dynamodb.tables[METRICS].order
        known = {each.name: each for each in backend.targets() if each.is_on and each.name in order}
        spans = {name: due_span(each, each.first_slot, now) for name, each in known.items()}
        for name, told in backend.slot_counts(spans).items():
            first, last = format_instant(spans[name].start), format_instant(spans[name].end)
            stored = sum(first <= slot < last for slot in order[name])
            if told.stored != stored or told.stored + told.pending + told.dead > spans[name].expected:
                self.broken(f"{told} of {spans[name].expected} slots of {name} are told, {stored} are stored")

    # The end

    def check_whole(self, now: datetime) -> None:
        """After a quiet time nothing waits, and all that could be stored is."""
        assert self.deployment is not None
        if self._has_plan:
            self.ticks.check_whole(now)
        else:
            self._require_rows(self.deployment, now)
        self._require_nothing_waiting()
        self._require_no_incident()

    def _require_rows(self, deployment: Deployment, now: datetime) -> None:
        assert self._dynamodb is not None
        (target,) = deployment.config.targets
        order = self._dynamodb.tables[METRICS].order.get(target.name, ())
        slots = [parse_instant(slot) for slot in order]
        if not slots:
            self.broken("there is no record at all")
            return
        span = due_span(target, slots[0], now, deployment.stack.grace_seconds)
        if gaps := list(find_gaps(span, slots)):
            self.broken(f"{target.name} still lacks {gaps[:3]} after a quiet time")

    def _require_nothing_waiting(self) -> None:
        for name in ("live", "retry", "backfill"):
            for message in self._queues[name].messages.values():
                if message.receives > 1 or message.visible_at < self._timeline.now - 60 * SECOND:
                    self.broken(f"{message} still waits after a quiet time")

    def _require_no_incident(self) -> None:
        assert self._dynamodb is not None
        for (partition, key), item in self._dynamodb.tables[METRICS].items.items():
            if partition == "#alerts" and key.startswith("incident/") and "over" not in item:
                self.broken(f"{key} is not over after a quiet time")
            if partition == "#alerts" and key.startswith("outbox/"):
                self.broken(f"{key} is not delivered after a quiet time")
        for number, state in self._told.items():
            if state != "recovered":
                self.broken(f"incident {number} is over, and was last told to be {state}")
        self._require_named_parts(self._dynamodb.tables[METRICS])

    def _require_named_parts(self, table: Table) -> None:
        """Every part of a long document is of the version that its head names."""
        for partition, key in table.items:
            if partition == "#alerts" and key.startswith("part/"):
                head, version, _ = key.removeprefix("part/").rsplit("/", 2)
                if table.items.get((partition, head), {}).get("version") != {"S": version}:
                    self.broken(f"{key} is left over")

    def check_points(self, users: dict[str, dict[str, str]], now: datetime) -> None:
        """Everybody who was detected today has the day's point; a lock of a run that died may still stand."""
        assert self._dynamodb is not None
        day = point_day(now, _ZONE)
        for company, kinds in users.items():
            if "UpdateAt" in self._dynamodb.tables[COMPANIES].items[company, ""]:
                continue
            for user, kind in kinds.items():
                has_point = (company, f"{user}#{day.month}", day.start) in self._granted
                if has_point != (kind == "today"):
                    self.broken(f"{user} of {company} is {kind}, and has {'a' if has_point else 'no'} point")


def _slots_of(message: Message) -> Iterator[Slot]:
    """What a message asks for; nothing, if it is none of ours."""
    try:
        bundle = read_bundle(message.body)
    except InvalidInput:
        return
    start = json.loads(message.body)["from"]
    yield from ((metric, start) for metric in bundle.metrics)
