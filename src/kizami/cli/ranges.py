"""Which range of time a verb is about: `--from`, `--to` and `--last`, written as people write times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import wraps
from typing import Any

import click

from kizami.backend.times.asked import Moment, read_bounds
from kizami.backend.times.zones import zoned_text
from kizami.cli.options import Decorator
from kizami.cli.shown_zone import asked_moment, tz_option
from kizami.core.errors import InvalidInput
from kizami.core.slots import shift

# All time, which is what a verb without a default range is about.
_FEWEST_SLOTS = 12
BEGINNING, END = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The slots that begin in [start, end), asked for at `now`; the default if the user named none."""

    start: datetime
    end: datetime
    now: datetime
    is_default: bool = False
    is_exact: bool = False  # the user said where it begins

    @property
    def reaches_now(self) -> bool:
        """True if what is collected now falls into it."""
        return self.end >= shift(self.now, -60)


def widened(wanted: TimeRange, interval_seconds: int, lag_seconds: int) -> TimeRange:
    """The default range reaches back to some slots that are due, also with a long interval or lag."""
    if not wanted.is_default:
        return wanted
    back = lag_seconds + _FEWEST_SLOTS * interval_seconds
    return replace(wanted, start=min(wanted.start, shift(wanted.now, -back)))


def range_options(default_last: str | None) -> Decorator:
    """Give a verb `--from`, `--to`, `--last` and `--tz`, and its function one `time_range`.

    Without any of them it is about the last `default_last`, or about all time if that is None.
    """
    default = f"the last {default_last}" if default_last else "everything"
    end = "now" if default_last else "the end"

    def decorate(verb: Callable[..., Any]) -> Callable[..., Any]:
        @click.option(
            "--from", "since", metavar="TIME", help="From here on: 2025-12-02T10:00:00Z, -2h, today or yesterday."
        )
        @click.option("--to", "until", metavar="TIME", help=f"Up to here, exclusive; default: {end}.")
        @click.option(
            "--last", metavar="DURATION", help=f"Up to now: 30s, 5min, 1h30m, 7d, today. Default: {default}."
        )
        @tz_option
        @wraps(verb)
        def with_range(
            *arguments: Any, since: str | None, until: str | None, last: str | None, **options: Any
        ) -> Any:
            time_range = read_range(since, until, last, default_last, asked_moment())
            told = replace(time_range, is_default=since is until is last is None, is_exact=since is not None)
            return verb(*arguments, time_range=told, **options)

        return with_range

    return decorate


def read_range(
    since: str | None, until: str | None, last: str | None, default_last: str | None, asked: Moment
) -> TimeRange:
    """The range that the options name, else InvalidInput naming the option."""
    now, names = asked.now, asked.names
    if since is until is last is None:
        last = default_last
    if since is last is None and default_last is not None:
        raise InvalidInput(names.until, f"needs {names.since}")
    start, end = read_bounds(since, until, last, asked)
    return _begun(TimeRange(start or BEGINNING, end or (now if default_last else END), now), asked)


def _begun(wanted: TimeRange, asked: Moment) -> TimeRange:
    """A range of the future has no due slots: what is said of it would be neither complete nor incomplete."""
    if wanted.start >= wanted.now:
        start, now = (zoned_text(each, asked.shown_zone) for each in (wanted.start, wanted.now))
        raise InvalidInput(asked.names.since, f"nothing is due yet from {start} on; it is {now}")
    return wanted
