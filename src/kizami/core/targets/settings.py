"""What a `[[targets]]` table of kizami.toml may say, and how it becomes a Target (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

from kizami.core.answers.answer import (
    Answer,
    parse_number,
    parse_refuse,
    parse_require,
    parse_statuses,
    parse_values,
)
from kizami.core.answers.values import Expression, parse_expression, parse_place
from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.core.slots import DEFAULT_INTERVAL_SECONDS, parse_duration, require_interval, shorten
from kizami.core.targets.references import SecretReference, read_reference
from kizami.core.targets.target import Target, default_catch_up_seconds
from kizami.core.targets.unknown_names import refuse_unknown, shown_key

if TYPE_CHECKING:
    from kizami.core.access.auth import Auth
    from kizami.core.access.tls import Tls

_NO_TIME = (
    "is required, because url has a path or a query and no time: put {from} and {to} into url, path or query; "
    'or set backfill = false if the API only tells of now, or path = "/response_count?from={from}&to={to}"'
)
_YEARS = re.compile(r"(\d{1,3})y", re.ASCII)
_SIZE = re.compile(r"(\d{1,9})(KiB|MiB)", re.ASCII)
_BYTES = {"KiB": 1024, "MiB": 1024 * 1024}


def parse_target(entry: Mapping[str, Any], place: str) -> Target:
    """The target that the table states; every error names its place in the file."""
    refuse_unknown(entry, tuple(TARGET_SETTINGS), place)
    values: dict[str, Any] = {}
    answer: dict[str, Any] = {}
    try:
        for setting, value in entry.items():
            name, parse = TARGET_SETTINGS[setting]
            (answer if name in _ANSWER_FIELDS else values)[name] = parse(value)
        for required in ("name", "url"):
            if required not in values:
                raise InvalidInput(required, "is required")
        interval = require_interval(values.get("interval_seconds", DEFAULT_INTERVAL_SECONDS))
        lag = values.setdefault("lag_seconds", interval)
        values.setdefault("catch_up_seconds", default_catch_up_seconds(lag))
        _complete_request(values)
        return Target(**values, answer=_answer(answer))
    except InvalidInput as error:
        raise ConfigurationError(f"{place}.{error.field}", error.problem) from None


_USUAL_ANSWER = Answer()  # one for all targets that say nothing of theirs, of which there may be thousands


def _answer(values: dict[str, Any]) -> Answer:
    if values.get("format") == "text":
        values.setdefault("count", Expression())
    if "values" in values and "count" in values:
        raise InvalidInput("values", "must not stand beside count: each of them says where a value stands")
    return Answer(**values) if values else _USUAL_ANSWER


def _complete_request(values: dict[str, Any]) -> None:
    """A body is posted; and a table that says in another way what is asked has no path but its own."""
    if "body" in values:
        values.setdefault("method", "POST")
    names_no_window = not values.get("backfill", True)
    if "query" in values or "body" in values or "{" in values["url"] or names_no_window:
        values.setdefault("path", "")
    if "path" not in values and _is_whole(values["url"]):
        raise InvalidInput("path", _NO_TIME)


def _is_whole(url: str) -> bool:
    """Whether it looks like more than a base URL: then a default path behind it is hardly what was meant."""
    rest = url.partition("://")[2].partition("/")[2]
    return "?" in url or "#" in url or bool(rest.strip("/"))


def _text(setting: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if not isinstance(value, str):
            raise InvalidInput(setting, "must be a string")
        return value

    return parse


def _flag(setting: str) -> Callable[[object], bool]:
    def parse(value: object) -> bool:
        if not isinstance(value, bool):
            raise InvalidInput(setting, f"{shorten(value)} must be true or false")
        return value

    return parse


def _seconds(setting: str) -> Callable[[object], int]:
    return lambda value: parse_duration(value, setting)


def parse_age(setting: str, value: object) -> int:
    """Whole seconds from what `parse_duration` reads, or from years of 365 days: `"5y"`."""
    match = _YEARS.fullmatch(value) if isinstance(value, str) else None
    return int(match[1]) * 365 * 86_400 if match else parse_duration(value, setting)


def _timeout(value: object) -> float:
    if isinstance(value, float):
        return value
    return float(parse_duration(value, "timeout"))


def _size(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise InvalidInput("max_body", f"{shorten(value)} is not a size like 1MiB or 512KiB")
    return int(match[1]) * _BYTES[match[2]]


# Imported by the first file that has them: hardly any Lambda does, and each one's start is measured.
def _auth(value: object) -> Auth:
    from kizami.core.access.auth import parse_auth

    return parse_auth(value)


def _tls(value: object) -> Tls:
    from kizami.core.access.tls import parse_tls

    return parse_tls(value)


def _proxy(value: object) -> str | SecretReference:
    from kizami.core.access.proxy import parse_proxy

    return parse_proxy(value)


def parse_headers(value: object) -> dict[str, str | SecretReference]:
    """Header names to literal values or secret references, as the file writes them."""
    if not isinstance(value, dict):
        raise InvalidInput("headers", 'must be a table like { Authorization = "env:API_TOKEN" }')
    headers: dict[str, str | SecretReference] = {}
    for name, text in value.items():
        if not isinstance(text, str):
            raise InvalidInput(f"headers.{shown_key(name)}", "must be a string")
        headers[name] = read_reference(text) or text
    return headers


def _query(value: object) -> Any:
    from kizami.core.requests.query import parse_query  # hardly any file needs it, and a Lambda's start does

    return parse_query(value)


# What a [[targets]] table may say, the field it sets, and how it is read.
TARGET_SETTINGS: dict[str, tuple[str, Callable[[object], Any]]] = {
    "name": ("name", _text("name")),
    "url": ("url", _text("url")),
    "path": ("path", _text("path")),
    "interval": ("interval_seconds", _seconds("interval")),
    "lag": ("lag_seconds", _seconds("lag")),
    "timeout": ("timeout_seconds", _timeout),
    "count": ("count", parse_expression),
    "echo": ("echo", _flag("echo")),
    "headers": ("headers", parse_headers),
    "enabled": ("enabled", _flag("enabled")),
    "catch_up": ("catch_up_seconds", _seconds("catch_up")),
    "keep": ("keep_seconds", partial(parse_age, "keep")),
    "keep_totals": ("keep_totals_seconds", partial(parse_age, "keep_totals")),
    "max_body": ("max_body_bytes", _size),
    "backfill": ("backfill", _flag("backfill")),
    "query": ("query", _query),
    "body": ("body", _text("body")),
    "method": ("method", _text("method")),
    "status": ("status", parse_statuses),
    "require": ("require", parse_require),
    "format": ("format", _text("format")),
    "min": ("minimum", partial(parse_number, "min")),
    "max": ("maximum", partial(parse_number, "max")),
    "zero_if_missing": ("zero_if_missing", partial(parse_place, place="zero_if_missing")),
    "refuse": ("refuse", parse_refuse),
    "decimals": ("decimals", lambda value: value),
    "auth": ("auth", _auth),
    "tls": ("tls", _tls),
    "proxy": ("proxy", _proxy),
    "values": ("values", parse_values),
}
_ANSWER_FIELDS = {entry.name for entry in fields(Answer) if entry.init} - {"integers_only"}
_TARGET_FIELDS = {entry.name for entry in fields(Target) if entry.init} - {"answer"}
assert {name for name, _ in TARGET_SETTINGS.values()} == _TARGET_FIELDS | _ANSWER_FIELDS
