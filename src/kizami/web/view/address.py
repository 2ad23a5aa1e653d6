"""The view is in the URL: what is being looked at, read strictly from the query and written back (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from urllib.parse import quote, urlencode

from kizami.backend.calendar import CellLength
from kizami.backend.chart import MAX_RANGE_SECONDS, RANGES
from kizami.backend.health import TargetCondition
from kizami.backend.times.asked import Moment, read_bounds
from kizami.backend.times.zones import read_zone
from kizami.core.errors import InvalidInput
from kizami.core.slots import Window, floor_to_second, format_second, parse_iso8601, shorten
from kizami.core.targets.target import require_metric

DEFAULT_MINUTES = 15
MAX_MINUTES = 60
MAX_SEARCH = 128
MAX_TOGETHER = 6  # metrics on one chart
# What its points are, if not as fine as fits: stretches of this length, their sum, beside the same time before.
EVERY, FIGURES, COMPARISONS = ("1m", "1h", "1d"), ("sum",), ("1w",)


@dataclass(frozen=True, slots=True)
class View:
    """What one page shows.

    `metric` None is the wall of all targets, else the page of that one; `others` are drawn on its chart too;
    `start` and `end` are a zoomed range instead of the last `range`, which is
    "" where it is to suit the target; `until` holds the grid at a moment instead of letting it follow the clock,
    and `minutes` are its rows (hours or days of longer intervals); `search`, `condition` and `after`
    choose from the list of targets. `every`, `figure` and `compare` say what the chart's points are.
    """

    metric: str | None = None
    others: tuple[str, ...] = ()
    every: str = ""
    figure: str = ""
    compare: str = ""
    range: str = ""
    start: datetime | None = None
    end: datetime | None = None
    until: datetime | None = None
    minutes: int = DEFAULT_MINUTES
    search: str = ""
    condition: TargetCondition | None = None
    after: str = ""

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
        query = self.query(**changes)
        metric = query.pop("metric", None)
        path = f"/targets/{quote(metric, safe='/:')}" if metric else "/"
        return f"{path}?{urlencode(query)}" if query else path


_FIELDS = {
    "metric": "metric",
    "with": "others",
    "every": "every",
    "figure": "figure",
    "compare": "compare",
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
    if isinstance(value, tuple):
        return ",".join(value)
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
        others=read_others(query),
        every=_one_of(query, "every", EVERY),
        figure=_one_of(query, "figure", FIGURES),
        compare=_one_of(query, "compare", COMPARISONS),
        range=_range_name(query["range"]) if query.get("range") else "",
        start=zoomed.start if zoomed else None,
        end=zoomed.end if zoomed else None,
        until=read_optional_instant(query, "until"),
        minutes=read_number(query, "minutes", DEFAULT_MINUTES, MAX_MINUTES),
        search=read_search(query),
        condition=read_condition(query),
        after=read_search(query, "after"),
    )


def read_others(query: Mapping[str, str]) -> tuple[str, ...]:
    """Further metrics for one chart."""
    names = tuple(dict.fromkeys(require_metric(name, "with") for name in query.get("with", "").split(",") if name))
    if len(names) >= MAX_TOGETHER:
        raise InvalidInput("with", f"is more than one chart can show: {MAX_TOGETHER - 1} further metrics")
    return names


def _one_of(query: Mapping[str, str], name: str, known: Sequence[str]) -> str:
    text = query.get(name, "")
    if text and text not in known:
        raise InvalidInput(name, f"{shorten(text)} is none of {', '.join(known)}")
    return text


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
    return _roomy(parse_iso8601(text, name), name) if text else None


def _roomy(instant: datetime, name: str) -> datetime:
    """With room on both sides, so that no arithmetic with it leaves the calendar."""
    if not 1971 <= instant.year <= 9997:
        raise InvalidInput(name, f"{format_second(instant)} is outside years 1971 to 9997")
    return instant


def read_number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    """A whole number from 1 to `most`."""
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and 1 <= int(text) <= most):
        raise InvalidInput(name, f"{shorten(text)} is not a whole number from 1 to {most:,}")
    return int(text)


def read_asked_zone(query: Mapping[str, str]) -> tzinfo | None:
    """The zone of `tz`, if it is there."""
    return read_zone(query["tz"], "tz") if "tz" in query else None


def read_range(
    query: Mapping[str, str], now: datetime, default_last: str = "1h", most_seconds: int = MAX_RANGE_SECONDS
) -> Window:
    """[from, to), or the `last` so long; never longer than `most_seconds`."""
    since, until = query.get("from"), query.get("to")
    last = query.get("last", default_last if since is until is None else None)
    start, end = read_bounds(since, until, last, Moment(now, read_asked_zone(query)))
    if start is None:
        raise InvalidInput("from", "is missing; give from and to, or last")
    window = _bounded(start, end or now, "from" if last is None else "last", most_seconds)
    _roomy(window.start, "from"), _roomy(window.end, "to")
    return window


def _bounded(start: datetime, end: datetime, name: str, most_seconds: int = MAX_RANGE_SECONDS) -> Window:
    if start >= end:
        raise InvalidInput(name, "must be before the end of the range")
    if (end - start).total_seconds() > most_seconds:
        raise InvalidInput(name, f"the range is longer than {most_seconds // 86_400:,} days")
    return Window(start, end)


def read_calendar_range(query: Mapping[str, str]) -> Window:
    """[from, to) of a calendar, which may be years."""
    start, end = read_optional_instant(query, "from"), read_optional_instant(query, "to")
    if start is None or end is None or start >= end:
        raise InvalidInput("to" if start else "from", "must be there; a calendar has from and to, in this order")
    return Window(floor_to_second(start), floor_to_second(end))


def read_cell_length(query: Mapping[str, str]) -> CellLength:
    """What a cell of the calendar is: a day unless the query says otherwise."""
    text = query.get("by", CellLength.DAY.value)
    if text not in {length.value for length in CellLength}:
        raise InvalidInput("by", f"{shorten(text)} is neither day nor hour")
    return CellLength(text)
