"""Durations as people write them: 90s, 5min, 1h30m, 2 days; a year is 365 days (pure)."""

from __future__ import annotations

import re

from kizami.core.errors import InvalidInput
from kizami.core.slots import shorten

_UNITS = {
    1: ("s", "sec", "secs", "second", "seconds"),
    60: ("m", "min", "mins", "minute", "minutes"),
    3600: ("h", "hr", "hrs", "hour", "hours"),
    86_400: ("d", "day", "days"),
    604_800: ("w", "week", "weeks"),
    31_536_000: ("y", "year", "years"),
}
_SECONDS = {name: seconds for seconds, names in _UNITS.items() for name in names}
_PART = r"(\d{1,9})\s?([a-z]{1,7})"
_PARTS = re.compile(rf"{_PART}(?:\s?{_PART}){{0,4}}", re.ASCII)


def read_duration(text: str, field: str = "duration") -> int:
    """Whole seconds of `90`, `90s`, `5min`, `1h30m` or `2 days`, else InvalidInput."""
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return int(text)
    parts = re.findall(_PART, text, re.ASCII) if _PARTS.fullmatch(text) else []
    sizes = [_SECONDS.get(unit, 0) for _, unit in parts]
    # From the largest unit down, each once: what is written otherwise is rather a slip than a duration.
    if not parts or not all(sizes) or sorted(set(sizes), reverse=True) != sizes:
        raise InvalidInput(
            field,
            f"{shorten(text)} is not a duration like 30s, 5min, 1h30m or 7d (units: s, min, h, d, w, y)",
        )
    return sum(int(number) * size for (number, _), size in zip(parts, sizes, strict=True))
