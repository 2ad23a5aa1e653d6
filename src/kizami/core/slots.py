"""Slot time: where every record stands on the time axis, and how an instant is written.

Instants are aware UTC datetimes. On the wire and as keys they are `YYYY-MM-DDTHH:mm:ssZ` in ASCII and
nothing else (`parse_instant`, `format_instant`, and `format_second`, which cuts fractions off). ISO 8601 at large
(`parse_iso8601`) is read by the mock API, and by the Collector where an answer repeats the window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache

from kizami.core.errors import InvalidInput
from kizami.core.redaction import KNOWN

DEFAULT_INTERVAL_SECONDS = 5
# What divides a minute, and the whole minutes that divide a day: the trigger comes once a minute, so that a minute
# either begins with a slot or lies within one.
_MINUTES = (
    *(1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 15, 16, 18, 20, 24, 30, 32, 36, 40, 45, 48),
    *(60, 72, 80, 90, 96, 120, 144, 160, 180, 240, 288, 360, 480, 720, 1440),
)
INTERVALS = (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, *(60 * minutes for minutes in _MINUTES))
_INTERVALS = frozenset(INTERVALS)

# Hour 24 is kept out here because newer versions of Python read it as the next day.
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT(?!24)\d\d:\d\d:\d\dZ", re.ASCII)
_DURATION = re.compile(r"(\d{1,9})(s|m|h|d|w)", re.ASCII)
_LOOKED_AT = 4096  # characters of a value that may be as long as an answer
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """The half-open span [start, end) that a request asks about, in UTC; its start is the slot time."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        # In a zone with summer time, order and distance are those of the wall clock, not of the instants.
        object.__setattr__(self, "start", to_utc(self.start))
        object.__setattr__(self, "end", to_utc(self.end))
        if self.start >= self.end:
            raise InvalidInput("from", "must be before to")

    @classmethod
    def of_slot(cls, slot: datetime, interval_seconds: int) -> Window:
        """The window of the slot that starts at `slot`, which must stand on the interval's boundary."""
        window = cls(slot, shift(slot, interval_seconds))
        require_slot_window(window, interval_seconds)
        return window

    @property
    def seconds(self) -> float:
        """How long the window is."""
        return (self.end - self.start).total_seconds()


def to_utc(instant: datetime) -> datetime:
    """The same instant in UTC; a naive datetime names no instant and is refused."""
    if instant.tzinfo is UTC:
        return instant
    if instant.utcoffset() is None:
        raise InvalidInput("timestamp", f"{instant.isoformat()} has no time zone; use an aware datetime")
    try:
        return instant.astimezone(UTC)
    except (OverflowError, ValueError):
        raise InvalidInput("timestamp", f"{instant.isoformat()} is outside years 0001 to 9999 in UTC") from None


def shift(instant: datetime, seconds: float) -> datetime:
    """The UTC instant `seconds` after `instant`, refused where it would leave years 0001 to 9999."""
    try:
        return to_utc(instant) + timedelta(seconds=seconds)
    except OverflowError:
        raise InvalidInput(
            "timestamp", f"{instant.isoformat()} moved by {seconds} s is outside years 0001 to 9999"
        ) from None


def require_interval(seconds: int) -> int:
    """`seconds` if it divides a minute, or is whole minutes that divide a day, else InvalidInput."""
    if isinstance(seconds, bool) or not isinstance(seconds, int) or seconds not in _INTERVALS:
        choices = ", ".join(str(each) for each in INTERVALS if each <= 60)
        raise InvalidInput(
            "interval",
            f"{shorten(seconds)} does not divide a minute; use one of {choices}, "
            "or whole minutes that divide a day, such as 5m, 1h or 1d",
        )
    return seconds


