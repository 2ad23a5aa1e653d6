"""Maintenance windows: `[[maintenance]]` of kizami.toml, once or every week, in which nobody is told (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from kizami.alerts.rules.patterns import EVERYTHING, matches, parse_patterns
from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.core.slots import parse_iso8601, shorten, to_utc
from kizami.core.targets.unknown_names import refuse_unknown, unknown_zone

MAINTENANCE_SETTINGS = ("targets", "from", "to", "weekly", "time_zone")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEKLY = re.compile(r"([A-Za-z, ]+) (\d\d:\d\d) ?- ?(\d\d:\d\d)", re.ASCII)
_WEEKLY_EXAMPLE = '"Sun 02:00-04:00" or "Mon, Thu 23:30-00:30"'


@dataclass(frozen=True, slots=True)
class Weekly:
    """The same hours on some days of every week, on the clock of a zone; one that ends before it begins ends on
    the next day."""

    days: frozenset[int]  # Monday is 0
    start: time
    end: time
    zone: tzinfo

    def covers(self, now: datetime) -> bool:
        """Whether `now` lies in one of them."""
        here = now.astimezone(self.zone)
        clock, today, yesterday = here.time(), here.weekday(), (here - timedelta(days=1)).weekday()
        if self.start < self.end:
            return today in self.days and self.start <= clock < self.end
        return (today in self.days and clock >= self.start) or (yesterday in self.days and clock < self.end)


@dataclass(frozen=True, slots=True)
class Maintenance:
    """For which targets nobody is told, and when: from one moment to another, or every week."""

    targets: Sequence[str] = EVERYTHING
    start: datetime | None = None
    end: datetime | None = None
    weekly: Weekly | None = field(default=None)

    def covers(self, name: str, now: datetime) -> bool:
        """Whether it is about the target at `now`; the backend itself is covered where all targets are."""
        if not (matches(self.targets, name) if name else "*" in self.targets):
            return False
        if self.weekly is not None:
            return self.weekly.covers(now)
        return self.start is not None and self.end is not None and self.start <= now < self.end


def parse_maintenance(entry: object, place: str) -> Maintenance:
    """The window that a table states; every error names its place in the file."""
    if not isinstance(entry, dict):
        raise ConfigurationError(place, "must be a table: write [[maintenance]], in double brackets")
    refuse_unknown(entry, MAINTENANCE_SETTINGS, place)
    try:
        targets = parse_patterns(entry.get("targets", ["*"]), "targets")
        if ("weekly" in entry) == ("from" in entry or "to" in entry):
            raise InvalidInput("from", f"needs from and to, or weekly = {_WEEKLY_EXAMPLE}")
        if "weekly" in entry:
            return Maintenance(targets, weekly=_weekly(entry))
        for name, other in (("from", "to"), ("to", "from")):
            if name not in entry:
                raise InvalidInput(name, f"is required beside {other}")
        start, end = (_instant(entry[name], name) for name in ("from", "to"))
        if start >= end:
            raise InvalidInput("to", "must be after from")
        return Maintenance(targets, start, end)
    except InvalidInput as error:
        raise ConfigurationError(f"{place}.{error.field}", error.problem) from None


def _instant(value: object, name: str) -> datetime:
    if isinstance(value, datetime) and value.utcoffset() is not None:
        return to_utc(value)
    if not isinstance(value, str):
        raise InvalidInput(name, f"{shorten(value)} is not a time with an offset, like 2025-12-02T10:00:00+09:00")
    return parse_iso8601(value, name)


def _weekly(entry: Mapping[str, Any]) -> Weekly:
    value = entry["weekly"]
    match = _WEEKLY.fullmatch(value.strip()) if isinstance(value, str) else None
    days = [day.strip().lower()[:3] for day in match[1].split(",")] if match else []
    if match is None or not all(day in _DAYS for day in days):
        raise InvalidInput("weekly", f"{shorten(value)} is not like {_WEEKLY_EXAMPLE}")
    start, end = (_clock(match[part], value) for part in (2, 3))
    return Weekly(frozenset(map(_DAYS.index, days)), start, end, _zone(entry))


def _clock(text: str, value: object) -> time:
    try:
        return time.fromisoformat(text)
    except ValueError:
        raise InvalidInput("weekly", f"{shorten(value)} has a time that there is not: {text}") from None


def _zone(entry: Mapping[str, Any]) -> tzinfo:
    name = entry.get("time_zone", "UTC")
    if name == "UTC":
        return UTC  # a function on AWS has the data of few zones
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError, TypeError, RecursionError):
        raise InvalidInput("time_zone", unknown_zone(name, available_timezones())) from None


def in_maintenance(windows: Sequence[Maintenance], name: str, now: datetime) -> bool:
    """Whether any window covers the target at `now`."""
    return any(window.covers(name, now.astimezone(UTC)) for window in windows)
