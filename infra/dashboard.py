"""The CloudWatch dashboard: alarms, counts, lateness, coverage, errors, queues and points, over the same hours."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_logs as logs

from infra.aggregating import Aggregating
from infra.schedule import SubMinuteSchedule

HALF = 12  # of a dashboard's 24 columns
STORED, RUN_ENDED = 'event = "slot.stored"', 'event = "aggregation.end"'


def add_widgets(
    dashboard: cloudwatch.Dashboard,
    schedule: SubMinuteSchedule,
    aggregating: Aggregating,
    coverage: cloudwatch.IMetric,
    missing: cloudwatch.IMetric,
    alarms: Sequence[cloudwatch.IAlarm],
) -> None:
    """Put the widgets on the dashboard, row by row."""
    group = schedule.collecting.collector.log_group
    dashboard.add_widgets(cloudwatch.AlarmStatusWidget(title="Alarms", alarms=list(alarms), width=2 * HALF))
    dashboard.add_widgets(
        _from_logs("Counts", group, STORED, "stats avg(count) as count by bin(1m)"),
        _from_logs(
            "Lateness in ms",
            group,
            STORED,
            "stats pct(latenessMilliseconds, 50) as p50, pct(latenessMilliseconds, 99) as p99 by bin(1m)",
        ),
    )
    dashboard.add_widgets(_graph("Coverage in % and missing slots", [coverage], [missing]), _errors(schedule))
    dashboard.add_widgets(_queue(schedule), _dead_letters(schedule))
    dashboard.add_widgets(_points(aggregating), _companies(aggregating))


def _from_logs(title: str, group: logs.ILogGroup, lines: str, statistics: str) -> cloudwatch.LogQueryWidget:
    """A curve out of a function's log: every stored record, every run that ended is one line of it."""
    return cloudwatch.LogQueryWidget(
        title=title,
        log_group_names=[group.log_group_name],
        query_lines=[f"filter {lines}", statistics],
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
            queue.metric_approximate_number_of_messages_delayed(label="planned"),
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


def _points(aggregating: Aggregating) -> cloudwatch.LogQueryWidget:
    counted = "stats sum(granted) as granted, sum(already_granted) as already, sum(failed) as failed by bin(1h)"
    return _from_logs("Aggregation: points", aggregating.aggregation.log_group, RUN_ENDED, counted)


def _companies(aggregating: Aggregating) -> cloudwatch.GraphWidget:
    return _graph(
        "Aggregation: companies, dead letters and error lines",
        [
            aggregating.queue.metric_approximate_number_of_messages_visible(label="waiting"),
            aggregating.queue.metric_approximate_number_of_messages_not_visible(label="in a run"),
            aggregating.dead_letters.metric_approximate_number_of_messages_visible(label="dead letters"),
        ],
        [aggregating.error_lines],
    )


def _graph(
    title: str, left: Sequence[cloudwatch.IMetric], right: Sequence[cloudwatch.IMetric]
) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(left), right=list(right), width=HALF)
