"""What the environment tells the Aggregation function: read at each invocation, checked before all else."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from kizami.aggregation.points import DEFAULT_ZONE, require_zone
from kizami.aws.settings import Environment, require_table_name, require_variable
from kizami.errors import ConfigurationError, InvalidInput
from kizami.urls import require_base_url


@dataclass(frozen=True, slots=True)
class AggregationSettings:
    """The batch's tables, its users API and the zone whose days it grants points for."""

    company_table: str
    points_table: str
    api_base_url: str
    zone: ZoneInfo


def aggregation_settings(environment: Environment) -> AggregationSettings:
    """`COMPANY_TABLE_NAME`, `POINTS_TABLE_NAME`, `AGGREGATION_API_BASE_URL`, and `AGGREGATION_TZ`."""
    url = require_variable(environment, "AGGREGATION_API_BASE_URL")
    try:
        require_base_url(url)
    except InvalidInput as error:
        raise ConfigurationError("AGGREGATION_API_BASE_URL", error.problem) from None
    return AggregationSettings(
        require_table_name(environment, "COMPANY_TABLE_NAME"),
        require_table_name(environment, "POINTS_TABLE_NAME"),
        url,
        require_zone(environment.get("AGGREGATION_TZ") or DEFAULT_ZONE, "AGGREGATION_TZ"),
    )
