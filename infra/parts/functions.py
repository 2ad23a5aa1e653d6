"""How a Lambda function of ours is made: a role and a log group of its own, and JSON lines in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.foundation import Foundation
from infra.parts.findings import acknowledge
from infra.parts.package import require_packaged
from infra.settings import MEMORY_MB

RUNTIME = lambda_.Runtime.PYTHON_3_14
RETENTION = {
    1: logs.RetentionDays.ONE_DAY,
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    90: logs.RetentionDays.THREE_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
    3653: logs.RetentionDays.TEN_YEARS,
}
ARCHITECTURES = {"arm64": lambda_.Architecture.ARM_64, "x86_64": lambda_.Architecture.X86_64}
APPLICATION_LOG = {"info": lambda_.ApplicationLogLevel.INFO, "warn": lambda_.ApplicationLogLevel.WARN}
SYSTEM_LOG = {"info": lambda_.SystemLogLevel.INFO, "warn": lambda_.SystemLogLevel.WARN}

# What Lambda itself does with the role to place a function into a network; AWS lets no resource be named here.
NETWORK_ACTIONS = (
    "ec2:CreateNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
)
# What DynamoDB does on behalf of a function that writes to a table with a customer-managed key.
WRITE_KEY_ACTIONS = (
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)


# CPU comes with memory; (up to so many targets, MB), measured with bench/functions_at_scale.py.
MEMORY_STEPS = ((20, 0), (200, 512), (500, 1024))
WHOLE_CPU_MB = 1769


def memory_for(targets: int, least_mb: int) -> int:
    """Enough CPU to look after so many targets within a function's time."""
    return max(least_mb, next((memory for most, memory in MEMORY_STEPS if targets <= most), WHOLE_CPU_MB))


def make_function(
    scope: Construct,
    id: str,
    foundation: Foundation,
    *,
    handler: str,
    timeout_seconds: int,
    environment: Mapping[str, str],
    description: str,
    memory_mb: int = MEMORY_MB,
    log_level: str | None = None,
) -> lambda_.Function:
    """The function with a role that may write its own log and nothing else; `allow` adds what it uses."""
    settings, network = foundation.settings, foundation.network
    log_group = make_log_group(scope, f"{id}Logs", foundation)
    level = log_level or settings.log_level
    role = iam.Role(scope, f"{id}Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    function = lambda_.Function(
        scope,
        id,
        runtime=RUNTIME,
        architecture=ARCHITECTURES[settings.architecture],
        handler=require_packaged(handler),
        code=foundation.code,
        description=description,
        timeout=Duration.seconds(timeout_seconds),
        memory_size=memory_mb,
        environment=dict(environment),
        role=role,
        log_group=log_group,
        logging_format=lambda_.LoggingFormat.JSON,
        application_log_level_v2=APPLICATION_LOG[level],
        system_log_level_v2=SYSTEM_LOG[level],
        vpc=network.vpc if network else None,
        security_groups=[network.security_group] if network else None,
    )
    allow(function, ["logs:CreateLogStream", "logs:PutLogEvents"], [log_group.log_group_arn])
    if network:
        _allow_network(function, role)
    return function


def _allow_network(function: lambda_.Function, role: iam.Role) -> None:
    allow(function, NETWORK_ACTIONS, ["*"])
    acknowledge(role, {"IAM5[Resource::*]": "Network interfaces: IAM knows no resource for them."})


def make_log_group(scope: Construct, id: str, foundation: Foundation) -> logs.LogGroup:
    """A log group that forgets after the retention; the data that lasts is in the table."""
    return logs.LogGroup(
        scope,
        id,
        retention=RETENTION[foundation.settings.log_retention_days],
        encryption_key=foundation.log_key,
        removal_policy=RemovalPolicy.DESTROY,
    )


def trigger(function: lambda_.Function) -> targets.LambdaFunction:
    """A rule's target; one that cannot be delivered within minutes is left to the reconciler, or to the next."""
    return targets.LambdaFunction(function, max_event_age=Duration.minutes(5), retry_attempts=2)


def consume(
    scope: Construct,
    id: str,
    foundation: Foundation,
    function: lambda_.Function,
    queue: sqs.IQueue,
    batch_size: int,
    max_concurrency: int | None,
) -> None:
    """Call the function for the messages of `queue`, with exactly what Lambda's polling needs."""
    allow(function, ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"], [queue.queue_arn])
    allow_key(function, foundation.queue_key, "sqs", ["kms:Decrypt"])
    mapping = lambda_.EventSourceMapping(
        scope,
        id,
        target=function,
        event_source_arn=queue.queue_arn,
        batch_size=batch_size,
        report_batch_item_failures=True,
        max_concurrency=max_concurrency,
    )
    if function.role:  # Lambda refuses a mapping whose function may not read the queue yet.
        mapping.node.add_dependency(function.role)


def allow(function: lambda_.Function, actions: Iterable[str], resources: Iterable[str]) -> None:
    """Let the function do exactly `actions` on exactly `resources`."""
    function.add_to_role_policy(iam.PolicyStatement(actions=list(actions), resources=list(resources)))


def allow_key(function: lambda_.Function, key: kms.IKey | None, service: str, actions: Iterable[str]) -> None:
    """Let the function use a customer-managed key, if there is one, and only through the service it protects."""
    if key is None:
        return
    via = {"StringEquals": {"kms:ViaService": f"{service}.{function.stack.region}.amazonaws.com"}}
    function.add_to_role_policy(
        iam.PolicyStatement(actions=list(actions), resources=[key.key_arn], conditions=via)
    )
