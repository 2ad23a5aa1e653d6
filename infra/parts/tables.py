"""How a table of ours is made: billed on demand, kept when the stack is deleted, restorable to any second."""

from __future__ import annotations

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from infra.foundation import Foundation
from infra.parts.findings import acknowledge


def make_table(
    scope: Construct, id: str, foundation: Foundation, name: str, partition_key: str, sort_key: str | None = None
) -> dynamodb.Table:
    """The table with text keys; the context may ask for one that goes with the stack, or cannot be restored."""
    settings = foundation.settings
    table = dynamodb.Table(
        scope,
        id,
        table_name=name,
        partition_key=_text_key(partition_key),
        sort_key=_text_key(sort_key) if sort_key else None,
        billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
        removal_policy=RemovalPolicy.RETAIN if settings.retain_data else RemovalPolicy.DESTROY,
        deletion_protection=settings.retain_data,
        point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
            point_in_time_recovery_enabled=settings.point_in_time_recovery
        ),
        encryption_key=foundation.table_key,
    )
    if not settings.point_in_time_recovery:
        acknowledge(table, {"DDB3": "The context (point_in_time_recovery=false) asks for none."})
    return table


def _text_key(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)
