"""The counts and the coverage that conditions ask for: read in few calls, side by side, while there is time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from kizami.alerts.findings import Findings
from kizami.alerts.numbers import find_numbers
from kizami.alerts.reconciled import CountSlots, find_low_coverage
from kizami.alerts.rules.conditions import AlertCondition
from kizami.alerts.rules.settings import AlertSettings
from kizami.aws.client import machine
from kizami.aws.invocation import TimeLeft
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.backend.incidents import Kind
from kizami.backend.targets import KnownTarget
from kizami.backend.values import Bucket, bucket_of
from kizami.core.coverage import Span
from kizami.core.errors import StoreError
from kizami.core.reconcile import ReconcilePolicy

ASKED_AT_ONCE = 16
LEAST_SECONDS = 20.0  # what is left is for the decision and its messages

# The targets that a condition of rules with these patterns is about.
WatchedTargets = Callable[[AlertCondition, Sequence[str]], Sequence[KnownTarget]]


class TableTotals:
    """`CountTotals` on the table; nothing is said of what cannot be read, or not in time."""

    def __init__(self, store: DynamoDbMetricStore, time_left: TimeLeft) -> None:
        self._store = store
        self._time_left = time_left

    def totals(self, spans: Mapping[str, Span]) -> dict[str, Bucket]:
        found = zip(spans, machine.map_in_threads(self._total, spans.items(), ASKED_AT_ONCE), strict=True)
        return {name: bucket for name, bucket in found if bucket is not None}

    def _total(self, one: tuple[str, Span]) -> Bucket | None:
        metric, span = one
        if self._time_left() < LEAST_SECONDS:
            return None
        try:
            counts = self._store.counts(metric, span.start, span.end, span.interval_seconds)
        except StoreError:
            return None
        return bucket_of(span.start, counts) if counts else None


def find_watched(
    settings: AlertSettings,
    watched: WatchedTargets,
    totals: TableTotals,
    count: CountSlots,
    policy: ReconcilePolicy,
    now: datetime,
) -> Findings:
    """Who meets the conditions about coverage and numbers. Each run begins with another target: if the time is not
    enough for all, it is another's turn the next time."""
    run, findings = int(now.timestamp()) // policy.period_seconds, Findings()
    for condition, patterns in settings.conditions():
        targets = _from(watched(condition, patterns), run)
        if condition.kind is Kind.COVERAGE:
            found = find_low_coverage(condition, targets, count, now)
        else:
            found = find_numbers(totals, condition, targets, now, policy.period_seconds)
        findings = findings.joined(found)
    return findings


def _from(targets: Sequence[KnownTarget], run: int) -> list[KnownTarget]:
    start = run * 0x9E3779B1 % len(targets) if targets else 0
    return [*targets[start:], *targets[:start]]
