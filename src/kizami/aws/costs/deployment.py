"""What is deployed and what a month of it makes: slots, messages, invocations, seconds, bytes (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, erfc, exp, log2, sqrt

from kizami.aws.costs import assumptions as given
from kizami.aws.costs.capacity import provisioned_reads, provisioned_writes, totals_read_units
from kizami.core.messages import MOST_MEMBERS

DAY_SECONDS = 86_400
MONTH_SECONDS = 30 * DAY_SECONDS
MONTH_MINUTES = MONTH_SECONDS // 60
RUNS_OF_RECONCILER = MONTH_MINUTES // 5
LOOK_BACK_SECONDS = 3 * 3600
MESSAGES_A_CALL = 10

LEAST_READ_UNITS = 25
SMALL_GB, BUNDLE_GB, RECONCILER_GB = 0.125, 0.25, 0.25


@dataclass(frozen=True)
class Deployment:
    """The targets' intervals in seconds, one for each of their values, and the settings that move the bill."""

    intervals: Sequence[int]
    mock: str | None = None  # rest, http; None for an API of one's own
    configured: bool = False  # by a kizami.toml, with which no mock API is deployed
    production: bool = False
    nat_per_zone: bool = False
    aggregation: bool = False
    monitoring: str = "full"
    capacity: str = "on_demand"
    log_level: str = "info"
    secrets: int = 0
    months: int = 1  # since the first record
    keeps: Sequence[float | None] = ()  # for how many days the records of each are kept; None for ever

    @property
    def slots(self) -> int:
        """Records a month."""
        return sum(MONTH_SECONDS // interval for interval in self.intervals)

    @property
    def kept(self) -> list[tuple[int, float]]:
        """The intervals of those whose records go, each with the days after which they do."""
        return [(each, days) for each, days in zip(self.intervals, self.keeps, strict=False) if days is not None]

    @property
    def totalled_hours(self) -> float:
        """Of all metrics: whose records reached their age this month, and of which totals remain."""
        return sum(self._closed_days(days) * 24 for _, days in self.kept)

    def _closed_days(self, keep_days: float) -> float:
        return max(0.0, min(30.0, 30 * self.months - keep_days))

    @property
    def bundled(self) -> bool:
        """Whether a message carries several targets; one alone is asked as in the original design."""
        return len(self.intervals) > 1

    @property
    def has_mock(self) -> bool:
        """Whether the mock API is deployed: only with a configuration, which several targets need, it is not."""
        return self.mock is not None or not (self.configured or self.bundled)

    @cached_property
    def bundles(self) -> Counter[int]:
        """How many messages a tick there are, by interval."""
        counts = Counter(self.intervals)
        return Counter({interval: likely_bundles(count) for interval, count in counts.items()})

    @property
    def messages(self) -> float:
        """A month, which are the Collector's invocations."""
        return sum(count * MONTH_SECONDS / interval for interval, count in self.bundles.items())

    @property
    def sends(self) -> float:
        """Calls of SQS by the Sender: up to ten messages each, and none in a minute without any."""
        a_minute = self.messages / MONTH_MINUTES
        return MONTH_MINUTES * min(a_minute, ceil(a_minute / MESSAGES_A_CALL))

    @property
    def receives(self) -> float:
        """Calls of SQS by Lambda, at the live queue and at those that are idle: backfill and aggregation.

        The old slots of one target have no queue of their own.
        """
        return polls(self.messages / MONTH_SECONDS) + (self.bundled + self.aggregation) * polls(0)

    @property
    def gigabyte_seconds(self) -> float:
        """Of all functions but the mock's."""
        totals = self.totalled_hours * billed(RECONCILER_GB, given.TOTALS_CPU, given.TOTALS_WAIT_SECONDS)
        return given.COLD_STARTS * (self._sending + self._collecting + self._reconciling + totals)

    @property
    def mock_gigabyte_seconds(self) -> float:
        return given.COLD_STARTS * self.slots * billed(SMALL_GB, given.MOCK_CPU, 0)

    @property
    def _sending(self) -> float:
        a_minute = self.messages / MONTH_MINUTES
        cpu = given.SENDER_CPU + a_minute * given.SENDER_CPU_A_MESSAGE
        return MONTH_MINUTES * billed(SMALL_GB, cpu, given.AWS_CALL_SECONDS * 2)

    @property
    def _collecting(self) -> float:
        if not self.bundled:
            wait = given.API_SECONDS + given.AWS_CALL_SECONDS
            return self.messages * billed(SMALL_GB, given.COLLECTOR_CPU, wait)
        wait = given.SLOWEST_OF_BUNDLE_SECONDS + 2 * given.AWS_CALL_SECONDS
        start = self.messages * billed(BUNDLE_GB, given.BUNDLE_CPU, wait)
        return start + self.slots * billed(BUNDLE_GB, given.BUNDLE_CPU_A_SLOT, 0)

    @property
    def _reconciling(self) -> float:
        bundles = sum(self.bundles.values())
        cpu = given.RECONCILER_CPU + bundles * given.RECONCILER_CPU_A_BUNDLE
        return RUNS_OF_RECONCILER * billed(RECONCILER_GB, cpu, given.AWS_CALL_SECONDS * 5)

    @property
    def ledger_items(self) -> float:
        """Written a month: one for each message, where they are bundles."""
        return self.messages if self.bundled else 0

    @property
    def read_units(self) -> float:
        """What the reconciler reads a month: the ledger's items of the look-back, or the records of one target."""
        item = (given.LEDGER_BYTES if self.bundled else given.RECORD_BYTES) - 100
        units = sum(
            count * ceil(max(1, LOOK_BACK_SECONDS // interval) * item / given.READ_BYTES)
            for interval, count in self.bundles.items()
        )
        return RUNS_OF_RECONCILER * units

    @property
    def totals_reads(self) -> float:
        """What it reads a month of records that are to go, to make their totals."""
        return sum(24 * self._closed_days(days) * totals_read_units(interval) for interval, days in self.kept)

    @property
    def write_units(self) -> int:
        """Provisioned a second."""
        return provisioned_writes(sum(1 / interval for interval in self.intervals))

    @property
    def read_capacity(self) -> int:
        """The same of reads."""
        return LEAST_READ_UNITS + provisioned_reads([interval for interval, _ in self.kept])

    @property
    def kept_gigabytes(self) -> float:
        """At the end of the month: what came in so far, or what is kept of it, and totals of the rest."""
        ledger = self.ledger_items / MONTH_SECONDS * given.LEDGER_SECONDS * given.LEDGER_BYTES
        return (self._kept_records * given.RECORD_BYTES + self._kept_totals * given.TOTALS_BYTES + ledger) / 1e9

    @property
    def _kept_records(self) -> float:
        age = 30 * self.months - given.SPARE_DAYS
        gone = (max(0.0, age - days) * DAY_SECONDS / interval for interval, days in self.kept)
        return self.slots * self.months - sum(gone)

    @property
    def _kept_totals(self) -> float:
        return sum(24 * max(0.0, 30 * self.months - days) for _, days in self.kept)

    @property
    def logged_gigabytes(self) -> float:
        runs = RUNS_OF_RECONCILER * given.RECONCILER_LINE
        if self.log_level == "warn":
            return runs / 1e9
        line = given.BUNDLE_LINE if self.bundled else given.COLLECTOR_LINE
        return (runs + MONTH_MINUTES * given.SENDER_LINE + self.messages * line) / 1e9


def likely_bundles(targets: int) -> int:
    """How many bundles targets of one timing make: names are halved by their hashes until no part is too large.

    A part of the last size below the limit is cut once more if chance has put too many names into it.
    """
    halvings = max(0, ceil(log2(targets / MOST_MEMBERS)))
    parts = 1 << halvings
    mean = targets / parts
    too_large = erfc((MOST_MEMBERS + 0.5 - mean) / sqrt(2 * mean)) / 2 if halvings else 0.0
    return round(parts * (1 + too_large))


def polls(messages_a_second: float) -> float:
    """How often Lambda asks a queue in a month: a long poll ends with a message or after twenty seconds.

    With messages at random among its five long polls, that is r / (1 - exp(-20 r / 5)) a second for r
    messages a second: as many as there are messages where there are many, a quarter where there are none.
    """
    if not messages_a_second:
        return MONTH_SECONDS * given.POLLERS / given.LONG_POLL_SECONDS
    ended = 1 - exp(-given.LONG_POLL_SECONDS * messages_a_second / given.POLLERS)
    return MONTH_SECONDS * messages_a_second / ended


def billed(gigabytes: float, cpu_seconds: float, waited_seconds: float) -> float:
    """GB-seconds of an invocation: with less memory than a whole CPU's, computing takes longer by as much."""
    return gigabytes * waited_seconds + max(gigabytes, given.WHOLE_CPU_GB) * cpu_seconds
