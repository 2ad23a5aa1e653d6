"""Alerts in a run of the reconciler: watch the backend, save decisions, deliver messages, send the heartbeat.

    incidents (state) ─▶ kizami.alerts.watch over the backend ─▶ incidents (one transaction) ─▶ alert_delivery

The alarm topic of the stack gets what fails, is silent or was given up, a stuck queue and failed companies. An
`[[alerts]]` table whose `to` is `https://…`, or a secret of AWS that holds it, has a webhook. One whose `to`
belongs to one machine sends to the topic what the topic does not get anyway.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf
from typing import Any

from kizami.aggregation.stores.company_failures import CompanyFailures
from kizami.alerts.decision import Decision
from kizami.alerts.incidents import LONGEST_FILL_SECONDS, is_backend_well
from kizami.alerts.messages import Message
from kizami.alerts.rules.conditions import parse_condition
from kizami.alerts.rules.settings import NO_ALERTS, AlertSettings, Rule
from kizami.alerts.texts import render_text
from kizami.alerts.troubles import MachineTrouble, WatchRun
from kizami.alerts.watch import watch
from kizami.alerts.webhook import message_json
from kizami.aws.alert_delivery import OutboxDelivery, beat, is_on_aws
from kizami.aws.incidents import IncidentItems
from kizami.aws.invocation import TimeLeft
from kizami.aws.store.sqs_queue import SqsQueue
from kizami.backend.port import Backend
from kizami.backend.values import QueueDepth
from kizami.core.errors import KizamiError

TOPIC = "alarm topic"
LEAST_SECONDS = 20.0  # of a run, to begin a look
SLACK_SECONDS = 60  # by which a run may be later than its rule says
POLLED_SECONDS = 300  # after a deployment it takes minutes until all functions poll

_TOPIC_WHEN = ("fails", "silent", "dead", "queue stuck", "aggregation failed")
_TOPIC_CONDITIONS = tuple(parse_condition(text, "when") for text in _TOPIC_WHEN)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StackAlerts:
    """What the reconciler of a stack watches by: where incidents are kept, and who gets messages."""

    table: str
    topic_arn: str
    settings: AlertSettings = NO_ALERTS
    period_seconds: int = 300  # between two runs
    live_queue_url: str = ""  # of the queue that must move; without it all queues count together


class StackWatch:
    """The watch of one run. The reconciler's own work is done before it, and never fails because of it."""

    def __init__(self, alerts: StackAlerts, time_left: TimeLeft = lambda: inf) -> None:
        self._alerts = alerts
        self._time_left = time_left
        self._settings = rules_on_aws(alerts.settings, alerts.topic_arn)
        self._items = IncidentItems(alerts.table, time_left)
        self._failures = CompanyFailures(alerts.table, time_left)

    def run(self, backend: Backend, now: datetime) -> None:
        """Watch and deliver; if the backend or the table cannot answer, log that and leave it to the next run."""
        if self._time_left() < LEAST_SECONDS:
            _log_blind("no time is left in this run")
            return
        try:
            decision = self._decide(backend, now)
            if decision is None:
                log.warning("another run has watched at the same time", extra={"event": "alerts.overtaken"})
                return
            if is_backend_well(decision.state.incidents):
                beat(self._settings.heartbeat, self._time_left)
            delivery = OutboxDelivery(
                self._items, self._settings.rule, self._alerts.topic_arn, now, self._time_left
            )
            delivery.deliver(self._items.outbox())
        except KizamiError as error:
            _log_blind(str(error))
        except Exception:  # the top of the watch: the run has found and sent what it should
            log.exception("a look failed", extra={"event": "alerts.failed"})

    def _decide(self, backend: Backend, now: datetime) -> Decision | None:
        """Return what was decided and saved; None if another run was quicker."""
        before = self._items.read()
        since = before.since or now
        run = WatchRun(
            period_seconds=self._alerts.period_seconds + SLACK_SECONDS,
            running_since=since,
            polled_seconds=POLLED_SECONDS,
            refill_seconds=LONGEST_FILL_SECONDS,  # after a long outage rounds of the reconciler take hours
            times_polls=False,  # a request that leaves late shows as a slot that is not there in time
            machine=MachineTrouble(failed_companies=self._failures.all()),
            live_queue=self._live_queue if self._alerts.live_queue_url else None,
        )
        decision = watch(backend, before.state, self._settings, now, run)
        if before.since is None or decision.changed or decision.messages:
            outbox = dict(_outgoing(each, self._settings.language) for each in decision.messages)
            if not self._items.save(decision, outbox, replace(before, since=since)):
                return None
        return decision

    def _live_queue(self) -> QueueDepth:
        due, delayed, in_flight = SqsQueue(self._alerts.live_queue_url, self._time_left).depth()
        return QueueDepth(due, delayed, in_flight, 0, oldest_age_seconds=None)


def rules_on_aws(settings: AlertSettings, topic_arn: str) -> AlertSettings:
    """Return the settings with the rules as they are obeyed on AWS: that of the topic first."""
    topic = Rule(TOPIC, topic_arn, _TOPIC_CONDITIONS)
    return replace(settings, rules=(topic, *_obeyed(settings, topic_arn)))


def _obeyed(settings: AlertSettings, topic_arn: str) -> Iterator[Rule]:
    for rule in settings.rules:
        others = tuple(each for each in rule.conditions if each not in _TOPIC_CONDITIONS)
        if is_on_aws(rule.to):
            yield rule
        elif others:
            yield replace(rule, to=topic_arn, conditions=others)


def _outgoing(message: Message, language: str) -> tuple[str, dict[str, Any]]:
    """Return a message with its key in the outbox, which is the same if another run decides the same."""
    document = message_json(message, render_text(message, language))
    return f"{message.incident:012}-{message.number:06}/{message.receiver}", document


def _log_blind(reason: str) -> None:
    log.error("alerts cannot look or keep what they see", extra={"event": "alerts.blind", "reason": reason})
