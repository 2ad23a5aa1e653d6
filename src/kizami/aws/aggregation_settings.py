"""What the environment tells the Aggregation function: read at each invocation, checked before all else."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from kizami.aggregation.points import DEFAULT_ZONE, require_zone
from kizami.aws.settings import Environment, require_table_name, require_variable
from kizami.errors import ConfigurationError, InvalidInput
from kizami.targets import SecretReference, parse_reference
from kizami.urls import configured_url

API_BASE_URL = "AGGREGATION_API_BASE_URL"


@dataclass(frozen=True, slots=True)
class AggregationSettings:
    """The batch's tables, its users API and the zone whose days it grants points for."""

    company_table: str
    points_table: str
    api_base_url: str
    zone: ZoneInfo
    api_key: SecretReference | None


def aggregation_settings(environment: Environment) -> AggregationSettings:
    """`COMPANY_TABLE_NAME`, `POINTS_TABLE_NAME`, `AGGREGATION_API_BASE_URL`, and `AGGREGATION_TZ`.

    `KIZAMI_API_KEY`, if it is there, is the reference of a secret that is sent to the API as `x-api-key`.
    """
    return AggregationSettings(
        require_table_name(environment, "COMPANY_TABLE_NAME"),
        require_table_name(environment, "POINTS_TABLE_NAME"),
        configured_url(require_variable(environment, API_BASE_URL), API_BASE_URL),
        require_zone(environment.get("AGGREGATION_TZ") or DEFAULT_ZONE, "AGGREGATION_TZ"),
        _read_reference(environment, "KIZAMI_API_KEY"),
    )


def _read_reference(environment: Environment, name: str) -> SecretReference | None:
    try:
        return parse_reference(environment[name], name) if environment.get(name) else None
    except InvalidInput as error:
        raise ConfigurationError(name, error.problem) from None
