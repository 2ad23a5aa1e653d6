"""SubMinuteSchedule: the whole way of the data as one construct, for this stack or for an app of your own.

trigger ──▶ Sender ──▶ queue ──▶ Collector ──▶ table
                         ▲                       │
                         └───── Reconciler ◀─────┘
"""

from __future__ import annotations

from dataclasses import replace

from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from infra.collecting import Collecting
from infra.foundation import Foundation
from infra.reconciling import Reconciling
from infra.scheduling import Scheduling
from infra.settings import Settings
from infra.storage import Storage
from kizami.core.errors import ConfigurationError
from kizami.core.targets.target import SecretReference


class SubMinuteSchedule(Construct):
    """Polls HTTP APIs below a minute's grain and keeps one record for every slot.

    `api_base_url` is the one API of the metric `ai_response_count`; `config` is the text of a `kizami.toml`
    with any number of targets, and then `api_base_url` is not needed. `table` is an existing table with the
    keys `metricName` and `slotTime`; without it, one is made.
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
    ) -> None:
        super().__init__(scope, id)
        if foundation is None:
            settings = replace(settings or Settings(), api_base_url=api_base_url)
            foundation = Foundation(self, "Foundation", settings, config)
        self.foundation = foundation
        if api_base_url is None and not self.foundation.has_config:
            raise ConfigurationError(f"SubMinuteSchedule {id}", "needs an api_base_url or a config with targets")
        self.table = table or Storage(self, "Storage", self.foundation).table
        self.scheduling = Scheduling(self, "Scheduling", self.foundation)
        self.collecting = Collecting(
            self, "Collecting", self.foundation, self.scheduling.queue, self.table, api_base_url, api_key
        )
        self.reconciling = Reconciling(
            self, "Reconciling", self.foundation, self.table, self.scheduling.dead_letters
        )
        self.collecting.consume("Backfill", self.reconciling.queue, self.foundation.settings.backfill_concurrency)
