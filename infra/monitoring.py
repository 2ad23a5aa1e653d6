"""Monitoring: the alarms that call somebody, and the dashboard that shows why (what to do: docs/operations.md)."""

from __future__ import annotations

from aws_cdk import Aws, Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.aggregating import Aggregating
from infra.dashboard import add_widgets
from infra.foundation import Foundation
from infra.schedule import SubMinuteSchedule
from infra.settings import LONGEST_DELAY_SECONDS

NAMESPACE = "kizami"
MINUTE, FIVE_MINUTES = Duration.minutes(1), Duration.minutes(5)
BELOW = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
ABOVE = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD
SILENCE_IS_BAD = cloudwatch.TreatMissingData.BREACHING
SILENCE_IS_GOOD = cloudwatch.TreatMissingData.NOT_BREACHING


class Monitoring(Construct):
    """A topic, the alarms that speak through it, and one dashboard."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        foundation: Foundation,
        schedule: SubMinuteSchedule,
        aggregating: Aggregating,
    ) -> None:
        super().__init__(scope, id)
        self._settings = foundation.settings
        self.topic = sns.Topic(self, "Alarms", enforce_ssl=True, master_key=foundation.queue_key)
        if self._settings.alarm_email:
            self.topic.add_subscription(subscriptions.EmailSubscription(self._settings.alarm_email))
        self.alarms: list[cloudwatch.Alarm] = []
        self._watch_the_way(schedule)
        self._watch_coverage()
        self._watch_aggregation(aggregating)
        self.dashboard = cloudwatch.Dashboard(self, "Dashboard", default_interval=Duration.hours(3))
        add_widgets(self.dashboard, schedule, aggregating, self.coverage, self.missing, self.alarms)

    def _watch_the_way(self, schedule: SubMinuteSchedule) -> None:
        sender, queue, dead = (
            schedule.scheduling.sender,
            schedule.scheduling.queue,
            schedule.scheduling.dead_letters,
        )
        if dead:
            self._alarm(
                "DeadLetters",
                "Messages failed as often as they may: their slots are missing until they are redriven.",
                dead.metric_approximate_number_of_messages_visible(period=MINUTE, statistic="Maximum"),
                above=0,
            )
        self._alarm(
            "OldestMessage",
            "Slots wait: the API fails or is too slow, or the Collector cannot keep up.",
            queue.metric_approximate_age_of_oldest_message(period=MINUTE, statistic="Maximum"),
            above=LONGEST_DELAY_SECONDS + self._settings.visibility_seconds,
            periods=3,
        )
        self._alarm(
            "SenderErrors",
            "A minute's messages were not sent; the reconciler will ask for its slots.",
            sender.metric_errors(period=FIVE_MINUTES),
            above=0,
        )
        self._alarm(
            "SenderMissing",
            "The rule does not fire or the Sender does not run: nothing new is asked for.",
            sender.metric_invocations(period=FIVE_MINUTES),
            below=4,
        )

    def _watch_coverage(self) -> None:
        self.coverage = self._published("LowestCoverage", "Minimum")
        self.missing = self._published("MissingSlots", "Maximum")
        self._alarm(
            "Coverage",
            "A target lacks too many slots of the last hours, or the reconciler does not run.",
            self.coverage,
            below=self._settings.coverage_alarm_percent,
            periods=2,
        )

    def _watch_aggregation(self, aggregating: Aggregating) -> None:
        self._alarm(
            "AggregationDeadLetters",
            "Runs failed as often as they may: their companies get no points until they are sent again.",
            aggregating.dead_letters.metric_approximate_number_of_messages_visible(
                period=MINUTE, statistic="Maximum"
            ),
            above=0,
        )
        self._alarm(
            "AggregationOldestMessage",
            "Companies wait: runs fail or end early, or there are more of them than run side by side.",
            aggregating.queue.metric_approximate_age_of_oldest_message(period=FIVE_MINUTES, statistic="Maximum"),
            above=self._settings.aggregation_visibility_seconds,
        )
        self._alarm(
            "AggregationErrors",
            "An Aggregation function was ended by force or is set up wrongly; its message is delivered again.",
            aggregating.aggregation.metric_errors(period=FIVE_MINUTES),
            above=0,
        )
        self._alarm(
            "DispatcherErrors",
            "Not every company got its message; the next dispatch tries again.",
            aggregating.dispatcher.metric_errors(period=FIVE_MINUTES),
            above=0,
        )
        self._alarm(
            "AggregationErrorLines",
            "The batch or its dispatcher wrote an ERROR line; docs/aggregation.md says what to do on each code.",
            aggregating.error_lines.with_(period=FIVE_MINUTES),
            above=0,
        )

    def _published(self, name: str, statistic: str) -> cloudwatch.Metric:
        """What the reconciler publishes at each run."""
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=name,
            dimensions_map={"Stack": Aws.STACK_NAME},
            period=Duration.minutes(self._settings.reconcile_minutes),
            statistic=statistic,
        )

    def _alarm(
        self,
        id: str,
        description: str,
        metric: cloudwatch.IMetric,
        *,
        above: float | None = None,
        below: float | None = None,
        periods: int = 1,
    ) -> None:
        """An alarm that rings when the metric is out of bounds; where it must not fall, silence rings too."""
        alarm = cloudwatch.Alarm(
            self,
            id,
            alarm_description=description,
            metric=metric,
            threshold=above if above is not None else below or 0,
            comparison_operator=ABOVE if above is not None else BELOW,
            treat_missing_data=SILENCE_IS_GOOD if above is not None else SILENCE_IS_BAD,
            evaluation_periods=periods,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
        alarm.add_ok_action(actions.SnsAction(self.topic))
        self.alarms.append(alarm)
