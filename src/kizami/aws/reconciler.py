"""The reconciler function: compares what is due with what is stored, and asks for what is missing."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kizami.aws.invocation import Context, time_left
from kizami.aws.settings import (
    Environment,
    configured_targets,
    read_number,
    require_queue_url,
    require_table_name,
)
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.store.sqs_queue import SqsQueue
from kizami.core.coverage import Completeness
from kizami.core.errors import KizamiError, StoreError
from kizami.core.logs import use_json_logs
from kizami.core.reconcile import (
    ReconcilePolicy,
    TargetFinding,
    find_gaps_by_counting,
    overall,
    plan_run,
    report,
    since_first,
    span_to_check,
)
from kizami.core.sender import PlannedMessage
from kizami.core.slots import format_instant
from kizami.core.targets.target import Target

TARGETS_AT_ONCE = 16
NAMESPACE = "kizami"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReconcilerSettings:
    """What is compared, where the missing slots are sent, and within what bounds."""

    table_name: str
    queue_url: str
    targets: Sequence[Target]
    policy: ReconcilePolicy
    stack_name: str


def handler(event: Any, context: Context) -> dict[str, int]:
    """One run; answers how many slots are missing, and how many of them were sent to the backfill queue."""
    use_json_logs()
    left = time_left(context)
    try:
        settings = reconciler_settings(os.environ)
        store = DynamoDbMetricStore(settings.table_name, left)
        return reconcile(settings, store, SqsQueue(settings.queue_url, left), datetime.now(UTC))
    except KizamiError as error:
        log.error(
            "not reconciled",
            extra={"event": "reconcile.failed", "error": type(error).__name__, "detail": str(error)},
        )
        raise


def reconciler_settings(environment: Environment) -> ReconcilerSettings:
    """`QUEUE_URL` of the backfill queue, `AI_METRICS_TABLE_NAME`, the targets, and the policy as `KIZAMI_*`."""
    return ReconcilerSettings(
        require_table_name(environment),
        require_queue_url(environment),
        configured_targets(environment).enabled_targets,
        read_policy(environment),
        environment.get("KIZAMI_STACK", "kizami"),
    )


def read_policy(environment: Environment) -> ReconcilePolicy:
    """The bounds that the deployment sets, else the defaults."""
    default = ReconcilePolicy()
    hours = read_number(environment, "KIZAMI_RECONCILE_HOURS", default.look_back_seconds / 3600)
    minutes = read_number(environment, "KIZAMI_RECONCILE_MINUTES", default.period_seconds / 60)
    return ReconcilePolicy(
        look_back_seconds=int(hours * 3600),
        grace_seconds=int(read_number(environment, "KIZAMI_GRACE_SECONDS", default.grace_seconds)),
        period_seconds=max(1, int(minutes * 60)),
        limit=int(read_number(environment, "KIZAMI_RECONCILE_LIMIT", default.limit)),
    )


def reconcile(
    settings: ReconcilerSettings, store: DynamoDbMetricStore, queue: SqsQueue, now: datetime
) -> dict[str, int]:
    """Examine every target, send what this run asks for again, publish the coverage."""
    findings = examine_all(settings.targets, store, now, settings.policy)
    missing = sum(finding.missing for finding in findings)
    messages = plan_run(findings, now, settings.policy, queue.waiting()) if missing else []
    failed = queue.send([PlannedMessage(message, 0) for message in messages])
    for failure in failed:
        log.error(
            "slot not sent",
            extra={"event": "backfill.failed", "metric": failure.entry.message.metric, "detail": failure.reason},
        )
    sent = len(messages) - len(failed)
    publish(findings, sent, settings.stack_name, now)
    return {"missing": missing, "sent": sent, "failed": len(failed)}


def examine_all(
    targets: Sequence[Target], store: DynamoDbMetricStore, now: datetime, policy: ReconcilePolicy
) -> list[TargetFinding]:
    """What is missing of each target; one that cannot be read is left to the next run, unless all are."""

    def examine_or_log(target: Target) -> TargetFinding | StoreError:
        try:
            return examine(target, store, now, policy)
        except StoreError as error:
            log.error(
                "target not examined",
                extra={"event": "target.unread", "metric": target.name, "detail": str(error)},
            )
            return error

    with ThreadPoolExecutor(min(TARGETS_AT_ONCE, len(targets) or 1)) as pool:
        results = list(pool.map(examine_or_log, targets))
    findings = [result for result in results if isinstance(result, TargetFinding)]
    errors = [result for result in results if isinstance(result, StoreError)]
    if errors and not findings:
        raise errors[0]
    return findings


def examine(target: Target, store: DynamoDbMetricStore, now: datetime, policy: ReconcilePolicy) -> TargetFinding:
    """What is missing of one target; a complete one costs one query that returns a number and no items."""
    name, span = target.name, span_to_check(target, now, policy)
    if store.count(name, span.start, span.end) == span.expected:
        return TargetFinding(target, Completeness(span.expected, span.expected))
    span = since_first(span, store.first_slot(name))
    gaps = find_gaps_by_counting(
        span,
        lambda start, end: store.count(name, start, end),
        lambda start, end: (record.slot for record in store.query(name, start, end)),
    )
    finding = report(target, span, gaps, store.newest_until(name, now), now, policy)
    if finding.missing:
        _log_missing(finding)
    return finding


def _log_missing(finding: TargetFinding) -> None:
    log.warning(
        "slots are missing",
        extra={
            "event": "slots.missing",
            "metric": finding.target.name,
            "missing": finding.missing,
            "expected": finding.completeness.expected,
            "oldest": format_instant(finding.gaps[0].start),
            "newest": format_instant(finding.gaps[-1].end),
            "answers": finding.answers,
        },
    )


def publish(findings: Sequence[TargetFinding], sent: int, stack_name: str, now: datetime) -> None:
    """One line in CloudWatch's embedded metric format: metrics without a call, and without a permission for it."""
    values = {
        "Coverage": _percent(overall(findings)),
        "LowestCoverage": min((_percent(finding.completeness) for finding in findings), default=100.0),
        "MissingSlots": sum(finding.missing for finding in findings),
        "BackfilledSlots": sent,
    }
    metrics = [{"Name": name, "Unit": "Percent" if "Coverage" in name else "Count"} for name in values]
    directive = {"Namespace": NAMESPACE, "Dimensions": [["Stack"]], "Metrics": metrics}
    embedded = {"Timestamp": int(now.timestamp() * 1000), "CloudWatchMetrics": [directive]}
    log.info(
        "coverage",
        extra={
            "event": "coverage.published",
            "_aws": embedded,
            "Stack": stack_name,
            "targets": len(findings),
            **values,
        },
    )


def _percent(completeness: Completeness) -> float:
    return round(100 * completeness.ratio, 4)
