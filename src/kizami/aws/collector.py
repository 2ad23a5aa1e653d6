"""The Collector function: each message of an SQS event becomes one call of the API and one record in the store."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kizami.aws.client import machine
from kizami.aws.client.http_client import HttpClient
from kizami.aws.client.polled_api import api_client, fetch, without_query
from kizami.aws.deliveries import Delivery, read_deliveries, report_failures
from kizami.aws.history.keeping import expiring, is_given_up
from kizami.aws.invocation import Context, TimeLeft, log_invocation, time_left
from kizami.aws.settings import CollectorSettings, bundle_settings, collect_settings, collector_settings
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.core.collector import is_missed, plan_request, read_records, seconds_to_wait
from kizami.core.config import Config
from kizami.core.errors import ApiError, InvalidInput, KizamiError, StoreError
from kizami.core.messages import (
    BundleMessage,
    MetricRecord,
    ScheduleMessage,
    read_bundle,
    read_message,
    write_bundle,
    write_message,
)
from kizami.core.ports import PutOutcome, RecordStore
from kizami.core.redaction import KNOWN
from kizami.core.slots import format_instant, format_second, shift
from kizami.core.targets.target import Target

if TYPE_CHECKING:
    from kizami.aws.store.block_guard import BlockGuard
    from kizami.aws.store.block_items import BlockItem

COLLECTED_AT_ONCE = 16
DROPPED_AT = 3  # receives; until then a deployment under way may bring the target that a message asks for
NAMED = 5

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Collection:
    """What a delivery is carried out with."""

    config: Config
    http: HttpClient
    store: RecordStore
    time_left: TimeLeft
    guard: BlockGuard | None = None  # none for the seeds' one target, which SQS delivers as often as it is told
    dropped_at: int = DROPPED_AT

    def knows(self, metric: str) -> bool:
        """Whether it is a target, be it a disabled one."""
        return any(target.name == metric for target in self.config.targets)


def handler(event: Mapping[str, Any], context: Context) -> dict[str, list[dict[str, str]]]:
    """Collect every record of the event; the answer names those that SQS is to deliver again.

    A single record (the default batch size) that fails is raised instead, after its details are logged
    (Requirements 7.1, 7.2).
    """
    log_invocation(context)
    try:
        planned = collect_settings(os.environ)
        bundles = None if planned else bundle_settings(os.environ)
        settings = None if planned or bundles else collector_settings(os.environ)
        deliveries = read_deliveries(event)
    except KizamiError as error:
        log.error(
            "nothing was collected",
            extra={"event": "collect.failed", "error": type(error).__name__, "detail": str(error)},
        )
        raise
    left = time_left(context)
    if planned is not None:
        from kizami.aws.collect import DeliveryCollector  # the original target never needs it

        collector = DeliveryCollector(planned, left)
        return report_failures(each for each in deliveries if not collector.settle(each))
    if bundles is not None:
        from kizami.aws.bundles.collecting import collect_bundles  # one target never needs it

        return collect_bundles(bundles, deliveries, left)
    assert settings is not None
    store, guard = DynamoDbMetricStore(settings.table_name, left), _guard(settings, left)
    dropped_at = min(DROPPED_AT, settings.max_attempts or DROPPED_AT)
    collection = Collection(settings.config, api_client(), store, left, guard, dropped_at)
    parts = [part for delivery in deliveries for part in take_apart(collection, delivery)]
    failures = [
        (delivery, error)
        for delivery, error in zip(parts, run_side_by_side(collection, parts), strict=True)
        if error is not None
    ]
    if settings.is_packaged:
        note_failures(settings, failures, left)
    if failures and len(deliveries) == 1:
        raise _without_secrets(failures[0][1])
    return report_failures(delivery for delivery, _ in failures)


def take_apart(collection: Collection, delivery: Delivery) -> list[Delivery]:
    """Split a bundle, left by a deployment with more targets, into one message for each target.

    Metrics that are no targets of this deployment stay together in one.
    """
    try:
        message = read_bundle(delivery.body)
    except InvalidInput:
        return [delivery]  # it is refused, with the reason, where it is collected
    if len(message.metrics) == 1:
        return [delivery]
    known = [write_message(slot) for slot in message.slots if collection.knows(slot.metric)]
    others = tuple(metric for metric in message.metrics if not collection.knows(metric))
    bodies = [*known, write_bundle(BundleMessage(message.window, others))] if others else known
    return [replace(delivery, body=body) for body in bodies]


def note_failures(
    settings: CollectorSettings, failures: Sequence[tuple[Delivery, Exception]], left: TimeLeft
) -> None:
    """For who looks whether all is well; if that fails, the log says it alone."""
    failed = [(delivery, error) for delivery, error in failures if isinstance(error, ApiError)]
    if not failed:
        return
    from kizami.aws.alerts.failure_notes import FAILURES_PARTITION, FailureNotes  # only who fails needs it

    notes = FailureNotes(settings.table_name, time_left=left)
    try:
        for delivery, error in failed:
            message = read_message(delivery.body)
            is_last = 0 < settings.max_attempts <= int(delivery.receive_count)
            lost = message.window.start if is_last else None
            notes.note(FAILURES_PARTITION, message.metric, str(error), machine.now(), lost)
    except StoreError as error:
        log.warning("a failure was not noted", extra={"event": "failure.unnoted", "detail": str(error)})


def _guard(settings: CollectorSettings, left: TimeLeft) -> BlockGuard | None:
    if not settings.is_packaged:
        return None
    from kizami.aws.store.block_guard import BlockGuard  # the seeds' one target never needs it

    return BlockGuard.of(settings.table_name, left)


def _without_secrets(error: Exception) -> Exception:
    """The error as Lambda's runtime may log it, which knows no secret; our own ones hide theirs."""
    shown = str(error)
    return error if KNOWN.hide(shown) == shown else KizamiError(f"{type(error).__name__}: {KNOWN.hide(shown)}")


