"""What the environment tells a function: read at each invocation, checked before all else."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kizami.core.config import Config, parse_config
from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.core.requests.urls import configured_url, require_base_url
from kizami.core.targets.settings import parse_headers
from kizami.core.targets.target import DEFAULT_TIMEOUT_SECONDS, Target

if TYPE_CHECKING:
    from kizami.aws.bundles.files import PackagedBundles
    from kizami.aws.collect import CollectSettings
    from kizami.aws.files import PackagedTargets

Environment = Mapping[str, str]
DEFAULT_ATTEMPTS = 5

_TABLE_NAME = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,3})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class SenderSettings:
    """Where the messages go, and for which targets: those of the bundles, if there are any."""

    queue_url: str
    config: Config
    bundles: PackagedBundles | None = None
    targets: PackagedTargets | None = None  # those of a plan, whose ticks are packed
    table_name: str = ""


@dataclass(frozen=True, slots=True)
class CollectorSettings:
    """What is asked, and the table that keeps the answers."""

    table_name: str
    config: Config
    is_packaged: bool = False  # it is a kizami.toml, not the seeds' one target
    max_attempts: int = 0  # after which SQS makes a message a dead letter; 0 for never


@dataclass(frozen=True, slots=True)
class BundleSettings:
    """What a Collector of bundles needs: the configuration in pieces, the tables, and where slots go back to."""

    table_name: str
    ledger_name: str
    bundles: PackagedBundles
    queue_url: str
    backfill_url: str
    dead_letter_url: str | None
    max_attempts: int

    def queue_of(self, source: str) -> str:
        """The queue that a delivery of that source goes back to."""
        return self.backfill_url if source == queue_name(self.backfill_url) else self.queue_url


@dataclass(frozen=True, slots=True)
class QueueUrls:
    """The queues of configured targets; a small plan has one queue for all lanes."""

    live: str
    retry: str
    backfill: str
    dead_letters: str | None = None


def queue_urls(environment: Environment) -> QueueUrls:
    """Read `QUEUE_URL`, `KIZAMI_RETRY_QUEUE_URL`, `KIZAMI_BACKFILL_QUEUE_URL`, `KIZAMI_DEAD_LETTER_QUEUE_URL`."""
    dead_letters = "KIZAMI_DEAD_LETTER_QUEUE_URL"
    return QueueUrls(
        require_queue_url(environment),
        require_queue_url(environment, "KIZAMI_RETRY_QUEUE_URL"),
        require_queue_url(environment, "KIZAMI_BACKFILL_QUEUE_URL"),
        require_queue_url(environment, dead_letters) if environment.get(dead_letters) else None,
    )


def find_packaged(environment: Environment) -> PackagedTargets | None:
    """Return the targets that were deployed with the function as a plan; None if they were not."""
    name = environment.get("KIZAMI_BUNDLES")
    if not name:
        return None
    from kizami.aws.files import packaged_targets  # the original target never needs it

    targets = packaged_targets(os.path.join(environment.get("LAMBDA_TASK_ROOT", ""), name))
    return targets if targets.has_plan else None


def collect_settings(environment: Environment) -> CollectSettings | None:
    """Read what deliveries of a plan's targets need; None if none were deployed with the function."""
    targets = find_packaged(environment)
    if targets is None:
        return None
    from kizami.aws.collect import CollectSettings

    attempts = int(read_number(environment, "KIZAMI_MAX_ATTEMPTS", DEFAULT_ATTEMPTS))
    return CollectSettings(require_table_name(environment), targets, queue_urls(environment), attempts)


def bundle_settings(environment: Environment) -> BundleSettings | None:
    """`KIZAMI_BUNDLES` and what belongs to it; None if the function is not deployed with bundles."""
    bundles = find_bundles(environment)
    if bundles is None:
        return None
    dead_letters = environment.get("KIZAMI_DEAD_LETTER_QUEUE_URL")
    return BundleSettings(
        require_table_name(environment),
        require_table_name(environment, "KIZAMI_LEDGER_TABLE_NAME"),
        bundles,
        require_queue_url(environment),
        require_queue_url(environment, "KIZAMI_BACKFILL_QUEUE_URL"),
        require_queue_url(environment, "KIZAMI_DEAD_LETTER_QUEUE_URL") if dead_letters else None,
        int(read_number(environment, "KIZAMI_MAX_ATTEMPTS", DEFAULT_ATTEMPTS)),
    )


