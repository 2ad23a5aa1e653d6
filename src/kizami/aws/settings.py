"""What the environment tells a function: read at each invocation, checked before all else."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kizami.core.config import Config, parse_config, parse_headers
from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.core.targets.target import DEFAULT_TIMEOUT_SECONDS, Target
from kizami.core.targets.urls import configured_url, require_base_url

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
    """`QUEUE_URL`, and the targets: see `configured_targets`."""
    return SenderSettings(require_queue_url(environment), configured_targets(environment))


def collector_settings(environment: Environment) -> CollectorSettings:
    """`AI_METRICS_TABLE_NAME`, and what is asked.

    That is the packaged `KIZAMI_CONFIG`, else `AI_API_BASE_URL` with `KIZAMI_API_TIMEOUT_SECONDS`
    (default 10) and `KIZAMI_API_KEY`, the reference of a secret that is sent as `x-api-key`.
    """
    if config := packaged_config(environment):
        return CollectorSettings(require_table_name(environment), config)
    url = require_variable(environment, "AI_API_BASE_URL")
    table = require_table_name(environment)
    timeout = read_number(environment, "KIZAMI_API_TIMEOUT_SECONDS", DEFAULT_TIMEOUT_SECONDS)
    names = {
        "url": "AI_API_BASE_URL",
        "timeout": "KIZAMI_API_TIMEOUT_SECONDS",
        "headers.x-api-key": "KIZAMI_API_KEY",
    }
    key = environment.get("KIZAMI_API_KEY")
    headers = parse_headers({"x-api-key": key} if key else {})
    return CollectorSettings(table, _one_target(names, url=url, timeout_seconds=timeout, headers=headers))


def configured_targets(environment: Environment) -> Config:
    """The packaged `KIZAMI_CONFIG`, else the seeds' target with `WINDOW_LAG_SECONDS` (default 0, their timing)."""
    if config := packaged_config(environment):
        return config
    lag = read_number(environment, "WINDOW_LAG_SECONDS", 0)
    return _one_target({"lag": "WINDOW_LAG_SECONDS"}, lag_seconds=lag)


def packaged_config(environment: Environment) -> Config | None:
    """The `kizami.toml` that was deployed with the function, if there is one."""
    name = environment.get("KIZAMI_CONFIG")
    return _read_config(os.path.join(environment.get("LAMBDA_TASK_ROOT", ""), name)) if name else None


@lru_cache(maxsize=1)
def _read_config(path: str) -> Config:
    """Read once a cold start: a deployed file does not change."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse_config(file.read(), os.path.basename(path))
    except OSError as error:
        raise ConfigurationError("KIZAMI_CONFIG", f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError("KIZAMI_CONFIG", f"{path}: is not UTF-8 at byte {error.start}") from None


def require_queue_url(environment: Environment) -> str:
    """`QUEUE_URL`, as a URL that has a queue in it."""
    url = configured_url(require_variable(environment, "QUEUE_URL"), "QUEUE_URL")
    if not require_base_url(url).path.strip("/"):
        raise ConfigurationError("QUEUE_URL", "must be like https://sqs.REGION.amazonaws.com/ACCOUNT/QUEUE")
    return url


def require_table_name(environment: Environment, variable: str = "AI_METRICS_TABLE_NAME") -> str:
    """The variable's value, as DynamoDB lets a table be named."""
    table = require_variable(environment, variable)
    if not _TABLE_NAME.fullmatch(table):
        raise ConfigurationError(variable, "must be 3 to 255 letters, digits or _ . -")
    return table


def _one_target(names: Mapping[str, str], **fields: Any) -> Config:
    """The seeds' target with `fields`; an error names the variable that it came from."""
    try:
        return Config((Target(**fields),))
    except InvalidInput as error:
        raise ConfigurationError(names[error.field], error.problem) from None


def require_variable(environment: Environment, name: str) -> str:
    """The variable's value, else ConfigurationError."""
    value = environment.get(name, "")
    if not value:
        raise ConfigurationError(name, "is not set; the function needs it in its environment")
    return value


def read_number(environment: Environment, name: str, default: float) -> float:
    """The number that the variable holds, `default` if it is not set."""
    text = environment.get(name, "")
    if not text:
        return default
    if not _NUMBER.fullmatch(text):
        raise ConfigurationError(name, "must be a number")
    return float(text) if "." in text else int(text)
