"""The reconciler function: compares what is due with what is stored, and asks for what is missing."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Any

from kizami.aws.client import machine
from kizami.aws.history.keeping import KeptMetric, kept_from, kept_metrics
from kizami.aws.invocation import Context, TimeLeft, log_invocation, time_left
from kizami.aws.settings import (
    Environment,
    configured_targets,
    find_bundles,
    find_packaged,
    keep_seconds,
    packaged_config,
    read_number,
    require_queue_url,
    require_table_name,
)
from kizami.aws.store.block_items import BlockItem, BlockItems
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.store.sqs_queue import SqsQueue
from kizami.core.backfill import spread
from kizami.core.coverage import Completeness, Gap, Span, due_span
from kizami.core.errors import KizamiError, StoreError
from kizami.core.messages import ScheduleMessage
from kizami.core.reconcile import (
    ReconcilePolicy,
    TargetFinding,
    find_gaps_by_counting,
    kept_until,
    overall,
    plan_run,
    report,
    since_first,
    span_to_check,
)
from kizami.core.slots import format_instant, shift
from kizami.core.targets.target import Target

if TYPE_CHECKING:
    from kizami.alerts.rules.settings import AlertSettings
    from kizami.aws.bundles.files import PackagedBundles

TARGETS_AT_ONCE = 16
DOUBT_SECONDS = 3600
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
    is_packaged: bool = False
    spread_seconds: int = 0  # over which old slots are spread, where they share the live queue
    bundles: PackagedBundles | None = None
    ledger_name: str = ""
    topic_arn: str = ""  # who is told of incidents; without it nobody looks for any
    alerts: AlertSettings | None = None
    live_queue_url: str = ""  # whose messages must move
    kept: Sequence[KeptMetric] = ()  # whose records are not kept for ever, also of disabled targets


def handler(event: Any, context: Context) -> dict[str, int]:
    """One run; answers how many slots are missing, and how many of them were sent to the backfill queue."""
    log_invocation(context)
    left = time_left(context)
    try:
        if find_packaged(os.environ) is not None:
            from kizami.aws.runs import run, run_settings  # the original target never needs it

            planned = run_settings(os.environ)
            assert planned is not None
            return run(planned, event, machine.now(), left)
        settings = reconciler_settings(os.environ)
        store, queue = DynamoDbMetricStore(settings.table_name, left), SqsQueue(settings.queue_url, left)
        if settings.bundles is None:
            answer = reconcile(settings, store, queue, machine.now(), left)
            make_totals(settings, store, left, machine.now())
            return answer
        from kizami.aws.bundles.reconciling import BundleReconciler  # one target never needs it

        return BundleReconciler(settings, store, queue, left).run(machine.now())
    except KizamiError as error:
        log.error(
            "not reconciled",
            extra={"event": "reconcile.failed", "error": type(error).__name__, "detail": str(error)},
        )
        raise


def reconciler_settings(environment: Environment) -> ReconcilerSettings:
    """`QUEUE_URL` of the backfill queue, `AI_METRICS_TABLE_NAME`, the targets, and the policy as `KIZAMI_*`."""
    bundles = find_bundles(environment)
    config = None if bundles else configured_targets(environment).keeping(keep_seconds(environment))
    return ReconcilerSettings(
        require_table_name(environment),
        require_queue_url(environment),
        config.enabled_targets if config else (),
        read_policy(environment),
        environment.get("KIZAMI_STACK", "kizami"),
        packaged_config(environment) is not None,
        int(read_number(environment, "KIZAMI_SPREAD_SECONDS", 0)),
        bundles,
        require_table_name(environment, "KIZAMI_LEDGER_TABLE_NAME") if bundles else "",
        environment.get("KIZAMI_ALARM_TOPIC_ARN", ""),
        config.alerts if config else None,
        environment.get("KIZAMI_LIVE_QUEUE_URL", ""),
        list(kept_metrics(config.targets)) if config else (),
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
    settings: ReconcilerSettings,
    store: DynamoDbMetricStore,
    queue: SqsQueue,
    now: datetime,
    left: TimeLeft = lambda: inf,
) -> dict[str, int]:
    """Examine every target, send what this run asks for again, publish the coverage."""
    blocks = BlockItems(settings.table_name) if settings.is_packaged else None
    items = blocks.all() if blocks else {}
    findings = examine_all(settings.targets, store, now, settings.policy, items)
    missing = sum(finding.missing for finding in findings)
    is_kept = any(finding.kept_gaps for finding in findings)
    messages = plan_run(findings, now, settings.policy, queue.waiting()) if missing or is_kept else []
    failed = queue.send(spread(messages, settings.spread_seconds))
    for failure in failed:
        log.error(
            "slot not sent",
            extra={"event": "backfill.failed", "detail": failure.reason},
        )
    if blocks:
        not_sent = {failure.entry.message for failure in failed}
        note_kept(blocks, items, findings, {each for each in messages if each not in not_sent}, now)
    sent = len(messages) - len(failed)
    lowest = lowest_of(finding.completeness for finding in findings)
    publish(overall(findings), lowest, len(findings), sent, settings.stack_name, now)
    tell(settings, findings, store, now, left)
    return {"missing": missing, "sent": sent, "failed": len(failed)}


def make_totals(settings: ReconcilerSettings, store: DynamoDbMetricStore, left: TimeLeft, now: datetime) -> None:
    """Keep the totals of hours whose records are to go."""
    if settings.kept:
        from kizami.aws.history.totalling import Totalling  # what is kept for ever never needs it

        Totalling(store, settings.table_name, left).of_metrics(settings.kept, now)


def tell(
    settings: ReconcilerSettings,
    findings: Sequence[TargetFinding],
    store: DynamoDbMetricStore,
    now: datetime,
    left: TimeLeft,
) -> None:
    """Open and close incidents by what was found, and tell who is to be told."""
    if settings.topic_arn:
        from kizami.aws.alerts.one_target import tell_of_targets  # an app of one's own may have no topic

        tell_of_targets(settings, findings, store, now, left)


def note_kept(
    blocks: BlockItems,
    items: Mapping[str, BlockItem],
    findings: Sequence[TargetFinding],
    sent: Set[ScheduleMessage],
    now: datetime,
) -> None:
    """How far what was kept is asked for by now; what is over is forgotten. A Collector that was quicker wins."""
    for finding in findings:
        name, item = finding.target.name, items.get(finding.target.name)
        if item is None or item.is_blocked:
            continue
        if finding.kept is not None:
            item = replace(item, kept_from=kept_until(finding, sent))
        if is_over(item, finding.target, now):
            blocks.forget(name, item)
        elif item != items[name]:
            blocks.save(name, item)


def is_over(item: BlockItem, target: Target, now: datetime) -> bool:
    """Whether nothing is to be known any more of one that is not blocked: no slot is kept, and doubts are old; or
    none would be asked for again."""
    is_old = item.trouble is None or now >= shift(item.trouble.asked_at, DOUBT_SECONDS)
    return not target.backfill or (not item.keeps and is_old)


def examine_all(
    targets: Sequence[Target],
    store: DynamoDbMetricStore,
    now: datetime,
    policy: ReconcilePolicy,
    items: Mapping[str, BlockItem],
) -> list[TargetFinding]:
    """What is missing of each target; one that cannot be read is left to the next run, unless all are."""

    def examine_or_log(target: Target) -> TargetFinding | StoreError:
        try:
            return examine(target, store, now, policy, items.get(target.name))
        except StoreError as error:
            log.error(
                "target not examined",
                extra={"event": "target.unread", "metric": target.name, "detail": str(error)},
            )
            return error

    results = list(machine.map_in_threads(examine_or_log, targets, min(TARGETS_AT_ONCE, len(targets) or 1)))
    findings = [result for result in results if isinstance(result, TargetFinding)]
    errors = [result for result in results if isinstance(result, StoreError)]
    if errors and not findings:
        raise errors[0]
    return findings


def examine(
    target: Target,
    store: DynamoDbMetricStore,
    now: datetime,
    policy: ReconcilePolicy,
    item: BlockItem | None = None,
) -> TargetFinding:
    """What is missing of one target, and, by its item, why it is blocked or what was kept while it was."""
    finding = look_back(target, store, now, policy)
    if item is not None and item.is_blocked:
        finding = replace(finding, trouble=item.trouble)
    elif item is not None and item.keeps and item.kept_from is not None and target.backfill:
        start = max(filter(None, (item.kept_from, kept_from(target, now))))
        kept = due_span(target, start, now, policy.grace_seconds)
        finding = replace(finding, kept=kept, kept_gaps=tuple(find_gaps(target.metrics[-1], kept, store)))
    if finding.missing:
        _log_missing(finding)
    return finding


def look_back(target: Target, store: DynamoDbMetricStore, now: datetime, policy: ReconcilePolicy) -> TargetFinding:
    """What is missing of one target; a complete one costs one query that returns a number and no items.

    Several values are written together or, if one was there already, one after the other: the last tells of all.
    """
    name, span = target.metrics[-1], span_to_check(target, now, policy)
    if store.count(name, span.start, span.end) == span.expected:
        return TargetFinding(target, Completeness(span.expected, span.expected))
    span = since_first(span, store.first_slot(name))
    return report(target, span, find_gaps(name, span, store), store.newest_until(name, now), now, policy)


def find_gaps(name: str, span: Span, store: DynamoDbMetricStore) -> Iterator[Gap]:
    """The gaps of a span, by counting where that is enough."""
    return find_gaps_by_counting(
        span,
        lambda start, end: store.count(name, start, end),
        lambda start, end: (record.slot for record in store.query(name, start, end)),
    )


def _log_missing(finding: TargetFinding) -> None:
    words = "slots are missing" if finding.target.backfill else "slots are missing and stay so: backfill = false"
    log.warning(
        words,
        extra={
            "event": "slots.missing",
            "metric": finding.target.name,
            "missing": finding.missing,
            "expected": finding.completeness.expected,
            "oldest": format_instant(finding.gaps[0].start),
            "newest": format_instant(finding.gaps[-1].end),
            "answers": finding.answers,
            **({"blocked": finding.trouble.reason} if finding.trouble else {}),
        },
    )


def publish(whole: Completeness, lowest: Completeness, targets: int, sent: int, stack: str, now: datetime) -> None:
    """One line in CloudWatch's embedded metric format: metrics without a call, and without a permission for it."""
    values = {
        "Coverage": _percent(whole),
        "LowestCoverage": _percent(lowest),
        "MissingSlots": whole.missing,
        "BackfilledSlots": sent,
    }
    metrics = [{"Name": name, "Unit": "Percent" if "Coverage" in name else "Count"} for name in values]
    directive = {"Namespace": NAMESPACE, "Dimensions": [["Stack"]], "Metrics": metrics}
    embedded = {"Timestamp": int(now.timestamp() * 1000), "CloudWatchMetrics": [directive] if stack else []}
    log.info(
        "coverage",
        extra={"event": "coverage.published", "_aws": embedded, "Stack": stack, "targets": targets, **values},
    )


def lowest_of(parts: Iterable[Completeness]) -> Completeness:
    """The one that lacks most."""
    return min(parts, key=lambda part: part.ratio, default=Completeness(0, 0))


def _percent(completeness: Completeness) -> float:
    return round(100 * completeness.ratio, 4)
