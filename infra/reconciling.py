"""Reconciling: every few minutes, slots that nobody stored are asked for again through a queue of their own."""

from __future__ import annotations

from aws_cdk import Aws, Duration
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.foundation import Foundation
from infra.parts.environment import target_environment
from infra.parts.functions import allow, allow_key, make_function, memory_for, trigger
from infra.parts.queues import make_queue

TIMEOUT_SECONDS = 120
MEMORY_MB = 256


class Reconciling(Construct):
    """The rule, the reconciler, and the backfill queue: apart, so that live slots never wait behind old ones."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        foundation: Foundation,
        table: dynamodb.ITable,
        dead_letters: sqs.Queue | None,
    ) -> None:
        super().__init__(scope, id)
        settings = foundation.settings
        self.queue = make_queue(self, "Backfill", foundation, dead_letters)
        self.reconciler = make_function(
            self,
            "Reconciler",
            foundation,
            handler="kizami.aws.reconciler.handler",
            description="Finds missing slots, asks for them again, and publishes coverage",
            timeout_seconds=TIMEOUT_SECONDS,
            memory_mb=memory_for(len(foundation.targets), MEMORY_MB),
            log_level="info",  # its lines carry the metrics
            environment={
                "QUEUE_URL": self.queue.queue_url,
                "AI_METRICS_TABLE_NAME": table.table_name,
                "KIZAMI_STACK": Aws.STACK_NAME,
                "KIZAMI_RECONCILE_MINUTES": str(settings.reconcile_minutes),
                "KIZAMI_RECONCILE_HOURS": str(settings.reconcile_hours),
                "KIZAMI_RECONCILE_LIMIT": str(settings.reconcile_limit),
                "KIZAMI_GRACE_SECONDS": str(settings.grace_seconds),
                **target_environment(foundation),
            },
        )
        self._let_it_look_and_send(foundation, table)
        self.rule = events.Rule(
            self,
            "EveryFewMinutes",
            description="Triggers the reconciler",
            schedule=events.Schedule.rate(Duration.minutes(settings.reconcile_minutes)),
            targets=[trigger(self.reconciler)],
        )

    def _let_it_look_and_send(self, foundation: Foundation, table: dynamodb.ITable) -> None:
        allow(self.reconciler, ["dynamodb:Query"], [table.table_arn])
        allow_key(self.reconciler, foundation.table_key, "dynamodb", ["kms:Decrypt", "kms:DescribeKey"])
        allow(self.reconciler, ["sqs:SendMessage", "sqs:GetQueueAttributes"], [self.queue.queue_arn])
        allow_key(self.reconciler, foundation.queue_key, "sqs", ["kms:GenerateDataKey", "kms:Decrypt"])
