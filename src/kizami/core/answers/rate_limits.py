"""Rate limits: whether the headers of a refusal say that it is one, and when it ends (pure).

A 429 always is one. A 403 is one if it has `Retry-After`, if its headers say that no request is left, or if
they tell of a limit and not how many requests are left. Where they say that some are left, it is a real
refusal: GitHub sends them with every answer. Read are `RateLimit` of the IETF's drafts (`"default";r=0;t=30`,
`remaining=0, reset=30`) and headers like `RateLimit-Remaining` and `-Reset`, with or without `X-`, also as
`X-Rate-Limit-…` and with other words (`-Minute`). A reset is a number of seconds, seconds or milliseconds since
1970, a date, or a duration such as `6m0s`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

LIMITING = frozenset({403, 429})  # statuses that may be a rate limit

_NAME = re.compile(r"(?:x-)?rate-?limit(-.+)?")
_PARAMETER = re.compile(r'\b(r|t|remaining|reset)\s*=\s*"?(\d+)', re.ASCII)
_NUMBER = re.compile(r"\d{1,15}(\.\d{1,9})?", re.ASCII)
_DURATION = re.compile(
    r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9}(?:\.\d{1,9})?)s)?(?:(\d{1,9}(?:\.\d{1,9})?)ms)?"
)
_HTTP_DATE = re.compile(r"[A-Z][a-z]+, (\d\d) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT", re.ASCII)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_EPOCH, _EPOCH_MS = 1e9, 1e11  # no limit lasts for so many seconds
_LONGEST_SECONDS = 366 * 86_400


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A refusal that ends by itself: in so many seconds, at that moment; None where the answer does not say."""

    seconds: float | None = None
    ends: datetime | None = None

    def __str__(self) -> str:
        if self.ends is None:
            return "a rate limit"
        return f"a rate limit; it ends at {self.ends.astimezone(UTC).strftime('%Y-%m-%dT%H:%M:%SZ')}"


@dataclass(frozen=True, slots=True)
class _Quota:
    remaining: int | None = None
    reset: str | None = None


def read_rate_limit(status: int, headers: Iterable[tuple[str, str]], now: datetime) -> RateLimit | None:
    """The rate limit that an answer tells of, None if it is none; `headers` are all of them, in any case."""
    if status not in LIMITING:
        return None
    found: dict[str, str] = {}
    for name, value in headers:
        lower = name.strip().lower()
        found[lower] = f"{found[lower]}, {value.strip()}" if lower in found else value.strip()
    quotas = _quotas(found)
    known = [quota for quota in quotas if quota.remaining is not None]
    spent = [quota for quota in known if quota.remaining == 0]
    sent = _moment(found.get("date")) or now  # the resets are by the server's clock
    wait = _seconds(found.get("retry-after"), sent)
    if status != 429 and wait is None and not spent and (known or not quotas):
        return None
    if wait is None:
        waits = [_seconds(quota.reset, sent) for quota in (spent if known else quotas)]
        wait = max((each for each in waits if each is not None), default=None)
    if wait is None or wait > _LONGEST_SECONDS:
        return RateLimit()
    return RateLimit(wait, now + timedelta(seconds=math.ceil(wait)))


def _quotas(headers: Mapping[str, str]) -> list[_Quota]:
    """What the headers say, of one limit or of several; a remaining and its reset share their other words."""
    remaining: dict[str, int] = {}
    resets: dict[str, str] = {}
    others: dict[str, None] = {}
    quotas: list[_Quota] = []
    for name, value in headers.items():
        found = _NAME.fullmatch(name)
        if found is None:
            continue
        if found[1] is None:
            quotas += _structured(value)
            continue
        words = found[1].replace("-remaining", "").replace("-reset", "")
        others[words] = None
        if "-remaining" in name and (numbers := re.findall(r"-?\b\d{1,15}\b", value, re.ASCII)):
            remaining[words] = max(0, min(map(int, numbers)))
        elif "-reset" in name:
            resets[words] = value
    return quotas + [_Quota(remaining.get(words), resets.get(words)) for words in others]


def _structured(value: str) -> Iterator[_Quota]:
    """A `RateLimit` header: a list of policies, or the dictionary of earlier drafts."""
    parts = value.split(",") if ";" in value else [value]
    for part in parts:
        found: Mapping[str, str] = dict(_PARAMETER.findall(part))
        remaining, reset = found.get("r", found.get("remaining")), found.get("t", found.get("reset"))
        yield _Quota(int(remaining[:15]) if remaining else None, reset)


def _seconds(text: str | None, now: datetime) -> float | None:
    """How long a reset or `Retry-After` has one wait, from `now` on; None if it does not say."""
    if not text:
        return None
    if _NUMBER.fullmatch(text):
        number = float(text)
        if number >= _EPOCH:
            return max(0.0, number / (1000 if number >= _EPOCH_MS else 1) - now.timestamp())
        return number
    if found := _DURATION.fullmatch(text):
        hours, minutes, seconds, milliseconds = (float(part or 0) for part in found.groups())
        return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
    moment = _moment(text)
    return max(0.0, (moment - now).total_seconds()) if moment else None


def _moment(text: str | None) -> datetime | None:
    """A date of HTTP or ISO 8601."""
    if not text:
        return None
    try:
        if found := _HTTP_DATE.fullmatch(text):
            day, month, year, hour, minute, second = found.groups()
            number = 1 + _MONTHS.index(month)
            return datetime(int(year), number, int(day), int(hour), int(minute), int(second), tzinfo=UTC)
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
