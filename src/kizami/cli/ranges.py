"""Which range of time a verb is about: `--from`, `--to` and `--last`, written as people write times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import wraps
from typing import Any

import click

from kizami.cli.options import Decorator
from kizami.core.errors import InvalidInput
from kizami.core.slots import format_second, parse_duration, parse_iso8601, shift, shorten
from kizami.platform.clock import SystemClock

# All time, which is what a verb without a default range is about.
BEGINNING, END = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The slots that begin in [start, end), asked for at `now`; the default if the user named none."""

    start: datetime
    end: datetime
    now: datetime
    is_default: bool = False


def range_options(default_last: str | None) -> Decorator:
    """Give a verb `--from`, `--to` and `--last`, and its function one `time_range`.

    Without any of them it is about the last `default_last`, or about all time if that is None.
    """
    default = f"the last {default_last}" if default_last else "everything"
    end = "now" if default_last else "the end"

    def decorate(verb: Callable[..., Any]) -> Callable[..., Any]:
        @click.option("--from", "since", metavar="TIME", help="From here on: 2025-12-02T10:00:00Z, or -2h.")
        @click.option("--to", "until", metavar="TIME", help=f"Up to here, exclusive; default: {end}.")
        @click.option("--last", metavar="DURATION", help=f"Up to now: 30s, 10m, 2h, 7d. Default: {default}.")
        @wraps(verb)
        def with_range(
            *arguments: Any, since: str | None, until: str | None, last: str | None, **options: Any
        ) -> Any:
            now = SystemClock().now()
            time_range = read_range(since, until, last, default_last, now)
            is_default = since is until is last is None
            return verb(*arguments, time_range=replace(time_range, is_default=is_default), **options)

        return with_range

    return decorate


def read_range(
    since: str | None, until: str | None, last: str | None, default_last: str | None, now: datetime
) -> TimeRange:
    """The range that the options name, else InvalidInput naming the option."""
    if last is not None and (since is not None or until is not None):
        raise InvalidInput("--last", "goes without --from and --to")
    if last is None and since is None and until is None:
        last = default_last
    if last is not None:
        return _nonempty(_before(now, _positive(last), "--last"), now, now, "--last")
    if since is None and default_last is not None:
        raise InvalidInput("--to", "needs --from")
    start = read_time(since, now, "--from") if since is not None else BEGINNING
    end = read_time(until, now, "--to") if until is not None else now if default_last else END
    return _begun(_nonempty(start, end, now, "--from"))


def _begun(wanted: TimeRange) -> TimeRange:
    """A range of the future has no due slots: what is said of it would be neither complete nor incomplete."""
    if wanted.start >= wanted.now:
        words = f"nothing is due yet from {format_second(wanted.start)} on; it is {format_second(wanted.now)}"
        raise InvalidInput("--from", words)
    return wanted


def _nonempty(start: datetime, end: datetime, now: datetime, option: str) -> TimeRange:
    if start >= end:
        raise InvalidInput(option, f"{format_second(start)} is not before {format_second(end)}")
    return TimeRange(start, end, now)


def _positive(text: str) -> int:
    seconds = parse_duration(int(text) if text.isdecimal() and len(text) < 10 else text, "--last")
    if not seconds:
        raise InvalidInput("--last", "must be longer than nothing")
    return seconds


def read_time(text: str, now: datetime, option: str) -> datetime:
    """The instant of an ISO 8601 date-time with an offset, of `-2h` (before now) or of `now`."""
    if text == "now":
        return now
    if text.startswith("-"):
        return _before(now, parse_duration(text[1:], option), option)
    try:
        # RFC 3339 and many tools put a space where ISO 8601 has its T.
        return parse_iso8601(text.replace(" ", "T", 1), option)
    except InvalidInput:
        if hint := _hint(text):
            raise InvalidInput(option, f"{shorten(text)} {hint}") from None
        raise


def _hint(text: str) -> str | None:
    """What a time without a zone lacks; it names no instant, and ours may be another zone than the reader's."""
    try:
        naive = datetime.fromisoformat(text).tzinfo is None
    except ValueError:
        return None
    if len(text) <= len("2025-12-02"):
        return "is a whole day; write its time and zone too, such as T00:00:00Z or T00:00:00+09:00"
    return "has no time zone; add Z or an offset such as +09:00" if naive else None


def _before(now: datetime, seconds: int, option: str) -> datetime:
    try:
        return shift(now, -seconds)
    except InvalidInput:
        raise InvalidInput(option, "reaches back before year 0001") from None
