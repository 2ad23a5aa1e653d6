"""Deliveries of bundles whose members may hang or fail: a simulation of queues and Lambda with the real policy.

Decided by the functions' own code: slow, held and probed targets and the live deadline (`core/holding`), retries
(`core/retries`) and their messages (`aws/returns`), bundles (`core/bundles`), shares of concurrency
(`cdk/concurrency`). What a delivery does in which order is that of `aws/collect`. Hosts fall ill all at once, at
ONSET, and stay so.

Durations, CPU and prices are those of `kizami cost`. Counted is what hosts in trouble can change: the Collector,
SQS, ticks, states and logs. Sender, reconciler, sealing and storage are left out of the bill.

Not modelled: cold starts, SQS's jitter and disorder, throttling, crashes, answers that are only slow, recovery.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from math import ceil, inf

from bench.at_scale.queues import Action, Agenda, CallingQueue
from kizami.aws.costs import assumptions as given
from kizami.aws.costs.deployment import BUNDLE_GB, MESSAGES_A_CALL, MONTH_SECONDS, billed
from kizami.aws.costs.prices import PRICES
from kizami.aws.returns import Failed, plan_messages
from kizami.aws.settings import DEFAULT_ATTEMPTS
from kizami.cdk.concurrency import divide
from kizami.cdk.settings import Settings
from kizami.core.bundles import Bundle, BundlePlan, make_plan
from kizami.core.errors import ApiError, ApiStatusError, ApiUnreachable
from kizami.core.holding import (
    LIVE_SECONDS,
    Admission,
    TargetState,
    admit,
    keep_slot,
    note_failure,
    probe_slot,
    probe_target,
    reserve_probe,
)
from kizami.core.messages import LIVE, PROBE, RETRY, BundleMessage
from kizami.core.retries import plan_retry, reason_of
from kizami.core.slots import Window, shift
from kizami.core.targets.target import Target

START = datetime(2025, 12, 2, 10, tzinfo=UTC)
ONSET = MINUTE = 60.0
HANG, FAIL = "hang", "answer 503"


@dataclass(frozen=True, slots=True)
class TroubleCase:
    """So many targets, how many of them fall ill and how, and where that happens."""

    targets: int
    ill: int = 0
    illness: str = HANG
    account: int = 1000  # concurrent executions
    grows: bool = False  # event source mappings begin small
    minutes: int = 30  # the bill is that of the second half; late probes repeat every quarter of an hour

    @property
    def healthy(self) -> TroubleCase:
        """The same without illness."""
        return replace(self, ill=0, illness=HANG)

    def __str__(self) -> str:
        ill = f"{self.ill:,} {self.illness}" if self.ill else "healthy"
        account = f", account of {self.account}" if self.account < 1000 else ""
        return f"{self.targets:,}, {ill}{account}{', ramp' if self.grows else ''}"


@dataclass(frozen=True)
class Fleet:
    """Targets of the default timing by name, and their bundles."""

    targets: dict[str, Target]
    plan: BundlePlan


@lru_cache(maxsize=2)
def make_fleet(size: int) -> Fleet:
    """Return a fleet of so many targets."""
    named = (Target(name=f"metric_{number:06d}", url="http://a.example", lag_seconds=5) for number in range(size))
    targets = {target.name: target for target in named}
    return Fleet(targets, make_plan(targets.values()))


@dataclass(frozen=True)
class TroubleResult:
    """What a run came to; the lateness of a tick is for how many seconds its live message waited."""

    late: list[tuple[Bundle, array[float]]]  # tick by tick
    peaks: tuple[int, int]  # of live and retry deliveries at once
    limits: tuple[int, int]
    held: int
    held_after: float  # seconds from the onset until the last one was held
    longest_retry_wait: float
    retry_backlog: int  # in the end
    dollars: float  # of a month like the second half, as far as it is counted

    def lateness(self, since: float, until: float = inf) -> list[float]:
        """Return the lateness of the ticks of a time, the smallest first."""
        found: list[float] = []
        for bundle, late in self.late:
            first, end = (
                min(len(late), max(0, ceil((edge - bundle.offset_seconds) / bundle.interval_seconds)))
                if edge < inf
                else len(late)
                for edge in (since, until)
            )
            found += late[first:end]
        return sorted(found)

    def later_than(self, other: TroubleResult) -> float:
        """Return by how many seconds the tick was later that was delayed most against another run of the fleet."""
        pairs = zip(self.late, other.late, strict=True)
        return max(mine - its for (_, many), (_, others) in pairs for mine, its in zip(many, others, strict=True))


class TroubleRun:
    """One case, run once. With mappings that grow, the live one begins with `grown_to` deliveries at once."""

    def __init__(self, case: TroubleCase, seed: int = 0, grown_to: int = 0) -> None:
        self._case = case
        self._chance = random.Random(seed)
        self._agenda = Agenda()
        self._bill = DeliveryBill()
        fleet = make_fleet(case.targets)
        self._targets, self._bundles = fleet.targets, fleet.plan.bundles
        shares = divide(case.account, sum(1 / bundle.interval_seconds for bundle in self._bundles), Settings())
        first = (max(grown_to, given.POLLERS), given.POLLERS) if case.grows else (inf, inf)
        self._live = CallingQueue(self._agenda, shares.live, self._begin_tick, first[0])
        self._retry = CallingQueue(self._agenda, shares.retry, self._begin_retry, first[1])
        ill = set(self._chance.sample(sorted(self._targets), case.ill))
        self._ill = {
            bundle.name: tuple(member.name for member in bundle.members if member.name in ill)
            for bundle in self._bundles
        }
        self._states: dict[str, TargetState] = {}
        self._held_at: dict[str, float] = {}
        self._late: dict[str, array[float]] = {bundle.name: array("d") for bundle in self._bundles}

    def run(self) -> TroubleResult:
        """Run to the end."""
        half = self._case.minutes * MINUTE / 2
        for bundle in self._bundles:
            self._plan_tick(bundle, bundle.offset_seconds)
        self._agenda.run(half)
        before = self._bill.dollars
        self._agenda.run(2 * half)
        held = sum(state.is_held for state in self._states.values())
        return TroubleResult(
            [(bundle, self._late[bundle.name]) for bundle in self._bundles],
            (self._live.peak, self._retry.peak),
            (self._live.limit, self._retry.limit),
            held,
            max(self._held_at.values(), default=ONSET) - ONSET if held == self._case.ill else inf,
            self._retry.longest_wait,
            self._retry.backlog,
            (self._bill.dollars - before) * MONTH_SECONDS / half,
        )

    # Live deliveries

    def _plan_tick(self, bundle: Bundle, moment: float) -> None:
        def send() -> None:
            self._bill.send(1 / MESSAGES_A_CALL)
            self._live.send((bundle, moment))
            self._plan_tick(bundle, moment + bundle.interval_seconds)

        self._agenda.at(moment, send)

    def _begin_tick(self, message: tuple[Bundle, float], waited: float) -> tuple[float, Action]:
        """Begin a live delivery; that of a bundle without ill members needs no decisions."""
        bundle, moment = message
        self._late[bundle.name].append(waited)
        self._bill.write(2)  # the tick, and its deletion when it is sealed
        ill = self._ill[bundle.name]
        if not ill or moment < ONSET:
            return self._bill.deliver(len(bundle.members), given.SLOWEST_OF_BUNDLE_SECONDS, calls=2), _nothing
        slot = shift(START, moment - bundle.offset_seconds - bundle.lag_seconds)
        about_ill = BundleMessage(Window.of_slot(slot, bundle.interval_seconds), ill, bundle.name)
        return self._begin(about_ill, len(bundle.members) - len(ill))

    def _begin_retry(self, message: BundleMessage, waited: float) -> tuple[float, Action]:
        self._bill.read(0.5)  # its tick
        return self._begin(message, 0)

    # Any delivery, in the order of aws/collect

    def _begin(self, message: BundleMessage, healthy: int) -> tuple[float, Action]:
        """Admit the ill members and send on what another lane asks; the delivery ends with its requests."""
        now, slot = self._now(), message.window.start
        asks: list[str] = []
        slow: list[str] = []
        probes: dict[datetime, list[str]] = {}
        is_held = False
        for name in message.metrics:
            state = self._states.get(name)
            admission = admit(state, self._targets[name], slot, message.lane, now)
            if admission is Admission.SLOW:
                slow.append(name)
            elif state is None or admission is Admission.ASK:
                asks.append(name)
            elif admission is Admission.PROBE:
                probed = self._reserve(name, state, message)
                probes.setdefault(probed, []).append(name)
                is_held |= probed != slot
            else:
                self._save(name, keep_slot(state, slot, message.bundle))
                is_held = True
        if slow:
            self._send(BundleMessage(message.window, tuple(slow), message.bundle, RETRY))
        for at, names in probes.items():
            window = Window.of_slot(at, int(message.window.seconds))
            self._send(BundleMessage(window, tuple(names), message.bundle, PROBE))
        wait = max([self._seconds(name, message.lane) for name in asks], default=0.0)
        longest = max(wait, given.SLOWEST_OF_BUNDLE_SECONDS if healthy else 0.0)
        seconds = self._bill.deliver(healthy + len(asks), longest, calls=2 + bool(slow) + bool(probes))
        return seconds, lambda: self._end(message, asks, wait, is_held)

    def _reserve(self, name: str, state: TargetState, message: BundleMessage) -> datetime:
        """Reserve a probe; return the slot that it asks for."""
        target, slot = self._targets[name], message.window.start
        probed, changed = (
            probe_slot(state, target, slot, message.bundle),
            reserve_probe(state, target, self._now()),
        )
        self._save(name, changed if probed == slot else keep_slot(changed, slot, message.bundle))
        return probed

    def _end(self, message: BundleMessage, asks: Sequence[str], seconds: float, is_held: bool) -> None:
        """Note what failed, write it, and send what goes back."""
        if message.lane == LIVE and self._case.illness == HANG:
            if asks:  # cut off by the live deadline
                self._send(BundleMessage(message.window, tuple(asks), message.bundle, RETRY))
            return
        now, chance, slot = self._now(), self._chance.random(), message.window.start
        error = ApiStatusError(503) if self._case.illness == FAIL else ApiUnreachable("no answer in time")
        failed = []
        for name in asks:
            state = self._states.get(name)
            noted = note_failure(state, self._targets[name], error, slot, message.lane, seconds, now) or state
            if noted is not None and noted.is_held:
                self._held_at.setdefault(name, self._agenda.now)
                noted, is_held = keep_slot(noted, slot, message.bundle), True
            else:
                failed.append(_plan_retry(message, name, error, chance, now))
            self._save(name, noted)
        for again, delay in plan_messages(message, failed):
            self._send(again, delay)
        is_dead = any(each.retry.delay_seconds is None for each in failed)
        if is_dead:
            self._bill.send(1)  # a dead letter
        self._bill.write((is_held and message.lane != LIVE) + is_dead)  # live ones are in the tick's first write

    def _seconds(self, name: str, lane: str) -> float:
        """How long a request of an ill host takes on a lane."""
        if self._case.illness == FAIL:
            return given.API_SECONDS
        target = self._targets[name]
        if lane == PROBE:
            target = probe_target(self._states.get(name), target, self._now())
        return min(LIVE_SECONDS, target.timeout_seconds) if lane == LIVE else target.timeout_seconds

    def _send(self, message: BundleMessage, delay: float = 0.0) -> None:
        self._bill.send(1)
        self._retry.send(message, delay)

    def _save(self, name: str, state: TargetState | None) -> None:
        if state is not None and state is not self._states.get(name):
            self._states[name] = replace(state, version=state.version + 1)
            self._bill.write(1)

    def _now(self) -> datetime:
        return shift(START, self._agenda.now)


class DeliveryBill:
    """What deliveries use, in dollars at list price."""

    def __init__(self) -> None:
        self.dollars = 0.0

    def deliver(self, slots: int, wait: float, calls: int) -> float:
        """Count a delivery of so many requests that waits for so long; return how many seconds it lasts."""
        seconds, dollars = _delivery(slots, wait, calls)
        self.dollars += dollars
        return seconds

    def send(self, requests: float) -> None:
        """Count requests that send messages."""
        self.dollars += requests * _price("sqs_request")

    def write(self, units: float) -> None:
        """Count write units of DynamoDB."""
        self.dollars += units * _price("dynamodb_write")

    def read(self, units: float) -> None:
        """Count read units of DynamoDB."""
        self.dollars += units * _price("dynamodb_read")


@cache
def _price(name: str) -> float:
    return PRICES[name].dollars / PRICES[name].per


@cache
def _delivery(slots: int, wait: float, calls: int) -> tuple[float, float]:
    """Return the seconds and the dollars of a delivery, with reading the states of members and one log line."""
    cpu = given.BUNDLE_CPU + slots * given.BUNDLE_CPU_A_SLOT
    gb_seconds = billed(BUNDLE_GB, cpu, wait + calls * given.AWS_CALL_SECONDS)
    quantities = {
        "lambda_request": 1.0,
        "lambda_gb_second": gb_seconds,
        "sqs_request": 2.0,  # its message is received, and deleted
        "dynamodb_read": 0.5,
        "logs_gb": given.BUNDLE_LINE / 1e9,
    }
    return gb_seconds / BUNDLE_GB, sum(_price(name) * quantity for name, quantity in quantities.items())


def _plan_retry(message: BundleMessage, name: str, error: ApiError, chance: float, now: datetime) -> Failed:
    made = dict(zip(message.metrics, message.attempts, strict=False)).get(name, 0) + 1
    retry = plan_retry(error, made, DEFAULT_ATTEMPTS, int(message.window.seconds), chance, now)
    return Failed(name, retry, reason_of(error))


def _nothing() -> None:
    """The end of a delivery after which nothing is left to do."""
