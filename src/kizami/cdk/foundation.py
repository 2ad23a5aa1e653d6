"""What every layer stands on: settings, targets, the Lambda package and, in production, keys and a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from aws_cdk import ArnFormat, AssetHashType, Stack, Stage
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from kizami.aws.history.keeping import kept_metrics
from kizami.aws.settings import require_no_limits
from kizami.cdk.concurrency import require_shares
from kizami.cdk.parts.alerting import maintenance_zones, require_obeyable, told_urls
from kizami.cdk.parts.certificates import packed_certificates
from kizami.cdk.parts.configuration import bundle_files
from kizami.cdk.parts.network import Network
from kizami.cdk.parts.package import CONFIG_NAME, package_files, package_hash, write_zip
from kizami.cdk.settings import Settings
from kizami.core.access.auth import OAuth2Auth
from kizami.core.config import Config, parse_config
from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.core.targets.bundles import make_bundles
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target


class Foundation(Construct):
    """Made once a deployment and handed to every layer."""

    def __init__(self, scope: Construct, id: str, settings: Settings, config: str | None = None) -> None:
        super().__init__(scope, id)
        text = config if config is not None else read_config(settings.config)
        self.settings = settings
        configured = read_deployable(text, settings)
        self.targets, self.alerts = configured.enabled_targets, configured.alerts
        self.kept = list(kept_metrics(configured.targets))
        self.has_config = text is not None
        # One target is asked as in the seeds; more of them share messages.
        self.bundles = make_bundles(self.targets) if len(self.targets) > 1 else []
        polled = self.bundles or self.targets
        intervals = [each.interval_seconds for each in polled]
        self.shares = require_shares(settings, intervals, one_queue=not self.has_backfill_queue)
        files = dict(packed_certificates(self.targets, settings)) if text is not None else {}
        if self.bundles:
            files |= bundle_files(text or "", self.bundles, settings.keep_seconds)
        elif text is not None:
            files[CONFIG_NAME] = text.encode()
        zones = {settings.aggregation_time_zone, *maintenance_zones(self.alerts)}
        self.code = lambda_code(self, files, sorted(zones))
        self.table_key = self._key("TableKey", "the tables")
        self.queue_key = self._key("QueueKey", "the queues and the alarms' topic")
        self.log_key = self._key("LogKey", "the logs", _for_logs(Stack.of(self)))
        self.network = self._make_network()

    @property
    def has_backfill_queue(self) -> bool:
        """Whether old slots have a queue of their own: as stated, else where there are more targets than one."""
        stated = self.settings.backfill_queue
        return len(self.targets) > 1 if stated is None else stated

    def _reached_urls(self) -> list[str]:
        own = [self.settings.api_base_url]
        if self.has_config:
            own = [url for target in self.targets for url in reached_urls(target)]
        return [url for url in (*own, *told_urls(self.alerts), self.settings.aggregation_api_base_url) if url]

    def _make_network(self) -> Network | None:
        if self.log_key is None:
            return None
        return Network(self, "Network", self._reached_urls(), self.log_key, self.settings.nat_per_zone)

    def _key(self, id: str, what: str, use: iam.PolicyStatement | None = None) -> kms.Key | None:
        if not self.settings.production:
            return None
        key = kms.Key(self, id, description=f"kizami: {what}", enable_key_rotation=True)
        if use:
            key.add_to_resource_policy(use)
        return key


def lambda_code(scope: Construct, configuration: Mapping[str, bytes], zones: Sequence[str]) -> lambda_.Code:
    """The package as an asset of the app that `scope` is in."""
    files = package_files(configuration, *zones)
    digest = package_hash(files)
    stage = Stage.of(scope)
    if stage is None:
        raise ConfigurationError("SubMinuteSchedule", "must stand in a stack of a CDK app")
    path = Path(stage.outdir) / f"package-{digest[:16]}.zip"
    write_zip(files, path)
    return lambda_.Code.from_asset(str(path), asset_hash=digest, asset_hash_type=AssetHashType.CUSTOM)


def read_config(path: str | None) -> str | None:
    """The text of the `kizami.toml` at `path`, if one was named."""
    if path is None:
        return None
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not UTF-8"
        raise ConfigurationError(f"context config: {path}", f"{reason}; give the path of a kizami.toml") from None


def read_deployable(text: str | None, settings: Settings) -> Config:
    """The configuration, refused where Lambda could not poll one of its enabled targets."""
    config = parse_config(text, settings.config or "kizami.toml") if text is not None else Config()
    if not config.enabled_targets:
        raise ConfigurationError(settings.config or "kizami.toml", "has no enabled target to poll")
    require_no_limits(config, settings.config or "kizami.toml")
    for target in config.enabled_targets:
        _require_deployable(target, settings)
        if text is not None and target.is_mock:
            raise ConfigurationError(
                f"{settings.config or 'kizami.toml'}: target {target.name}: url",
                f"{target.url} is the mock API of one machine, which Lambda cannot reach; name an API of yours, or"
                " leave config out: the stack then deploys a mock API and polls it",
            )
    require_obeyable(config, settings)
    try:
        return config.keeping(settings.keep_seconds)
    except InvalidInput as error:
        raise ConfigurationError("context keep_days", error.problem) from None


def _require_deployable(target: Target, settings: Settings) -> None:
    place = f"{settings.config or 'kizami.toml'}: target {target.name}"
    if target.timeout_seconds >= settings.collector_timeout_seconds:
        raise ConfigurationError(
            f"{place}: timeout",
            f"{target.timeout_seconds:g} s does not fit into the {settings.collector_timeout_seconds} s of the "
            "Collector; lower it or raise -c collector_timeout_seconds",
        )
    if settings.production and isinstance(target.proxy, SecretReference):
        raise ConfigurationError(
            f"{place}: proxy", "must be the URL itself: the way out is opened for its port (profile production)"
        )
    for setting, reference in target.references():
        if not reference.is_on_aws:
            raise ConfigurationError(
                f"{place}: {setting}",
                f"{reference.kind}: cannot be read on Lambda; use secretsmanager:ID or ssm:NAME",
            )


def reached_urls(target: Target) -> list[str]:
    """Where the target's requests go: to its proxy, or to the API and its token endpoint."""
    if isinstance(target.proxy, str):
        return [target.proxy]
    token_urls = [target.auth.token_url] if isinstance(target.auth, OAuth2Auth) else []
    return [target.url, *token_urls]


def _for_logs(stack: Stack) -> iam.PolicyStatement:
    groups = stack.format_arn(
        service="logs", resource="log-group", resource_name="*", arn_format=ArnFormat.COLON_RESOURCE_NAME
    )
    return iam.PolicyStatement(
        principals=[iam.ServicePrincipal(f"logs.{stack.region}.{stack.url_suffix}")],
        actions=["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*"],
        resources=["*"],
        conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
    )
