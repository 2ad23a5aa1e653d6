"""What travels: the schedule message, the API's answer and the metric record, between wire and values.

Reading is strict and every error names its field; writing is canonical, so that reading what was
written gives the same value back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from kizami.core.answers.answer import ORIGINAL_ANSWER, Answer
from kizami.core.answers.nearest import json_words
from kizami.core.answers.numbers import MAX_UNITS, FloatText, Number
from kizami.core.errors import ApiPayloadError, InvalidInput
from kizami.core.slots import (
    Window,
    floor_to_second,
    format_instant,
    parse_instant,
    parse_iso8601,
    shorten,
)
from kizami.core.targets.target import DEFAULT_METRIC, require_metric

MAX_COUNT = MAX_UNITS
MOST_MEMBERS = 100  # of one bundle
LIVE, RETRY, PROBE, BACKFILL = LANES = ("live", "retry", "probe", "backfill")
MOST_ATTEMPTS = 99_999
MOST_SECOND = 253_402_300_799  # the last one of the year 9999
NO_HEADERS: Mapping[str, str] = {}

_BUNDLE = re.compile(r"[0-9a-f]{8}\.\d{1,5}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ScheduleMessage:
    """Asks for one window of one metric to be collected."""

    window: Window
    metric: str = DEFAULT_METRIC


@dataclass(frozen=True, slots=True)
class BundleMessage:
    """Asks for the slots of a window of several targets, which are members of one bundle.

    A live message is about one slot; a backfill may be about all slots of a minute. What is asked again says
    how many attempts each target has had, and `not_before` (seconds since 1970) when the next one may be made.
    """

    window: Window
    metrics: tuple[str, ...]
    bundle: str = ""  # none for the original target
    lane: str = LIVE
    attempts: tuple[int, ...] = ()
    not_before: int = 0

    @property
    def slots(self) -> Iterator[ScheduleMessage]:
        """What it asks for, metric by metric."""
        return (ScheduleMessage(self.window, metric) for metric in self.metrics)


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """What the API says about a window."""

    window: Window
    count: int
    others: tuple[int, ...] = ()  # the values after the first, where it has several


@dataclass(frozen=True, slots=True)
class MetricRecord:
    """The one record of a slot; `collected_at` is when its answer arrived, to the second as it is stored.

    A count with decimal places is a float of at most 15 digits, which is written just as the exact number is.
    From `expires_at` on (seconds since 1970) a store that removes records by itself may remove it.
    """

    metric: str
    slot: datetime
    count: Number
    collected_at: datetime
    expires_at: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "collected_at", floor_to_second(self.collected_at))


def load_json(body: bytes | str, decoder: json.JSONDecoder | None = None) -> Any:
    """What `body` says in strict JSON: UTF-8, no NaN or Infinity, no key twice. Else ValueError, one line.

    Bytes may begin with a byte order mark.
    """
    try:
        text = body.decode("utf-8").removeprefix(_BYTE_ORDER_MARK) if isinstance(body, bytes) else body
        return (decoder or _STRICT).decode(text)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos}") from None


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("not unambiguous: a key occurs twice")
    return values


def _read_integer(digits: str) -> int:
    if len(digits) > 400:  # more than any number that JSON readers agree on; Python itself stops at 4300
        raise ValueError("not JSON that every reader can hold: a number has too many digits")
    return int(digits)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"not JSON: {name} is no number")


def _decoder(parse_float: Callable[[str], Any]) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=_refuse_duplicate_keys,
        parse_float=parse_float,
        parse_int=_read_integer,
        parse_constant=_refuse_constant,
    )


_BYTE_ORDER_MARK = "\ufeff"
_NO_ECHO = "leave echo out, unless the answer repeats the window as from and to"
_OTHER_ECHO = "echo = false, if from and to name no window"

# Made once: `json.loads` with these arguments would make one for every body.
_STRICT = _decoder(float)
_EXACT = _decoder(FloatText)


def write_message(message: ScheduleMessage) -> str:
    """The wire form; the default metric is left out, so that it is the seeds' message to the letter."""
    fields = {"from": format_instant(message.window.start), "to": format_instant(message.window.end)}
    if message.metric != DEFAULT_METRIC:
        fields["metric"] = message.metric
    return json.dumps(fields, ensure_ascii=False)


