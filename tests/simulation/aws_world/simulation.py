"""A seed's days on AWS: the functions themselves, called by rules and queues, until the days are over.

plan (a stack, faults) ─▶ simulation ─▶ functions (containers) ─▶ network ─▶ sqs, dynamodb, apis ─▶ oracle
                              └──▶ trace (what happened, to the byte)
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

from kizami.aws import aggregation, aggregation_dispatcher, collector, reconciler, sender
from kizami.aws.backend import AwsBackend
from kizami.aws.ticks_backend import TicksBackend
from kizami.core.backfill import plan_backfill
from kizami.core.coverage import due_span
from kizami.core.epoch import from_seconds
from kizami.core.errors import QueueError, StoreError
from kizami.core.slots import shift
from simulation.aws_world.apis import RECEIVER_HOST, USERS_HOST, ApisOfHosts, HostKey
from simulation.aws_world.containers import Container
from simulation.aws_world.deployment import COMPANIES, METRICS, POINTS, SECRET_KEY, Deployment
from simulation.aws_world.dynamodb import SimulatedDynamoDb, Table
from simulation.aws_world.functions import EventSource, ScheduleRule, SimulatedFunction, put_environment
from simulation.aws_world.network import ServiceFaults, SimulatedNetwork
from simulation.aws_world.oracle import StackOracle
from simulation.aws_world.pace import draw_pace
from simulation.aws_world.plan import (
    FUNCTIONS,
    HOSTS,
    SERVICES,
    Shape,
    StackEvent,
    changed_stack,
    draw_stack,
    draw_stack_events,
    with_more,
)
from simulation.aws_world.slot_looks import SlotLooks
from simulation.aws_world.sqs import QueueFaults, SimulatedQueue
from simulation.aws_world.surroundings import LogStream, surroundings
from simulation.aws_world.ticks_oracle import LANES
from simulation.shrinking import fewest
from simulation.world.apis import Mood, SimulatedApis
from simulation.world.machine import SimulatedClock
from simulation.world.oracle import Violation
from simulation.world.simulation import Length, Report
from simulation.world.timeline import SECOND, Killed, Timeline
from simulation.world.trace import Trace

# Ten minutes before a day ends in Tokyo, which is the aggregation's; or before an hour, a day and a week of those
# since 1970 end, whose slots are sealed then.
STARTS = {
    Shape.ORIGINAL: round(datetime(2025, 12, 3, 14, 50, tzinfo=UTC).timestamp()) * SECOND,
    Shape.PLAN: round(datetime(2025, 12, 3, 23, 50, tzinfo=UTC).timestamp()) * SECOND,
}
HANDLERS = {
    "sender": (sender, 30),
    "collector": (collector, 30),
    "reconciler": (reconciler, 120),
    "dispatcher": (aggregation_dispatcher, 120),
    "aggregation": (aggregation, 90),
}
_COMPANIES, _USERS = 3, 6
_EXPIRY_SECONDS = 420.0
_STRANGE = ("", "{}", "[1]", '{"from": "now"}', "\u0000", '{"from": "2025-12-02T10:23:00Z"}')


class StackSimulation:
    """One seed; `run` raises Violation where a promise is broken."""

    def __init__(self, seed: int, length: Length, only: frozenset[int] | None = None) -> None:
        self._seed, self._length, self._only = seed, length, only
        chance = random.Random(seed)
        draws = [random.Random(chance.getrandbits(64)) for _ in range(6)]
        self._world, self._inside, services, apis, triggers, calls = draws
        hours = length.days * 24 + length.quiet_seconds / 3600
        self._rest = random.Random(seed + 2)
        self._stack = with_more(draw_stack(self._world, hours), self._rest)
        self._settings = draw_pace(self._rest, self._stack.bundle_values, hours)
        self._start = STARTS[self._stack.shape]
        self._timeline = Timeline(self._start, self._inside)
        self._clock = SimulatedClock(lambda: self._timeline.now)
        self.trace = Trace(lambda: self._timeline.now)
        self._queues = self._make_queues(services)
        self._oracle = StackOracle(self._timeline, self._queues, self._steps, self.trace.add)
        self._dynamodb = self._make_tables(services)
        self._moods = SimulatedApis(apis)
        watchers = self._oracle.asked, self._oracle.answered, self._oracle.told
        self._apis = ApisOfHosts(self._timeline, self._moods, apis, *watchers)
        self._network = SimulatedNetwork(self._timeline, calls, self.trace, self._dynamodb, self._apis)
        self._network.queues = {queue.url: queue for queue in self._queues.values()}
        self._network.on_crash = self._crashed
        self._functions = {
            name: SimulatedFunction(name, module.handler, seconds, self._timeline, self.trace, triggers)
            for name, (module, seconds) in HANDLERS.items()
        }
        for function in self._functions.values():
            function.on_raise = self._oracle.raised
        self._triggers = triggers
        self._faults: Counter[str] = Counter()
        self._rules: dict[str, ScheduleRule] = {}
        self._versions = 0

    # What is there

    def _make_queues(self, chance: random.Random) -> dict[str, SimulatedQueue]:
        dead = SimulatedQueue("dead", self._timeline, chance)
        limits = self._stack.visibility_seconds, self._stack.max_receives
        queues = {name: SimulatedQueue(name, self._timeline, chance, *limits, dead) for name in LANES}
        lost = SimulatedQueue("dead-companies", self._timeline, chance)
        companies = SimulatedQueue("companies", self._timeline, chance, 6 * HANDLERS["aggregation"][1], 5, lost)
        queues |= {"dead": dead, "companies": companies}
        dead.on_delete = lambda message: self._oracle.settled(dead, message)
        for queue in queues.values():
            queue.on_send = lambda message, queue=queue: self._oracle.sent(  # type: ignore[misc]
                queue, message, self._stack.max_receives
            )
        return queues

    def _make_tables(self, chance: random.Random) -> SimulatedDynamoDb:
        dynamodb = SimulatedDynamoDb(chance, self._oracle.changed, self._stack.page_items)
        dynamodb.tables = {
            METRICS: Table("metricName", "slotTime"),
            COMPANIES: Table("CompanyId"),
            POINTS: Table("CompanyId", "UserMonth"),
        }
        self._oracle.watch(dynamodb)
        return dynamodb

    def _make_secrets(self) -> None:
        self._oracle.secrets.add(SECRET_KEY)
        for number in range(HOSTS):
            self._apis.keys[f"host{number}.example"] = HostKey("")
            self._rotate(number, self._world, 0)
        for number in range(_COMPANIES):
            company, key = f"c{number}", f"signing-{self._world.getrandbits(64):016x}"
            self._apis.company_keys[company] = key
            self._network.secrets[f"kizami/aggregation/{company}"] = key
            self._oracle.secrets.add(key)
            kinds = self._world.choices(("today", "today", "yesterday", "never"), k=_USERS)
            self._apis.users[company] = {f"u{place}": kind for place, kind in enumerate(kinds)}
            reference = f"secretsmanager:kizami/aggregation/{company}"
            self._dynamodb.tables[COMPANIES].put({"CompanyId": {"S": company}, "ApiKeyRef": {"S": reference}})

    def _rotate(self, number: int, chance: random.Random, former_seconds: float) -> None:
        value = f"key-{chance.getrandbits(64):016x}"
        self._oracle.secrets.add(value)
        self._network.secrets[f"host{number}"] = value
        until = self._timeline.now + round(former_seconds * SECOND)
        self._apis.keys[f"host{number}.example"].rotate(value, until)

    # The days

    def run(self) -> Report:
        with TemporaryDirectory() as folder, self._quiet_logging():
            log = LogStream(self.trace, self._oracle.logged)
            with surroundings(self._timeline, self._inside, self._network, log, self._settings):
                try:
                    self._live(Path(folder))
                finally:
                    self._timeline.kill()
                    self._timeline.bury()
        return self._report()

    def _live(self, folder: Path) -> None:
        self._folder = folder
        self._make_secrets()
        self._deploy(at_once=True)
        self._expire()
        self._connect()
        for number, event in enumerate(self._events()):
            if self._only is None or number in self._only:
                self._timeline.run(event.moment)
                self._befall(event)
        self._timeline.run(self._start + round(self._length.days * 86_400) * SECOND)
        self._end_quietly()

    def _expire(self) -> None:
        """DynamoDB removes what has expired, now and then some of it."""
        self._dynamodb.expire(self._timeline.now // SECOND, self._rest)
        self._later(_EXPIRY_SECONDS, self._expire)

    def _events(self) -> list[StackEvent]:
        world = random.Random(self._seed + 1)  # not of what was drawn before: fewer faults must not change others
        return list(draw_stack_events(world, self._start, self._length.days * 86_400, self._length.faults_a_day))

    def _connect(self) -> None:
        """Rules and queues call the functions."""
        minutes = {"sender": 1, "reconciler": 5, "dispatcher": self._stack.aggregation_minutes}
        for name, every in minutes.items():
            function = self._functions[name]
            self._rules[name] = ScheduleRule(function, 60 * every, self._timeline, self.trace, self._triggers)
        size, collector = self._stack.batch_size, self._functions["collector"]
        for name, most in zip(LANES, self._stack.most_at_once, strict=True):
            EventSource(self._queues[name], collector, size, self._oracle.settled, most)
        EventSource(self._queues["companies"], self._functions["aggregation"], 1, self._oracle.settled)

    def _deploy(self, *, at_once: bool = False) -> None:
        """Each function gets its new version at a moment of its own, and none an old one."""
        self._versions += 1
        version = self._versions
        deployment = Deployment(self._stack, self._folder / f"v{self._versions}", self._queues)
        self._oracle.deployed(deployment)
        for name, function in self._functions.items():
            update = partial(function.deploy, deployment.environment(name), version)
            self._later(0.0 if at_once else 20 * self._triggers.random(), update)

    def _later(self, seconds: float, call: Callable[[], object]) -> None:
        self._timeline.at(self._timeline.now + round(seconds * SECOND), call)

    def _crashed(self, container: Container) -> None:
        self._functions[container.name.partition("/")[0]].kill(container, "crashed")

    def _steps(self) -> int:
        return self._network.calls + sum(function.invocations for function in self._functions.values())

    # What befalls it

    def _befall(self, event: StackEvent) -> None:
        self.trace.add("fault", event.fault.name, f"{event.seconds:.3f}")
        self._faults[event.fault.value] += 1
        getattr(self, f"_{event.fault.name.lower()}")(event)

    def _mood(self, event: StackEvent) -> None:
        hosts = [*(f"host{number}.example" for number in range(HOSTS)), USERS_HOST, RECEIVER_HOST]
        host, mood = event.pick.choice(hosts), event.pick.choice([mood for mood in Mood if mood is not Mood.WELL])
        self.trace.add("mood", host, mood.value)
        self._moods.set_mood(host, mood, self._timeline.now)
        self._later(event.seconds, lambda: self._moods.set_mood(host, Mood.WELL, self._timeline.now))

    def _crash(self, event: StackEvent) -> None:
        name = event.pick.choice(FUNCTIONS)
        self._network.crash_chance[name] = event.pick.choice((0.02, 0.1, 0.5))  # type: ignore[assignment]
        self._later(event.seconds, lambda: self._network.crash_chance.pop(name, None))

    def _service(self, event: StackEvent) -> None:
        name, fault = event.pick.choice(SERVICES), event.pick.choice(("throttles", "breaks", "loses", "hangs"))
        share = event.pick.choice((0.05, 0.3, 0.9))
        self._set_for_a_while(self._network.faults[name], fault, share, event.seconds)
        self._set_for_a_while(self._dynamodb, "refused_share", share / 2, event.seconds)

    def _slow(self, event: StackEvent) -> None:
        faults = self._network.faults[event.pick.choice(SERVICES)]
        self._set_for_a_while(faults, "slow_seconds", event.pick.choice((0.3, 2.0, 8.0)), event.seconds)

    def _throttle(self, event: StackEvent) -> None:
        function = self._functions[event.pick.choice(FUNCTIONS)]
        self._set_for_a_while(function, "limit", event.pick.choice((0, 1, 2)), event.seconds, None)

    def _twice(self, event: StackEvent) -> None:
        self._fault_of_queue(event, "twice", event.pick.choice((0.1, 0.7)))

    def _late(self, event: StackEvent) -> None:
        self._fault_of_queue(event, "late_seconds", event.pick.choice((2.0, 60.0)))

    def _forgetful(self, event: StackEvent) -> None:
        self._fault_of_queue(event, "forgets_delete", event.pick.choice((0.1, 0.7)))

    def _partly(self, event: StackEvent) -> None:
        self._fault_of_queue(event, "refuses", event.pick.choice((0.1, 0.7)))

    def _fault_of_queue(self, event: StackEvent, fault: str, value: float) -> None:
        queue = self._queues[event.pick.choice(("live", "retry", "backfill", "companies"))]
        self._set_for_a_while(queue.faults, fault, value, event.seconds)

    def _no_trigger(self, event: StackEvent) -> None:
        self._fault_of_rule(event, "missing", event.pick.choice((0.3, 1.0)))

    def _triggers_twice(self, event: StackEvent) -> None:
        self._fault_of_rule(event, "doubled", 1.0)

    def _late_trigger(self, event: StackEvent) -> None:
        self._fault_of_rule(event, "late_seconds", event.pick.choice((10.0, 200.0)))

    def _fault_of_rule(self, event: StackEvent, fault: str, value: float) -> None:
        rule = self._rules[event.pick.choice(sorted(self._rules))]
        self._set_for_a_while(rule, fault, value, max(event.seconds, 90.0))

    def _set_for_a_while(
        self, thing: object, name: str, value: object, seconds: float, well: object = 0.0
    ) -> None:
        setattr(thing, name, value)
        self._later(seconds, lambda: setattr(thing, name, well))

    def _rotation(self, event: StackEvent) -> None:
        number, former_seconds = event.pick.randrange(HOSTS), event.pick.choice((0.0, 60.0, 600.0))
        self.trace.add("rotated", number, former_seconds)
        self._rotate(number, event.pick, former_seconds)

    def _deployment(self, event: StackEvent) -> None:
        self._stack = changed_stack(self._stack, event.pick)
        self._deploy()

    def _cold(self, event: StackEvent) -> None:
        for function in self._functions.values():
            function.cool_down()

    def _stranger(self, event: StackEvent) -> None:
        body = event.pick.choice(_STRANGE)
        self._queues[event.pick.choice(("live", "companies"))].send(body, 0, {})

    def _status(self, event: StackEvent) -> None:
        self._read_status()

    def _read_status(self) -> None:
        with self._verb() as backend:
            deployment = self._oracle.deployment
            assert deployment is not None
            if deployment.has_plan:
                since = from_seconds(self._start // SECOND - 3600)
                looks = SlotLooks(deployment, self._clock, self._oracle.broken)
                looks.check(self._oracle.ticks.check_kept(), since)
            else:
                self._oracle.check_told(backend, self._clock.now())

    def _redrive(self, event: StackEvent) -> None:
        with self._verb(event.pick) as backend:
            self.trace.add("redriven", backend.redrive(backend.dead_letters()))

    def _backfill(self, event: StackEvent) -> None:
        """Of the last twenty minutes."""
        with self._verb(event.pick) as backend:
            now = self._clock.now()
            known = {each.name: each for each in backend.targets() if each.is_on and each.backfill}
            since = shift(now, -1200)
            spans = {name: due_span(each, max(each.first_slot, since), now) for name, each in known.items()}
            gaps = backend.missing(spans)
            sent = backend.backfill(asked for name in gaps for asked in plan_backfill(known[name], gaps[name]))
            self.trace.add("backfilled", sent)

    @contextmanager
    def _verb(self, killed: random.Random | None = None) -> Iterator[AwsBackend | TicksBackend]:
        """As a verb reads and repairs a stack: everything else stands still, and it may be killed at a call."""
        assert self._oracle.deployment is not None
        put_environment(self._oracle.deployment.environment("reconciler"))
        backend = self._oracle.deployment.backend(self._clock)
        if killed is not None and killed.random() < 0.4:
            self._network.verb_calls = killed.randrange(8)
        try:
            yield backend
        except Killed:
            self.trace.add("killed", "verb")
        except (QueueError, StoreError) as error:
            self.trace.add("refused", f"{error}")
        finally:
            self._network.verb_calls = inf

    # The end

    def _end_quietly(self) -> None:
        """All is well from here on: after a while everything is there."""
        self.trace.add("quiet")
        for service in self._network.faults.values():
            for fault in fields(ServiceFaults):
                setattr(service, fault.name, 0.0)
        for queue in self._queues.values():
            queue.faults = QueueFaults()
        for function in self._functions.values():
            function.limit = None
        for rule in self._rules.values():
            rule.missing = rule.doubled = rule.late_seconds = 0.0
        self._network.crash_chance.clear()
        self._dynamodb.refused_share = 0.0
        self._moods.make_well(self._timeline.now)
        if not self._length.quiet_seconds:
            return  # nobody asks what has become of it
        # What was on its way when the faults ended, what is asked for after that, and what that leaves.
        self._later(HANDLERS["reconciler"][1], self._be_quiet)
        seconds = self._length.quiet_seconds + 3 * self._stack.grace_seconds
        self._timeline.run(self._timeline.now + seconds * SECOND)
        self._oracle.check_whole(self._clock.now())
        self._read_status()
        self._oracle.check_points(self._apis.users, self._clock.now())
        self._timeline.run(self._timeline.now)

    def _be_quiet(self) -> None:
        self._oracle.is_quiet = True

    @contextmanager
    def _quiet_logging(self) -> Iterator[None]:
        """The functions set their own log up; afterwards it is as it was."""
        logger = logging.getLogger("kizami")
        handlers, level, propagates = logger.handlers[:], logger.level, logger.propagate
        try:
            yield
        finally:
            logger.handlers[:] = handlers
            logger.setLevel(level)
            logger.propagate = propagates

    def _report(self) -> Report:
        days = (self._timeline.now - self._start) / SECOND / 86_400
        targets = max(1, len(self._stack.targets))
        invocations = sum(function.invocations for function in self._functions.values())
        return Report(
            self._seed,
            days * targets,
            invocations,
            self._oracle.requests,
            self._oracle.records + len(self._oracle.ticks.first),
            self._faults,
            self.trace.kinds,
            self.trace.digest(),
        )


def run_seed(seed: int, length: Length, only: frozenset[int] | None = None) -> Report:
    """Run it; a violation says how to see it again, and has the last lines of its trace."""
    simulation = StackSimulation(seed, length, only)
    try:
        return simulation.run()
    except Violation as error:
        last = "\n".join(list(simulation.trace.last)[-40:])
        raise Violation(f"{command(seed, length, only)}: {error}\n{last}") from error


def command(seed: int, length: Length, only: frozenset[int] | None) -> str:
    """What shows it again."""
    chosen = "" if only is None else f" ONLY={','.join(map(str, sorted(only))) or 'none'}"
    faults = f" FAULTS={length.faults_a_day:g} QUIET={length.quiet_seconds}"
    return f"make simulate WHERE=aws SEED={seed} DAYS={length.days:g}{faults}{chosen}"


def shrink(seed: int, length: Length) -> frozenset[int]:
    """As few of a failing seed's faults as still make it fail."""
    return fewest(len(StackSimulation(seed, length)._events()), lambda few: fails(seed, length, few))


def fails(seed: int, length: Length, only: frozenset[int]) -> bool:
    try:
        run_seed(seed, length, only)
    except Violation:
        return True
    return False