def run_side_by_side(collection: Collection, deliveries: Sequence[Delivery]) -> list[Exception | None]:
    """What kept each delivery from being settled, or None."""

    def settle(delivery: Delivery) -> Exception | None:
        return try_to_collect(collection, delivery)

    if len(deliveries) < 2:
        return list(map(settle, deliveries))
    return list(machine.map_in_threads(settle, deliveries, min(COLLECTED_AT_ONCE, len(deliveries))))


def try_to_collect(collection: Collection, delivery: Delivery) -> Exception | None:
    """Collect one delivery; a failure is logged with its details and returned."""
    about: dict[str, Any] = {"messageId": delivery.message_id, "receiveCount": delivery.receive_count}
    try:
        message = read_bundle(delivery.body)
        about |= _describe(message)
        first = next(message.slots)  # the only one, or one of several that are all no targets
        if not collection.knows(first.metric) and int(delivery.receive_count) >= collection.dropped_at:
            log.warning(
                "slots of metrics that are no targets are dropped",
                extra={"event": "slots.dropped", **about, "metrics": list(message.metrics)},
            )
        elif collection.guard is None:
            collect(collection, first, about)
        else:
            collect_guarded(collection, collection.guard, first, about)
    except KizamiError as error:
        told = {"error": type(error).__name__, "detail": str(error), **_remedy(error, collection, about)}
        log.error("not collected", extra={"event": "slot.failed", **about, **told})
        return error
    except Exception as error:  # one record's surprise must not take the rest of its batch down
        log.exception("not collected", extra={"event": "slot.failed", **about, "error": type(error).__name__})
        return error
    return None


def _remedy(error: KizamiError, collection: Collection, about: Mapping[str, Any]) -> dict[str, str]:
    """What helps, where waiting does not."""
    if not isinstance(error, ApiError) or not error.is_lasting:
        return {}
    from kizami.core.blocking import remedy  # only who fails needs it

    return {"remedy": remedy(error, collection.config.target(about["metric"]))}


