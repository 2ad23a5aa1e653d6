"""The Collector's decisions: a message becomes a request, an answer becomes a record or a named error (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, lru_cache
from urllib.parse import quote, urlunsplit

from kizami.core.errors import ApiPayloadError, ApiStatusError, InvalidInput
from kizami.core.messages import MetricRecord, ScheduleMessage, read_answer
from kizami.core.slots import Window, floor_to_slot, format_instant, require_slot_window, shift, to_utc
from kizami.core.targets.target import SecretReference, Target
from kizami.core.targets.urls import require_base_url

MAX_BODY_BYTES = 64 * 1024

_WHOLE_SECONDS = re.compile(r"0*(\d+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Request:
    """One GET: where, with what headers (secrets still as references), within what total deadline."""

    url: str
    headers: Mapping[str, str | SecretReference] = field(hash=False)
    timeout_seconds: float
    max_body_bytes: int = MAX_BODY_BYTES


@dataclass(frozen=True, slots=True)
class Response:
    """What came back, as far as a decision needs it."""

    status: int
    body: bytes
    retry_after: str | None = None


def plan_request(message: ScheduleMessage, target: Target) -> Request:
    """The request that answers `message`; a window that is not exactly one of the target's slots is refused."""
    if message.metric != target.name:
        raise InvalidInput("metric", f"{message.metric} is not {target.name}")
    require_slot_window(message.window, target.interval_seconds)
    return Request(request_url(target, message.window), target.headers, target.timeout_seconds)


def seconds_until_due(message: ScheduleMessage, target: Target, now: datetime) -> float:
    """How long the window cannot be asked for yet: it is due a lag after it begins. Not above 0 if it can."""
    return (shift(message.window.start, target.lag_seconds) - now).total_seconds()


def request_url(target: Target, window: Window) -> str:
    """The target's base URL and path with the window filled in; a query of the base URL stays in front."""
    start, end = _quoted(window)
    return url_template(target.url, target.path).replace("{from}", start).replace("{to}", end)


@lru_cache(maxsize=1024)
def _quoted(window: Window) -> tuple[str, str]:
    return quote(format_instant(window.start), safe=""), quote(format_instant(window.end), safe="")


@cache  # one entry a target
def url_template(url: str, path: str) -> str:
    """Base URL and path joined; braces can stand in neither but as `{from}` and `{to}`."""
    base = require_base_url(url)
    path, _, query = path.partition("?")
    full_query = "&".join(part for part in (base.query, query) if part)
    return urlunsplit((base.scheme, base.netloc, base.path.rstrip("/") + path, full_query, ""))


def read_response(
    response: Response, message: ScheduleMessage, target: Target, collected_at: datetime
) -> MetricRecord:
    """The slot's record, else the ApiError that says why the answer is not one (Requirements 2.3, 3.1–3.3)."""
    count = read_count(response, message, target)
    slot = floor_to_slot(message.window.start, target.interval_seconds)
    return MetricRecord(target.name, slot, count, to_utc(collected_at))


def read_count(response: Response, message: ScheduleMessage, target: Target) -> int:
    """The count of the window that was asked for, else the ApiError that says why there is none."""
    if response.status != 200:
        raise ApiStatusError(response.status, retry_after_seconds(response.retry_after))
    asked = None if target.echoes_window else message.window
    answer = read_answer(response.body, target.count_pointer, asked)
    if answer.window != message.window:
        start, end = (instant.isoformat()[:-6] + "Z" for instant in (answer.window.start, answer.window.end))
        raise ApiPayloadError(f"from, to: the answer is about {start} to {end}, which was not asked for")
    return answer.count


def retry_after_seconds(header: str | None) -> float | None:
    """The seconds of a `Retry-After` header, at most an hour; its date form is rare and is ignored."""
    match = _WHOLE_SECONDS.fullmatch((header or "").strip())
    if match is None:
        return None
    return float(min(int(match[1]), 3600)) if len(match[1]) < 5 else 3600.0
