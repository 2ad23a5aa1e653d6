"""The view is in the URL: what is being looked at, read strictly from the query and written back (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import urlencode

from kizami.core.errors import InvalidInput
from kizami.core.slots import Window, format_second, parse_duration, parse_iso8601, shorten
from kizami.core.targets.target import require_metric
from kizami.home.chart import MAX_RANGE_SECONDS, RANGES
from kizami.home.snapshot import TargetCondition

DEFAULT_RANGE = "15m"
DEFAULT_MINUTES = 15
MAX_MINUTES = 60
MAX_SEARCH = 128


@dataclass(frozen=True, slots=True)
class View:
    """What one page shows.

    `metric` None is the first target; `start` and `end` are a zoomed range instead of the last `range`;
    `until` holds the grid at a minute instead of letting it follow the clock; `search`, `condition` and `after`
    choose from the list of targets.
    """

    metric: str | None = None
    range: str = DEFAULT_RANGE
    start: datetime | None = None
    end: datetime | None = None
    until: datetime | None = None
    minutes: int = DEFAULT_MINUTES
    search: str = ""
    condition: TargetCondition | None = None
    after: str = ""

    def window(self, now: datetime) -> Window:
        """The chart's range."""
        if self.start is not None and self.end is not None:
            return Window(self.start, self.end)
        return Window(now - timedelta(seconds=RANGES[self.range]), now)

    @property
    def held_at(self) -> datetime | None:
        """Where the grid ends if it does not follow the clock: who zooms in wants to see those slots."""
        return self.until or (self.end and self.end - timedelta(seconds=1))

    def query(self, **changes: object) -> dict[str, str]:
        """The parameters of this view with some of it changed; what is as usual is left out."""
        view = replace(self, **changes)  # type: ignore[arg-type]
        usual = View()
        written = {name: getattr(view, field) for name, field in _FIELDS.items()}
        return {name: _text(value) for name, value in written.items() if value != getattr(usual, _FIELDS[name])}

    def url(self, **changes: object) -> str:
        """The address of this view with some of it changed."""
        query = urlencode(self.query(**changes))
        return f"/?{query}" if query else "/"


_FIELDS = {
    "metric": "metric",
    "range": "range",
    "from": "start",
    "to": "end",
    "until": "until",
    "minutes": "minutes",
    "search": "search",
    "condition": "condition",
    "after": "after",
}


def _text(value: object) -> str:
    if isinstance(value, TargetCondition):
        return value.value
    return format_second(value) if isinstance(value, datetime) else str(value)


def read_view(query: Mapping[str, str]) -> View:
    """The view that the query names, else InvalidInput naming the parameter."""
    metric = query.get("metric")
    is_zoomed = "from" in query or "to" in query
    zoomed = _read_bounds(query) if is_zoomed else None
    return View(
        metric=require_metric(metric) if metric else None,
        range=_range_name(query.get("range", DEFAULT_RANGE)),
        start=zoomed.start if zoomed else None,
        end=zoomed.end if zoomed else None,
        until=read_optional_instant(query, "until"),
        minutes=read_number(query, "minutes", DEFAULT_MINUTES, MAX_MINUTES),
        search=read_search(query),
        condition=read_condition(query),
        after=read_search(query, "after"),
    )


def _range_name(name: str) -> str:
    if name not in RANGES:
        raise InvalidInput("range", f"{shorten(name)} is none of {', '.join(RANGES)}")
    return name


def read_search(query: Mapping[str, str], name: str = "search") -> str:
    """A part of a target's name."""
    text = query.get(name, "")
    if len(text) > MAX_SEARCH:
        raise InvalidInput(name, f"is longer than any name: {MAX_SEARCH} characters")
    return text


def read_condition(query: Mapping[str, str]) -> TargetCondition | None:
    """How the wanted targets do, if that matters."""
    text = query.get("condition")
    if not text:
        return None
    try:
        return TargetCondition(text)
    except ValueError:
        known = ", ".join(condition.value for condition in TargetCondition)
        raise InvalidInput("condition", f"{shorten(text)} is none of {known}") from None


def _read_bounds(query: Mapping[str, str]) -> Window:
    start, end = read_optional_instant(query, "from"), read_optional_instant(query, "to")
    if start is None or end is None:
        raise InvalidInput("to" if end is None else "from", "is missing; a zoomed view has both from and to")
    return _bounded(start, end, "from")


def read_optional_instant(query: Mapping[str, str], name: str) -> datetime | None:
    """The instant of an ISO 8601 parameter, if it is there."""
    text = query.get(name)
    if not text:
        return None
    instant = parse_iso8601(text, name)
    # Room on both sides, so that no arithmetic with it leaves the calendar.
    if not 1971 <= instant.year <= 9997:
        raise InvalidInput(name, f"{shorten(text)} is outside years 1971 to 9997")
    return instant


def read_number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    """A whole number from 1 to `most`."""
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= most):
        raise InvalidInput(name, f"{shorten(text)} is not a whole number from 1 to {most:,}")
    return int(text)


def read_range(query: Mapping[str, str], now: datetime, default_last: str = "1h") -> Window:
    """[from, to), or the `last` so long; never longer than MAX_RANGE_SECONDS."""
    if "last" in query and ("from" in query or "to" in query):
        raise InvalidInput("last", "goes without from and to")
    if "last" in query or not ("from" in query or "to" in query):
        seconds = parse_duration(query.get("last", default_last), "last")
        return _bounded(now - timedelta(seconds=min(seconds, MAX_RANGE_SECONDS + 1)), now, "last")
    start, end = read_optional_instant(query, "from"), read_optional_instant(query, "to")
    if start is None:
        raise InvalidInput("from", "is missing; give from and to, or last")
    return _bounded(start, end or now, "from")


def _bounded(start: datetime, end: datetime, name: str) -> Window:
    if start >= end:
        raise InvalidInput(name, "must be before the end of the range")
    if (end - start).total_seconds() > MAX_RANGE_SECONDS:
        raise InvalidInput(name, f"the range is longer than {MAX_RANGE_SECONDS // 86_400} days")
    return Window(start, end)
