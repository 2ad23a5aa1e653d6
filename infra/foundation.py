"""What every layer stands on: settings, targets, the Lambda package and, in production, keys and a network."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import ArnFormat, Aws, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.parts.network import Network
from infra.parts.package import lambda_code
from infra.settings import Settings
from kizami.core.config import Config, parse_config
from kizami.core.errors import ConfigurationError
from kizami.core.targets.target import SecretReference, Target

AWS_SECRETS = ("secretsmanager", "ssm")


class Foundation(Construct):
    """Made once a deployment and handed to every layer."""

    def __init__(self, scope: Construct, id: str, settings: Settings, config: str | None = None) -> None:
        super().__init__(scope, id)
        text = config if config is not None else read_config(settings.config)
        self.settings = settings
        self.targets = deployable_targets(text, settings)
        self.has_config = text is not None
        self.code = lambda_code(self, text, settings.aggregation_time_zone)
        self.table_key = self._key("TableKey", "the tables")
        self.queue_key = self._key("QueueKey", "the queues and the alarms' topic", _for_alarms())
        self.log_key = self._key("LogKey", "the logs", _for_logs(Stack.of(self)))
        self.network = Network(self, "Network", self._polled_urls(), self.log_key) if self.log_key else None

    def _polled_urls(self) -> list[str]:
        own = [target.url for target in self.targets] if self.has_config else [self.settings.api_base_url]
        return [url for url in (*own, self.settings.aggregation_api_base_url) if url]

    def _key(self, id: str, what: str, use: iam.PolicyStatement | None = None) -> kms.Key | None:
        if not self.settings.production:
            return None
        key = kms.Key(self, id, description=f"kizami: {what}", enable_key_rotation=True)
        if use:
            key.add_to_resource_policy(use)
        return key


def read_config(path: str | None) -> str | None:
    """The text of the `kizami.toml` at `path`, if one was named."""
    if path is None:
        return None
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not UTF-8"
        raise ConfigurationError(f"context config: {path}", f"{reason}; give the path of a kizami.toml") from None


def deployable_targets(text: str | None, settings: Settings) -> tuple[Target, ...]:
    """The enabled targets, refused where Lambda could not poll one of them."""
    config = parse_config(text, settings.config or "kizami.toml") if text is not None else Config()
    if not config.enabled_targets:
        raise ConfigurationError(settings.config or "kizami.toml", "has no enabled target to poll")
    for target in config.enabled_targets:
        _require_deployable(target, settings)
    return config.enabled_targets


def _require_deployable(target: Target, settings: Settings) -> None:
    place = f"{settings.config or 'kizami.toml'}: target {target.name}"
    if target.timeout_seconds >= settings.collector_timeout_seconds:
        raise ConfigurationError(
            f"{place}: timeout",
            f"{target.timeout_seconds:g} s does not fit into the {settings.collector_timeout_seconds} s of the "
            "Collector; lower it or raise -c collector_timeout_seconds",
        )
    for name, value in target.headers.items():
        if isinstance(value, SecretReference) and value.kind not in AWS_SECRETS:
            raise ConfigurationError(
                f"{place}: headers.{name}",
                f"{value.kind}: cannot be read on Lambda; use secretsmanager:ID or ssm:NAME",
            )


def _for_logs(stack: Stack) -> iam.PolicyStatement:
    groups = stack.format_arn(
        service="logs", resource="log-group", resource_name="*", arn_format=ArnFormat.COLON_RESOURCE_NAME
    )
    return iam.PolicyStatement(
        principals=[iam.ServicePrincipal(f"logs.{stack.region}.amazonaws.com")],
        actions=["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*"],
        resources=["*"],
        conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
    )


def _for_alarms() -> iam.PolicyStatement:
    return iam.PolicyStatement(
        principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
        actions=["kms:Decrypt", "kms:GenerateDataKey*"],
        resources=["*"],
        conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
    )
