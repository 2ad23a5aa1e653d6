"""SubMinuteSchedule: the whole way of the data as one construct, for this stack or for an app of your own.

trigger ──▶ Sender ──▶ queue ──▶ Collector ──▶ table
                         ▲                       │
                         └───── Reconciler ◀─────┘
"""

from __future__ import annotations

from dataclasses import replace

from aws_cdk import Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_sns as sns
from constructs import Construct

from kizami.cdk.collecting import Collecting
from kizami.cdk.foundation import Foundation
from kizami.cdk.reconciling import Reconciling
from kizami.cdk.schedule_alarms import ScheduleAlarms
from kizami.cdk.scheduling import Scheduling
from kizami.cdk.settings import Settings
from kizami.cdk.storage import Ledger, Storage
from kizami.core.errors import ConfigurationError
from kizami.core.targets.references import SecretReference


class SubMinuteSchedule(Construct):
    """Polls HTTP APIs below a minute's grain and keeps one record for every slot.

    `api_base_url` is the one API of the metric `ai_response_count`; `config` is the text of a `kizami.toml`
    with any number of targets, and then `api_base_url` is not needed. `table` is an existing table with the
    keys `metricName` and `slotTime`; without it, one is made. Its metrics have the dimension `published_as`.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        api_base_url: str | None = None,
        config: str | None = None,
        api_key: SecretReference | None = None,
        table: dynamodb.ITable | None = None,
        settings: Settings | None = None,
        foundation: Foundation | None = None,
        published_as: str | None = None,
    ) -> None:
        super().__init__(scope, id)
        self.published_as = published_as or f"{Stack.of(self).stack_name}-{id}"
        if foundation is None:
            settings = replace(settings or Settings(), api_base_url=api_base_url)
            foundation = Foundation(self, "Foundation", settings, config)
        self.foundation = foundation
        if api_base_url is None and not self.foundation.has_config:
            raise ConfigurationError(f"SubMinuteSchedule {id}", "needs an api_base_url or a config with targets")
        self.table = table or Storage(self, "Storage", self.foundation).table
        self.ledger = Ledger(self, "Ledger", self.foundation).table if self.foundation.bundles else None
        self.scheduling = Scheduling(self, "Scheduling", self.foundation)
        self.collecting = Collecting(
            self,
            "Collecting",
            self.foundation,
            self.scheduling.queue,
            self.table,
            api_base_url,
            api_key,
            self.ledger,
            self.scheduling.dead_letters,
        )
        self.reconciling = Reconciling(
            self, "Reconciling", self.foundation, self.table, self.scheduling, self.published_as, self.ledger
        )
        if self.ledger is not None:
            self.collecting.return_to("KIZAMI_BACKFILL_QUEUE_URL", self.reconciling.queue)
        if not self.reconciling.shares_queue:
            self.collecting.consume("Backfill", self.reconciling.queue, self.foundation.shares.backfill)

    @property
    def write_operation(self) -> str:
        """How records are written, by the name that DynamoDB's metrics have for it."""
        return "BatchExecuteStatement" if self.foundation.bundles else "PutItem"

    def add_alarms(self, topic: sns.ITopic | None = None) -> ScheduleAlarms:
        """The alarms of docs/operations.md, which speak through the topic if there is one."""
        return ScheduleAlarms(self, "Alarms", self, topic)
