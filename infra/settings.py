"""What a deployment can be told by CDK context (`-c name=value`): each with its safe default, checked at synth."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from kizami.aggregation.points import DEFAULT_ZONE, require_zone
from kizami.aws.aggregation_settings import DEFAULT_RETRY_SECONDS
from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.core.slots import DEFAULT_INTERVAL_SECONDS
from kizami.core.targets.urls import require_base_url

SENDER_TIMEOUT_SECONDS = 10
MEMORY_MB = 128
RETENTION_DAYS = 1
LONGEST_DELAY_SECONDS = 60

# Where a deployment goes whose context names no region; CDK sets its own variable to the profile's region.
REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION", "CDK_DEFAULT_REGION")

_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")
_NAME = re.compile(r"[A-Za-z0-9_.-]{3,255}")


class Profile(Enum):
    """`standard` is the seeds' system made safe; `production` adds what the seeds recommend for production."""

    STANDARD = "standard"
    PRODUCTION = "production"


@dataclass(frozen=True, slots=True)
class Settings:
    """The values that may differ between deployments; docs/operations.md has each beside the original one."""

    stack_name: str = "DataCollectionSchedulerStack"
    region: str = "us-east-1"
    profile: Profile = Profile.STANDARD
    config: str | None = None
    api_base_url: str | None = None
    api_key_secret: str | None = None
    window_lag_seconds: int | None = None
    table_name: str = "AiResponseMetrics"
    retain_data: bool = True
    point_in_time_recovery: bool = True
    collector_timeout_seconds: int = 30
    visibility_seconds: int = 180
    max_receives: int = 5
    collector_concurrency: int | None = None
    collector_batch_size: int = 1
    sender_memory_mb: int | None = None
    reconcile_minutes: int = 5
    reconcile_hours: int = 3
    reconcile_limit: int = 1000
    backfill_concurrency: int = 2
    aggregation_api_base_url: str | None = None
    aggregation_time_zone: str = DEFAULT_ZONE
    aggregation_minutes: int = 60
    aggregation_timeout_seconds: int = 900
    aggregation_memory_mb: int = 1769
    aggregation_concurrency: int = 10
    aggregation_retry_seconds: int = DEFAULT_RETRY_SECONDS
    company_table_name: str = "Company"
    points_table_name: str = "Points"
    coverage_alarm_percent: int = 99
    alarm_email: str | None = None
    log_retention_days: int = 30
    log_level: str = "info"
    architecture: str = "arm64"

    def __post_init__(self) -> None:
        if self.visibility_seconds < self.collector_timeout_seconds:
            raise ConfigurationError(
                "context visibility_seconds",
                f"{self.visibility_seconds} is below collector_timeout_seconds ({self.collector_timeout_seconds}):"
                " a message would come back while it is worked on",
            )

    @property
    def production(self) -> bool:
        """Whether the production profile is on."""
        return self.profile is Profile.PRODUCTION

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


