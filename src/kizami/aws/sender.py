"""The Sender function: a scheduled event becomes its minute's messages on the queue (Requirement 1.2)."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kizami.aws.client import machine
from kizami.aws.invocation import Context, TimeLeft, log_invocation, time_left
from kizami.aws.settings import SenderSettings, sender_settings
from kizami.aws.store.sqs_queue import QueueNotFound, SqsQueue
from kizami.core.errors import ConfigurationError, InvalidInput, KizamiError, QueueError
from kizami.core.ports import FailedSend, MessageSender
from kizami.core.sender import Planned, PlannedBundle, is_too_old, plan_all, plan_bundles, plan_ticks
from kizami.core.slots import floor_to_minute, format_instant, parse_instant

if TYPE_CHECKING:
    from kizami.aws.files import PackagedTargets

log = logging.getLogger(__name__)


def handler(event: Mapping[str, Any], context: Context) -> dict[str, int]:
    """Send the messages of the minute that the event's `time` falls in; return how many were sent and failed."""
    log_invocation(context)
    try:
        settings = sender_settings(os.environ)
        triggered_at, left = read_trigger_time(event), time_left(context)
        plan = make_plan(settings, triggered_at, machine.now(), left)
        answer = send_plan(plan, SqsQueue(settings.queue_url, left))
        minute = format_instant(triggered_at)
        log.info("messages sent", extra={"event": "messages.sent", "time": minute, **answer})
        return answer
    except KizamiError as error:
        log.error(
            "the minute was not sent",
            extra={"event": "minute.failed", "error": type(error).__name__, "detail": str(error)},
        )
        raise


def make_plan(
    settings: SenderSettings, triggered_at: datetime, now: datetime, left: TimeLeft
) -> Sequence[Planned]:
    """Return the minute's messages: one a bundle and tick, or one a target and tick."""
    if settings.targets is not None:
        return _claimed_ticks(settings.targets, settings.table_name, triggered_at, now, left)
    if settings.bundles is not None:
        return plan_bundles(triggered_at, settings.bundles.all(), now)
    return plan_all(triggered_at, settings.config.targets, now)


def _claimed_ticks(
    targets: PackagedTargets, table: str, triggered_at: datetime, now: datetime, left: TimeLeft
) -> Sequence[Planned]:
    """Return the messages of a plan's bundles if this plan may send the minute; else nothing is sent."""
    from kizami.aws.plans import Plans  # the original target never needs it

    minute, plan, reason = floor_to_minute(triggered_at), targets.plan, None
    if is_too_old(minute, now):
        reason = "it is long over; the reconciler asks for its slots"
    elif not Plans(table, left).claim(plan, minute):
        reason = "another deployment has sent it"
    if reason is None:
        return plan_ticks(triggered_at, plan.bundles, now)
    details = {"time": format_instant(minute), "plan": plan.name, "reason": reason}
    log.warning("the minute is not sent", extra={"event": "minute.skipped", **details})
    return ()


def read_trigger_time(event: Mapping[str, Any]) -> datetime:
    """The event's `time`. Without one nothing is sent: the clock may be in another minute than the trigger was."""
    if not isinstance(event, Mapping) or "time" not in event:
        raise InvalidInput("time", "is missing; the Sender takes an EventBridge scheduled event")
    return parse_instant(event["time"], "time")


def send_plan(plan: Sequence[Planned], queue: MessageSender) -> dict[str, int]:
    """Send `plan`, then once more what failed; what was not sent is logged (Requirements 7.3, 7.4).

    QueueError when not one message got through: the invocation then counts as failed and is repeated.
    """
    failed = _try_to_send(plan, queue)
    if failed:
        log.warning(
            "sending again what failed",
            extra={"event": "send.retried", "failed": len(failed), "reason": failed[0].reason},
        )
        failed = _try_to_send([failure.entry for failure in failed], queue)
    _log_each(plan, failed)
    if plan and len(failed) == len(plan):
        raise QueueError(f"none of {len(plan)} messages was sent: {failed[0].reason}")
    return {"sent": len(plan) - len(failed), "failed": len(failed)}


def _try_to_send(entries: Sequence[Planned], queue: MessageSender) -> list[FailedSend]:
    try:
        return queue.send(entries)
    except QueueNotFound as error:
        raise ConfigurationError("QUEUE_URL", str(error)) from None
    except QueueError as error:
        return [FailedSend(entry, str(error)) for entry in entries]


def _log_each(plan: Sequence[Planned], failed: Sequence[FailedSend]) -> None:
    if not failed and not log.isEnabledFor(logging.DEBUG):
        return
    reasons = {failure.entry: failure.reason for failure in failed}
    for entry in plan:
        if entry in reasons:
            log.error(
                "message not sent",
                extra={"event": "message.failed", **_parameters(entry), "detail": reasons[entry]},
            )
        else:
            log.debug("message sent", extra={"event": "message.sent", **_parameters(entry)})


def _parameters(entry: Planned) -> dict[str, Any]:
    window = entry.message.window
    return {
        **_about(entry),
        "from": format_instant(window.start),
        "to": format_instant(window.end),
        "delaySeconds": entry.delay_seconds,
    }


def _about(entry: Planned) -> dict[str, Any]:
    if isinstance(entry, PlannedBundle):
        return {"metrics": len(entry.message.metrics), "first": entry.message.metrics[0]}
    return {"metric": entry.message.metric}
