"""The Aggregation function: each message of an SQS event becomes one run of the batch."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf
from typing import Any

from kizami.aggregation.batch import Batch, Ending, RunContext, RunOutcome
from kizami.aggregation.log_codes import LogCode, RunLog
from kizami.aggregation.messages import read_message
from kizami.aggregation.signing import ApiKey
from kizami.aggregation.stores.company_failures import CompanyFailures
from kizami.aggregation.stores.company_table import DynamoDbLockStore
from kizami.aggregation.stores.points_table import DynamoDbPointStore
from kizami.aws.aggregation_settings import AggregationSettings, aggregation_settings
from kizami.aws.client import machine
from kizami.aws.client.polled_api import api_client, fetch
from kizami.aws.client.secrets import resolve
from kizami.aws.deliveries import Delivery, read_deliveries, report_failures
from kizami.aws.invocation import Context, TimeLeft, log_invocation, time_left
from kizami.aws.store.sqs_queue import SqsQueue
from kizami.core.collector import Request, Response
from kizami.core.errors import ConfigurationError, InvalidInput, KizamiError, QueueError, StoreError
from kizami.core.messages import load_json
from kizami.core.redaction import KNOWN
from kizami.core.targets.references import SecretReference

log = logging.getLogger(__name__)


def handler(event: Mapping[str, Any], context: Context) -> dict[str, list[dict[str, str]]]:
    """Run the batch for every record of the event; the answer names those that SQS is to deliver again."""
    log_invocation(context)
    left = time_left(context)
    try:
        settings = aggregation_settings(os.environ)
        deliveries = read_deliveries(event)
    except KizamiError as error:
        RunLog().write(LogCode.UNKNOWN, error)
        raise
    batch = make_batch(settings, left)
    failures = CompanyFailures(settings.metrics_table, left) if settings.metrics_table else None
    failed = [delivery for delivery in deliveries if not succeeds(batch, delivery, left, failures)]
    if settings.queue_url:
        bring_back(failed, SqsQueue(settings.queue_url, left), settings.retry_seconds)
    return report_failures(failed)


def make_batch(settings: AggregationSettings, left: TimeLeft) -> Batch:
    """The batch on the tables and the API that the settings name."""
    return Batch(
        locks=DynamoDbLockStore(settings.company_table, left),
        points=DynamoDbPointStore(settings.points_table, left),
        api=HttpUsersApi(settings.api_key),
        look_up_key=look_up_key,
        base_url=settings.api_base_url,
        zone=settings.zone,
    )


def succeeds(batch: Batch, delivery: Delivery, left: TimeLeft, failures: CompanyFailures | None = None) -> bool:
    """Run one delivery; return False if it is to be delivered again. An unreadable message fails, too."""
    try:
        message = read_message(delivery.body)
    except InvalidInput as error:
        RunLog(messageId=delivery.message_id).write(LogCode.UNKNOWN, error)
        return False
    run_id = machine.new_id()
    outcome = batch.run(message, RunContext(delivery.message_id, run_id, machine.now(), left))
    if failures is not None:
        note_outcome(failures, message.company_id, outcome)
    return not outcome.is_failure


def note_outcome(failures: CompanyFailures, company_id: str, outcome: RunOutcome) -> None:
    """Note the outcome of a run for alerts; if that fails, only the run's own log lines tell of it."""
    try:
        if outcome.is_failure:
            failures.note(company_id, outcome.reason, machine.now())
        elif outcome.ending is Ending.COMPLETED:
            failures.forget(company_id)
    except StoreError as error:
        log.warning("a failure was not noted", extra={"event": "failure.unnoted", "detail": str(error)})


def bring_back(failed: Iterable[Delivery], queue: SqsQueue, seconds: int) -> None:
    """Have what failed delivered again soon: the queue's own visibility must outlast a run that may be at work."""
    for delivery in failed:
        try:
            queue.hide(delivery.receipt, seconds)
        except QueueError as error:
            about = {
                "event": "aggregation.redelivery_delayed",
                "messageId": delivery.message_id,
                "detail": str(error),
            }
            log.warning("a failed run comes back only after the queue's visibility timeout", extra=about)


def look_up_key(reference: SecretReference) -> ApiKey:
    """The key that the secret holds, as its whole text or, as the console writes it, as `{"ApiKey": "…"}`."""
    text = resolve(reference)
    try:
        key = ApiKey(_key_in(text))
    except InvalidInput:
        raise ConfigurationError(str(reference), 'must hold the key as text, or as {"ApiKey": "…"}') from None
    KNOWN.add(key.value)
    return key


def _key_in(text: str) -> Any:
    try:
        fields = load_json(text)
    except ValueError:
        return text
    return fields.get("ApiKey") if isinstance(fields, dict) else text


class HttpUsersApi:
    """The UsersApi port over HTTP; the batch has fitted the request's deadline into the time that is left.

    `key` is what an API behind an API Gateway asks for beside the signature, as the deployed mock's does.
    """

    def __init__(self, key: SecretReference | None = None) -> None:
        self._headers = {"x-api-key": key} if key else {}

    def get(self, request: Request) -> Response:
        """One GET on a kept connection."""
        return fetch(api_client(), replace(request, headers={**request.headers, **self._headers}), inf)
