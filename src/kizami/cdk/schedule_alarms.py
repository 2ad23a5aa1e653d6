"""The alarms of one schedule: what stands still, what is lost, what is slower than the original design says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sns as sns
from constructs import Construct

from kizami.cdk.parts.alarms import FIVE_MINUTES, MINUTE, Alarms
from kizami.cdk.parts.field_metrics import field_metric
from kizami.cdk.settings import LONGEST_DELAY_SECONDS
from kizami.core.backfill import SPREAD_SECONDS

if TYPE_CHECKING:
    from kizami.cdk.schedule import SubMinuteSchedule

NAMESPACE = "kizami"
MOSTLY = "p90"  # a cold start now and then is no trouble
SLOW_PERIODS = 3
SENDER_MS, SENDER_MS_A_BUNDLE = 2000, 3  # the original design's figure; 1.2 ms a bundle were measured


class ScheduleAlarms(Alarms):
    """With `monitoring=minimal`, only those that need no metric of our own."""

    def __init__(
        self, scope: Construct, id: str, schedule: SubMinuteSchedule, topic: sns.ITopic | None = None
    ) -> None:
        super().__init__(scope, id, topic)
        self._schedule = schedule
        self._settings = schedule.foundation.settings
        self._watch_queues()
        self._watch_functions()
        self._watch_reconciler()
        if self._settings.fully_monitored:
            self._watch_coverage()
            self._watch_figures()

    def _watch_queues(self) -> None:
        queue, dead = self._schedule.scheduling.queue, self._schedule.scheduling.dead_letters
        if dead:
            self.add(
                "DeadLetters",
                "Messages failed as often as they may: their slots are missing until they are redriven.",
                dead.metric_approximate_number_of_messages_visible(period=MINUTE, statistic="Maximum"),
                above=0,
            )
        self.add(
            "OldestMessage",
            "Slots wait: the API fails or is too slow, or the Collector cannot keep up.",
            queue.metric_approximate_age_of_oldest_message(period=MINUTE, statistic="Maximum"),
            above=LONGEST_DELAY_SECONDS + self._settings.visibility_seconds + self._spread_seconds,
            periods=3,
        )

    @property
    def _spread_seconds(self) -> int:
        return SPREAD_SECONDS if self._schedule.reconciling.shares_queue else 0

    def _watch_functions(self) -> None:
        sender, collector = self._schedule.scheduling.sender, self._schedule.collecting.collector
        self.add(
            "SenderErrors",
            "A minute's messages were not sent; the reconciler will ask for its slots.",
            sender.metric_errors(period=FIVE_MINUTES),
            above=0,
        )
        self.add(
            "SenderMissing",
            "The rule does not fire or the Sender does not run: nothing new is asked for.",
            sender.metric_invocations(period=FIVE_MINUTES),
            below=4,
        )
        self.add(
            "CollectorErrors",
            "Deliveries fail, again and again: the API, the table, or what the function is told.",
            collector.metric_errors(period=FIVE_MINUTES),
            above=0,
            periods=SLOW_PERIODS,
        )
        self.add(
            "CollectorThrottles",
            "The account has no room for more Collectors: slots are asked for late.",
            collector.metric_throttles(period=FIVE_MINUTES),
            above=0,
            periods=SLOW_PERIODS,
        )

    def _watch_reconciler(self) -> None:
        reconciler, minutes = self._schedule.reconciling.reconciler, self._settings.reconcile_minutes
        self.add(
            "ReconcilerErrors",
            "Three runs in a row failed: missing slots are not asked for again, and incidents are not noticed.",
            reconciler.metric_errors(period=Duration.minutes(minutes)),
            above=0,
            periods=SLOW_PERIODS,
        )
        self.add(
            "ReconcilerMissing",
            "Its rule does not fire: missing slots are not asked for again, and incidents are not noticed.",
            reconciler.metric_invocations(period=Duration.minutes(SLOW_PERIODS * minutes)),
            below=1,
        )

    def _watch_coverage(self) -> None:
        # One host that is down must not keep the alarm ringing and hide the next: that is what incidents are for.
        self.coverage = self._published("Coverage", "Minimum")
        self.lowest_coverage = self._published("LowestCoverage", "Minimum")
        self.missing = self._published("MissingSlots", "Maximum")
        self.add(
            "Coverage",
            "Too large a share of all targets' slots of the last hours is missing, or no coverage is published.",
            self.coverage,
            below=self._settings.coverage_alarm_percent,
            periods=2,
        )

    @property
    def _sender_ms(self) -> int:
        by_bundles = SENDER_MS_A_BUNDLE * len(self._schedule.foundation.bundles)
        return self._settings.sender_alarm_ms or max(SENDER_MS, by_bundles)

    def _watch_figures(self) -> None:
        """The times that the original design names, each over a quarter of an hour."""
        settings, schedule = self._settings, self._schedule
        collector = schedule.collecting.collector
        self.api_time = self._logged("apiMilliseconds", "ApiMilliseconds")
        self.lateness = self._logged("latenessMilliseconds", "LatenessMilliseconds")
        write = schedule.table.metric(
            "SuccessfulRequestLatency",
            dimensions_map={"TableName": schedule.table.table_name, "Operation": schedule.write_operation},
        )
        slow = {
            "SenderSlow": (schedule.scheduling.sender.metric_duration(), self._sender_ms),
            "CollectorSlow": (collector.metric_duration(), settings.collector_alarm_ms),
            "ApiSlow": (self.api_time, settings.api_alarm_ms),
            "WriteSlow": (write, settings.write_alarm_ms),
        }
        for id, (metric, most) in slow.items():
            self.add(
                id,
                f"Nine in ten took up to more than {most} ms for a quarter of an hour.",
                metric.with_(period=FIVE_MINUTES, statistic=MOSTLY),
                above=most,
                periods=SLOW_PERIODS,
            )

    def _published(self, name: str, statistic: str) -> cloudwatch.Metric:
        """What the reconciler publishes at each run."""
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=name,
            dimensions_map={"Stack": self._schedule.published_as},
            period=Duration.minutes(self._settings.reconcile_minutes),
            statistic=statistic,
        )

    def _logged(self, field: str, name: str) -> cloudwatch.Metric:
        """What each line of the Collector about a record, or a bundle of them, says."""
        return field_metric(
            self,
            name,
            self._schedule.collecting.collector,
            f"{{ $.{field} = * }}",
            field,
            f"{NAMESPACE}/{self._schedule.published_as}",
            name,
            MOSTLY,
        )
