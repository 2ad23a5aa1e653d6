"""The production profile's network: functions in private subnets that reach out, and nothing that reaches in."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from aws_cdk import RemovalPolicy, Token
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

HTTPS = 443
ZONES = 2


class Network(Construct):
    """Two zones, one NAT gateway or one in each, DynamoDB without leaving AWS; out only on ports that are used."""

    def __init__(
        self, scope: Construct, id: str, reached_urls: Iterable[str], log_key: kms.IKey, nat_per_zone: bool
    ) -> None:
        super().__init__(scope, id)
        nat_gateways = ZONES if nat_per_zone else 1
        self.vpc = ec2.Vpc(
            self, "Vpc", max_azs=ZONES, nat_gateways=nat_gateways, restrict_default_security_group=False
        )
        self.vpc.add_gateway_endpoint("DynamoDb", service=ec2.GatewayVpcEndpointAwsService.DYNAMODB)
        self._log_flows(log_key)
        self.security_group = ec2.SecurityGroup(
            self, "Functions", vpc=self.vpc, allow_all_outbound=False, description="kizami functions: out only"
        )
        for port in sorted({HTTPS} | set(map(_port, reached_urls))):
            self.security_group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(port), "AWS and the targets")

    def _log_flows(self, log_key: kms.IKey) -> None:
        group = logs.LogGroup(
            self,
            "Flows",
            retention=logs.RetentionDays.ONE_MONTH,
            encryption_key=log_key,
            removal_policy=RemovalPolicy.DESTROY,
        )
        # Accepted flows are the polls themselves, which the Collector logs; their records would cost more than it.
        self.vpc.add_flow_log(
            "FlowLog",
            destination=ec2.FlowLogDestination.to_cloud_watch_logs(group),
            traffic_type=ec2.FlowLogTrafficType.REJECT,
        )


def _port(url: str) -> int:
    if Token.is_unresolved(url):  # another stack's API Gateway, known only when it is deployed
        return HTTPS
    parts = urlsplit(url)
    return parts.port or (HTTPS if parts.scheme == "https" else 80)