def settings_from_context(context: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Settings:
    """The settings that the context states, and the environment's region where it states none.

    A wrong or unknown one is a ConfigurationError that names it.
    """
    for name in context:
        # CDK's own names have a colon. A typo of ours must not deploy a default unnoticed.
        if ":" not in name and name not in PARSERS:
            raise ConfigurationError(f"context {name}", f"is not a setting; known: {', '.join(PARSERS)}")
    stated = {name: parse(name, context[name]) for name, parse in PARSERS.items() if name in context}
    if "region" not in stated and (region := _region_of(environment or {})):
        stated["region"] = region
    return Settings(**stated)


def _region_of(environment: Mapping[str, str]) -> str | None:
    for name in REGION_VARIABLES:
        if region := environment.get(name):
            if not _REGION.fullmatch(region):
                raise ConfigurationError(name, f"{region!r} is not {_A_REGION}")
            return region
    return None


def _number(low: int, high: int) -> Callable[[str, Any], int]:
    def parse(name: str, value: Any) -> int:
        text = str(value)
        if not (text.isascii() and text.isdecimal() and low <= int(text) <= high):
            raise _wrong(name, value, f"a whole number from {low} to {high}")
        return int(text)

    return parse


def _choice(choices: Mapping[str, Any]) -> Callable[[str, Any], Any]:
    def parse(name: str, value: Any) -> Any:
        key = str(value).lower()
        if key not in choices:
            raise _wrong(name, value, "one of " + ", ".join(choices))
        return choices[key]

    return parse


def _pattern(pattern: re.Pattern[str], what: str) -> Callable[[str, Any], str]:
    def parse(name: str, value: Any) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise _wrong(name, value, what)
        return value

    return parse


def _base_url(name: str, value: Any) -> str:
    try:
        require_base_url(value)
    except InvalidInput as error:
        raise ConfigurationError(f"context {name}", error.problem) from None
    return str(value)


def _time_zone(name: str, value: Any) -> str:
    require_zone(str(value), f"context {name}")
    return str(value)


def _wrong(name: str, value: Any, expected: str) -> ConfigurationError:
    return ConfigurationError(f"context {name}", f"{value!r} is not {expected}")


_A_REGION = "an AWS region like us-east-1"
_A_TABLE_NAME = "a table name (3 to 255 letters, digits or _ . -)"
_FLAG = _choice({"true": True, "false": False})
LOG_RETENTION_DAYS = (1, 7, 14, 30, 90, 365, 3653)

# How each setting is read; the bounds are those of the AWS service behind it.
PARSERS: dict[str, Callable[[str, Any], Any]] = {
    "stack_name": _pattern(re.compile(r"[A-Za-z][A-Za-z0-9-]{0,127}"), "a stack name (letters, digits and -)"),
    "region": _pattern(_REGION, _A_REGION),
    "profile": _choice({profile.value: profile for profile in Profile}),
    "config": _pattern(re.compile(r".+"), "the path of a kizami.toml"),
    "api_base_url": _base_url,
    "api_key_secret": _pattern(re.compile(r"[\w/+=.@:-]{1,512}", re.ASCII), "the name or ARN of a secret"),
    "window_lag_seconds": _number(0, 3600),
    "table_name": _pattern(_NAME, _A_TABLE_NAME),
    "retain_data": _FLAG,
    "point_in_time_recovery": _FLAG,
    "collector_timeout_seconds": _number(1, 900),
    "visibility_seconds": _number(1, 43_200),
    "max_receives": _number(0, 1000),
    "collector_concurrency": _number(2, 1000),
    "collector_batch_size": _number(1, 10),
    "sender_memory_mb": _number(128, 10_240),
    "reconcile_minutes": _number(1, 60),
    "reconcile_hours": _number(1, 24),
    "reconcile_limit": _number(1, 100_000),
    "backfill_concurrency": _number(2, 1000),
    "aggregation_api_base_url": _base_url,
    "aggregation_time_zone": _time_zone,
    "aggregation_minutes": _number(1, 1440),
    "aggregation_timeout_seconds": _number(60, 900),  # the batch keeps the last 30 to end cleanly
    "aggregation_memory_mb": _number(128, 10_240),
    "aggregation_concurrency": _number(2, 1000),
    "aggregation_retry_seconds": _number(1, 43_200),
    "company_table_name": _pattern(_NAME, _A_TABLE_NAME),
    "points_table_name": _pattern(_NAME, _A_TABLE_NAME),
    "coverage_alarm_percent": _number(1, 100),
    "alarm_email": _pattern(re.compile(r"[^@\s]+@[^@\s]+"), "an e-mail address"),
    "log_retention_days": _choice({str(days): days for days in LOG_RETENTION_DAYS}),
    "log_level": _choice({"info": "info", "warn": "warn"}),
    "architecture": _choice({"arm64": "arm64", "x86_64": "x86_64"}),
}
assert list(PARSERS) == [entry.name for entry in fields(Settings)]