def write_bundle(message: BundleMessage) -> str:
    """The wire form; without a bundle, one metric makes the message about that metric."""
    if len(message.metrics) == 1 and not message.bundle:
        return write_message(ScheduleMessage(message.window, message.metrics[0]))
    window = f'"from": "{format_instant(message.window.start)}", "to": "{format_instant(message.window.end)}"'
    parts = [window, f'"bundle": "{message.bundle}"'] if message.bundle else [window]
    parts.append(f'"metrics": {_write_metrics(message.metrics)}')
    if message.lane != LIVE:
        parts.append(f'"lane": "{message.lane}"')
    if any(message.attempts):
        parts.append(f'"attempts": {json.dumps(message.attempts)}')
    if message.not_before:
        parts.append(f'"notBefore": {message.not_before}')
    return f"{{{', '.join(parts)}}}"


@lru_cache(maxsize=4096)  # a minute's messages of a bundle differ in their windows only
def _write_metrics(metrics: tuple[str, ...]) -> str:
    return json.dumps(metrics, ensure_ascii=False)


def read_message(body: str) -> ScheduleMessage:
    """The message about one metric that `body` writes, else InvalidInput naming the field."""
    fields = _read_fields(body, ("from", "to", "metric"))
    window = _read_window(fields, _parse_window)
    return ScheduleMessage(window, require_metric(fields.get("metric", DEFAULT_METRIC)))


def read_bundle(body: str) -> BundleMessage:
    """The message that `body` writes, of one metric or several, else InvalidInput naming the field."""
    fields = _read_fields(body, ("from", "to", "metric", "metrics", "bundle", "lane", "attempts", "notBefore"))
    window = _read_window(fields, _parse_window)
    if "metrics" not in fields:
        for name in ("bundle", "lane", "attempts", "notBefore"):
            if name in fields:
                raise InvalidInput(name, "stands beside metrics only")
        return BundleMessage(window, (require_metric(fields.get("metric", DEFAULT_METRIC)),))
    metrics = fields["metrics"]
    if "metric" in fields or not isinstance(metrics, list) or not 0 < len(metrics) <= MOST_MEMBERS:
        raise InvalidInput("metrics", f"must be a list of 1 to {MOST_MEMBERS} metrics, and stand without metric")
    named = tuple(require_metric(metric, "metrics") for metric in metrics)
    if len(set(named)) < len(named):
        raise InvalidInput("metrics", "names a metric twice")
    attempts = fields.get("attempts", [])
    if "attempts" in fields and not _are_attempts(attempts, len(named)):
        raise InvalidInput("attempts", "must be a list of as many whole numbers as there are metrics")
    return BundleMessage(
        window, named, _read_name(fields), _read_lane(fields), tuple(attempts), _read_not_before(fields)
    )


def _read_name(fields: Mapping[str, Any]) -> str:
    name = fields.get("bundle", "")
    if "bundle" in fields and (not isinstance(name, str) or not _BUNDLE.fullmatch(name)):
        raise InvalidInput("bundle", f"{shorten(name)} is not the name of a bundle like 3f9c2a41.17")
    return str(name)


def _read_lane(fields: Mapping[str, Any]) -> str:
    lane = fields.get("lane", LIVE)
    if lane not in LANES:
        raise InvalidInput("lane", f"{shorten(lane)} is not one of {', '.join(LANES)}")
    return str(lane)


def _read_not_before(fields: Mapping[str, Any]) -> int:
    second = fields.get("notBefore", 0)
    if type(second) is not int or not 0 <= second <= MOST_SECOND:
        raise InvalidInput("notBefore", f"{shorten(second)} is not a time in seconds since 1970")
    return second


def _are_attempts(value: object, size: int) -> bool:
    if not isinstance(value, list) or len(value) != size:
        return False
    return all(type(each) is int and 0 <= each <= MOST_ATTEMPTS for each in value)


def _read_fields(body: str, known: tuple[str, ...]) -> dict[str, Any]:
    try:
        fields = load_json(body)
    except ValueError as error:
        raise InvalidInput("message", str(error)) from None
    if not isinstance(fields, dict):
        raise InvalidInput("message", f"{json_words(fields)} is not a JSON object")
    for name in fields:
        if name not in known:
            raise InvalidInput("message", f"unknown field {shorten(name)}")
    return fields


