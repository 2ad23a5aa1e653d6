"""The dispatcher function: a scheduled event becomes one message for each company, with a reference to its key."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from kizami.aggregation.messages import read_reference, write_message
from kizami.aggregation.signing import require_company_id
from kizami.aggregation.stores.company_table import list_companies
from kizami.aws.client.json_client import AwsError
from kizami.aws.invocation import Context, TimeLeft, log_invocation, time_left
from kizami.aws.settings import require_queue_url, require_table_name
from kizami.aws.store.sqs_queue import MAX_BATCH, sqs_client
from kizami.core.errors import InvalidInput, KizamiError, QueueError

RESERVE_SECONDS = 5.0

log = logging.getLogger(__name__)


def handler(event: Mapping[str, Any], context: Context) -> dict[str, int]:
    """Send one message a company that has a key reference; answers how many were sent.

    A company whose message was not taken makes the invocation fail, after all others were tried: it is then
    repeated, and a company that gets a second message finds its lock held or its points granted.
    """
    log_invocation(context)
    try:
        table, queue_url = require_table_name(os.environ, "COMPANY_TABLE_NAME"), require_queue_url(os.environ)
        left = time_left(context)
        return dispatch(plan_messages(list_companies(table, left)), queue_url, left)
    except KizamiError as error:
        log.error(
            "not all companies were dispatched",
            extra={"event": "dispatch.failed", "error": type(error).__name__, "detail": str(error)},
        )
        raise


def plan_messages(companies: Iterable[tuple[object, object]]) -> Iterator[str]:
    """The bodies; a company without a key reference is passed over, one with a wrong item is reported."""
    for company_id, reference in companies:
        if reference is None:
            continue
        try:
            yield write_message(require_company_id(company_id), read_reference(reference))
        except InvalidInput as error:
            log.error(
                "company skipped; its item is wrong",
                extra={"event": "company.skipped", "companyId": company_id, "detail": str(error)},
            )


def dispatch(bodies: Iterator[str], queue_url: str, left: TimeLeft) -> dict[str, int]:
    """Send all, ten a call and once more what was not taken; QueueError when some remain."""
    sent, failed = 0, 0
    while batch := list(islice(bodies, MAX_BATCH)):
        if left() < RESERVE_SECONDS:
            raise QueueError(f"the time ran out after {sent} messages")
        remaining = send(send(batch, queue_url, left), queue_url, left)
        sent, failed = sent + len(batch) - len(remaining), failed + len(remaining)
    log.info("companies dispatched", extra={"event": "companies.dispatched", "sent": sent, "failed": failed})
    if failed:
        raise QueueError(f"{failed} of {sent + failed} messages were not sent")
    return {"sent": sent}


def send(bodies: Sequence[str], queue_url: str, left: TimeLeft) -> list[str]:
    """Send a batch; those that were not taken."""
    if not bodies:
        return []
    entries = [{"Id": str(number), "MessageBody": body} for number, body in enumerate(bodies)]
    try:
        parameters = {"QueueUrl": queue_url, "Entries": entries}
        answer = sqs_client().call("SendMessageBatch", parameters, left() * 0.9)
    except AwsError as error:
        log.warning(
            "messages not sent", extra={"event": "batch.unsent", "messages": len(bodies), "detail": str(error)}
        )
        return list(bodies)
    taken = {entry["Id"] for entry in answer.get("Successful", ())}
    return [body for number, body in enumerate(bodies) if str(number) not in taken]
