"""What may differ between deployments, each value with its safe default."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kizami.aggregation.points import DEFAULT_ZONE
from kizami.aws.aggregation_settings import DEFAULT_RETRY_SECONDS
from kizami.core.errors import ConfigurationError
from kizami.core.slots import DEFAULT_INTERVAL_SECONDS

SENDER_TIMEOUT_SECONDS = 10
MEMORY_MB = 128
RETENTION_DAYS = 1
LONGEST_DELAY_SECONDS = 60

DEFAULT_STACK_NAME = "DataCollectionSchedulerStack"
# What the tables of the default stack are called; those of another one have its name before theirs.
TABLE_NAMES = {
    "table_name": "AiResponseMetrics",
    "company_table_name": "Company",
    "points_table_name": "Points",
}


class Profile(Enum):
    """`standard` is the seeds' system made safe; `production` adds what the seeds recommend for production."""

    STANDARD = "standard"
    PRODUCTION = "production"


@dataclass(frozen=True, slots=True)
class Settings:
    """The values that may differ between deployments; docs/operations.md has each beside the original one."""

    stack_name: str = DEFAULT_STACK_NAME
    region: str = "us-east-1"
    profile: Profile = Profile.STANDARD
    nat_per_zone: bool = False
    tags: tuple[tuple[str, str], ...] = ()
    config: str | None = None
    api_base_url: str | None = None
    api_key_secret: str | None = None
    secret_keys: tuple[str, ...] = ()
    window_lag_seconds: int | None = None
    mock_api: str = "rest"
    table_name: str | None = None
    retain_data: bool = True
    deletion_protection: bool = False
    point_in_time_recovery: bool = True
    keep_days: int | None = None
    capacity: str = "on_demand"
    write_capacity: int | None = None
    read_capacity: int = 25
    warm_writes: int | None = None
    collector_timeout_seconds: int = 30
    visibility_seconds: int = 180
    max_receives: int = 5
    account_concurrency: int = 10
    collector_concurrency: int | None = None
    collector_batch_size: int = 1
    sender_memory_mb: int | None = None
    reconcile_minutes: int = 5
    reconcile_hours: int = 3
    reconcile_limit: int = 1000
    backfill_queue: bool | None = None
    backfill_concurrency: int | None = None
    aggregation: bool | None = None
    aggregation_api_base_url: str | None = None
    aggregation_time_zone: str = DEFAULT_ZONE
    aggregation_minutes: int = 60
    aggregation_timeout_seconds: int = 900
    aggregation_memory_mb: int = 1769
    aggregation_concurrency: int | None = None
    aggregation_retry_seconds: int = DEFAULT_RETRY_SECONDS
    company_table_name: str | None = None
    points_table_name: str | None = None
    monitoring: str = "full"
    coverage_alarm_percent: int = 99
    sender_alarm_ms: int | None = None
    collector_alarm_ms: int = 3000
    api_alarm_ms: int = 1000
    write_alarm_ms: int = 100
    alarm_email: str | None = None
    log_retention_days: int = 30
    log_level: str = "info"
    platform_reports: bool = False
    tracing: bool = False
    architecture: str = "arm64"

    def __post_init__(self) -> None:
        if self.visibility_seconds < self.collector_timeout_seconds:
            raise ConfigurationError(
                "context visibility_seconds",
                f"{self.visibility_seconds} is below collector_timeout_seconds ({self.collector_timeout_seconds}):"
                " a message would come back while it is worked on",
            )
        if self.config:
            self._refuse_what_a_config_replaces()
        if self.config and self.with_aggregation and self.aggregation_api_base_url is None:
            raise ConfigurationError(
                "context aggregation_api_base_url",
                "must say where the users API is: with a config the mock API, its default, is not deployed",
            )
        if self.production and self.mock_api == "http":
            raise ConfigurationError(
                "context mock_api", "http has no API keys, which profile=production asks for; leave it at rest"
            )
        if self.nat_per_zone and not self.production:
            raise ConfigurationError(
                "context nat_per_zone", "needs profile=production; without it there is neither a VPC nor a NAT"
            )
        if self.warm_writes is not None and self.capacity != "on_demand":
            raise ConfigurationError(
                "context warm_writes", "is for capacity=on_demand; what is provisioned is there from the beginning"
            )
        if self.write_capacity is not None and self.capacity == "on_demand":
            raise ConfigurationError(
                "context write_capacity", "needs capacity=provisioned or autoscaled; on demand there is none"
            )

    def _refuse_what_a_config_replaces(self) -> None:
        replaced = {
            "api_base_url": (self.api_base_url, "say url in its targets"),
            "api_key_secret": (self.api_key_secret, "name the secret in headers of its targets"),
            "window_lag_seconds": (self.window_lag_seconds, "say lag in its targets"),
            "mock_api": ("http" if self.mock_api == "http" else None, "no mock API is deployed beside one"),
        }
        for name, (value, remedy) in replaced.items():
            if value is not None:
                raise ConfigurationError(f"context {name}", f"has no effect with a config: {remedy}")

    @property
    def keep_seconds(self) -> int | None:
        """For how long the slots of targets are kept that do not say so; None for ever."""
        return self.keep_days * 86_400 if self.keep_days else None

    @property
    def production(self) -> bool:
        """Whether the production profile is on."""
        return self.profile is Profile.PRODUCTION

    @property
    def with_aggregation(self) -> bool:
        """Whether the aggregation is deployed: as stated, else if anything of it is named."""
        if self.aggregation is not None:
            return self.aggregation
        return any((self.aggregation_api_base_url, self.company_table_name, self.points_table_name))

    @property
    def fully_monitored(self) -> bool:
        """Whether there is a dashboard, with metrics of our own."""
        return self.monitoring == "full"

    def called(self, setting: str) -> str:
        """The name of a table of this stack: as stated, else one that no other stack has.

        It follows from the stack's name, so that a stack that is made again finds its tables.
        """
        stated: str | None = getattr(self, setting)
        prefix = "" if self.stack_name == DEFAULT_STACK_NAME else f"{self.stack_name}-"
        return stated or f"{prefix}{TABLE_NAMES[setting]}"

    @property
    def lag_seconds(self) -> int:
        """The lag of the default target: 0 for the mock API as in the seeds, a whole window for a real one."""
        if self.window_lag_seconds is not None:
            return self.window_lag_seconds
        return DEFAULT_INTERVAL_SECONDS if self.api_base_url else 0

    @property
    def grace_seconds(self) -> int:
        """How long a slot can be on its way: its delay, then every receive, each hidden for the visibility."""
        return LONGEST_DELAY_SECONDS + self.visibility_seconds * max(1, self.max_receives)

    @property
    def aggregation_visibility_seconds(self) -> int:
        """Six times the function's time, as AWS asks; at most 90 minutes, below the 120 of the batch's lock."""
        return 6 * self.aggregation_timeout_seconds
