"""How a table of ours is made: kept when the stack is deleted, restorable to any second, billed as was asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from kizami.aws.costs.capacity import MOST_WRITES, USED_PERCENT, provisioned_reads, provisioned_writes
from kizami.cdk.foundation import Foundation
from kizami.cdk.parts.findings import acknowledge
from kizami.cdk.settings import Settings

# A table that a failed first deployment leaves behind would stand in the way of the second.
KEPT = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
EXPIRES_AT = "expiresAt"  # seconds since 1970, of items that are to go

MOST_OF_LEAST = 4  # how far an autoscaled table may grow


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many units of writing and reading a second a table is given; `grows` if it may be given more."""

    writes: int
    reads: int
    grows: bool = False


def capacity_for(
    settings: Settings, writes_a_second: float, kept_intervals: Sequence[int] = ()
) -> Capacity | None:
    """What a table of so many writes a second is given; None on demand.

    Records that are not kept for ever, of metrics of these intervals, are read once more for their totals.
    """
    if settings.capacity == "on_demand":
        return None
    writes = settings.write_capacity or provisioned_writes(writes_a_second)
    reads = settings.read_capacity + provisioned_reads(kept_intervals)
    return Capacity(writes, reads, settings.capacity == "autoscaled")


def make_table(
    scope: Construct,
    id: str,
    foundation: Foundation,
    name: str | None,
    partition_key: str,
    sort_key: str | None = None,
    *,
    capacity: Capacity | None = None,
    warm_writes: int | None = None,
    expiring: bool = False,
) -> dynamodb.Table:
    """The table with text keys; the context may ask for one that goes with the stack, or cannot be restored."""
    settings = foundation.settings
    table = dynamodb.Table(
        scope,
        id,
        table_name=name,
        partition_key=_text_key(partition_key),
        sort_key=_text_key(sort_key) if sort_key else None,
        billing_mode=dynamodb.BillingMode.PROVISIONED if capacity else dynamodb.BillingMode.PAY_PER_REQUEST,
        write_capacity=capacity.writes if capacity else None,
        read_capacity=capacity.reads if capacity else None,
        warm_throughput=dynamodb.WarmThroughput(write_units_per_second=warm_writes) if warm_writes else None,
        time_to_live_attribute=EXPIRES_AT if expiring else None,
        removal_policy=KEPT if settings.retain_data else RemovalPolicy.DESTROY,
        deletion_protection=settings.deletion_protection,
        point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
            point_in_time_recovery_enabled=settings.point_in_time_recovery
        ),
        encryption_key=foundation.table_key,
    )
    if capacity and capacity.grows:
        _let_grow(table, capacity)
    if not settings.point_in_time_recovery:
        acknowledge(table, {"DDB3": "The context (point_in_time_recovery=false) asks for none."})
    return table


def make_passing_table(
    scope: Construct, id: str, foundation: Foundation, partition_key: str, sort_key: str
) -> dynamodb.Table:
    """A table whose items expire, with a name of CloudFormation's making; it goes with the stack."""
    table = dynamodb.Table(
        scope,
        id,
        partition_key=_text_key(partition_key),
        sort_key=_text_key(sort_key),
        billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
        removal_policy=RemovalPolicy.DESTROY,
        time_to_live_attribute=EXPIRES_AT,
        encryption_key=foundation.table_key,
    )
    acknowledge(table, {"DDB3": "What it says is found out again from the records."})
    return table


def _let_grow(table: dynamodb.Table, least: Capacity) -> None:
    for scale, units in (
        (table.auto_scale_write_capacity, least.writes),
        (table.auto_scale_read_capacity, least.reads),
    ):
        most = max(units, min(units * MOST_OF_LEAST, MOST_WRITES))
        scaling = scale(min_capacity=units, max_capacity=most)
        scaling.scale_on_utilization(target_utilization_percent=USED_PERCENT)


def _text_key(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)