def _read_window(fields: Mapping[str, Any], parse: Callable[[str, str], Window]) -> Window:
    for name in ("from", "to"):
        if name not in fields:
            raise InvalidInput(name, "is missing")
        if not isinstance(fields[name], str):
            raise InvalidInput(name, f"{json_words(fields[name])} is not a timestamp like 2025-12-02T10:23:05Z")
    return parse(fields["from"], fields["to"])


@lru_cache(maxsize=1024)  # only what parsed is kept, so nobody can fill it with junk
def _parse_window(start: str, end: str) -> Window:
    return Window(parse_instant(start, "from"), parse_instant(end, "to"))


@lru_cache(maxsize=1024)  # the next answers have the same words, in whichever form
def _parse_echo(start: str, end: str) -> Window:
    return Window(parse_iso8601(start, "from"), parse_iso8601(end, "to"))


def read_answer(
    body: bytes | str,
    answer: Answer = ORIGINAL_ANSWER,
    asked: Window | None = None,
    headers: Mapping[str, str] = NO_HEADERS,
    content_type: str = "",
) -> ApiAnswer:
    """The answer in `body`, else ApiPayloadError naming what is wrong with it.

    The window is the one the body echoes, in any form of ISO 8601; an answer that echoes none is about `asked`.
    """
    document = read_document(body, answer, content_type) if answer.needs_body else None
    window = _read_echo(document, answer.echo) or asked
    if window is None:
        raise ApiPayloadError("from: is missing", _NO_ECHO)
    if answer.require or answer.refuse:
        answer.check(document, headers)
    others = answer.read_others(document, headers) if answer.values else ()
    return ApiAnswer(window, answer.read(document, headers), others)


def read_document(body: bytes | str, answer: Answer, content_type: str = "") -> Any:
    """What a body says, as exact as it is written: JSON or text, else ApiPayloadError that says what it is."""
    try:
        if answer.format == "text":
            text = body.decode("utf-8") if isinstance(body, bytes) else body
            return text.removeprefix(_BYTE_ORDER_MARK).strip()
        return load_json(body, _EXACT)
    except UnicodeDecodeError as error:
        raise ApiPayloadError(f"the body is not UTF-8 at byte {error.start}") from None
    except ValueError as error:
        from kizami.core.answers.other_formats import explain_no_json  # only such an answer needs it

        raise ApiPayloadError(*explain_no_json(body, content_type, str(error))) from None


def _read_echo(document: Any, echo: bool | None) -> Window | None:
    """The window that the answer repeats; None if it need not and does not, or is not looked at for it."""
    if echo is False:
        return None
    if not isinstance(document, dict):
        if echo:
            raise ApiPayloadError(f"the body is not a JSON object but {json_words(document)}", _NO_ECHO)
        return None
    if echo is None and "from" not in document and "to" not in document:
        return None
    try:
        return _read_window(document, _parse_echo)
    except InvalidInput as error:
        raise ApiPayloadError(str(error), _NO_ECHO if echo else _OTHER_ECHO) from None


def write_record(record: MetricRecord) -> dict[str, str | Number]:
    """The record with the names of the `AiResponseMetrics` table."""
    return {
        "metricName": record.metric,
        "slotTime": format_instant(record.slot),
        "count": record.count,
        "collectedAt": format_instant(record.collected_at),
    }


def read_record(fields: Mapping[str, Any]) -> MetricRecord:
    """The record that an item of the table holds; `collectedAt` is ours, a bare seed item has its slot's time."""
    slot = parse_instant(fields.get("slotTime"), "slotTime")
    collected = fields.get("collectedAt")
    count = fields.get("count")
    if type(count) not in (int, float) or count is None or not -MAX_COUNT <= count <= MAX_COUNT:
        raise InvalidInput("count", f"{shorten(count)} is not a number from -2^53+1 to 2^53-1")
    return MetricRecord(
        metric=require_metric(fields.get("metricName"), "metricName"),
        slot=slot,
        count=count,
        collected_at=slot if collected is None else parse_instant(collected, "collectedAt"),
        expires_at=expires if type(expires := fields.get("expiresAt")) is int else None,
    )
