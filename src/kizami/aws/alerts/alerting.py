"""What a run of the reconciler does about alerts: it decides, keeps that, and has delivered what is in the outbox.

Everybody who is subscribed to the stack's alarms is told of what fails, is silent or has died; each `[[alerts]]`
table whose `to` is `https://…`, or a secret of AWS that holds it, has a webhook. What those for one machine alone
ask for besides goes to the topic, too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import inf
from typing import Any

from kizami.aggregation.stores.company_failures import CompanyFailures
from kizami.alerts.decision import Decision, decide
from kizami.alerts.findings import Findings
from kizami.alerts.incidents import is_backend_well
from kizami.alerts.messages import Message
from kizami.alerts.reconciled import CountSlots, RunSlotCounter, SeenTarget, look_of_run
from kizami.alerts.rules.conditions import parse_condition
from kizami.alerts.rules.settings import AlertSettings, Rule
from kizami.alerts.texts import render_text
from kizami.alerts.troubles import NO_LATENESS, STUCK_SECONDS, MachineTrouble, find_backend_troubles
from kizami.alerts.webhook import message_json
from kizami.aws.alert_delivery import OutboxDelivery, beat
from kizami.aws.alerts.failure_notes import FailureNote, FailureNotes
from kizami.aws.alerts.watched import TableTotals, WatchedTargets, find_watched
from kizami.aws.incidents import IncidentItems
from kizami.aws.invocation import TimeLeft
from kizami.aws.known_targets import ON_AWS
from kizami.aws.reconciler import ReconcilerSettings
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.store.sqs_queue import SqsQueue
from kizami.backend.targets import KnownTarget
from kizami.backend.values import QueueDepth
from kizami.core.errors import KizamiError
from kizami.core.reconcile import ReconcilePolicy

TOPIC = "alarm topic"
_TOPIC_WHEN = ("fails", "silent", "dead", "queue stuck", "aggregation failed")
_TOPIC_CONDITIONS = tuple(parse_condition(text, "when") for text in _TOPIC_WHEN)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Run:
    """What a run of the reconciler has seen, of whom it knows nothing, and what it can be asked."""

    now: datetime
    seen: Sequence[SeenTarget]
    known: Callable[[str], KnownTarget | None]
    count: CountSlots
    watched: WatchedTargets
    unread: Set[str] = frozenset()
    notes: Mapping[str, FailureNote] = field(default_factory=dict)
    is_storing: bool = True


@dataclass(frozen=True, slots=True)
class Alerting:
    """Where incidents are kept, who is told, and how far back a run looks; `queue` is that of live slots."""

    items: IncidentItems
    settings: AlertSettings
    topic_arn: str
    policy: ReconcilePolicy
    store: DynamoDbMetricStore
    notes: FailureNotes
    failures: CompanyFailures
    queue: SqsQueue | None = None
    time_left: TimeLeft = lambda: inf

    def after_run(self, run: Run) -> None:
        """Decide, say that all is well if it is, and deliver.

        What goes wrong here is logged, and never keeps the reconciler from its work.
        """
        settings = self.obeyed()
        try:
            decision = self._decide(run, settings)
            if is_backend_well(decision.state.incidents):
                beat(settings.heartbeat, self.time_left)
            outbox = OutboxDelivery(self.items, settings.rule, self.topic_arn, run.now, self.time_left)
            outbox.deliver(self.items.outbox())
        except KizamiError as error:
            log.error(
                "alerts cannot look or keep what they see", extra={"event": "alerts.blind", "reason": str(error)}
            )

    def _decide(self, run: Run, settings: AlertSettings) -> Decision:
        before = self.items.read()
        dead = {name: note.dead for name, note in run.notes.items()}
        slots = RunSlotCounter(run.known, self.policy, run.now, run.count, dead)
        look = look_of_run(run.seen, settings, run.now, run.unread, self._find_others(run, settings))
        decision = decide(before.state, look, settings, slots)
        if decision.changed or decision.messages:
            outbox = dict(_outbox(each, settings.language) for each in decision.messages)
            self.items.save(decision, outbox, before)
        return decision

    def _find_others(self, run: Run, settings: AlertSettings) -> Findings:
        """What rules ask for, and what is wrong with the backend itself and the companies of its batch."""
        totals = TableTotals(self.store, self.time_left)
        watched = find_watched(settings, run.watched, totals, run.count, self.policy, run.now)
        machine = MachineTrouble(failed_companies=self.failures.all())
        of_backend = find_backend_troubles(
            self._depth(run), NO_LATENESS, ON_AWS.late_after_ms, run.is_storing, machine
        )
        return watched.joined(of_backend)

    def _depth(self, run: Run) -> QueueDepth:
        """SQS does not tell how old messages are: what is due while nothing comes has waited for that long."""
        if self.queue is None or run.is_storing:
            return QueueDepth(0, 0, 0, 0, None)
        due, delayed, in_flight = self.queue.depth()
        return QueueDepth(due, delayed, in_flight, 0, float(max(self.policy.period_seconds, STUCK_SECONDS + 1)))

    def obeyed(self) -> AlertSettings:
        """The rules as they are obeyed here: those with webhooks, and the topic's."""
        topic = Rule(TOPIC, self.topic_arn, _TOPIC_CONDITIONS)
        rules = (rule if _is_on_aws(rule) else self._through_topic(rule) for rule in self.settings.rules)
        return replace(self.settings, rules=(topic, *(rule for rule in rules if rule is not None)))

    def _through_topic(self, rule: Rule) -> Rule | None:
        """What a rule for one machine asks for, of which the topic is not told anyway."""
        others = tuple(each for each in rule.conditions if each not in _TOPIC_CONDITIONS)
        return replace(rule, to=self.topic_arn, conditions=others) if others else None


def _outbox(message: Message, language: str) -> tuple[str, dict[str, Any]]:
    document = message_json(message, render_text(message, language))
    return f"{message.incident:012}-{message.number:06}/{message.receiver}", document


def _is_on_aws(rule: Rule) -> bool:
    return isinstance(rule.to, str) or rule.to.is_on_aws


def alerting_of(
    place: ReconcilerSettings, settings: AlertSettings, store: DynamoDbMetricStore, left: TimeLeft
) -> Alerting:
    """That of a stack with a topic."""
    queue = SqsQueue(place.live_queue_url, left) if place.live_queue_url else None
    items, notes = IncidentItems(place.table_name, left), FailureNotes(place.table_name, time_left=left)
    failures = CompanyFailures(place.table_name, left)
    return Alerting(items, settings, place.topic_arn, place.policy, store, notes, failures, queue, left)
