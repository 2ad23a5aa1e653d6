"""A field of a function's log lines as a metric: what a curve or an alarm reads without scanning the log."""

from __future__ import annotations

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct


def field_metric(
    scope: Construct,
    id: str,
    function: lambda_.Function,
    pattern: str,
    field: str,
    namespace: str,
    name: str,
    statistic: str,
) -> cloudwatch.Metric:
    """The metric `name` of the number in `field` of every line that the pattern matches."""
    logs.MetricFilter(
        scope,
        id,
        log_group=function.log_group,
        filter_pattern=logs.FilterPattern.literal(pattern),
        metric_namespace=namespace,
        metric_name=name,
        metric_value=f"$.{field}",
    )
    return cloudwatch.Metric(namespace=namespace, metric_name=name, statistic=statistic)
