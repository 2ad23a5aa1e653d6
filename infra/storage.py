"""Storage: the table `AiResponseMetrics`, one item a metric and slot (Requirement 6.1)."""

from __future__ import annotations

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from infra.findings import acknowledge
from infra.foundation import Foundation


class Storage(Construct):
    """Keys as in the seeds, on-demand billing; kept when the stack is deleted, restorable to any second."""

    def __init__(self, scope: Construct, id: str, foundation: Foundation) -> None:
        super().__init__(scope, id)
        settings = foundation.settings
        self.table = dynamodb.Table(
            self,
            "Metrics",
            table_name=settings.table_name,
            partition_key=_text_key("metricName"),
            sort_key=_text_key("slotTime"),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            removal_policy=RemovalPolicy.RETAIN if settings.retain_data else RemovalPolicy.DESTROY,
            deletion_protection=settings.retain_data,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=settings.point_in_time_recovery
            ),
            encryption_key=foundation.table_key,
        )
        if not settings.point_in_time_recovery:
            acknowledge(self.table, {"DDB3": "The context (point_in_time_recovery=false) asks for none."})


def _text_key(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)
