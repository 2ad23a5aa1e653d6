"""The totals of hours are made of their records, once each hour is closed: oldest first, so many a run at most."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from datetime import datetime

from kizami.aws.client import machine
from kizami.aws.history.hour_totals import HourTotals
from kizami.aws.history.keeping import HOUR, SETTLING_SECONDS, KeptMetric, closes_at, hour_of
from kizami.aws.invocation import TimeLeft
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.store.tick_ledger import TOTALLED, TickLedger
from kizami.backend.values import bucket_of
from kizami.core.errors import StoreError
from kizami.core.slots import format_instant, shift

LEAST_SECONDS = 10.0  # with less time left no other hour is begun
AT_ONCE = 16
LEAST_HOURS, RUNS_FOR_ALL = 50, 6

log = logging.getLogger(__name__)


def hours_a_run(metrics: int) -> int:
    """How many hours of so many metrics a run makes totals of: every metric's within half an hour.

    So a table is never read for all of them at once, and what was left undone is made up for.
    """
    return LEAST_HOURS + -(-metrics // RUNS_FOR_ALL)


class Totalling:
    """Makes totals in one run."""

    def __init__(self, store: DynamoDbMetricStore, table: str, time_left: TimeLeft) -> None:
        self._store = store
        self._totals = HourTotals(table, time_left)
        self._time_left = time_left
        self._turns = iter(range(0))  # which several threads may draw from

    def of_metrics(self, metrics: Collection[KeptMetric], now: datetime) -> None:
        """Make those of some metrics."""
        self._turns = iter(range(hours_a_run(len(metrics))))
        self._try(metrics, now)

    def of_bundles(self, kept: Mapping[str, Collection[KeptMetric]], ledger: TickLedger, now: datetime) -> None:
        """Make those of the metrics of bundles, in this order. The ledger says of which all are made this hour."""
        mark = f"{TOTALLED} {format_instant(hour_of(now))}"
        self._turns = iter(range(hours_a_run(sum(map(len, kept.values())))))

        def bring_up(bundle: str) -> None:
            try:
                if not ledger.is_checked(bundle, mark) and self._try(kept[bundle], now):
                    ledger.check(bundle, now, mark)
            except StoreError as error:
                _log(error)

        for _ in machine.map_in_threads(bring_up, kept, AT_ONCE):
            pass

    def _try(self, metrics: Collection[KeptMetric], now: datetime) -> bool:
        """Whether these have the totals of all that is closed; else the next run goes on."""
        try:
            return all(self._bring_up(metric, now) for metric in metrics if metric.has_totals)
        except StoreError as error:
            _log(error)
            return False

    def _bring_up(self, metric: KeptMetric, now: datetime) -> bool:
        start = self._totals.until(metric.name)
        while found := self._store.first_kept(metric.name, now, start):
            if closes_at(found, metric.keep_seconds) + SETTLING_SECONDS > now.timestamp():
                return True
            if next(self._turns, None) is None or self._time_left() < LEAST_SECONDS:
                return False
            hour = hour_of(found.slot)
            self._make(metric, hour)
            start = shift(hour, HOUR)
        return True

    def _make(self, metric: KeptMetric, hour: datetime) -> None:
        counts = self._store.counts(metric.name, hour, shift(hour, HOUR), metric.interval_seconds)
        if counts:
            self._totals.put(metric.name, bucket_of(hour, counts), metric.totals_expire_at(hour))


def _log(error: StoreError) -> None:
    log.warning("totals not made", extra={"event": "totals.failed", "detail": str(error)})
