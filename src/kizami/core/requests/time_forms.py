"""How a request writes an instant: ISO 8601, a number since 1970, or a pattern like strftime's; always UTC (pure).

Not strftime itself: it speaks the language of the process, and leaves unknown letters to the platform.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

from kizami.core.epoch import EPOCH, to_seconds
from kizami.core.slots import format_instant

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DIRECTIVE = re.compile(r"%(.?)", re.DOTALL)
_ZONE = re.compile(
    r"(?<![%\w])[A-Z][A-Za-z]+/[A-Z][\w/+-]+|^[+-]\d\d:?\d\d$|^(?:[A-Z]{3,4}|local(?:time)?)$", re.ASCII
)
_MICROSECOND = timedelta(microseconds=1)

_Writer = Callable[[datetime], str]

NAMED_FORMS: dict[str, _Writer] = {
    "unix": lambda instant: str(to_seconds(instant)),
    "unix_ms": lambda instant: str(_microseconds(instant) // 1000),
    "unix_ns": lambda instant: str(_microseconds(instant) * 1000),
    "iso_ms": lambda instant: instant.isoformat()[:19] + f".{instant.microsecond // 1000:03}Z",
}

DIRECTIVES: dict[str, _Writer] = {
    "Y": lambda instant: f"{instant.year:04}",
    "y": lambda instant: f"{instant.year % 100:02}",
    "m": lambda instant: f"{instant.month:02}",
    "d": lambda instant: f"{instant.day:02}",
    "j": lambda instant: f"{instant.timetuple().tm_yday:03}",
    "H": lambda instant: f"{instant.hour:02}",
    "I": lambda instant: f"{instant.hour % 12 or 12:02}",
    "p": lambda instant: "AM" if instant.hour < 12 else "PM",
    "M": lambda instant: f"{instant.minute:02}",
    "S": lambda instant: f"{instant.second:02}",
    "f": lambda instant: f"{instant.microsecond:06}",
    "a": lambda instant: _DAYS[instant.weekday()][:3],
    "A": lambda instant: _DAYS[instant.weekday()],
    "b": lambda instant: _MONTHS[instant.month - 1][:3],
    "B": lambda instant: _MONTHS[instant.month - 1],
    "G": lambda instant: f"{instant.isocalendar().year:04}",
    "V": lambda instant: f"{instant.isocalendar().week:02}",
    "u": lambda instant: str(instant.isoweekday()),
    "s": lambda instant: str(to_seconds(instant)),
    "z": lambda instant: "+0000",
    "Z": lambda instant: "UTC",
    "%": lambda instant: "%",
}


def write_instant(instant: datetime, form: str) -> str:
    """`instant`, which is in UTC, in that form; without one as `YYYY-MM-DDTHH:mm:ssZ`."""
    if not form:
        return format_instant(instant)
    named = NAMED_FORMS.get(form)
    return named(instant) if named else _DIRECTIVE.sub(lambda match: DIRECTIVES[match[1]](instant), form)


def is_form(form: str) -> bool:
    """Whether it is a name or a pattern; what `unknown_directive` finds in a pattern is another matter."""
    return form in NAMED_FORMS or "%" in form


def names_zone(form: str) -> bool:
    """True if it has the name or the offset of a time zone, which no form can have."""
    return _ZONE.search(form) is not None


def unknown_directive(form: str) -> str | None:
    """The first part of a pattern that means nothing; None if all of them do."""
    return next((match[0] for match in _DIRECTIVE.finditer(form) if match[1] not in DIRECTIVES), None)


def _microseconds(instant: datetime) -> int:
    return (instant - EPOCH) // _MICROSECOND