def floor_to_slot(instant: datetime, interval_seconds: int = DEFAULT_INTERVAL_SECONDS) -> datetime:
    """The start of the slot that `instant` falls in; slots are counted from midnight UTC."""
    utc = to_utc(instant)
    if require_interval(interval_seconds) <= 60:
        return utc.replace(second=utc.second - utc.second % interval_seconds, microsecond=0)
    minute = utc.hour * 60 + utc.minute
    hour, minute = divmod(minute - minute % (interval_seconds // 60), 60)
    return utc.replace(hour=hour, minute=minute, second=0, microsecond=0)


def floor_to_minute(instant: datetime) -> datetime:
    """The start of the minute that `instant` falls in."""
    return floor_to_slot(instant, 60)


def floor_to_second(instant: datetime) -> datetime:
    """The second that `instant` falls in, in UTC."""
    return to_utc(instant).replace(microsecond=0)


@lru_cache(maxsize=1024)  # thousands of targets share the few windows of the moment
def require_slot_window(window: Window, interval_seconds: int) -> None:
    """Refuse a window that is not exactly one slot: its count could not be any slot's record."""
    if floor_to_slot(window.start, interval_seconds) != window.start:
        raise InvalidInput("from", f"{window.start.isoformat()} is not on a {interval_seconds}-second boundary")
    if window.end - window.start != timedelta(seconds=interval_seconds):
        raise InvalidInput("to", f"must be {interval_seconds} seconds after from, not {window.seconds:g}")


def slots_between(start: datetime, end: datetime, interval_seconds: int) -> Iterator[datetime]:
    """The slots that begin in [start, end), oldest first."""
    step = timedelta(seconds=interval_seconds)
    floor = floor_to_slot(start, interval_seconds)
    first = 1 if floor < start else 0
    past_last = -((floor - to_utc(end)) // step)  # rounded up: a slot that begins before `end` counts
    return (floor + number * step for number in range(first, past_last))


def format_instant(instant: datetime) -> str:
    """`YYYY-MM-DDTHH:mm:ssZ`; fractions of a second have no place in it and are refused."""
    utc = to_utc(instant)
    if utc.microsecond:
        raise InvalidInput("timestamp", f"{utc.isoformat()} has a fraction of a second")
    return format_second(utc)


def format_second(instant: datetime) -> str:
    """The second that `instant` falls in, as `YYYY-MM-DDTHH:mm:ssZ`."""
    return to_utc(instant).isoformat()[:19] + "Z"


def parse_instant(text: object, field: str = "timestamp") -> datetime:
    """The instant that `YYYY-MM-DDTHH:mm:ssZ` names; anything else, leap seconds included, is InvalidInput."""
    if not isinstance(text, str) or not _INSTANT.fullmatch(text):
        raise InvalidInput(field, f"{shorten(text)} is not a timestamp like 2025-12-02T10:23:05Z")
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(field, f"{shorten(text)} is not a real time: {error}") from None


def parse_duration(value: object, field: str = "duration") -> int:
    """Whole seconds from `90`, `"90s"`, `"10m"`, `"2h"`, `"7d"` or `"1w"`."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9:
        return value
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise InvalidInput(
            field, f"{shorten(value)} is not a duration like 30s, 10m, 2h or 7d (units: s, m, h, d, w)"
        )
    return int(match[1]) * _UNIT_SECONDS[match[2]]


# ISO 8601 at large: extended or basic format, not mixed; calendar, week or ordinal date; an offset is required.
_ISO_EXTENDED = re.compile(
    r"(?P<date>\d{4}-(?:\d\d-\d\d|W\d\d-\d|\d{3}))T(?P<hour>\d\d)(?::(?P<minute>\d\d)(?::(?P<second>\d\d))?)?"
    r"(?:[.,](?P<fraction>\d+))?(?P<offset>Z|[+-]\d\d(?::\d\d)?)",
    re.ASCII,
)
_ISO_BASIC = re.compile(
    r"(?P<date>\d{4}(?:\d{4}|W\d{3}|\d{3}))T(?P<hour>\d\d)(?:(?P<minute>\d\d)(?P<second>\d\d)?)?"
    r"(?:[.,](?P<fraction>\d+))?(?P<offset>Z|[+-]\d\d(?:\d\d)?)",
    re.ASCII,
)
_FRACTION_DIGITS = 600  # more than any clock gives; int() refuses strings without end


def parse_iso8601(text: str, field: str = "timestamp") -> datetime:
    """The instant that any valid ISO 8601 date-time names, in UTC, cut to the microsecond.

    Refused: times without an offset (they name no instant), leap seconds, years outside 0001 to 9999.
    The offset -00:00, which only RFC 3339 knows, is read as UTC.
    """
    match = _ISO_EXTENDED.fullmatch(text) or _ISO_BASIC.fullmatch(text)
    if match is None:
        raise InvalidInput(
            field, f"{shorten(text)} is not an ISO 8601 date-time with an offset, like 2025-12-02T10:23:05Z"
        )
    try:
        return _instant_of(match)
    except ValueError as error:
        raise InvalidInput(field, f"{shorten(text)} is not a real time: {error}") from None
    except OverflowError:
        raise InvalidInput(field, f"{shorten(text)} is outside years 0001 to 9999 in UTC") from None


def _instant_of(match: re.Match[str]) -> datetime:
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    digits = match["fraction"] or "0"
    end_of_day = hour == 24  # which is the start of the next
    if end_of_day and (minute or second or digits.strip("0")):
        raise ValueError("hour 24 is only valid as 24:00:00")
    moment = datetime.combine(_date_of(match["date"]), time(0 if end_of_day else hour, minute, second), UTC)
    # A decimal fraction belongs to the lowest unit that is written: hours, minutes or seconds.
    fraction = _fraction_of(digits, 1 if match["second"] else 60 if match["minute"] else 3600)
    # One sum: only the instant must lie in years 0001 to 9999, not a step on the way to it.
    return moment + (timedelta(days=end_of_day) + fraction - _offset_of(match["offset"]))


def _fraction_of(digits: str, unit_seconds: int) -> timedelta:
    digits = digits[:_FRACTION_DIGITS]
    return timedelta(microseconds=int(digits) * unit_seconds * 1_000_000 // 10 ** len(digits))


def _date_of(text: str) -> date:
    year, rest = int(text[:4]), text[4:].replace("-", "")
    if rest.startswith("W"):
        return date.fromisocalendar(year, int(rest[1:3]), int(rest[3]))
    if len(rest) == 4:
        return date(year, int(rest[:2]), int(rest[2:]))
    if not 1 <= int(rest) <= date(year, 12, 31).timetuple().tm_yday:
        raise ValueError(f"day {rest} is not in year {year:04d}")
    return date(year, 1, 1) + timedelta(days=int(rest) - 1)


def _offset_of(text: str) -> timedelta:
    digits = text[1:].replace(":", "")
    hours, minutes = int(digits[:2] or 0), int(digits[2:] or 0)
    if hours > 23 or minutes > 59:
        raise ValueError(f"{text} is not an offset")
    offset = timedelta(hours=hours, minutes=minutes)
    return -offset if text[0] == "-" else offset


def shorten(value: object, limit: int = 60) -> str:
    """A value as an error may quote it: on one line, at most `limit` characters, no secret among them."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, str):
        value = KNOWN.hide(value[:_LOOKED_AT])[: limit + 1]
    try:
        text = value.isoformat() if isinstance(value, date | time) else KNOWN.hide(repr(value)[:_LOOKED_AT])
    except (ValueError, RecursionError):  # an integer of thousands of digits, lists in lists in lists
        text = f"<{type(value).__name__} too large to show>"
    return text if len(text) <= limit else text[: limit - 1] + "…"
