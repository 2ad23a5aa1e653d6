"""What a month on AWS comes to: how often each part is used, times its list price (pure).

    Installation ─▶ bundles of each timing: what a month of each lane makes ─▶ lines of a bill, in three sections

Prices and figures are in `cost_figures`. Storage is billed as it is at the end of the month.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, exp, log10
from typing import NamedTuple

from kizami.core import cost_figures as given
from kizami.core.bundles import MINUTE, MOST_VALUES
from kizami.core.cost_figures import HOURS, PRICES, CostLine, Section
from kizami.core.errors import InvalidInput
from kizami.core.holding import LIVE_SECONDS, PATIENT_SECONDS, PROBE_SECONDS
from kizami.core.packing import write_number
from kizami.core.recovery import MOST_SLOTS
from kizami.core.sealed_spans import HOUR, span_seconds
from kizami.core.targets.target import DEFAULT_TIMEOUT_SECONDS

DAY, MONTH = 24 * HOUR, 30 * 24 * HOUR
MINUTES, RUN_SECONDS = MONTH // MINUTE, 300
RUNS = MONTH // RUN_SECONDS  # of the reconciler
SHARD_BUNDLES = 250  # that one reconciler looks after
ONE_QUEUE_VALUES = 8  # up to which a plan of one bundle has one queue for all lanes
SEALED_AFTER = 2 * HOUR  # the end of a span
BATCH, KEYS, MESSAGES = 25, 100, 10  # of one call
WRITE_BYTES, READ_BYTES = 1024, 4096  # of a unit
MEMORY_GB = ((20, 0.0), (200, 0.5), (500, 1.0))  # of Sender and reconciler, by bundles
MONITORING = {"full": {"metric": 6, "alarm": 13, "dashboard": 1}, "minimal": {"metric": 0, "alarm": 8}}
AGGREGATION = {"full": {"metric": 2, "alarm": 5}, "minimal": {"metric": 1, "alarm": 5}}
CUSTOMER_KEYS, ZONES = 3, 2
LANES = ("live", "retry", "backfill", "probe")


@dataclass(frozen=True, slots=True)
class PolledTargets:
    """Targets of one kind: how they are polled, and what they answer."""

    count: int = 1
    interval_seconds: int = 5
    values: int = 1  # of an answer
    digits: int = 4  # of a value, as far as they change at random
    keeps_connections: bool = True  # their hosts keep an idle connection open for a minute
    hosts: int | None = None  # that they are on; None: each on one of its own
    keep_days: float | None = None
    backfill: bool = True

    @property
    def metrics(self) -> int:
        return self.count * self.values


@dataclass(frozen=True, slots=True)
class Installation:
    """What is deployed, and how the polled APIs do; shares are of one."""

    targets: Sequence[PolledTargets] = (PolledTargets(),)
    is_original: bool = False  # the one target that needs no configuration: a row for each slot
    failing: float = 0.0  # of the targets are down and answer so at once
    hanging: float = 0.0  # of the targets are down and let requests time out
    failing_once: float = 0.0  # of the requests fail and succeed at the next attempt
    months: int = 1  # since the first record
    secrets: int = 0
    mock: str | None = None  # rest, http
    aggregation: bool = False
    monitoring: str = "full"  # or minimal
    provisioned: tuple[int, int] | None = None  # writes and reads a second; None: on demand
    warnings_only: bool = False
    production: bool = False
    nat_per_zone: bool = False
    flow_logs: str = "rejected"  # or all

    def __post_init__(self) -> None:
        for name, share in (
            ("failing and hanging", self.failing + self.hanging),
            ("failing_once", self.failing_once),
        ):
            if not 0 <= share <= 1:
                raise InvalidInput(name, f"{share:g} is not a share from 0 to 1")


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """The bill of a month."""

    lines: tuple[CostLine, ...]
    growth_bytes: float  # by which what is kept grows with the next month
    notes: tuple[str, ...]

    def total(self, *sections: Section) -> float:
        """Add up the lines of these sections, by default what polling costs."""
        return sum(line.dollars for line in self.lines if line.section in (sections or (Section.POLLING,)))

    def after_free_tier(self) -> list[float]:
        """What remains of each line if nothing else in the account uses up the free tier, which lines share."""
        left = {name: price.free for name, price in PRICES.items()}
        remaining = []
        for line in self.lines:
            free = min(left[line.price_name], line.quantity)
            left[line.price_name] -= free
            remaining.append(line.dollars * (1 - free / line.quantity))
        return remaining


class LaneLoad(NamedTuple):
    """What the messages of one lane make in a month."""

    deliveries: float = 0
    requests: float = 0
    gb_seconds: float = 0


class BundleGroup:
    """The bundles of one timing, and what a month of each lane makes; what is said of one bundle is their mean."""

    def __init__(self, case: Installation, kinds: Sequence[PolledTargets], gigabytes: float) -> None:
        self.case, self.kinds, self.gigabytes = case, kinds, gigabytes
        self.interval = kinds[0].interval_seconds
        self.targets, self.values = sum(kind.count for kind in kinds), sum(kind.metrics for kind in kinds)
        # A bundle is filled with values, and has all values of a target.
        self.count = ceil(sum(kind.count / max(1, MOST_VALUES // kind.values) for kind in kinds))
        self.members = self.targets / max(1, self.count)
        self.up = max(0.0, 1 - case.failing - case.hanging)
        # The share with an answer after the first write; one member alone is waited for.
        self.slow_ticks = 1 - (1 - given.SLOW_ANSWERS) ** (self.members * self.up if self.members > 1 else 0)
        self.ticks = self.count * MONTH / self.interval
        self.span = span_seconds(self.interval)
        self.spans = self.count * MONTH / self.span
        self.tick_bytes = given.ROW_BYTES if case.is_original else self._tick_bytes(given.TIME_BYTES)
        self.tick_units = units(self.tick_bytes, WRITE_BYTES)
        self.summary_bytes = given.SUMMARY_BYTES + self.span / self.interval * given.SUMMARY_SLOT_BYTES
        self.lanes = {"live": self._rows(1.0), "retry": self._rows(case.failing_once)}
        if not case.is_original:
            lanes = {"live": self._live, "retry": self._retry, "backfill": self._backfill, "probe": self._probe}
            self.lanes = {name: load() for name, load in lanes.items()}
        self.requests = sum(lane.requests for lane in self.lanes.values())

    def later_units(self) -> float:
        """Write units of later answers and of ticks that a backfill writes, which have later answers alone."""
        later = self.slow_ticks * self.ticks + self.lanes["retry"].deliveries + self.lanes["probe"].deliveries
        backfilled = self.lanes["backfill"].requests / max(1.0, self.members * self.up)
        return later * self.tick_units + backfilled * units(self._tick_bytes(given.LATE_BYTES), WRITE_BYTES)

    def span_bytes(self, kind: PolledTargets) -> float:
        """A sealed span of a metric."""
        slot = given.SEALED_SLOT_BYTES + given.DIGIT_BYTES * kind.digits
        return given.SPAN_BYTES + self.span / self.interval * slot

    def sealed(self, kind: PolledTargets, unit: int) -> float:
        """Units of all sealed spans of a month; targets that are down have none."""
        return kind.metrics * self.up * MONTH / self.span * units(self.span_bytes(kind), unit)

    def _tick_bytes(self, target_bytes: float) -> float:
        values = sum(kind.metrics * len(write_number(10**kind.digits - 1)) for kind in self.kinds)
        return given.TICK_BYTES + (self.targets * target_bytes + values) / max(1, self.count)

    def _rows(self, share: float) -> LaneLoad:
        """The original target: a message for each slot, and the same message again after a failure."""
        return self._load(self.ticks * share, 1, given.ROW_CPU, given.ANSWER_SECONDS + given.CALL_SECONDS)

    def _live(self) -> LaneLoad:
        """States of the members are read, then all are asked side by side."""
        asked = self.members * self.up
        slow = given.SLOW_SECONDS + given.CALL_SECONDS
        wait = 2 * given.CALL_SECONDS + self.slow_ticks * slow + (1 - self.slow_ticks) * slowest(asked)
        return self._load(self.ticks, asked, self._cpu(asked), wait)

    def _retry(self) -> LaneLoad:
        """Members whose requests failed, in one message a delivery."""
        once, asked = min(1.0, self.case.failing_once + given.FAILED_ONCE), self.members * self.up
        share = 1 - (1 - once) ** asked
        failed = asked * once / share if share else 0.0
        wait = slowest(failed) + 4 * given.CALL_SECONDS
        return self._load(self.ticks * share, failed, given.RETRY_CPU, wait)

    def _backfill(self) -> LaneLoad:
        """Missing ticks, a minute a message."""
        if not self.kinds[0].backfill:
            return LaneLoad()
        asked, slots = self.members * self.up, min(MOST_SLOTS, max(1, MINUTE // self.interval))
        wait = slowest(asked) + 3 * given.CALL_SECONDS
        messages = self.ticks * given.RECOVERED / slots
        return self._load(messages, slots * asked, slots * self._cpu(asked), slots * wait)

    def _probe(self) -> LaneLoad:
        """Held targets, which share a message in each bundle; hanging ones seldom get their whole timeout."""
        held, hanging = (1 - (1 - share) ** self.members for share in (1 - self.up, self.case.hanging))
        answered = (held - hanging) * slowest(self.members * self.case.failing)
        patient = PROBE_SECONDS[-1] / PATIENT_SECONDS if self.kinds[0].backfill else 1.0
        timeout = patient * DEFAULT_TIMEOUT_SECONDS + (1 - patient) * LIVE_SECONDS
        wait = 4 * given.CALL_SECONDS + (hanging * timeout + answered) / (held or 1.0)
        messages = self.count * held * MONTH / max(PROBE_SECONDS[-1], self.interval)
        return self._load(messages, self.members * (1 - self.up) / (held or 1.0), given.RETRY_CPU, wait)

    def _cpu(self, asked: float) -> float:
        if self.members <= 1:
            return given.ONE_CPU
        return given.BUNDLE_CPU + asked * (given.SLOT_CPU + (self.values / self.targets - 1) * given.VALUE_CPU)

    def _load(self, deliveries: float, requests: float, cpu: float, waited: float) -> LaneLoad:
        return LaneLoad(deliveries, deliveries * requests, deliveries * billed(self.gigabytes, cpu, waited))


class _Month:
    """All that lines are made of."""

    def __init__(self, case: Installation) -> None:
        self.case = case
        timings: dict[tuple[int, bool], list[PolledTargets]] = {}
        for kind in case.targets:
            timings.setdefault((kind.interval_seconds, kind.backfill), []).append(kind)
        self.size = sum(kind.count for kind in case.targets)
        self.gigabytes = given.SMALL_GB if self.size <= 1 else given.BUNDLE_GB
        self.groups = [BundleGroup(case, kinds, self.gigabytes) for kinds in timings.values()]
        self.bundles = sum(group.count for group in self.groups)
        self.values = sum(group.values for group in self.groups)
        # Bundles begin at whole seconds, so those of one second need as many environments of the Collector.
        self.environments = max(1, ceil(self.sum(lambda group: group.count / min(group.interval, MINUTE))))
        self.fresh = self.sum(self._fresh)
        self.kept = self.sum(lambda group: group.requests) - self.fresh
        self.deliveries = sum(self.lane(name).deliveries for name in LANES)

    def sum(self, part: Callable[[BundleGroup], float]) -> float:
        return sum(map(part, self.groups))

    def lane(self, name: str) -> LaneLoad:
        return LaneLoad(*map(sum, zip(*(group.lanes.get(name, LaneLoad()) for group in self.groups), strict=True)))

    def _fresh(self, group: BundleGroup) -> float:
        """Requests with a TLS handshake: deliveries meet an environment, with its kept connections, by chance."""
        hosts = sum(kind.hosts or kind.count for kind in self.case.targets)
        fresh = 0.0
        for kind in group.kinds:
            uses = given.IDLE_SECONDS / group.interval * kind.count / (kind.hosts or kind.count or 1)
            found = 1 - (1 - 1 / self.environments) ** uses if group.interval <= given.IDLE_SECONDS else 0.0
            fresh += kind.count * (1 - kind.keeps_connections * found * min(1.0, given.MOST_KEPT / max(1, hosts)))
        return group.requests * fresh / max(1, group.targets)

    def lines(self) -> Iterator[CostLine]:
        database = [*self._writes(), *self._reads()]
        if self.case.provisioned:
            database = [
                CostLine("DynamoDB", f"hours of a {kind} a second", a_second * HOURS, f"dynamodb_{kind}_unit_hour")
                for kind, a_second in zip(("write", "read"), self.case.provisioned, strict=True)
            ]
        gigabytes = self.stored_bytes(self.case.months) / 1e9
        database.append(CostLine("DynamoDB", "GB kept", gigabytes, "dynamodb_gb"))
        database.append(CostLine("DynamoDB", "GB restorable to any second", gigabytes, "dynamodb_recovery_gb"))
        yield from (*self._lambda(), *database, *self._sqs(), *self._logs(), *self._secrets())
        yield from (*self._apart(), *self._outside())

    def notes(self) -> Iterator[str]:
        """What a reader should know beside the lines."""
        for group in self.groups:
            if group.tick_units > 1:
                size = f"{group.tick_bytes / WRITE_BYTES:.1f} KB, which are {group.tick_units} write units"
                yield f"a tick of targets every {group.interval} s has {size}"
        fresh = self.fresh / ((self.fresh + self.kept) or 1)
        if fresh > 0.1 and any(kind.keeps_connections for kind in self.case.targets):
            kept = f"{self.environments} environments of the Collector keep {given.MOST_KEPT:.0f} connections each"
            yield f"{fresh:.0%} of requests begin with a TLS handshake: {kept}"

    def stored_bytes(self, months: int) -> float:
        """The size of the table after so many months; ticks are there until their span is sealed."""
        stored, seconds = 0.0, months * MONTH
        for group in self.groups:
            stored += group.spans * months * (group.summary_bytes + given.ITEM_OVERHEAD)
            day = given.DAY_BYTES + min(24, DAY / group.interval) * given.HOUR_BYTES + given.ITEM_OVERHEAD
            stored += group.values * group.up * seconds / DAY * day
            for kind in group.kinds:
                kept = seconds if kind.keep_days is None else (kind.keep_days + given.SPARE_DAYS) * DAY
                size, span = group.span_bytes(kind), group.span
                if self.case.is_original:
                    size, span = group.tick_bytes, group.interval
                items = kind.metrics * group.up * min(seconds, kept) / span
                stored += items * (size + given.ITEM_OVERHEAD)
            if not self.case.is_original:
                open_share = (group.span + SEALED_AFTER) / MONTH
                stored += group.ticks * open_share * (group.tick_bytes + given.ITEM_OVERHEAD)
        return stored

    def _lambda(self) -> Iterator[CostLine]:
        case, shards = self.case, max(1, ceil(self.bundles / SHARD_BUNDLES))
        mocked = self.lane("live").deliveries if case.mock else 0.0
        requests = MINUTES + RUNS * shards + self.deliveries + mocked
        yield CostLine("Lambda", "requests", requests, "lambda_request")
        a_minute = self.lane("live").deliveries / MINUTES
        calls = (1 if case.is_original else 2) + max(1.0, a_minute / MESSAGES / given.CALLS_AT_ONCE)
        cpu = given.SENDER_CPU + a_minute * given.SENDER_MESSAGE_CPU
        gb = self._memory(given.BUNDLE_GB)
        run = billed(gb, given.RUN_CPU, 5 * given.CALL_SECONDS) * shards
        run += billed(gb, given.RUN_BUNDLE_CPU, given.CALL_SECONDS) * self.bundles
        seconds = {
            "Sender": MINUTES * billed(self._memory(given.SMALL_GB), cpu, calls * given.CALL_SECONDS),
            **{f"Collector, {name}": self.lane(name).gb_seconds for name in LANES},
            "Collector, TLS handshakes": self.fresh * billed(self.gigabytes, given.HANDSHAKE_CPU, 0),
            "reconciler": RUNS * run,
            "sealing": self.sum(lambda group: group.spans * self._sealing(group, gb)),
            "mock API": mocked * billed(given.SMALL_GB, given.MOCK_CPU, 0),
        }
        for name, each in seconds.items():
            yield CostLine("Lambda", f"GB-seconds, {name}", each * given.COLD_STARTS, "lambda_gb_second")

    def _sealing(self, group: BundleGroup, gb: float) -> float:
        """GB-seconds of a span of a bundle."""
        values, slots = group.values * group.up / max(1, group.count), group.span / group.interval
        calls = 4.0 if self.case.is_original else 3 + (slots + 2 * values) / BATCH + values / KEYS
        cpu = given.SEAL_CPU + values * slots * given.SEAL_SLOT_CPU + calls * given.SEAL_CALL_CPU
        return billed(gb, cpu, calls * given.CALL_SECONDS)

    def _memory(self, least: float) -> float:
        return max(least, next((gb for most, gb in MEMORY_GB if self.bundles <= most), given.WHOLE_CPU_GB))

    def _writes(self) -> Iterator[CostLine]:
        first = self.sum(lambda group: group.ticks * group.tick_units)
        counted = {"rows": first}
        if not self.case.is_original:
            counted = {
                "ticks, first answers": first,
                "ticks, later answers": self.sum(lambda group: group.later_units()),
                "ticks, deleted when sealed": first,
                "sealed spans": sum(g.sealed(kind, WRITE_BYTES) for g in self.groups for kind in g.kinds),
                "states of targets": self.lane("probe").requests,
                "minutes": MINUTES,
            }
        counted |= {
            "day totals": self.sum(
                lambda group: group.values * group.up * (MONTH / min(group.span, DAY) + MONTH / DAY)
            ),
            "summaries": self.sum(lambda group: group.spans * units(group.summary_bytes, WRITE_BYTES)),
            "marks": self.sum(lambda group: group.count * RUNS + group.spans),
        }
        for what, quantity in counted.items():
            yield CostLine("DynamoDB", f"writes: {what}", quantity, "dynamodb_write")

    def _reads(self) -> Iterator[CostLine]:
        """Reads of 4 KB; one that need not be consistent takes half a unit."""
        states, sealing = 0.0, 0.0
        run = 4.0 + units(self.bundles * given.MARK_BYTES, READ_BYTES)
        for group in self.groups:
            run += group.count * (units(RUN_SECONDS / group.interval * group.tick_bytes, READ_BYTES) + 1) / 2
            sealing += group.spans * units(group.span / group.interval * group.tick_bytes, READ_BYTES)
            if not self.case.is_original:
                deliveries = sum(lane.deliveries for lane in group.lanes.values())
                held = units((1 - group.up) * group.members * given.STATE_BYTES, READ_BYTES)
                again = (deliveries - group.ticks) * units(group.tick_bytes, READ_BYTES)
                states += (deliveries * held + again) / 2
                sealing += sum(group.sealed(kind, READ_BYTES) for kind in group.kinds)
        for what, quantity in {"deliveries": states, "reconciler": RUNS * run, "sealing": sealing}.items():
            yield CostLine("DynamoDB", f"reads: {what}", quantity, "dynamodb_read")

    def _sqs(self) -> Iterator[CostLine]:
        live, retry, backfill, probe = (self.lane(name).deliveries for name in LANES)
        queues = [live, retry + probe, backfill]
        if self.case.is_original or (self.bundles <= 1 and self.values <= ONE_QUEUE_VALUES):
            queues = [sum(queues)]
        back = 0.0 if self.case.is_original else retry + backfill + probe  # its failures are delivered again
        parts = {
            "sent": MINUTES * min(live / MINUTES, ceil(live / MINUTES / MESSAGES)) + back,
            "received": sum(map(polls, queues)) + (polls(0) if self.case.aggregation else 0),
            "deleted": self.deliveries,
            "depths of queues": RUNS * (len(queues) + 1),
        }
        for what, quantity in parts.items():
            yield CostLine("SQS", f"requests: {what}", quantity, "sqs_request")

    def _logs(self) -> Iterator[CostLine]:
        line = given.ROW_LINE if self.case.is_original else given.BUNDLE_LINE
        logged = RUNS * given.RUN_LINE + self.lane("retry").deliveries * given.FAILED_LINE
        if not self.case.warnings_only:
            mocked = self.lane("live").deliveries * given.MOCK_LINE if self.case.mock else 0.0
            logged += MINUTES * given.SENDER_LINE + self.deliveries * line + mocked
        yield from _log_lines("CloudWatch", "logs", logged / 1e9, Section.POLLING)

    def _secrets(self) -> Iterator[CostLine]:
        """Each environment that asks a target reads its secrets anew after five minutes."""
        uses = given.SECRET_SECONDS / min((group.interval for group in self.groups), default=MINUTE)
        readers = min(uses, self.environments * (1 - (1 - 1 / self.environments) ** uses))
        yield CostLine("Secrets Manager", "secrets", self.case.secrets, "secret")
        reads = self.case.secrets * readers * MONTH / given.SECRET_SECONDS
        yield CostLine("Secrets Manager", "reads", reads, "secret_call")

    def _apart(self) -> Iterator[CostLine]:
        case, apart = self.case, Section.APART
        if case.mock:
            mocked = self.lane("live").deliveries
            yield CostLine("API Gateway", "requests of the mock API", mocked, f"{case.mock}_request", apart)
        batch = AGGREGATION[case.monitoring] if case.aggregation else {}
        for name, count in MONITORING[case.monitoring].items():
            yield CostLine("Monitoring", f"{name}s", count + batch.get(name, 0), name, apart)
        if case.production:
            gigabytes = (self.kept * given.KEPT_NAT_BYTES + self.fresh * given.FRESH_NAT_BYTES) / 1e9
            hours = HOURS * (ZONES if case.nat_per_zone else 1)
            yield CostLine("Production", "hours of NAT gateways", hours, "nat_hour", apart)
            yield CostLine("Production", "hours of their addresses", hours, "address_hour", apart)
            yield CostLine("Production", "GB through them", gigabytes, "nat_gb", apart)
            yield from _log_lines("Production", "flow logs", self._flows() * given.FLOW_BYTES / 1e9, apart)
            yield CostLine("Production", "customer-managed keys", CUSTOMER_KEYS, "key", apart)
            yield CostLine("Production", "secrets of the mock API", int(case.is_original), "secret", apart)

    def _flows(self) -> float:
        """Records of each connection, and of one that stays open every ten minutes."""
        if self.case.flow_logs != "all":
            return given.REJECTED_FLOWS
        open_ones = min(self.kept, self.size * self.environments * MONTH / given.FLOW_SECONDS)
        return given.FLOW_RECORDS * (self.fresh + open_ones)

    def _outside(self) -> Iterator[CostLine]:
        left = (self.kept * given.KEPT_OUT_BYTES + self.fresh * given.FRESH_OUT_BYTES) / 1e9
        for number, size in enumerate(given.OUT_TIERS, 1):
            tier, left = min(left, size), max(0.0, left - size)
            yield CostLine("Data transfer", f"GB out, tier {number}", tier, f"out_gb_{number}", Section.OUTSIDE)


def estimate_cost(case: Installation) -> CostEstimate:
    """Estimate the bill of a month."""
    month = _Month(case)
    growth = month.stored_bytes(case.months + 1) - month.stored_bytes(case.months)
    return CostEstimate(tuple(line for line in month.lines() if line.quantity), growth, tuple(month.notes()))


def _log_lines(service: str, what: str, gigabytes: float, section: Section) -> Iterator[CostLine]:
    yield CostLine(service, f"GB of {what}", gigabytes, "logs_gb", section)
    yield CostLine(service, f"GB of {what} kept", gigabytes * given.KEPT_OF_LOGS, "logs_kept_gb", section)


def units(size: float, unit: int) -> int:
    """Units that an item or a read of so many bytes takes."""
    return max(1, ceil(size / unit))


def slowest(asked: float) -> float:
    """How long the slowest of so many answers takes: of a hundred three times as long as one alone."""
    return given.ANSWER_SECONDS * min(1.0, asked) * (1 + log10(max(1.0, asked)))


def billed(gigabytes: float, cpu_seconds: float, waited_seconds: float) -> float:
    """GB-seconds: with less memory than a whole CPU's, computing takes longer by as much."""
    return gigabytes * waited_seconds + max(gigabytes, given.WHOLE_CPU_GB) * cpu_seconds


def polls(messages: float) -> float:
    """How often Lambda asks a queue in a month: a long poll ends with a message or after twenty seconds."""
    idle = MONTH * given.POLLERS / given.POLL_SECONDS
    return messages / (1 - exp(-messages / idle)) if messages > 1 else idle
