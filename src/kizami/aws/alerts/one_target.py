"""What the table shows of single targets, for alerts: as `bundles/recent_ticks` does for bundles by the ledger."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime

from kizami.alerts.reconciled import SeenTarget, recent_span
from kizami.alerts.rules.conditions import AlertCondition
from kizami.alerts.rules.patterns import matches
from kizami.alerts.rules.settings import NO_ALERTS
from kizami.aws.alerts.alerting import Run, alerting_of
from kizami.aws.alerts.failure_notes import FAILURES_PARTITION, FailureNote
from kizami.aws.alerts.noted import is_current, seen_with_note
from kizami.aws.invocation import TimeLeft
from kizami.aws.known_targets import ON_AWS, known_target
from kizami.aws.reconciler import ReconcilerSettings
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.backend.targets import KnownTarget
from kizami.backend.values import trouble_of
from kizami.core.coverage import Completeness, Span, find_gaps
from kizami.core.errors import StoreError
from kizami.core.reconcile import ReconcilePolicy, TargetFinding, since_first
from kizami.core.targets.target import Target

log = logging.getLogger(__name__)


class RecentRecords:
    """What one run asks the table for alerts about its targets. StoreError."""

    def __init__(
        self, targets: Sequence[Target], store: DynamoDbMetricStore, policy: ReconcilePolicy, now: datetime
    ) -> None:
        parts = [each for target in targets for each in (target, *target.of_each_metric())]
        self._known = {each.name: known_target(each, None, None, ON_AWS, now) for each in parts}
        self._metrics = {each.name: each.metrics[-1] for each in parts}
        self._store = store
        self._policy = policy
        self._now = now

    def known(self, name: str) -> KnownTarget | None:
        """The target of that name, if it is polled."""
        return self._known.get(name)

    def look(self, found: TargetFinding, note: FailureNote | None) -> SeenTarget:
        """Which of the slots that should be there by now a target lacks."""
        target = self._known[found.target.name]
        metric, span = self._metrics[target.name], recent_span(target, self._policy, self._now)
        slots = [record.slot for record in self._store.query(metric, span.start, span.end)]
        first = self._store.first_slot(metric) if len(slots) < span.expected else None
        span = since_first(span, first)
        gaps = list(find_gaps(span, slots))
        lacking = sum(gap.slots for gap in gaps)
        recent = Completeness(span.expected - lacking, span.expected)
        seen = SeenTarget(target, recent, gaps[0].start if gaps else None)
        trouble = trouble_of(found.trouble) if found.trouble is not None else None
        return seen_with_note(seen, note, trouble, self._policy, self._now)

    def count(self, spans: Mapping[str, Span]) -> dict[str, Completeness]:
        """How much of each target's span is stored, since its first record."""
        return {name: self._completeness(self._metrics[name], span) for name, span in spans.items()}

    def _completeness(self, metric: str, span: Span) -> Completeness:
        stored = self._store.count(metric, span.start, span.end)
        if stored < span.expected:
            span = since_first(span, self._store.first_slot(metric))
        return Completeness(min(stored, span.expected), span.expected)


def tell_of_targets(
    settings: ReconcilerSettings,
    findings: Sequence[TargetFinding],
    store: DynamoDbMetricStore,
    now: datetime,
    left: TimeLeft,
) -> None:
    """Open and close incidents by what a run has found of single targets, and tell who is to be told."""
    alerting = alerting_of(settings, settings.alerts or NO_ALERTS, store, left)
    recent = RecentRecords(settings.targets, store, settings.policy, now)
    try:
        notes = alerting.notes.all(FAILURES_PARTITION)
        seen = [recent.look(found, notes.get(found.target.name)) for found in findings]
    except StoreError as error:
        log.error(
            "alerts cannot look or keep what they see", extra={"event": "alerts.blind", "reason": str(error)}
        )
        return
    unread = frozenset(target.name for target in settings.targets) - {each.target.name for each in seen}
    metrics = [name for target in settings.targets for name in target.metrics]

    def watched(condition: AlertCondition, patterns: Sequence[str]) -> list[KnownTarget]:
        known = (recent.known(name) for name in metrics if matches(patterns, name))
        return [each for each in known if each is not None]

    is_failing = any(is_current(note, settings.policy, now) for note in notes.values())
    is_storing = is_failing or any(each.recent.stored for each in seen)
    alerting.after_run(Run(now, seen, recent.known, recent.count, watched, unread, notes, is_storing))
