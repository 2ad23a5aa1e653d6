"""What the environment tells the Sender and the Collector: read at each invocation, checked before all else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kizami.errors import ConfigurationError, InvalidInput
from kizami.targets import DEFAULT_TIMEOUT_SECONDS, Config, Target
from kizami.urls import require_base_url

Environment = Mapping[str, str]

_TABLE_NAME = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,3})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class SenderSettings:
    """Where the messages go, and for which targets."""

    queue_url: str
    config: Config


@dataclass(frozen=True, slots=True)
class CollectorSettings:
    """What is asked, and the table that keeps the answers."""

    table_name: str
    config: Config


def sender_settings(environment: Environment) -> SenderSettings:
    """`QUEUE_URL`, and `WINDOW_LAG_SECONDS` (default 0, the seeds' own timing)."""
    url = _require(environment, "QUEUE_URL")
    try:
        path = require_base_url(url).path
    except InvalidInput as error:
        raise ConfigurationError("QUEUE_URL", error.problem) from None
    if not path.strip("/"):
        raise ConfigurationError("QUEUE_URL", "must be like https://sqs.REGION.amazonaws.com/ACCOUNT/QUEUE")
    lag = _number(environment, "WINDOW_LAG_SECONDS", 0)
    return SenderSettings(url, _one_target({"lag": "WINDOW_LAG_SECONDS"}, lag_seconds=lag))


def collector_settings(environment: Environment) -> CollectorSettings:
    """`AI_API_BASE_URL`, `AI_METRICS_TABLE_NAME`, and `KIZAMI_API_TIMEOUT_SECONDS` (default 10)."""
    url = _require(environment, "AI_API_BASE_URL")
    table = _require(environment, "AI_METRICS_TABLE_NAME")
    if not _TABLE_NAME.fullmatch(table):
        raise ConfigurationError("AI_METRICS_TABLE_NAME", "must be 3 to 255 letters, digits or _ . -")
    timeout = _number(environment, "KIZAMI_API_TIMEOUT_SECONDS", DEFAULT_TIMEOUT_SECONDS)
    names = {"url": "AI_API_BASE_URL", "timeout": "KIZAMI_API_TIMEOUT_SECONDS"}
    return CollectorSettings(table, _one_target(names, url=url, timeout_seconds=timeout))


def _one_target(names: Mapping[str, str], **fields: Any) -> Config:
    """The seeds' target with `fields`; an error names the variable that it came from."""
    try:
        return Config((Target(**fields),))
    except InvalidInput as error:
        raise ConfigurationError(names[error.field], error.problem) from None


def _require(environment: Environment, name: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise ConfigurationError(name, "is not set; the function needs it in its environment")
    return value


def _number(environment: Environment, name: str, default: float) -> float:
    text = environment.get(name, "")
    if not text:
        return default
    if not _NUMBER.fullmatch(text):
        raise ConfigurationError(name, "must be a number of seconds")
    return float(text) if "." in text else int(text)
