"""The CloudWatch dashboard: alarms, counts, lateness, coverage, errors and the queues, over the same hours."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_logs as logs

from infra.schedule import SubMinuteSchedule

HALF = 12  # of a dashboard's 24 columns


def add_widgets(
    dashboard: cloudwatch.Dashboard,
    schedule: SubMinuteSchedule,
    coverage: cloudwatch.IMetric,
    missing: cloudwatch.IMetric,
    alarms: Sequence[cloudwatch.IAlarm],
) -> None:
    """Put the widgets on the dashboard, row by row."""
    group = schedule.collecting.collector.log_group
    dashboard.add_widgets(cloudwatch.AlarmStatusWidget(title="Alarms", alarms=list(alarms), width=2 * HALF))
    dashboard.add_widgets(
        _from_logs("Counts", group, "stats avg(count) as count by bin(1m)"),
        _from_logs(
            "Lateness in ms",
            group,
            "stats pct(latenessMilliseconds, 50) as p50, pct(latenessMilliseconds, 99) as p99 by bin(1m)",
        ),
    )
    dashboard.add_widgets(_graph("Coverage in % and missing slots", [coverage], [missing]), _errors(schedule))
    dashboard.add_widgets(_queue(schedule), _dead_letters(schedule))


def _from_logs(title: str, group: logs.ILogGroup, statistics: str) -> cloudwatch.LogQueryWidget:
    """A line per minute out of the Collector's log: every stored record is one line of it."""
    return cloudwatch.LogQueryWidget(
        title=title,
        log_group_names=[group.log_group_name],
        query_lines=['filter message = "record stored"', statistics],
        view=cloudwatch.LogQueryVisualizationType.LINE,
        width=HALF,
    )


def _errors(schedule: SubMinuteSchedule) -> cloudwatch.GraphWidget:
    functions = {
        "Sender": schedule.scheduling.sender,
        "Collector": schedule.collecting.collector,
        "Reconciler": schedule.reconciling.reconciler,
    }
    return _graph(
        "Errors and throttles",
        [function.metric_errors(label=f"{name} errors") for name, function in functions.items()],
        [function.metric_throttles(label=f"{name} throttles") for name, function in functions.items()],
    )


def _queue(schedule: SubMinuteSchedule) -> cloudwatch.GraphWidget:
    queue = schedule.scheduling.queue
    return _graph(
        "Queue: messages and age of the oldest in s",
        [
            queue.metric_approximate_number_of_messages_delayed(label="delayed"),
            queue.metric_approximate_number_of_messages_visible(label="due"),
            queue.metric_approximate_number_of_messages_not_visible(label="in flight"),
        ],
        [queue.metric_approximate_age_of_oldest_message(label="oldest")],
    )


def _dead_letters(schedule: SubMinuteSchedule) -> cloudwatch.GraphWidget:
    backfill, dead = schedule.reconciling.queue, schedule.scheduling.dead_letters
    left = [backfill.metric_approximate_number_of_messages_visible(label="backfill")]
    if dead:
        left.append(dead.metric_approximate_number_of_messages_visible(label="dead letters"))
    return _graph("Backfill and dead letters", left, [])


def _graph(
    title: str, left: Sequence[cloudwatch.IMetric], right: Sequence[cloudwatch.IMetric]
) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(left), right=list(right), width=HALF)
