"""What travels: the schedule message, the API's answer and the metric record, between wire and values.

Reading is strict and every error names its field; writing is canonical, so that reading what was
written gives the same value back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

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

MAX_COUNT = 2**53 - 1  # the largest integer that every JSON reader keeps exactly

_ARRAY_INDEX = re.compile(r"0|[1-9]\d{0,8}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ScheduleMessage:
    """Asks for one window of one metric to be collected."""

    window: Window
    metric: str = DEFAULT_METRIC


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """What the API says about a window."""

    window: Window
    count: int


@dataclass(frozen=True, slots=True)
class MetricRecord:
    """The one record of a slot; `collected_at` is when its answer arrived, to the second as it is stored."""

    metric: str
    slot: datetime
    count: int
    collected_at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "collected_at", floor_to_second(self.collected_at))


def load_json(body: bytes | str) -> Any:
    """What `body` says in strict JSON: UTF-8, no NaN or Infinity, no key twice. Else ValueError, one line."""
    try:
        text = body.decode("utf-8") if isinstance(body, bytes) else body
        return _STRICT.decode(text)
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


# Made once: `json.loads` with these arguments would make one for every body.
_STRICT = json.JSONDecoder(
    object_pairs_hook=_refuse_duplicate_keys, parse_int=_read_integer, parse_constant=_refuse_constant
)


def write_message(message: ScheduleMessage) -> str:
    """The wire form; the default metric is left out, so that it is the seeds' message to the letter."""
    fields = {"from": format_instant(message.window.start), "to": format_instant(message.window.end)}
    if message.metric != DEFAULT_METRIC:
        fields["metric"] = message.metric
    return json.dumps(fields, ensure_ascii=False)


def read_message(body: str) -> ScheduleMessage:
    """The message that `body` writes, else InvalidInput naming the field."""
    try:
        fields = load_json(body)
    except ValueError as error:
        raise InvalidInput("message", str(error)) from None
    if not isinstance(fields, dict):
        raise InvalidInput("message", f"{shorten(fields)} is not a JSON object")
    for name in fields:
        if name not in ("from", "to", "metric"):
            raise InvalidInput("message", f"unknown field {shorten(name)}")
    window = _read_window(fields, _parse_window)
    return ScheduleMessage(window, require_metric(fields.get("metric", DEFAULT_METRIC)))


def _read_window(fields: Mapping[str, Any], parse: Callable[[str, str], Window]) -> Window:
    for name in ("from", "to"):
        if name not in fields:
            raise InvalidInput(name, "is missing")
        if not isinstance(fields[name], str):
            raise InvalidInput(name, f"{shorten(fields[name])} is not a timestamp like 2025-12-02T10:23:05Z")
    return parse(fields["from"], fields["to"])


@lru_cache(maxsize=1024)  # only what parsed is kept, so nobody can fill it with junk
def _parse_window(start: str, end: str) -> Window:
    return Window(parse_instant(start, "from"), parse_instant(end, "to"))


@lru_cache(maxsize=1024)  # the next answers have the same words, in whichever form
def _parse_echo(start: str, end: str) -> Window:
    return Window(parse_iso8601(start, "from"), parse_iso8601(end, "to"))


def read_answer(
    body: bytes | str, pointer: tuple[str, ...] = ("count",), asked: Window | None = None
) -> ApiAnswer:
    """The answer in `body`, else ApiPayloadError naming the field.

    The window is the one the body echoes, in any form of ISO 8601; an API that echoes none is told by `asked`,
    and its answer is taken to be about that.
    """
    try:
        fields = load_json(body)
    except ValueError as error:
        raise ApiPayloadError(f"the body is {error}") from None
    if not isinstance(fields, dict):
        raise ApiPayloadError(f"the body is not a JSON object but {shorten(fields)}")
    try:
        window = asked or _read_window(fields, _parse_echo)
    except InvalidInput as error:
        raise ApiPayloadError(str(error)) from None
    return ApiAnswer(window, _read_count(fields, pointer))


def _read_count(fields: Any, pointer: tuple[str, ...]) -> int:
    value = fields
    for step in pointer:
        value = _step_into(value, step, pointer)
    if type(value) is not int or not 0 <= value <= MAX_COUNT:
        raise ApiPayloadError(f"{pointer_text(pointer)}: {shorten(value)} is not an integer from 0 to 2^53-1")
    return value


def _step_into(value: Any, step: str, pointer: tuple[str, ...]) -> Any:
    if isinstance(value, dict) and step in value:
        return value[step]
    if isinstance(value, list) and _ARRAY_INDEX.fullmatch(step) and int(step) < len(value):
        return value[int(step)]
    raise ApiPayloadError(f"{pointer_text(pointer)}: is missing")


def pointer_text(pointer: tuple[str, ...]) -> str:
    """The pointer as kizami.toml may write it: a bare name if it is one, else RFC 6901."""
    if len(pointer) == 1 and pointer[0].isidentifier():
        return pointer[0]
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in pointer)


def write_record(record: MetricRecord) -> dict[str, str | int]:
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
    if type(count) is not int or not 0 <= count <= MAX_COUNT:
        raise InvalidInput("count", f"{shorten(count)} is not an integer from 0 to 2^53-1")
    return MetricRecord(
        metric=require_metric(fields.get("metricName"), "metricName"),
        slot=slot,
        count=count,
        collected_at=slot if collected is None else parse_instant(collected, "collectedAt"),
    )
