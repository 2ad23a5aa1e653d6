"""Aggregating: each hour a message for every company, each message a run of the batch that grants its points.

schedule ──▶ Dispatcher ──▶ queue ──▶ Aggregation ──▶ Points
                 ▲                         │
                 └──────── Company ◀───────┘ lock
"""

from __future__ import annotations

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from kizami.cdk.foundation import Foundation
from kizami.cdk.parts.field_metrics import field_metric
from kizami.cdk.parts.findings import acknowledge
from kizami.cdk.parts.functions import (
    WRITE_KEY_ACTIONS,
    allow,
    allow_key,
    allow_notes,
    consume,
    make_function,
    trigger,
)
from kizami.cdk.parts.queues import Limits, make_dead_letters, make_queue
from kizami.cdk.parts.secrets import allow_decryption, allow_secrets
from kizami.cdk.parts.tables import make_table
from kizami.core.targets.references import SecretReference

MAX_RECEIVES = 5
KEY_PREFIX = "kizami/aggregation/"  # of the secrets that hold the companies' keys
DISPATCHER_TIMEOUT_SECONDS = 120
DISPATCHER_MEMORY_MB = 256


class Aggregating(Construct):
    """The tables `Company` and `Points`, the dispatcher on its schedule, the queue and the Aggregation function.

    `api_base_url` is the users API; `api_key` what it asks for beside the signature, if it does.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        foundation: Foundation,
        api_base_url: str,
        api_key: SecretReference | None = None,
    ) -> None:
        super().__init__(scope, id)
        self._foundation = foundation
        settings = foundation.settings
        self.companies = make_table(
            self, "Companies", foundation, settings.called("company_table_name"), "CompanyId"
        )
        self.points = make_table(
            self, "Points", foundation, settings.called("points_table_name"), "CompanyId", "UserMonth"
        )
        self.dead_letters = make_dead_letters(self, "DeadLetters", foundation)
        limits = Limits(settings.aggregation_visibility_seconds, MAX_RECEIVES)
        self.queue = make_queue(self, "Queue", foundation, self.dead_letters, limits)
        self.aggregation = self._make_aggregation(api_base_url, api_key)
        self.dispatcher = self._make_dispatcher()
        self.error_lines = self._count_error_lines(self.aggregation, self.dispatcher)
        self.granted = self._count_points("granted") if settings.fully_monitored else None
        self.rule = events.Rule(
            self,
            "OnSchedule",
            description="Triggers the dispatcher",
            schedule=events.Schedule.rate(Duration.minutes(settings.aggregation_minutes)),
            targets=[trigger(self.dispatcher)],
        )

    def _make_aggregation(self, api_base_url: str, api_key: SecretReference | None) -> lambda_.Function:
        foundation, settings = self._foundation, self._foundation.settings
        environment = {
            "COMPANY_TABLE_NAME": self.companies.table_name,
            "POINTS_TABLE_NAME": self.points.table_name,
            "AGGREGATION_API_BASE_URL": api_base_url,
            "AGGREGATION_TZ": settings.aggregation_time_zone,
            "QUEUE_URL": self.queue.queue_url,
            "KIZAMI_AGGREGATION_RETRY_SECONDS": str(settings.aggregation_retry_seconds),
        }
        if api_key is not None:
            environment["KIZAMI_API_KEY"] = str(api_key)
        function = make_function(
            self,
            "Aggregation",
            foundation,
            handler="kizami.aws.aggregation.handler",
            description="Grants the users of one company their points of the day",
            timeout_seconds=settings.aggregation_timeout_seconds,
            memory_mb=settings.aggregation_memory_mb,
            environment=environment,
        )
        allow(function, ["dynamodb:GetItem", "dynamodb:UpdateItem"], [self.companies.table_arn])
        allow(function, ["dynamodb:BatchGetItem", "dynamodb:UpdateItem"], [self.points.table_arn])
        allow_key(function, foundation.table_key, "dynamodb", WRITE_KEY_ACTIONS)
        allow(function, ["sqs:ChangeMessageVisibility"], [self.queue.queue_arn])
        self._allow_keys(function, api_key)
        consume(self, "Messages", foundation, function, self.queue, 1, foundation.shares.aggregation)
        return function

    def _allow_keys(self, function: lambda_.Function, api_key: SecretReference | None) -> None:
        """The companies' keys, which come and go without a deployment: hence by the prefix of their names."""
        stack = Stack.of(self)
        keys = f"arn:{stack.partition}:secretsmanager:{stack.region}:{stack.account}:secret:{KEY_PREFIX}*"
        allow(function, ["secretsmanager:GetSecretValue"], [keys])
        allow_decryption(function, self._foundation.settings.secret_keys, "secretsmanager")
        found = f"arn:<AWS::Partition>:secretsmanager:{stack.region}:<AWS::AccountId>:secret:{KEY_PREFIX}*"
        acknowledge(self, {f"IAM5[Resource::{found}]": "Companies come and go without a deployment."})
        allow_secrets(function, [api_key] if api_key else [])

    def _count_error_lines(self, *functions: lambda_.Function) -> cloudwatch.Metric:
        """A failed run is reported to SQS and is no error to Lambda: only its lines can ring."""
        name, namespace = "AggregationErrorLines", f"kizami/{Stack.of(self).stack_name}"
        for function in functions:
            logs.MetricFilter(
                self,
                f"{function.node.id}ErrorLines",
                log_group=function.log_group,
                filter_pattern=logs.FilterPattern.string_value("$.level", "=", "ERROR"),
                metric_namespace=namespace,
                metric_name=name,
            )
        return cloudwatch.Metric(namespace=namespace, metric_name=name, statistic="Sum")

    def _count_points(self, name: str) -> cloudwatch.Metric:
        """The sum of a field of each run's last line: a curve that scans no log."""
        runs, space = '{ $.event = "aggregation.end" }', f"kizami/{Stack.of(self).stack_name}"
        return field_metric(self, "GrantedPoints", self.aggregation, runs, name, space, "PointsGranted", "Sum")

    def note_failures(self, table: dynamodb.ITable) -> None:
        """Have failed runs noted where the reconciler looks for them."""
        self.aggregation.add_environment("AI_METRICS_TABLE_NAME", table.table_name)
        allow_notes(self.aggregation, table)

    def _make_dispatcher(self) -> lambda_.Function:
        foundation = self._foundation
        function = make_function(
            self,
            "Dispatcher",
            foundation,
            handler="kizami.aws.aggregation_dispatcher.handler",
            description="Sends one message for each company",
            timeout_seconds=DISPATCHER_TIMEOUT_SECONDS,
            memory_mb=DISPATCHER_MEMORY_MB,
            environment={"COMPANY_TABLE_NAME": self.companies.table_name, "QUEUE_URL": self.queue.queue_url},
        )
        allow(function, ["dynamodb:Scan"], [self.companies.table_arn])
        allow_key(function, foundation.table_key, "dynamodb", ["kms:Decrypt", "kms:DescribeKey"])
        allow(function, ["sqs:SendMessage"], [self.queue.queue_arn])
        allow_key(function, foundation.queue_key, "sqs", ["kms:GenerateDataKey", "kms:Decrypt"])
        return function
