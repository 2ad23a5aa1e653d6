"""What a target's requests have in common, the window left open: the URL, the method, the body (pure)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kizami.core.errors import InvalidInput
from kizami.core.requests.query import (
    SecretQuery,
    add_query,
    encode,
    literal_query,
    query_place,
    require_query,
    secret_query,
)
from kizami.core.requests.templates import Template, WindowTime, read_text, read_url
from kizami.core.requests.urls import join_url
from kizami.core.slots import Window, shift
from kizami.core.targets.references import SecretReference

if TYPE_CHECKING:
    from kizami.core.targets.target import Target

METHODS = ("GET", "HEAD", "POST", "PUT", "QUERY")
MAX_BODY_BYTES = 64 * 1024

_MARK = re.compile(r"\{(\d+)\}")
_FORM = re.compile(r"[^\s=&]+=[^\s&]*(?:&[^\s=&]+=[^\s&]*)*")
_ANY_START = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
_ANY_WINDOW = Window(_ANY_START, shift(_ANY_START, 5))


@dataclass(frozen=True, slots=True)
class RequestTemplate:
    """Requests that say more than where: times in any form, parameters, a body, a method."""

    url: Template
    method: str
    headers: Mapping[str, str | SecretReference] = field(hash=False)
    body: Template | None
    secret_query: SecretQuery

    @property
    def has_time(self) -> bool:
        return self.url.has_time or (self.body is not None and self.body.has_time)


def compile_request(target: Target) -> RequestTemplate:
    """The target's requests, else InvalidInput that names the setting; its URL and path have been checked."""
    require_query(target.query)
    _require_method(target)
    text = "" if target.body is None and target.method in ("POST", "PUT") else target.body
    body = None if text is None else _read_body(text)
    headers = dict(target.headers)
    if text and body and "content-type" not in map(str.lower, headers):
        headers["Content-Type"] = content_type(body.fill(_ANY_WINDOW))
    return RequestTemplate(_url(target), target.method, headers, body, secret_query(target.query))


def content_type(body: str) -> str:
    """JSON if it is JSON, a form if it looks like one, else text."""
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return "application/x-www-form-urlencoded" if _FORM.fullmatch(body) else "text/plain; charset=utf-8"
    return "application/json"


def _read_body(text: str) -> Template:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidInput("body", "has half a character (a lone surrogate) in it") from None
    if size > MAX_BODY_BYTES:
        raise InvalidInput("body", f"must be at most {MAX_BODY_BYTES} bytes long")
    return read_text(text, "body")


def _require_method(target: Target) -> None:
    if target.method not in METHODS:
        raise InvalidInput("method", f"must be one of {', '.join(METHODS)}, in capital letters")
    if target.method == "HEAD" and target.body is not None:
        raise InvalidInput("method", "HEAD cannot have a body; use POST")
    if target.method == "HEAD" and target.answer.needs_body:
        raise InvalidInput(
            "method", "HEAD gets no body: count and all other places must be header:Name, echo not true"
        )


def _url(target: Target) -> Template:
    """URL, path and parameters joined, with a number in place of each time: nothing else in them has braces."""
    times: list[WindowTime] = []
    base = _marked(read_url(target.url, "url"), times)
    joined = join_url(urlsplit(base), _marked(read_url(target.path, "path"), times))
    parameters = "&".join(_parameter(name, value, times) for name, value in literal_query(target.query))
    pieces = _MARK.split(add_query(joined, parameters))
    parts = [times[int(piece)] if index % 2 else piece for index, piece in enumerate(pieces)]
    return Template(tuple(part for part in parts if part), in_url=True)


def _parameter(name: str, value: str, times: list[WindowTime]) -> str:
    template = read_text(value, query_place(name))
    try:
        literal = Template(tuple(encode(part) if isinstance(part, str) else part for part in template.parts))
        return f"{encode(name)}={_marked(literal, times)}"
    except UnicodeEncodeError:
        raise InvalidInput(query_place(name), "has half a character (a lone surrogate) in it") from None


def _marked(template: Template, times: list[WindowTime]) -> str:
    pieces = []
    for part in template.parts:
        if isinstance(part, WindowTime):
            times.append(part)
            part = f"{{{len(times) - 1}}}"
        pieces.append(part)
    return "".join(pieces)
