"""Reconciling: every few minutes, slots that nobody stored are asked for again through a queue of their own."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from aws_cdk import Duration
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from constructs import Construct

from kizami.alerts.rules.settings import NO_ALERTS, AlertSettings
from kizami.aws.history.hour_totals import PARTITIONS
from kizami.aws.incidents import ALERTS_PARTITION
from kizami.aws.store.block_items import PARTITION
from kizami.cdk.foundation import Foundation
from kizami.cdk.parts.environment import keep_environment, target_environment
from kizami.cdk.parts.functions import (
    WRITE_KEY_ACTIONS,
    allow,
    allow_key,
    allow_partition,
    make_function,
    memory_for,
    trigger,
)
from kizami.cdk.parts.queues import make_queue
from kizami.cdk.parts.secrets import allow_secrets
from kizami.cdk.scheduling import Scheduling
from kizami.core.backfill import SPREAD_SECONDS
from kizami.core.targets.bundles import NamedBundle
from kizami.core.targets.references import SecretReference

TIMEOUT_SECONDS = 120
MEMORY_MB = 256


def messages_a_minute(bundles: Sequence[NamedBundle]) -> int:
    """What a minute that nobody sent has to be healed with."""
    return sum(ceil(60 / bundle.interval_seconds) for bundle in bundles)


class Reconciling(Construct):
    """The rule, the reconciler, and the backfill queue: apart, so that live slots never wait behind old ones.

    The few old slots of one target go onto its live queue, spread over minutes: a queue of their own would cost
    more, idle, than all that the target does.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        foundation: Foundation,
        table: dynamodb.ITable,
        scheduling: Scheduling,
        published_as: str,
        ledger: dynamodb.ITable | None = None,
    ) -> None:
        super().__init__(scope, id)
        self._foundation, self._table = foundation, table
        self.shares_queue = not foundation.has_backfill_queue
        self.queue = self._live_queue = scheduling.queue
        if not self.shares_queue:
            self.queue = make_queue(self, "Backfill", foundation, scheduling.dead_letters)
        self.reconciler = self._make_reconciler(published_as)
        self._let_it_look_and_send()
        if ledger is not None:
            self._let_it_keep_the_ledger(ledger)
        self.rule = events.Rule(
            self,
            "EveryFewMinutes",
            description="Triggers the reconciler",
            schedule=events.Schedule.rate(Duration.minutes(foundation.settings.reconcile_minutes)),
            targets=[trigger(self.reconciler)],
        )

    def _make_reconciler(self, published_as: str) -> lambda_.Function:
        return make_function(
            self,
            "Reconciler",
            self._foundation,
            handler="kizami.aws.reconciler.handler",
            description="Finds missing slots, asks for them again, and publishes coverage",
            timeout_seconds=TIMEOUT_SECONDS,
            memory_mb=memory_for(self._foundation, MEMORY_MB),
            log_level="info",  # its lines carry the metrics
            environment={
                "QUEUE_URL": self.queue.queue_url,
                "AI_METRICS_TABLE_NAME": self._table.table_name,
                "KIZAMI_STACK": published_as if self._foundation.settings.fully_monitored else "",
                **self._policy(),
                **target_environment(self._foundation),
                **keep_environment(self._foundation),
            },
        )

    def _policy(self) -> dict[str, str]:
        """Within what bounds it works."""
        settings = self._foundation.settings
        limit = max(settings.reconcile_limit, messages_a_minute(self._foundation.bundles))
        return {
            "KIZAMI_RECONCILE_MINUTES": str(settings.reconcile_minutes),
            "KIZAMI_RECONCILE_HOURS": str(settings.reconcile_hours),
            "KIZAMI_RECONCILE_LIMIT": str(limit),
            "KIZAMI_GRACE_SECONDS": str(settings.grace_seconds),
            **({"KIZAMI_SPREAD_SECONDS": str(SPREAD_SECONDS)} if self.shares_queue else {}),
        }

    def _let_it_keep_the_ledger(self, ledger: dynamodb.ITable) -> None:
        self.reconciler.add_environment("KIZAMI_LEDGER_TABLE_NAME", ledger.table_name)
        allow(self.reconciler, ["dynamodb:Query", "dynamodb:PutItem", "dynamodb:UpdateItem"], [ledger.table_arn])

    def _let_it_look_and_send(self) -> None:
        foundation, table = self._foundation, self._table
        allow(self.reconciler, ["dynamodb:Query"], [table.table_arn])
        if foundation.has_config:
            allow_partition(
                self.reconciler, ["dynamodb:PutItem", "dynamodb:DeleteItem"], table.table_arn, PARTITION
            )
        if foundation.kept:
            allow_partition(self.reconciler, ["dynamodb:PutItem"], table.table_arn, f"{PARTITIONS}*")
        writes = foundation.has_config or foundation.kept
        key_actions = WRITE_KEY_ACTIONS if writes else ["kms:Decrypt", "kms:DescribeKey"]
        allow_key(self.reconciler, foundation.table_key, "dynamodb", key_actions)
        allow(self.reconciler, ["sqs:SendMessage", "sqs:GetQueueAttributes"], [self.queue.queue_arn])
        allow_key(self.reconciler, foundation.queue_key, "sqs", ["kms:GenerateDataKey", "kms:Decrypt"])

    def tell(self, topic: sns.ITopic) -> None:
        """Have incidents kept in the table and told to a topic, and to the webhooks of `[[alerts]]`."""
        self.reconciler.add_environment("KIZAMI_ALARM_TOPIC_ARN", topic.topic_arn)
        self.reconciler.add_environment("KIZAMI_LIVE_QUEUE_URL", self._live_queue.queue_url)
        allow(self.reconciler, ["sqs:GetQueueAttributes"], [self._live_queue.queue_arn])
        allow(self.reconciler, ["sns:Publish"], [topic.topic_arn])
        secrets = alert_secrets(self._foundation.alerts or NO_ALERTS)
        allow_secrets(self.reconciler, secrets, self._foundation.settings.secret_keys)
        changes = ["dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"]
        allow_partition(self.reconciler, changes, self._table.table_arn, ALERTS_PARTITION)
        allow_key(self.reconciler, self._foundation.table_key, "dynamodb", WRITE_KEY_ACTIONS)
        allow_key(self.reconciler, topic.master_key, "sns", ["kms:GenerateDataKey", "kms:Decrypt"])


def alert_secrets(alerts: AlertSettings) -> list[SecretReference]:
    """The secrets of AWS that lead to webhooks and the heartbeat, and that the former are signed with."""
    found = [alerts.heartbeat, *(each for rule in alerts.rules for each in (rule.to, rule.secret))]
    return [each for each in found if isinstance(each, SecretReference) and each.is_on_aws]
