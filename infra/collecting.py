"""Collecting: each message calls the Collector, which asks the API and writes the slot's record (2.1–3.4, 6.4)."""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import Stack, Token
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.environment import target_environment
from infra.foundation import Foundation
from infra.functions import allow, allow_key, make_function
from kizami.targets import SecretReference, Target

WRITE_KEY_ACTIONS = (
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)


class Collecting(Construct):
    """The Collector and its event sources; one message an invocation."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        foundation: Foundation,
        queue: sqs.IQueue,
        table: dynamodb.ITable,
        api_base_url: str | None,
        api_key: SecretReference | None = None,
    ) -> None:
        super().__init__(scope, id)
        self._foundation = foundation
        environment = {"AI_METRICS_TABLE_NAME": table.table_name, **target_environment(foundation)}
        if api_base_url is not None:
            environment["AI_API_BASE_URL"] = api_base_url
        if api_key is not None:
            environment["KIZAMI_API_KEY"] = str(api_key)
        self.collector = make_function(
            self,
            "Collector",
            foundation,
            handler="kizami.aws.collector.handler",
            description="Asks the API for one window and writes its record",
            timeout_seconds=foundation.settings.collector_timeout_seconds,
            environment=environment,
        )
        # Every write is a PutItem on the condition that the slot is free: nothing else is needed.
        allow(self.collector, ["dynamodb:PutItem"], [table.table_arn])
        allow_key(self.collector, foundation.table_key, "dynamodb", WRITE_KEY_ACTIONS)
        self._allow_secrets([*target_secrets(foundation.targets), *([api_key] if api_key else [])])
        self.consume("Schedule", queue, foundation.settings.collector_concurrency)

    def consume(self, id: str, queue: sqs.IQueue, max_concurrency: int | None) -> None:
        """Call the Collector for each message of `queue`, with exactly what Lambda's polling needs."""
        allow(
            self.collector,
            ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"],
            [queue.queue_arn],
        )
        allow_key(self.collector, self._foundation.queue_key, "sqs", ["kms:Decrypt"])
        mapping = lambda_.EventSourceMapping(
            self,
            id,
            target=self.collector,
            event_source_arn=queue.queue_arn,
            batch_size=self._foundation.settings.collector_batch_size,
            report_batch_item_failures=True,
            max_concurrency=max_concurrency,
        )
        # Lambda refuses a mapping whose function may not read the queue yet.
        mapping.node.add_dependency(self.collector.role)

    def _allow_secrets(self, secrets: Iterable[SecretReference]) -> None:
        for secret in sorted(set(secrets), key=str):
            action = "secretsmanager:GetSecretValue" if secret.kind == "secretsmanager" else "ssm:GetParameter"
            allow(self.collector, [action], [secret_arn(secret, Stack.of(self))])


def target_secrets(targets: Iterable[Target]) -> list[SecretReference]:
    """The secrets that the targets' headers refer to."""
    return [value for target in targets for value in target.headers.values() if isinstance(value, SecretReference)]


def secret_arn(secret: SecretReference, stack: Stack) -> str:
    """The one secret or parameter that the reference names."""
    if secret.name.startswith("arn:") or Token.is_unresolved(secret.name):
        return secret.name
    if secret.kind == "secretsmanager":
        # Secrets Manager adds six characters of its own to the name.
        return f"arn:{stack.partition}:secretsmanager:{stack.region}:{stack.account}:secret:{secret.name}-??????"
    return f"arn:{stack.partition}:ssm:{stack.region}:{stack.account}:parameter/{secret.name.lstrip('/')}"
