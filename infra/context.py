"""What a deployment is told by CDK context (`-c name=value`): how each setting is read, checked at synth."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from kizami.aggregation.points import require_zone
from kizami.cdk.settings import Profile, Settings
from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.core.requests.urls import require_base_url
from kizami.core.targets.target import MAX_LAG_SECONDS
from kizami.core.targets.unknown_names import unknown_setting

# Where a deployment goes whose context names no region; CDK sets its own variable to the profile's region.
REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION", "CDK_DEFAULT_REGION")

_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-\d")
_NAME = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_KMS_KEY = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]+", re.ASCII)
_TAG = re.compile(r"([^,=]{1,128})=([^,]{0,256})")


def settings_from_context(context: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Settings:
    """The settings that the context states, and the environment's region where it states none.

    A wrong or unknown one is a ConfigurationError that names it.
    """
    for name in context:
        # CDK's own names have a colon. A typo of ours must not deploy a default unnoticed.
        if ":" not in name and name not in PARSERS:
            raise ConfigurationError(f"context {name}", unknown_setting(name, PARSERS))
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


def _tags(name: str, value: Any) -> tuple[tuple[str, str], ...]:
    pairs = [_TAG.fullmatch(part) for part in str(value).split(",")]
    if not all(pairs):
        raise _wrong(name, value, "tags like team=data,stage=test")
    return tuple((pair[1], pair[2]) for pair in pairs if pair)


def _kms_keys(name: str, value: Any) -> tuple[str, ...]:
    keys = str(value).split(",")
    if not all(map(_KMS_KEY.fullmatch, keys)):
        raise _wrong(name, value, _KEY_ARNS)
    return tuple(dict.fromkeys(keys))


def _wrong(name: str, value: Any, expected: str) -> ConfigurationError:
    return ConfigurationError(f"context {name}", f"{value!r} is not {expected}")


_A_REGION = "an AWS region like us-east-1"
_A_TABLE_NAME = "a table name (3 to 255 letters, digits or _ . -)"
_KEY_ARNS = (
    "one or more ARNs of KMS keys, with commas between them, like"
    " arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab; for an alias see"
    " `aws kms describe-key --key-id alias/NAME`"
)
_FLAG = _choice({"true": True, "false": False})
LOG_RETENTION_DAYS = (1, 7, 14, 30, 90, 365, 3653)

# How each setting is read; the bounds are those of the AWS service behind it.
PARSERS: dict[str, Callable[[str, Any], Any]] = {
    "stack_name": _pattern(re.compile(r"[A-Za-z][A-Za-z0-9-]{0,127}"), "a stack name (letters, digits and -)"),
    "region": _pattern(_REGION, _A_REGION),
    "profile": _choice({profile.value: profile for profile in Profile}),
    "nat_per_zone": _FLAG,
    "tags": _tags,
    "config": _pattern(re.compile(r".+"), "the path of a kizami.toml"),
    "api_base_url": _base_url,
    "api_key_secret": _pattern(re.compile(r"[\w/+=.@:-]{1,512}", re.ASCII), "the name or ARN of a secret"),
    "secret_keys": _kms_keys,
    "window_lag_seconds": _number(0, MAX_LAG_SECONDS),
    "mock_api": _choice({"rest": "rest", "http": "http"}),
    "table_name": _pattern(_NAME, _A_TABLE_NAME),
    "retain_data": _FLAG,
    "deletion_protection": _FLAG,
    "point_in_time_recovery": _FLAG,
    "keep_days": _number(2, 3650),  # the reconciler looks back for a day at most
    "capacity": _choice({name: name for name in ("on_demand", "provisioned", "autoscaled")}),
    "write_capacity": _number(1, 40_000),
    "read_capacity": _number(1, 40_000),
    "warm_writes": _number(4001, 40_000),
    "collector_timeout_seconds": _number(1, 900),
    "visibility_seconds": _number(1, 43_200),
    "max_receives": _number(0, 1000),
    "account_concurrency": _number(4, 100_000),
    "collector_concurrency": _number(2, 1000),
    "collector_batch_size": _number(1, 10),
    "sender_memory_mb": _number(128, 10_240),
    "reconcile_minutes": _number(1, 60),
    "reconcile_hours": _number(1, 24),
    "reconcile_limit": _number(1, 100_000),
    "backfill_queue": _FLAG,
    "backfill_concurrency": _number(2, 1000),
    "aggregation": _FLAG,
    "aggregation_api_base_url": _base_url,
    "aggregation_time_zone": _time_zone,
    "aggregation_minutes": _number(1, 1440),
    "aggregation_timeout_seconds": _number(60, 900),  # the batch keeps the last 30 to end cleanly
    "aggregation_memory_mb": _number(128, 10_240),
    "aggregation_concurrency": _number(2, 1000),
    # SQS hides a message for 12 hours from its receipt at most, and a run of up to 15 minutes is part of them.
    "aggregation_retry_seconds": _number(1, 43_200 - 900),
    "company_table_name": _pattern(_NAME, _A_TABLE_NAME),
    "points_table_name": _pattern(_NAME, _A_TABLE_NAME),
    "monitoring": _choice({"full": "full", "minimal": "minimal"}),
    "coverage_alarm_percent": _number(1, 100),
    "sender_alarm_ms": _number(1, 900_000),
    "collector_alarm_ms": _number(1, 900_000),
    "api_alarm_ms": _number(1, 900_000),
    "write_alarm_ms": _number(1, 900_000),
    "alarm_email": _pattern(re.compile(r"[^@\s]+@[^@\s]+"), "an e-mail address"),
    "log_retention_days": _choice({str(days): days for days in LOG_RETENTION_DAYS}),
    "log_level": _choice({"debug": "debug", "info": "info", "warn": "warn"}),
    "platform_reports": _FLAG,
    "tracing": _FLAG,
    "architecture": _choice({"arm64": "arm64", "x86_64": "x86_64"}),
}
assert list(PARSERS) == [entry.name for entry in fields(Settings)]
