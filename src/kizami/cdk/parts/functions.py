"""How a Lambda function of ours is made: a role and a log group of its own, and JSON lines in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from kizami.aws.aggregation_settings import FAILURES_PARTITION
from kizami.cdk.foundation import Foundation
from kizami.cdk.parts.findings import acknowledge
from kizami.cdk.parts.package import require_packaged
from kizami.cdk.settings import MEMORY_MB, Settings

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
APPLICATION_LOG = {
    "debug": lambda_.ApplicationLogLevel.DEBUG,
    "info": lambda_.ApplicationLogLevel.INFO,
    "warn": lambda_.ApplicationLogLevel.WARN,
}
# Lambda's own lines say mostly what its metrics say; it still reports failures. Only reports say the memory used.
SYSTEM_LOG = {
    "debug": lambda_.SystemLogLevel.DEBUG,
    "info": lambda_.SystemLogLevel.WARN,
    "warn": lambda_.SystemLogLevel.WARN,
}
EVENT_MINUTES, EVENT_RETRIES = 5, 2

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
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)


# CPU comes with memory; (up to so many messages a tick, MB), measured with bench/at_scale/functions.py.
MEMORY_STEPS = ((20, 0), (200, 512), (500, 1024))
WHOLE_CPU_MB = 1769


def memory_for(foundation: Foundation, least_mb: int) -> int:
    """Enough CPU to look after all bundles, or a single target, within a function's time."""
    bundles = len(foundation.bundles)
    return max(least_mb, next((memory for most, memory in MEMORY_STEPS if bundles <= most), WHOLE_CPU_MB))


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
        system_log_level_v2=_system_log(settings, level),
        vpc=network.vpc if network else None,
        security_groups=[network.security_group] if network else None,
        tracing=lambda_.Tracing.ACTIVE if settings.tracing else lambda_.Tracing.DISABLED,
    )
    allow(function, ["logs:CreateLogStream", "logs:PutLogEvents"], [log_group.log_group_arn])
    if settings.tracing:
        acknowledge(role, {"IAM5[Resource::*]": "X-Ray: IAM knows no resource for traces."})
    if network:
        _allow_network(function, role)
    return function


def _system_log(settings: Settings, level: str) -> lambda_.SystemLogLevel:
    is_reported = settings.platform_reports and level != "debug"  # which reports by itself
    return lambda_.SystemLogLevel.INFO if is_reported else SYSTEM_LOG[level]


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
    """A rule's target; what cannot be delivered within minutes is left to the reconciler, or to the next run."""
    age = Duration.minutes(EVENT_MINUTES)
    # Lambda keeps an event that it has taken for six hours by itself, and would send a minute of long ago.
    function.configure_async_invoke(max_event_age=age, retry_attempts=EVENT_RETRIES)
    return targets.LambdaFunction(function, max_event_age=age, retry_attempts=EVENT_RETRIES)


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


def allow_partition(function: lambda_.Function, actions: Iterable[str], table_arn: str, partition: str) -> None:
    """Let the function do `actions` on the items of one partition of a table, and on no other; `*` is any text."""
    is_like = "StringLike" if "*" in partition else "StringEquals"
    only = {f"ForAllValues:{is_like}": {"dynamodb:LeadingKeys": [partition]}}
    function.add_to_role_policy(iam.PolicyStatement(actions=list(actions), resources=[table_arn], conditions=only))


def allow_notes(function: lambda_.Function, table: dynamodb.ITable) -> None:
    """Let the function note failures in the metric table, for who looks whether all is well."""
    changes = ["dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"]
    allow_partition(function, changes, table.table_arn, FAILURES_PARTITION)


def allow_key(function: lambda_.Function, key: kms.IKey | None, service: str, actions: Iterable[str]) -> None:
    """Let the function use a customer-managed key, if there is one, and only through the service it protects."""
    if key is not None:
        allow_key_arns(function, [key.key_arn], service, actions)


def allow_key_arns(
    function: lambda_.Function, key_arns: Iterable[str], service: str, actions: Iterable[str]
) -> None:
    """The same of any number of keys, by their ARNs."""
    stack = function.stack
    via = {"StringEquals": {"kms:ViaService": f"{service}.{stack.region}.{stack.url_suffix}"}}
    if resources := list(key_arns):
        function.add_to_role_policy(
            iam.PolicyStatement(actions=list(actions), resources=resources, conditions=via)
        )
