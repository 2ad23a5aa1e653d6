"""The stack: it only composes the layers and says where they are."""

from __future__ import annotations

from dataclasses import replace

from aws_cdk import Aws, CfnOutput, Environment, Stack, Tags
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.aggregating import Aggregating
from infra.mock_api import MockApi
from infra.monitoring import Monitoring
from kizami.cdk.foundation import Foundation
from kizami.cdk.schedule import SubMinuteSchedule
from kizami.cdk.settings import Settings
from kizami.core.targets.references import SecretReference


class DataCollectionSchedulerStack(Stack):
    """The seeds' systems: the schedule, the mock API where no configuration is given, and the aggregation."""

    def __init__(self, scope: Construct, id: str, settings: Settings) -> None:
        super().__init__(
            scope,
            id,
            env=Environment(region=settings.region),
            description="kizami: polls HTTP APIs below a minute's grain, one record for every slot",
        )
        for name, value in (("kizami", settings.stack_name), *settings.tags):
            Tags.of(self).add(name, value)
        # For infra/preflight.py, which asks AWS whether the account has as many.
        self.template_options.metadata = {"kizami": {"account_concurrency": settings.account_concurrency}}
        settings = replace(settings, table_name=settings.called("table_name"))
        foundation = Foundation(self, "Foundation", settings)
        # A configuration names its own APIs: the mock would get no requests.
        mock = None if foundation.has_config else MockApi(self, "MockApi", foundation)
        schedule = SubMinuteSchedule(
            self,
            "Schedule",
            foundation=foundation,
            api_base_url=settings.api_base_url or (mock.url if mock else None),
            api_key=_api_key(settings, mock),
            published_as=Aws.STACK_NAME,
        )
        aggregating = None
        if settings.with_aggregation:
            users_url, users_key = settings.aggregation_api_base_url, None
            if users_url is None:
                assert mock is not None, "Settings ask for a users API where there is a configuration"
                users_url, users_key = mock.url, mock.api_key
            aggregating = Aggregating(self, "Aggregating", foundation, users_url, users_key)
            aggregating.note_failures(schedule.table)
        monitoring = Monitoring(self, "Monitoring", foundation, schedule, aggregating)
        if mock:
            self._say("MockApiUrl", mock.url, "The mock AI employee API")
        self._say_schedule(schedule)
        if aggregating:
            self._say_aggregating(aggregating)
        self._say_monitoring(monitoring)
        if mock:
            self._say_log("MockApi", mock.function)

    def _say_schedule(self, schedule: SubMinuteSchedule) -> None:
        scheduling = schedule.scheduling
        self._say("MetricsTableName", schedule.table.table_name, "The DynamoDB table of the metrics")
        if schedule.ledger is not None:
            self._say("LedgerTableName", schedule.ledger.table_name, "The DynamoDB table of the ledger of ticks")
        self._say("QueueUrl", scheduling.queue.queue_url, "The queue of live slots")
        self._say("BackfillQueueUrl", schedule.reconciling.queue.queue_url, "The queue of slots asked for again")
        if scheduling.dead_letters:
            self._say("DeadLetterQueueUrl", scheduling.dead_letters.queue_url, "The dead letters")
        self._say_log("Sender", scheduling.sender)
        self._say_log("Collector", schedule.collecting.collector)
        self._say_log("Reconciler", schedule.reconciling.reconciler)

    def _say_aggregating(self, aggregating: Aggregating) -> None:
        self._say("CompanyTableName", aggregating.companies.table_name, "The DynamoDB table of the companies")
        self._say("PointsTableName", aggregating.points.table_name, "The DynamoDB table of the points")
        self._say("AggregationQueueUrl", aggregating.queue.queue_url, "The queue of companies to aggregate")
        self._say("AggregationDeadLetterQueueUrl", aggregating.dead_letters.queue_url, "Its dead letters")
        self._say_log("Aggregation", aggregating.aggregation)
        self._say_log("Dispatcher", aggregating.dispatcher)

    def _say_monitoring(self, monitoring: Monitoring) -> None:
        self._say("AlarmTopicArn", monitoring.topic.topic_arn, "The SNS topic of the alarms")
        if monitoring.dashboard:
            self._say("DashboardName", monitoring.dashboard.dashboard_name, "The CloudWatch dashboard")

    def _say_log(self, name: str, function: lambda_.Function) -> None:
        self._say(f"{name}LogGroup", function.log_group.log_group_name, f"The log of {function.node.id}")

    def _say(self, name: str, value: str, description: str) -> None:
        CfnOutput(self, name, value=value, description=description)


def _api_key(settings: Settings, mock: MockApi | None) -> SecretReference | None:
    """The key that the Collector sends: the user's own for an API of theirs, else the mock's."""
    if settings.api_key_secret:
        return SecretReference("secretsmanager", settings.api_key_secret)
    return None if settings.api_base_url or mock is None else mock.api_key
