"""The Collector function: each message of an SQS event becomes one call of the API and one record in the store."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic, sleep
from typing import Any

from kizami.aws.client.http_client import HttpClient
from kizami.aws.client.polled_api import api_client, fetch, without_query
from kizami.aws.deliveries import Delivery, read_deliveries, report_failures
from kizami.aws.invocation import Context, TimeLeft, time_left
from kizami.aws.settings import collector_settings
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.core.collector import plan_request, read_response, seconds_until_due
from kizami.core.config import Config
from kizami.core.errors import InvalidInput, KizamiError
from kizami.core.logs import use_json_logs
from kizami.core.messages import MetricRecord, ScheduleMessage, read_message
from kizami.core.ports import PutOutcome, RecordStore
from kizami.core.redaction import KNOWN
from kizami.core.slots import format_instant, shift
from kizami.core.targets.target import Target

COLLECTED_AT_ONCE = 16
CLOCK_SKEW_SECONDS = 2.0  # a message that is due within so long is waited for

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Collection:
    """What a delivery is carried out with."""

    config: Config
    http: HttpClient
    store: RecordStore
    time_left: TimeLeft


def handler(event: Mapping[str, Any], context: Context) -> dict[str, list[dict[str, str]]]:
    """Collect every record of the event; the answer names those that SQS is to deliver again.

    A single record (the default batch size) that fails is raised instead, after its details are logged
    (Requirements 7.1, 7.2).
    """
    use_json_logs()
    try:
        settings = collector_settings(os.environ)
        deliveries = read_deliveries(event)
    except KizamiError as error:
        log.error(
            "nothing was collected",
            extra={"event": "collect.failed", "error": type(error).__name__, "detail": str(error)},
        )
        raise
    left = time_left(context)
    collection = Collection(settings.config, api_client(), DynamoDbMetricStore(settings.table_name, left), left)
    failures = [
        (delivery, error)
        for delivery, error in zip(deliveries, run_side_by_side(collection, deliveries), strict=True)
        if error is not None
    ]
    if failures and len(deliveries) == 1:
        raise _without_secrets(failures[0][1])
    return report_failures(delivery for delivery, _ in failures)


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
    from concurrent.futures import ThreadPoolExecutor  # batch size 1 never needs it

    with ThreadPoolExecutor(min(COLLECTED_AT_ONCE, len(deliveries))) as pool:
        return list(pool.map(settle, deliveries))


def try_to_collect(collection: Collection, delivery: Delivery) -> Exception | None:
    """Collect one delivery; a failure is logged with its details and returned."""
    about: dict[str, Any] = {"messageId": delivery.message_id, "receiveCount": delivery.receive_count}
    try:
        message = read_message(delivery.body)
        about |= _describe(message)
        collect(collection, message, about)
    except KizamiError as error:
        log.error(
            "not collected",
            extra={"event": "slot.failed", **about, "error": type(error).__name__, "detail": str(error)},
        )
        return error
    except Exception as error:  # one record's surprise must not take the rest of its batch down
        log.exception("not collected", extra={"event": "slot.failed", **about, "error": type(error).__name__})
        return error
    return None


def collect(collection: Collection, message: ScheduleMessage, about: Mapping[str, Any]) -> PutOutcome:
    """Call the API for the message's window and keep the answer as its slot's record (Requirements 2, 3)."""
    target = collection.config.target(message.metric)
    request = plan_request(message, target)
    wait_until_due(message, target)
    log.info("calling the API", extra={"event": "api.called", **about, "url": without_query(request.url)})
    started = monotonic()
    response = fetch(collection.http, request, collection.time_left() * 2 / 3)  # the rest is for the write
    answered, arrived_at = monotonic(), datetime.now(UTC)
    record = read_response(response, message, target, arrived_at)
    outcome = collection.store.put_if_absent(record)
    took = {
        "apiMilliseconds": _milliseconds(started, answered),
        "writeMilliseconds": _milliseconds(answered),
        "latenessMilliseconds": lateness_milliseconds(record.slot, target, arrived_at),
    }
    _log_outcome(outcome, record, {**about, **took})
    return outcome


def wait_until_due(message: ScheduleMessage, target: Target) -> None:
    """No request leaves before its slot's moment; two clocks may differ a little, and that is waited for."""
    early = seconds_until_due(message, target, datetime.now(UTC))
    if early > CLOCK_SKEW_SECONDS:
        due = format_instant(shift(message.window.start, target.lag_seconds))
        raise InvalidInput("from", f"is due at {due} and cannot be asked for before")
    if early > 0:
        sleep(early)


def lateness_milliseconds(slot: datetime, target: Target, arrived_at: datetime) -> int:
    """How long after its tick the slot's answer was there (the record keeps whole seconds only)."""
    return round((arrived_at - shift(slot, target.lag_seconds)).total_seconds() * 1000)


def _milliseconds(start: float, end: float | None = None) -> int:
    return round(((monotonic() if end is None else end) - start) * 1000)


def _describe(message: ScheduleMessage) -> dict[str, str]:
    start, end = format_instant(message.window.start), format_instant(message.window.end)
    return {"metric": message.metric, "from": start, "to": end}


def _log_outcome(outcome: PutOutcome, record: MetricRecord, about: Mapping[str, Any]) -> None:
    details = {**about, "slotTime": format_instant(record.slot), "count": record.count}
    if outcome is PutOutcome.STORED:
        log.info("record stored", extra={"event": "slot.stored", **details})
    else:  # Requirement 3.4: a slot that has its record is what redelivery is meant to meet, not an error
        log.info("duplicate: the slot has its record already", extra={"event": "slot.duplicate", **details})
