"""Collecting: each message calls the Collector, which asks the API and writes the slot's record (2.1–3.4, 6.4)."""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.foundation import Foundation
from infra.parts.environment import target_environment
from infra.parts.functions import WRITE_KEY_ACTIONS, allow, allow_key, consume, make_function
from infra.parts.secrets import allow_secrets
from kizami.core.targets.target import SecretReference, Target


class Collecting(Construct):
    """The Collector and its event sources; one message per invocation."""

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
        allow_secrets(self.collector, [*target_secrets(foundation.targets), *([api_key] if api_key else [])])
        self.consume("Schedule", queue, foundation.settings.collector_concurrency)

    def consume(self, id: str, queue: sqs.IQueue, max_concurrency: int | None) -> None:
        """Call the Collector for each message of `queue`."""
        batch_size = self._foundation.settings.collector_batch_size
        consume(self, id, self._foundation, self.collector, queue, batch_size, max_concurrency)


def target_secrets(targets: Iterable[Target]) -> list[SecretReference]:
    """The secrets that the targets' headers refer to."""
    return [value for target in targets for value in target.headers.values() if isinstance(value, SecretReference)]