def collect_guarded(
    collection: Collection, guard: BlockGuard, message: ScheduleMessage, about: Mapping[str, Any]
) -> None:
    """Collect it unless its target is blocked; then the message goes, and its slot is asked for after all that."""
    from kizami.aws.store.block_guard import BlockAdmission

    target = collection.config.target(message.metric)
    admission = guard.admit(target, message, machine.now())
    if admission is BlockAdmission.KEEP:
        log.info("its target is blocked; the slot is kept", extra={"event": "slot.kept", **about})
        return
    try:
        collect(collection, message, about)
    except ApiError as error:
        item = guard.failed(target, message, error, admission, machine.now())
        if item is None or not item.is_blocked:
            raise
        _log_block(item, error, admission is BlockAdmission.PROBE, about)
    else:
        ended = guard.answered(target, admission, machine.now())
        if ended is not None:
            details = {"metric": message.metric, "since": format_second(ended.since), "probes": ended.probes}
            log.warning("a blocked target answers again", extra={"event": "target.unblocked", **details})


def _log_block(item: BlockItem, error: ApiError, was_blocked: bool, about: Mapping[str, Any]) -> None:
    if not was_blocked and item.trouble is not None:
        log.warning(
            "a target is blocked; one slot at a time is asked for until it answers, and the others are kept",
            extra={"event": "target.blocked", "metric": about["metric"], "reason": item.trouble.reason},
        )
    log.info("the slot is kept", extra={"event": "slot.kept", **about, "detail": str(error)})


def collect(collection: Collection, message: ScheduleMessage, about: Mapping[str, Any]) -> PutOutcome | None:
    """Call the API for the message's window and keep the answer as its slot's record (Requirements 2, 3).

    None if it is too late for that: of an API that can only say "now" the slot stays missing, and of an hour that
    is kept no more nothing is stored.
    """
    target = collection.config.target(message.metric)
    request = plan_request(message, target)
    machine.sleep(seconds_to_wait(message, target, machine.now()))
    if is_missed(message, target, machine.now()) or is_given_up(message, target, machine.now()):
        reason = "its time was over before it could be asked for"
        log.warning("a slot stays missing", extra={"event": "slot.missed", **about, "reason": reason})
        return None
    log.debug("calling the API", extra={"event": "api.called", **about, "url": without_query(request.url)})
    started = machine.monotonic()
    response = fetch(collection.http, request, collection.time_left() * 2 / 3, target)  # the rest is for the write
    answered, arrived_at = machine.monotonic(), machine.now()
    records = read_records(response, message, target, arrived_at)
    outcomes = collection.store.put_all_if_absent(expiring(records, target))
    took = {
        "apiMilliseconds": _milliseconds(started, answered),
        "writeMilliseconds": _milliseconds(answered),
        "latenessMilliseconds": lateness_milliseconds(records[0].slot, target, arrived_at),
    }
    for record, outcome in zip(records, outcomes, strict=True):
        _log_outcome(outcome, record, {**about, **took, "metric": record.metric})
    return PutOutcome.STORED if PutOutcome.STORED in outcomes else PutOutcome.DUPLICATE


def lateness_milliseconds(slot: datetime, target: Target, arrived_at: datetime) -> int:
    """How long after its tick the slot's answer was there (the record keeps whole seconds only)."""
    return round((arrived_at - shift(slot, target.lag_seconds)).total_seconds() * 1000)


def _milliseconds(start: float, end: float | None = None) -> int:
    return round(((machine.monotonic() if end is None else end) - start) * 1000)


def _describe(message: BundleMessage) -> dict[str, str]:
    start, end = format_instant(message.window.start), format_instant(message.window.end)
    return {"metric": ", ".join(message.metrics[:NAMED]), "from": start, "to": end}


def _log_outcome(outcome: PutOutcome, record: MetricRecord, about: Mapping[str, Any]) -> None:
    details = {**about, "slotTime": format_instant(record.slot), "count": record.count}
    if outcome is PutOutcome.STORED:
        log.info("record stored", extra={"event": "slot.stored", **details})
    else:  # Requirement 3.4: a slot that has its record is what redelivery is meant to meet, not an error
        log.info("duplicate: the slot has its record already", extra={"event": "slot.duplicate", **details})
