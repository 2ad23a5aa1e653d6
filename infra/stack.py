"""The stack: it only composes the layers and says where they are."""

from __future__ import annotations

from aws_cdk import CfnOutput, Environment, Stack
from constructs import Construct

from infra.aggregating import Aggregating
from infra.foundation import Foundation
from infra.mock_api import MockApi
from infra.monitoring import Monitoring
from infra.schedule import SubMinuteSchedule
from infra.settings import Settings
from kizami.core.targets.target import SecretReference


class DataCollectionSchedulerStack(Stack):
    """The seeds' systems: the mock API, the schedule that polls it or an API of yours, and the aggregation."""

    def __init__(self, scope: Construct, id: str, settings: Settings) -> None:
        super().__init__(
            scope,
            id,
            env=Environment(region=settings.region),
            description="kizami: polls HTTP APIs below a minute's grain, one record for every slot",
        )
        foundation = Foundation(self, "Foundation", settings)
        mock = MockApi(self, "MockApi", foundation)
        schedule = SubMinuteSchedule(
            self,
            "Schedule",
            foundation=foundation,
            api_base_url=settings.api_base_url or mock.api.url,
            api_key=_api_key(settings, mock),
        )
        aggregating = Aggregating(
            self,
            "Aggregating",
            foundation,
            settings.aggregation_api_base_url or mock.api.url,
            None if settings.aggregation_api_base_url else mock.api_key,
        )
        Monitoring(self, "Monitoring", foundation, schedule, aggregating)
        self._say("MockApiUrl", mock.api.url, "The mock AI employee API")
        self._say("MetricsTableName", schedule.table.table_name, "The DynamoDB table of the metrics")
        self._say("QueueUrl", schedule.scheduling.queue.queue_url, "The queue of live slots")
        self._say("BackfillQueueUrl", schedule.reconciling.queue.queue_url, "The queue of slots asked for again")
        if schedule.scheduling.dead_letters:
            self._say("DeadLetterQueueUrl", schedule.scheduling.dead_letters.queue_url, "The dead letters")
        self._say("CompanyTableName", aggregating.companies.table_name, "The DynamoDB table of the companies")
        self._say("PointsTableName", aggregating.points.table_name, "The DynamoDB table of the points")
        self._say("AggregationQueueUrl", aggregating.queue.queue_url, "The queue of companies to aggregate")
        self._say("AggregationDeadLetterQueueUrl", aggregating.dead_letters.queue_url, "Its dead letters")

    def _say(self, name: str, value: str, description: str) -> None:
        CfnOutput(self, name, value=value, description=description)


def _api_key(settings: Settings, mock: MockApi) -> SecretReference | None:
    """The key that the Collector sends: the user's own for an API of theirs, else the mock's."""
    if settings.api_key_secret:
        return SecretReference("secretsmanager", settings.api_key_secret)
    return None if settings.api_base_url else mock.api_key
