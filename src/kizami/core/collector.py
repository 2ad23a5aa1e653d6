"""The Collector's decisions: a message becomes a request, an answer becomes a record or a named error (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote

from kizami.core.answers.numbers import to_number
from kizami.core.errors import ApiPayloadError, ApiStatusError, InvalidInput
from kizami.core.messages import MetricRecord, ScheduleMessage, read_answer
from kizami.core.requests.urls import join_url, require_base_url
from kizami.core.slots import Window, floor_to_slot, format_instant, require_slot_window, shift, to_utc
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import DEFAULT_MAX_BODY_BYTES, MOST_BODY_BYTES, Target

if TYPE_CHECKING:
    from kizami.core.answers.rate_limits import RateLimit
    from kizami.core.requests.query import SecretQuery

CLOCK_SKEW_SECONDS = 2.0
LONGEST_WAIT_SECONDS = 3600.0  # that an API may ask for before the next attempt
TOO_LARGE = f"max_body of the target allows more, up to {MOST_BODY_BYTES // 2**20}MiB"

_WHOLE_SECONDS = re.compile(r"0*(\d+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Request:
    """One request: where, with what headers, within what total deadline; secrets are still references.

    `secret_query` is added to the URL where the request leaves: no log, error or dead letter ever has it.
    """

    url: str
    headers: Mapping[str, str | SecretReference] = field(hash=False)
    timeout_seconds: float
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES  # of what a compressed body unpacks to, too
    wanted_headers: frozenset[str] = frozenset()  # of the answer, in small letters
    method: str = "GET"
    body: bytes | None = field(default=None, repr=False)
    secret_query: SecretQuery = ()


@dataclass(frozen=True, slots=True)
class Response:
    """What came back, as far as a decision needs it; `headers` are those that were wanted and came."""

    status: int
    body: bytes
    retry_after: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)  # those wanted, names in small letters
    content_type: str = field(default="", compare=False)  # for errors only
    rate_limit: RateLimit | None = None  # what it refuses for, as far as its headers say so


def plan_request(message: ScheduleMessage, target: Target) -> Request:
    """The request that answers `message`; a window that is not exactly one of the target's slots is refused."""
    require_askable(message, target)
    window, template = message.window, target.template
    return Request(
        request_url(target, window),
        template.headers if template else target.headers,
        target.timeout_seconds,
        target.max_body_bytes,
        target.answer.wanted_headers,
        method=target.method,
        body=request_body(target, window),
        secret_query=template.secret_query if template else (),
    )


def require_askable(message: ScheduleMessage, target: Target) -> None:
    """InvalidInput if the message is not about one of the target's slots."""
    if message.metric != target.name:
        raise InvalidInput("metric", f"{message.metric} is not {target.name}")
    require_slot_window(message.window, target.interval_seconds)


def seconds_until_due(message: ScheduleMessage, target: Target, now: datetime) -> float:
    """How long the window cannot be asked for yet: it is due a lag after it begins. Not above 0 if it can."""
    return (shift(message.window.start, target.lag_seconds) - now).total_seconds()


def seconds_to_wait(message: ScheduleMessage, target: Target, now: datetime) -> float:
    """How long the slot's moment is still to come: two clocks may differ a little, and that is waited for.

    InvalidInput if it is further off: no request leaves before its slot's moment.
    """
    early = seconds_until_due(message, target, now)
    if early > CLOCK_SKEW_SECONDS:
        due = format_instant(shift(message.window.start, target.lag_seconds))
        raise InvalidInput("from", f"is due at {due} and cannot be asked for before")
    return max(0.0, early)


def is_missed(message: ScheduleMessage, target: Target, now: datetime) -> bool:
    """Whether it is too late to ask: an API that can only say "now" would answer for the next slot already."""
    return not target.backfill and seconds_until_due(message, target, now) <= -target.interval_seconds


def request_url(target: Target, window: Window) -> str:
    """The target's URL, path and parameters with the window filled in; a query of the URL stays in front."""
    if target.template is not None:
        return target.template.url.fill(window)
    start, end = _quoted(window)
    return url_template(target.url, target.path).replace("{from}", start).replace("{to}", end)


def request_body(target: Target, window: Window) -> bytes | None:
    """The target's body with the window filled in."""
    if target.template is None or target.template.body is None:
        return None
    return target.template.body.fill(window).encode()


@lru_cache(maxsize=1024)
def _quoted(window: Window) -> tuple[str, str]:
    return quote(format_instant(window.start), safe=""), quote(format_instant(window.end), safe="")


@cache  # one entry a target
def url_template(url: str, path: str) -> str:
    """Base URL and path joined; braces can stand in neither but as `{from}` and `{to}`."""
    return join_url(require_base_url(url), path)


def read_response(
    response: Response, message: ScheduleMessage, target: Target, collected_at: datetime
) -> MetricRecord:
    """The slot's record, or that of the first of several values, else ApiError."""
    return read_records(response, message, target, collected_at)[0]


def read_records(
    response: Response, message: ScheduleMessage, target: Target, collected_at: datetime
) -> list[MetricRecord]:
    """The slot's record, or one of each value, else the ApiError that says why not (Requirements 2.3, 3.1–3.3)."""
    counts = read_values(response, message, target)
    slot = floor_to_slot(message.window.start, target.interval_seconds)
    arrived, decimals = to_utc(collected_at), target.answer.decimals
    named = zip(target.metrics, counts, strict=True)
    return [MetricRecord(name, slot, to_number(units, decimals), arrived) for name, units in named]


def read_count(response: Response, message: ScheduleMessage, target: Target) -> int:
    """The value, or the first of several, in the answer's units, else ApiError."""
    return read_values(response, message, target)[0]


def read_values(response: Response, message: ScheduleMessage, target: Target) -> tuple[int, ...]:
    """The values of the window that was asked for, in the answer's units, else the ApiError that says why not."""
    expected = target.answer
    if response.status not in expected.status:
        raise _refusal(response, expected.status)
    if response.status == 204 and not response.body and expected.may_be_empty:
        return expected.read_empty(response.headers)
    answer = read_answer(response.body, expected, message.window, response.headers, response.content_type)
    if answer.window != message.window:
        start, end = (instant.isoformat()[:-6] + "Z" for instant in (answer.window.start, answer.window.end))
        problem = f"from, to: the answer is about {start} to {end}, which was not asked for"
        raise ApiPayloadError(
            problem, "is the window asked for as the API wants it? If they name none, echo = false"
        )
    return answer.count, *answer.others


def _refusal(response: Response, expected: tuple[int, ...]) -> ApiStatusError:
    limit, wait = response.rate_limit, retry_after_seconds(response.retry_after)
    if limit is not None and limit.seconds is not None:
        wait = min(limit.seconds, LONGEST_WAIT_SECONDS)
    return ApiStatusError(response.status, wait, expected, limit)


def retry_after_seconds(header: str | None) -> float | None:
    """The seconds of a `Retry-After` header, at most an hour; its date form is rare and is ignored."""
    match = _WHOLE_SECONDS.fullmatch((header or "").strip())
    if match is None:
        return None
    return min(float(match[1]), LONGEST_WAIT_SECONDS) if len(match[1]) < 5 else LONGEST_WAIT_SECONDS
