"""When `kizami up` runs the batch and for whom: the `[aggregation]` table of `kizami.toml` (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from kizami.aggregation.points import DEFAULT_ZONE, require_zone
from kizami.aggregation.signing import require_company_id
from kizami.core.epoch import EPOCH
from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.core.requests.urls import configured_url
from kizami.core.slots import parse_duration
from kizami.core.targets.references import SecretReference, parse_reference
from kizami.core.targets.target import MOCK_API_URL
from kizami.core.targets.unknown_names import refuse_unknown

SCHEDULE_SETTINGS = ("url", "every", "time_zone", "companies")
COMPANY_SETTINGS = ("id", "key")
DEFAULT_EVERY_SECONDS = 3600
SHORTEST_SECONDS, LONGEST_SECONDS = 60, 86_400


@dataclass(frozen=True, slots=True)
class ScheduledCompany:
    """A company, and where its key is kept; None is the mock API's own key."""

    company_id: str
    key: SecretReference | None


@dataclass(frozen=True, slots=True)
class AggregationSchedule:
    """The companies, how often their batch runs, and the users API and zone that it goes by."""

    companies: tuple[ScheduledCompany, ...]
    every_seconds: int
    url: str
    zone: ZoneInfo


def parse_schedule(table: object, place: str) -> AggregationSchedule:
    """The schedule that the table states; every error names its place in the file."""
    if not isinstance(table, dict):
        raise ConfigurationError(place, "must be one table: write [aggregation], in single brackets")
    refuse_unknown(table, SCHEDULE_SETTINGS, place)
    url = configured_url(table.get("url", MOCK_API_URL), f"{place}.url")
    entries = table.get("companies")
    if not isinstance(entries, list | None):
        problem = "must be tables: write [[aggregation.companies]], in double brackets"
        raise ConfigurationError(f"{place}.companies", problem)
    if not entries:
        raise ConfigurationError(place, "needs at least one [[aggregation.companies]] table")
    companies = tuple(_parse_company(entry, url, f"{place}.companies[{n}]") for n, entry in enumerate(entries))
    _refuse_repeated(companies, place)
    zone = table.get("time_zone", DEFAULT_ZONE)
    return AggregationSchedule(
        companies, _parse_every(table, place), url, require_zone(str(zone), f"{place}.time_zone")
    )


def next_run(after: datetime, every_seconds: int) -> datetime:
    """The first moment after `after` that is a whole multiple of `every_seconds` since 1970."""
    step = timedelta(seconds=every_seconds)
    return EPOCH + ((after - EPOCH) // step + 1) * step


def _parse_every(table: Mapping[str, Any], place: str) -> int:
    try:
        seconds = parse_duration(table.get("every", DEFAULT_EVERY_SECONDS), "every")
    except InvalidInput as error:
        raise ConfigurationError(f"{place}.every", error.problem) from None
    if not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
        raise ConfigurationError(f"{place}.every", "must be from 1m to 24h")
    return seconds


def _parse_company(entry: object, url: str, place: str) -> ScheduledCompany:
    if not isinstance(entry, dict):
        raise ConfigurationError(place, 'must be a table with id and key = "env:NAME" or "file:PATH"')
    refuse_unknown(entry, COMPANY_SETTINGS, place)
    if "key" not in entry and url != MOCK_API_URL:
        raise ConfigurationError(f"{place}.key", 'is required: "env:NAME" or "file:PATH"')
    try:
        company_id = require_company_id(entry.get("id"), "id")
        return ScheduledCompany(company_id, parse_reference(entry["key"], "key") if "key" in entry else None)
    except InvalidInput as error:
        raise ConfigurationError(f"{place}.{error.field}", error.problem) from None


def _refuse_repeated(companies: tuple[ScheduledCompany, ...], place: str) -> None:
    seen: set[str] = set()
    for number, company in enumerate(companies):
        if company.company_id in seen:
            raise ConfigurationError(f"{place}.companies[{number}].id", "is there twice")
        seen.add(company.company_id)
