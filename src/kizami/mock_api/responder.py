"""What the mock API answers: a request's method, path and parameters become one response (pure).

The HTTP server and the Lambda handler only carry it. A further endpoint is a function and a line in ROUTES.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kizami.errors import InvalidInput
from kizami.mock_api.openapi import openapi_document
from kizami.slots import Window, parse_iso8601, shorten

METHODS = ("GET", "HEAD")
JSON_HEADERS = {"content-type": "application/json"}

Parameters = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class MockResponse:
    """Status, headers and body; a HEAD request gets the same, and whoever carries it leaves the body out."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def respond(method: str, path: str, parameters: Parameters) -> MockResponse:
    """The answer to one request; `parameters` are decoded, each name with all the values it was given."""
    route = ROUTES.get(path)
    if route is None:
        return refuse(404, f"there is no {shorten(path)} here; there are {', '.join(ROUTES)}")
    if method not in METHODS:
        allowed = ", ".join(METHODS)
        return refuse(405, f"{path} answers {allowed}, not {shorten(method)}", allow=allowed)
    try:
        return route(parameters)
    except InvalidInput as error:
        return refuse(400, str(error), error.field)


def answer(fields: Mapping[str, Any], status: int = 200, **headers: str) -> MockResponse:
    """A JSON object as a response."""
    return MockResponse(status, {**JSON_HEADERS, **headers}, json.dumps(fields).encode())


def refuse(status: int, error: str, parameter: str | None = None, **headers: str) -> MockResponse:
    """An error in the one form that all of them have: `error` in words, and the `parameter` that is at fault."""
    return answer({"error": error} | ({"parameter": parameter} if parameter else {}), status, **headers)


def one_value(parameters: Parameters, name: str) -> str:
    """The value of a parameter that must be given exactly once, else InvalidInput."""
    values = parameters.get(name, ())
    if not values:
        raise InvalidInput(name, "is missing; give it once")
    if len(values) > 1:
        raise InvalidInput(name, f"is given {len(values)} times; give it once")
    if not values[0]:
        raise InvalidInput(name, "is empty; give it a value")
    return values[0]


def _response_count(parameters: Parameters) -> MockResponse:
    """The seeds' formula: the UTC minute of `to` modulo 11 (Requirements 5.1–5.3)."""
    given = {name: one_value(parameters, name) for name in ("from", "to")}
    window = Window(_read_instant("from", given["from"]), _read_instant("to", given["to"]))
    return answer({**given, "count": window.end.minute % 11})


def _read_instant(name: str, text: str) -> datetime:
    try:
        return parse_iso8601(text, name)
    except InvalidInput as error:
        if " " not in text:
            raise
        raise InvalidInput(name, f"{error.problem}; a + in a query means a space, so write it as %2B") from None


def _health(parameters: Parameters) -> MockResponse:
    return answer({"status": "ok"})


def _openapi(parameters: Parameters) -> MockResponse:
    return MockResponse(200, JSON_HEADERS, openapi_document())


ROUTES: dict[str, Callable[[Parameters], MockResponse]] = {
    "/response_count": _response_count,
    "/health": _health,
    "/openapi.json": _openapi,
}
