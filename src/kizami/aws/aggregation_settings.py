"""What the environment tells the Aggregation function: read at each invocation, checked before all else."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from kizami.aggregation.points import DEFAULT_ZONE, require_zone
from kizami.aws.settings import (
    Environment,
    read_number,
    require_queue_url,
    require_table_name,
    require_variable,
)
from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.core.requests.urls import configured_url
from kizami.core.targets.references import SecretReference, parse_reference

API_BASE_URL = "AGGREGATION_API_BASE_URL"
FAILURES_PARTITION = "#failures"  # of the metric table, where failed runs are noted

DEFAULT_RETRY_SECONDS = 300


@dataclass(frozen=True, slots=True)
class AggregationSettings:
    """The batch's tables, its users API, the zone whose days it grants points for, and its queue.

    A message whose run failed is on the queue again after `retry_seconds`; without a `queue_url`, after the
    queue's own visibility timeout.
    """

    company_table: str
    points_table: str
    api_base_url: str
    zone: ZoneInfo
    api_key: SecretReference | None
    queue_url: str | None
    retry_seconds: int
    metrics_table: str = ""  # where failures are noted, for alerts


def aggregation_settings(environment: Environment) -> AggregationSettings:
    """`COMPANY_TABLE_NAME`, `POINTS_TABLE_NAME`, `AGGREGATION_API_BASE_URL`, and `AGGREGATION_TZ`.

    `KIZAMI_API_KEY`, if it is there, is the reference of a secret that is sent to the API as `x-api-key`;
    `QUEUE_URL` and `KIZAMI_AGGREGATION_RETRY_SECONDS` say where and when a failed message comes back,
    `AI_METRICS_TABLE_NAME` where failures are noted for alerts.
    """
    return AggregationSettings(
        require_table_name(environment, "COMPANY_TABLE_NAME"),
        require_table_name(environment, "POINTS_TABLE_NAME"),
        configured_url(require_variable(environment, API_BASE_URL), API_BASE_URL),
        require_zone(environment.get("AGGREGATION_TZ") or DEFAULT_ZONE, "AGGREGATION_TZ"),
        _read_reference(environment, "KIZAMI_API_KEY"),
        require_queue_url(environment) if environment.get("QUEUE_URL") else None,
        int(read_number(environment, "KIZAMI_AGGREGATION_RETRY_SECONDS", DEFAULT_RETRY_SECONDS)),
        require_table_name(environment) if environment.get("AI_METRICS_TABLE_NAME") else "",
    )


def _read_reference(environment: Environment, name: str) -> SecretReference | None:
    try:
        return parse_reference(environment[name], name) if environment.get(name) else None
    except InvalidInput as error:
        raise ConfigurationError(name, error.problem) from None
