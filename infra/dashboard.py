"""The CloudWatch dashboard, by metrics alone: alarms, lateness, coverage, calls, capacity, queues and points."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_

from infra.aggregating import Aggregating
from kizami.cdk.schedule import SubMinuteSchedule
from kizami.cdk.schedule_alarms import ScheduleAlarms

HALF = 12  # of a dashboard's 24 columns


def add_widgets(
    dashboard: cloudwatch.Dashboard,
    schedule: SubMinuteSchedule,
    watched: ScheduleAlarms,
    aggregating: Aggregating | None,
    alarms: Sequence[cloudwatch.IAlarm],
) -> None:
    """Put the widgets on the dashboard, row by row."""
    dashboard.add_widgets(cloudwatch.AlarmStatusWidget(title="Alarms", alarms=list(alarms), width=2 * HALF))
    dashboard.add_widgets(
        _lateness(watched),
        _graph("Coverage in % and missing slots", [watched.coverage, watched.lowest_coverage], [watched.missing]),
    )
    dashboard.add_widgets(_calls(schedule), _errors(schedule))
    dashboard.add_widgets(_queue(schedule), _dead_letters(schedule))
    dashboard.add_widgets(_capacity(schedule.table), _times(schedule, watched))
    if aggregating:
        dashboard.add_widgets(_points(aggregating), _companies(aggregating))


def _lateness(watched: ScheduleAlarms) -> cloudwatch.GraphWidget:
    half, late = (
        watched.lateness.with_(statistic="p50", label="p50"),
        watched.lateness.with_(statistic="p99", label="p99"),
    )
    return _graph("Lateness in ms", [half, late], [])


def _functions(schedule: SubMinuteSchedule) -> dict[str, lambda_.Function]:
    return {
        "Sender": schedule.scheduling.sender,
        "Collector": schedule.collecting.collector,
        "Reconciler": schedule.reconciling.reconciler,
    }


def _calls(schedule: SubMinuteSchedule) -> cloudwatch.GraphWidget:
    functions = _functions(schedule)
    return _graph(
        "Invocations, and how many at once",
        [function.metric_invocations(label=name) for name, function in functions.items()],
        [functions["Collector"].metric("ConcurrentExecutions", statistic="Maximum", label="Collectors at once")],
    )


def _errors(schedule: SubMinuteSchedule) -> cloudwatch.GraphWidget:
    functions = _functions(schedule)
    return _graph(
        "Errors and throttles",
        [function.metric_errors(label=f"{name} errors") for name, function in functions.items()],
        [function.metric_throttles(label=f"{name} throttles") for name, function in functions.items()],
    )


def _times(schedule: SubMinuteSchedule, watched: ScheduleAlarms) -> cloudwatch.GraphWidget:
    functions = _functions(schedule)
    return _graph(
        "What takes how long, in ms",
        [function.metric_duration(label=name, statistic="p90") for name, function in functions.items()],
        [watched.api_time.with_(label="API")],
    )


def _capacity(table: dynamodb.ITable) -> cloudwatch.GraphWidget:
    names = {"TableName": table.table_name}
    throttled = [
        table.metric(metric, dimensions_map=names, statistic="Sum", label=label)
        for metric, label in (("WriteThrottleEvents", "writes refused"), ("ReadThrottleEvents", "reads refused"))
    ]
    used = [
        table.metric_consumed_write_capacity_units(statistic="Sum", label="write units"),
        table.metric_consumed_read_capacity_units(statistic="Sum", label="read units"),
    ]
    return _graph("DynamoDB: units used, calls refused", used, throttled)


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
    left = []
    if not schedule.reconciling.shares_queue:
        left.append(backfill.metric_approximate_number_of_messages_visible(label="backfill"))
    if dead:
        left.append(dead.metric_approximate_number_of_messages_visible(label="dead letters"))
    return _graph("Backfill and dead letters", left, [])


def _points(aggregating: Aggregating) -> cloudwatch.GraphWidget:
    return _graph("Aggregation: points", [aggregating.granted] if aggregating.granted else [], [])


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
