"""Monitoring: the alarms that call somebody, and the dashboard that shows why (what to do: docs/operations.md)."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.aggregating import Aggregating
from infra.dashboard import add_widgets
from kizami.cdk.foundation import Foundation
from kizami.cdk.parts.alarms import FIVE_MINUTES, MINUTE, Alarms
from kizami.cdk.schedule import SubMinuteSchedule


class Monitoring(Construct):
    """A topic, the alarms that speak through it, and, unless the context asks for the least, one dashboard."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        foundation: Foundation,
        schedule: SubMinuteSchedule,
        aggregating: Aggregating | None,
    ) -> None:
        super().__init__(scope, id)
        settings = foundation.settings
        self.topic = sns.Topic(self, "Alarms", enforce_ssl=True, master_key=foundation.queue_key)
        if settings.alarm_email:
            self.topic.add_subscription(subscriptions.EmailSubscription(settings.alarm_email))
        schedule.reconciling.tell(self.topic)
        alarms = schedule.add_alarms(self.topic)
        rings = list(alarms.made)
        if aggregating:
            rings += AggregationAlarms(self, "Batch", foundation, aggregating, self.topic).made
        self.dashboard: cloudwatch.Dashboard | None = None
        if settings.fully_monitored:
            self.dashboard = cloudwatch.Dashboard(self, "Dashboard", default_interval=Duration.hours(3))
            add_widgets(self.dashboard, schedule, alarms, aggregating, rings)


class AggregationAlarms(Alarms):
    """What keeps companies from their points."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        foundation: Foundation,
        aggregating: Aggregating,
        topic: sns.ITopic,
    ) -> None:
        super().__init__(scope, id, topic)
        self.add(
            "AggregationDeadLetters",
            "Runs failed as often as they may: their companies get no points until they are sent again.",
            aggregating.dead_letters.metric_approximate_number_of_messages_visible(
                period=MINUTE, statistic="Maximum"
            ),
            above=0,
        )
        self.add(
            "AggregationOldestMessage",
            "Companies wait: runs fail or end early, or there are more of them than run side by side.",
            aggregating.queue.metric_approximate_age_of_oldest_message(period=FIVE_MINUTES, statistic="Maximum"),
            above=foundation.settings.aggregation_visibility_seconds,
        )
        self.add(
            "AggregationErrors",
            "An Aggregation function was ended by force or is set up wrongly; its message is delivered again.",
            aggregating.aggregation.metric_errors(period=FIVE_MINUTES),
            above=0,
        )
        self.add(
            "DispatcherErrors",
            "Not every company got its message; the next dispatch tries again.",
            aggregating.dispatcher.metric_errors(period=FIVE_MINUTES),
            above=0,
        )
        self.add(
            "AggregationErrorLines",
            "The batch or its dispatcher wrote an ERROR line; docs/aggregation.md says what to do on each code.",
            aggregating.error_lines.with_(period=FIVE_MINUTES),
            above=0,
        )
