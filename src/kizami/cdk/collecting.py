"""Collecting: each message calls the Collector, which asks the API and writes the slot's record (2.1–3.4, 6.4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from kizami.aws.client.loop_client import MOST_KEPT
from kizami.cdk.foundation import Foundation
from kizami.cdk.parts.environment import keep_environment, target_environment
from kizami.cdk.parts.functions import WRITE_KEY_ACTIONS, allow, allow_key, allow_notes, consume, make_function
from kizami.cdk.parts.secrets import allow_secrets
from kizami.cdk.settings import MEMORY_MB
from kizami.core.errors import ConfigurationError
from kizami.core.targets.bundles import NamedBundle
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target

BUNDLE_MEMORY_MB = 256  # a hundred requests at once are a third of a second of CPU
DESCRIPTORS, OTHER_DESCRIPTORS = 1024, 64  # of a Lambda function; those that are not connections to targets
MAX_ATTEMPTS = 5  # where the queue itself has no limit
ROOMY_ACCOUNT = 1000  # has room for all that one target can take, also if it hangs


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
        ledger: dynamodb.ITable | None = None,
        dead_letters: sqs.IQueue | None = None,
    ) -> None:
        super().__init__(scope, id)
        self._foundation = foundation
        require_descriptors(foundation.settings.collector_batch_size, foundation.bundles)
        environment = {
            "AI_METRICS_TABLE_NAME": table.table_name,
            **target_environment(foundation),
            **keep_environment(foundation),
        }
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
            memory_mb=BUNDLE_MEMORY_MB if foundation.bundles else MEMORY_MB,
            environment=environment,
        )
        # Every write is on the condition that the slot is free: nothing else is needed.
        allow(self.collector, ["dynamodb:PutItem"], [table.table_arn])
        if foundation.has_config:  # whether a target is blocked stands in the table, too
            allow(self.collector, ["dynamodb:Query"], [table.table_arn])
        if foundation.has_config and ledger is None:
            allow_notes(self.collector, table)
            self.collector.add_environment("KIZAMI_MAX_ATTEMPTS", str(foundation.settings.max_receives))
        allow_key(self.collector, foundation.table_key, "dynamodb", WRITE_KEY_ACTIONS)
        secrets = [*target_secrets(foundation.targets), *([api_key] if api_key else [])]
        allow_secrets(self.collector, secrets, foundation.settings.secret_keys)
        if ledger is not None:
            self._let_it_collect_bundles(queue, table, ledger, dead_letters)
        self.consume("Schedule", queue, self._most_at_once())

    def _most_at_once(self) -> int | None:
        """The bound of the live queue; None for a single target where the account has room for whatever it takes.

        A mapping with a bound keeps five pollers at a queue that two would do for.
        """
        settings = self._foundation.settings
        is_free = not self._foundation.bundles and settings.account_concurrency >= ROOMY_ACCOUNT
        return None if is_free and settings.collector_concurrency is None else self._foundation.shares.live

    def _let_it_collect_bundles(
        self, queue: sqs.IQueue, table: dynamodb.ITable, ledger: dynamodb.ITable, dead_letters: sqs.IQueue | None
    ) -> None:
        """25 records a call, the ledger, and what failed back to its queue or to the dead letters."""
        allow(self.collector, ["dynamodb:PartiQLInsert"], [table.table_arn])
        allow(self.collector, ["dynamodb:PutItem", "dynamodb:UpdateItem"], [ledger.table_arn])
        self.collector.add_environment("KIZAMI_LEDGER_TABLE_NAME", ledger.table_name)
        attempts = self._foundation.settings.max_receives or MAX_ATTEMPTS
        self.collector.add_environment("KIZAMI_MAX_ATTEMPTS", str(attempts))
        self.return_to("QUEUE_URL", queue)
        if dead_letters is not None:
            self.return_to("KIZAMI_DEAD_LETTER_QUEUE_URL", dead_letters)

    def return_to(self, variable: str, queue: sqs.IQueue) -> None:
        """Let the Collector send what it could not settle to a queue, which it knows by the variable."""
        self.collector.add_environment(variable, queue.queue_url)
        allow(self.collector, ["sqs:SendMessage"], [queue.queue_arn])
        allow_key(self.collector, self._foundation.queue_key, "sqs", ["kms:GenerateDataKey", "kms:Decrypt"])

    def consume(self, id: str, queue: sqs.IQueue, max_concurrency: int | None) -> None:
        """Call the Collector for each message of `queue`."""
        batch_size = self._foundation.settings.collector_batch_size
        consume(self, id, self._foundation, self.collector, queue, batch_size, max_concurrency)


def require_descriptors(batch_size: int, bundles: Sequence[NamedBundle]) -> None:
    """ConfigurationError where a batch of bundles could need more connections than a function can open."""
    room = DESCRIPTORS - OTHER_DESCRIPTORS
    fitting = [size for size in range(1, batch_size + 1) if most_connections(size, bundles) <= room]
    if len(fitting) < batch_size:
        raise ConfigurationError(
            "context collector_batch_size",
            f"{batch_size} bundles of targets may need {most_connections(batch_size, bundles):,} connections at"
            f" once, and a Lambda function has {DESCRIPTORS:,} file descriptors; set it to {len(fitting)} at most",
        )


def most_connections(batch_size: int, bundles: Sequence[NamedBundle]) -> int:
    """In use for a batch, and kept from the ones before it; of one target never more than there are messages."""
    members = [len(bundle.members) for bundle in bundles]
    return min(MOST_KEPT + batch_size * max(members, default=0), batch_size * sum(members))


def target_secrets(targets: Iterable[Target]) -> list[SecretReference]:
    """The secrets that the targets refer to, wherever they do."""
    return [reference for target in targets for _, reference in target.references()]
