"""Time zones: found by name, what their clocks show and when, and how an instant is written in them (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, available_timezones

from kizami.core.errors import InvalidInput
from kizami.core.slots import format_second, to_utc
from kizami.core.targets.unknown_names import unknown_zone

# Between these every zone's clock shows a year from 0001 to 9999.
_FIRST, _LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)", re.ASCII)


def read_zone(name: str, field: str = "tz") -> tzinfo:
    """The zone of that name, or of an offset such as +09:00; else InvalidInput."""
    if name in ("UTC", "Z"):
        return UTC
    if match := _OFFSET.fullmatch(name):
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        if offset < timedelta(days=1):
            return timezone(-offset if match[1] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError, RecursionError):  # unknown, no name, a directory, too many folders
        raise InvalidInput(field, unknown_zone(name, available_timezones())) from None


def zoned_text(instant: datetime, zone: tzinfo) -> str:
    """The second in that zone, with its offset: 2025-12-02T19:23:05+09:00, in UTC as on the wire.

    In UTC too where the zone's clock would show a year before 0001 or after 9999.
    """
    if zone is UTC:
        return format_second(instant)
    try:
        return to_utc(instant).replace(microsecond=0).astimezone(zone).isoformat()
    except OverflowError:
        return format_second(instant)


def shown(instant: datetime, zone: tzinfo) -> datetime:
    """What the zone's clock shows at that instant; the first or last that can be written, beyond those."""
    try:
        return instant.astimezone(zone).replace(tzinfo=None, fold=0)
    except OverflowError:
        return datetime.min if instant < _FIRST else datetime.max  # noqa: DTZ901  what a clock shows has no zone


def first_showing(wall: datetime, zone: tzinfo) -> datetime:
    """When the zone's clock shows that or more for the first time."""
    instant = wall.replace(tzinfo=zone).astimezone(UTC)
    if shown(instant, zone) == wall:
        return instant
    return clock_change(wall.replace(tzinfo=zone, fold=1).astimezone(UTC), instant, zone)  # it is left out


def offset_at(instant: datetime, zone: tzinfo) -> timedelta:
    """How far the zone's clock is ahead of UTC."""
    offset = min(max(instant, _FIRST), _LAST).astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def clock_change(before: datetime, after: datetime, zone: tzinfo) -> datetime:
    """The second, after `before` and not after `after`, at which the zone's clock is set."""
    low, offset = before.replace(microsecond=0), offset_at(before, zone)
    seconds = _first(lambda number: offset_at(low + timedelta(seconds=number), zone) != offset, after - low)
    return low + timedelta(seconds=seconds)


def _first(is_so: Callable[[int], bool], within: timedelta) -> int:
    low, high = 0, -(-within // timedelta(seconds=1))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_so(middle) else (middle, high)
    return high
