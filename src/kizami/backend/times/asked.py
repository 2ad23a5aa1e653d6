"""Times and ranges as people ask for them: `-2h`, `yesterday`, `2025-12-02T10:00:00Z`, `--last 1h30m` (pure).

Without an offset a time is one of the zone that was asked for; where none was, it names no instant and is refused.
Days are those of that zone, or of UTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from kizami.backend.times.durations import read_duration
from kizami.backend.times.zones import first_showing, shown, zoned_text
from kizami.core.errors import InvalidInput
from kizami.core.slots import parse_iso8601, shift, shorten

_DAYS_BACK = {"today": 0, "yesterday": 1}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAY = re.compile(r"([a-z]+)(?: (\d{1,2}:\d\d(?::\d\d)?))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class RangeNames:
    """What the parts of a range are called where it is asked for."""

    since: str = "from"
    until: str = "to"
    last: str = "last"
    zone: str = "tz"


@dataclass(frozen=True, slots=True)
class Moment:
    """When and where somebody asks: now, and in which zone, if one was named."""

    now: datetime
    zone: tzinfo | None = None
    names: RangeNames = RangeNames()

    @property
    def shown_zone(self) -> tzinfo:
        """The zone that days are those of."""
        return self.zone or UTC


def read_bounds(
    since: str | None, until: str | None, last: str | None, asked: Moment
) -> tuple[datetime | None, datetime | None]:
    """Where the range that is asked for begins and ends, None where that is not said; InvalidInput by name."""
    names = asked.names
    if last is not None and (since is not None or until is not None):
        raise InvalidInput(names.last, f"goes without {names.since} and {names.until}")
    if last is not None:
        return read_last(last, asked)
    start = None if since is None else read_time(since, asked, names.since)
    end = None if until is None else read_time(until, asked, names.until)
    if start is not None and end is not None and start >= end:
        first, final = (zoned_text(each, asked.shown_zone) for each in (start, end))
        raise InvalidInput(names.since, f"{first} is not before {final}")
    return start, end


def read_last(text: str, asked: Moment) -> tuple[datetime, datetime]:
    """The last so long; `today` until now, `yesterday` as a whole, since `monday`."""
    field = asked.names.last
    day = _day(text, asked)
    if day is not None:
        end = _midnight(day + timedelta(days=1), asked)
        return _midnight(day, asked), end if text == "yesterday" else asked.now
    seconds = read_duration(text, field)
    if not seconds:
        raise InvalidInput(field, "must be longer than nothing")
    return _before(asked.now, seconds, field), asked.now


def read_time(text: str, asked: Moment, field: str) -> datetime:
    """The instant of an ISO 8601 date-time, of `-2h` (before now), of `now`, `today` or `yesterday 09:30`."""
    if text == "now":
        return asked.now
    if text.startswith("-"):
        return _before(asked.now, read_duration(text[1:], field), field)
    match = _DAY.fullmatch(text)
    day = _day(match[1], asked) if match else None
    if match and day is not None:
        return _on(day, match[2] or "00:00", asked, text, field)
    try:
        # RFC 3339 and many tools put a space where ISO 8601 has its T.
        return parse_iso8601(text.replace(" ", "T", 1), field)
    except InvalidInput as error:
        return _zoned(text, asked, field, error)


def _day(word: str, asked: Moment) -> date | None:
    """The day that a word means, None for any other word."""
    today = shown(asked.now, asked.shown_zone).date()
    if word in _DAYS_BACK:
        return today - timedelta(days=_DAYS_BACK[word])
    if word in _WEEKDAYS:
        return today - timedelta(days=(today.weekday() - _WEEKDAYS.index(word)) % 7)
    return None


def _on(day: date, clock: str, asked: Moment, text: str, field: str) -> datetime:
    try:
        wall = datetime.combine(day, time.fromisoformat(f"0{clock}" if clock[1] == ":" else clock))
    except ValueError:
        raise InvalidInput(field, f"{shorten(text)} is not a real time of day, such as 09:30") from None
    return first_showing(wall, asked.shown_zone)


def _midnight(day: date, asked: Moment) -> datetime:
    return first_showing(datetime.combine(day, time()), asked.shown_zone)


def _zoned(text: str, asked: Moment, field: str, error: InvalidInput) -> datetime:
    """A time without an offset in the zone that was asked for; it names another instant in each."""
    try:
        wall = datetime.fromisoformat(text)
    except ValueError:
        raise error from None
    if wall.tzinfo is not None:
        raise error from None
    if asked.zone is None:
        is_day = len(text) <= len("2025-12-02")
        day = "is a whole day; write its time and zone too, such as T00:00:00Z or T00:00:00+09:00"
        lacking = day if is_day else "has no time zone; add Z or an offset such as +09:00"
        raise InvalidInput(field, f"{shorten(text)} {lacking}, or say {asked.names.zone}") from None
    return _in_years(wall, asked.zone, text, field)


def _in_years(wall: datetime, zone: tzinfo, text: str, field: str) -> datetime:
    try:
        return first_showing(wall, zone)
    except OverflowError:
        raise InvalidInput(field, f"{shorten(text)} is outside years 0001 to 9999 in UTC") from None


def _before(now: datetime, seconds: int, field: str) -> datetime:
    try:
        return shift(now, -seconds)
    except InvalidInput:
        raise InvalidInput(field, "reaches back before year 0001") from None
