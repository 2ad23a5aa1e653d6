"""Divide an account's concurrent executions among the queues; Sender and reconciler always find room (pure).

The event source mapping of a queue takes as many functions as its `MaximumConcurrency` says. The rest is for the
functions that rules call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import count
from math import ceil

from kizami.cdk.settings import Settings
from kizami.core.errors import ConfigurationError

KEPT_FREE = 2  # the Sender and the reconciler; the dispatcher runs for seconds an hour
LEAST, MOST = 2, 1000  # what AWS accepts as MaximumConcurrency
AGGREGATIONS = 10
HEALTHY_SECONDS = 1  # of a Collector, a delivery whose targets answer: 0.3 to 0.6, and as much again for a burst
STATED = ("collector_concurrency", "backfill_concurrency", "aggregation_concurrency")


@dataclass(frozen=True, slots=True)
class Lane:
    """How many Collectors one kind of message gets."""

    seconds: float  # of a Collector for each delivery of a bundle
    least: int
    part: int  # of the account at most: a half, a fifth, …

    def share(self, account: int, deliveries_a_second: float) -> int:
        wanted = max(self.least, ceil(self.seconds * deliveries_a_second))
        return max(LEAST, min(wanted, account // self.part, MOST))


# A live delivery waits two seconds for its slowest target, a retry for the whole timeout, but of few targets.
LIVE, RETRY, BACKFILL = Lane(2.5, 16, 2), Lane(1, 10, 5), Lane(0.5, 4, 10)


@dataclass(frozen=True, slots=True)
class Shares:
    """The most functions at once for each queue; 0 where there is no such queue."""

    live: int
    retry: int
    backfill: int
    aggregation: int


def divide(account: int, deliveries_a_second: float, settings: Settings, one_queue: bool = False) -> Shares:
    """The shares of an account of so many concurrent executions; live slots get at most what the others leave.

    With `one_queue`, retries and old slots are on the live queue, which then gets their shares.
    """
    lanes = [lane.share(account, deliveries_a_second) for lane in (LIVE, RETRY, BACKFILL)]
    live, retry, backfill = (sum(lanes), 0, 0) if one_queue else lanes
    if backfill and settings.backfill_concurrency:
        backfill = settings.backfill_concurrency
    aggregation = 0
    if settings.with_aggregation:
        aggregation = settings.aggregation_concurrency or max(LEAST, min(AGGREGATIONS, account // 5))
    room = account - KEPT_FREE - retry - backfill - aggregation
    return Shares(settings.collector_concurrency or min(live, room, MOST), retry, backfill, aggregation)


def require_shares(settings: Settings, intervals: Sequence[int], one_queue: bool) -> Shares:
    """The shares for bundles, or a single target, of these intervals.

    ConfigurationError with the least account that would do, where it has too few for them or for what is stated.
    """
    deliveries = sum(1 / interval for interval in intervals)
    needed = settings.collector_concurrency or max(LEAST, min(ceil(HEALTHY_SECONDS * deliveries), MOST))

    def shares_in(account: int) -> Shares | None:
        shares = divide(account, deliveries, settings, one_queue)
        fits = shares.live >= needed and sum(astuple(shares)) + KEPT_FREE <= account
        return shares if fits else None

    account = settings.account_concurrency
    if shares := shares_in(account):
        return shares
    least = next(more for more in count(account + 1) if shares_in(more))
    stated = " or ".join(name for name in STATED if getattr(settings, name) is not None)
    what = f"{len(intervals):,} bundles of targets" if len(intervals) > 1 else "the targets"
    raise ConfigurationError(
        "context account_concurrency",
        f"{account} functions at once are too few for {what}, with {KEPT_FREE} kept for Sender and reconciler:"
        f" raise the account's quota to {least} or more (docs/operations.md, First deployment) and set"
        f" account_concurrency={least}{f', or lower {stated}' if stated else ''}",
    )