def keep_seconds(environment: Environment) -> int | None:
    """`KIZAMI_KEEP_DAYS`, for which records are kept of targets that do not say otherwise; None for ever."""
    return int(read_number(environment, "KIZAMI_KEEP_DAYS", 0)) * 86_400 or None


def find_bundles(environment: Environment) -> PackagedBundles | None:
    """The bundles that were deployed with the function, if there are any."""
    name = environment.get("KIZAMI_BUNDLES")
    if not name:
        return None
    from kizami.aws.bundles.files import packaged_bundles  # one target never needs it

    return packaged_bundles(os.path.join(environment.get("LAMBDA_TASK_ROOT", ""), name))


def queue_name(place: str) -> str:
    """The name of the queue that a URL or an ARN leads to."""
    return re.split("[:/]", place)[-1]


def sender_settings(environment: Environment) -> SenderSettings:
    """`QUEUE_URL`, and the targets: see `configured_targets`."""
    url = require_queue_url(environment)
    if targets := find_packaged(environment):
        return SenderSettings(url, Config(), targets=targets, table_name=require_table_name(environment))
    bundles = find_bundles(environment)
    return SenderSettings(url, Config() if bundles else configured_targets(environment), bundles)


def collector_settings(environment: Environment) -> CollectorSettings:
    """`AI_METRICS_TABLE_NAME`, and what is asked.

    That is the packaged `KIZAMI_CONFIG`, else `AI_API_BASE_URL` with `KIZAMI_API_TIMEOUT_SECONDS`
    (default 10) and `KIZAMI_API_KEY`, the reference of a secret that is sent as `x-api-key`.
    """
    kept = keep_seconds(environment)
    if config := packaged_config(environment):
        attempts = int(read_number(environment, "KIZAMI_MAX_ATTEMPTS", 0))
        return CollectorSettings(require_table_name(environment), config.keeping(kept), True, attempts)
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
    config = _one_target(names, url=url, timeout_seconds=timeout, headers=headers)
    return CollectorSettings(table, config.keeping(kept))


def configured_targets(environment: Environment) -> Config:
    """The packaged `KIZAMI_CONFIG`, else the seeds' target with `WINDOW_LAG_SECONDS` (default 0, their timing)."""
    if config := packaged_config(environment):
        return config
    lag = read_number(environment, "WINDOW_LAG_SECONDS", 0)
    return _one_target({"lag": "WINDOW_LAG_SECONDS"}, lag_seconds=lag, catch_up_seconds=0)


def packaged_config(environment: Environment) -> Config | None:
    """The `kizami.toml` that was deployed with the function, if there is one."""
    name = environment.get("KIZAMI_CONFIG")
    return _read_config(os.path.join(environment.get("LAMBDA_TASK_ROOT", ""), name)) if name else None


@lru_cache(maxsize=1)
def _read_config(path: str) -> Config:
    """Read once a cold start: a deployed file does not change."""
    try:
        with open(path, encoding="utf-8") as file:
            config = parse_config(file.read(), os.path.basename(path)).below(os.path.dirname(path))
            require_no_limits(config, os.path.basename(path))
            return config
    except OSError as error:
        raise ConfigurationError("KIZAMI_CONFIG", f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError("KIZAMI_CONFIG", f"{path}: is not UTF-8 at byte {error.start}") from None


def require_no_limits(config: Config, place: str) -> None:
    """ConfigurationError for what functions that run side by side could not obey."""
    if config.hosts:
        problem = "is obeyed on one machine only; on AWS leave it out, and set intervals that stay below the limit"
        raise ConfigurationError(f"{place}: hosts", problem)


def require_queue_url(environment: Environment, variable: str = "QUEUE_URL") -> str:
    """The variable's value, as a URL that has a queue in it."""
    url = configured_url(require_variable(environment, variable), variable)
    if not require_base_url(url).path.strip("/"):
        raise ConfigurationError(variable, "must be like https://sqs.REGION.amazonaws.com/ACCOUNT/QUEUE")
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
