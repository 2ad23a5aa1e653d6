"""Points: which day and month a run grants for, which users count today, and the key of a point item (pure)."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from enum import Enum
from zoneinfo import ZoneInfo, available_timezones

from kizami.aggregation.users_api import User
from kizami.core.errors import ConfigurationError
from kizami.core.targets.unknown_names import unknown_zone

DEFAULT_ZONE = "Asia/Tokyo"


class Detection(Enum):
    """When a user was last detected, as far as points go."""

    NEVER = "never"
    NOT_TODAY = "not today"
    TODAY = "today"


class GrantOutcome(Enum):
    """What became of a user's point."""

    GRANTED = "granted"
    ALREADY_GRANTED = "already granted"


@dataclass(frozen=True, slots=True)
class PointDay:
    """The day a run grants for, in epoch seconds: when it began, and the run's one `now` (the UpdateTimestamp)."""

    start: int
    now: int
    month: str


@dataclass(frozen=True, slots=True)
class UserPoints:
    """What a user has in one month."""

    user_number: str
    month: str
    points: int
    updated_at: int


def require_zone(name: str, place: str) -> ZoneInfo:
    """The time zone of that name, else ConfigurationError."""
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError, RecursionError):  # unknown, no name, a directory, too many folders
        raise ConfigurationError(place, unknown_zone(name, available_timezones())) from None


def point_day(now: datetime, zone: tzinfo) -> PointDay:
    """The day that `now` falls in.

    Days follow each other without overlap, also where a clock change repeats or skips midnight: once a
    day has begun, going back over midnight does not bring the day before back.
    """
    day = now.astimezone(zone).date()
    start, next_start = first_second(day, zone), first_second(day + timedelta(days=1), zone)
    if next_start <= now.timestamp():
        day, start = day + timedelta(days=1), next_start
    return PointDay(start, int(now.timestamp()), f"{day.year:04d}{day.month:02d}")


def first_second(day: date, zone: tzinfo) -> int:
    """The epoch second that `day` begins with: its earlier midnight, or the clock change that skips midnight."""
    midnight = datetime.combine(day, time(), zone)
    latest = int(midnight.timestamp())
    # In a gap fold=1 reads the time with the offset after it, which is before the change; elsewhere this
    # range is empty.
    earliest = min(latest, int(midnight.replace(fold=1).timestamp()))
    return earliest + bisect_left(
        range(earliest, latest), True, key=lambda second: datetime.fromtimestamp(second, zone).date() >= day
    )


def detect(user: User, day: PointDay) -> Detection:
    """Whether the user counts today: detected since the day began."""
    if user.event_timestamp is None:
        return Detection.NEVER
    return Detection.NOT_TODAY if user.event_timestamp < day.start else Detection.TODAY


def point_key(user_number: str, month: str) -> str:
    """The sort key of a user's points in a month: `user_number#yyyymm`."""
    return f"{user_number}#{month}"


def read_point_key(key: str) -> tuple[str, str]:
    """User number and month of a sort key; the month has no `#`, the user number may."""
    user_number, _, month = key.rpartition("#")
    return user_number, month
