"""What the mock API answers: a request's method, path and parameters become one response (pure).

The HTTP server and the Lambda handler only carry it. A further endpoint is a function and a line in ROUTES.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kizami.aggregation.signing import ApiKey, require_company_id
from kizami.core.epoch import EPOCH
from kizami.core.errors import InvalidInput
from kizami.core.slots import Window, parse_iso8601, shorten
from kizami.mock_api.openapi import openapi_document
from kizami.mock_api.users import MOCK_USERS_KEY, read_timestamp, refusal, users_of

METHODS = ("GET", "HEAD")
JSON_HEADERS = {"content-type": "application/json"}

Parameters = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What `/users` goes by beside its parameters: the time, and the key that its callers sign with."""

    now: datetime = EPOCH
    users_key: ApiKey = MOCK_USERS_KEY


NOWHERE = Surroundings()


@dataclass(frozen=True, slots=True)
class MockResponse:
    """Status, headers and body; a HEAD request gets the same, and whoever carries it leaves the body out."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def respond(method: str, path: str, parameters: Parameters, surroundings: Surroundings = NOWHERE) -> MockResponse:
    """The answer to one request; `parameters` are decoded, each name with all the values it was given."""
    route = ROUTES.get(path)
    if route is None:
        return refuse(404, f"there is no {shorten(path)} here; there are {', '.join(ROUTES)}")
    if method not in METHODS:
        allowed = ", ".join(METHODS)
        return refuse(405, f"{path} answers {allowed}, not {shorten(method)}", allow=allowed)
    try:
        return route(parameters, surroundings)
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


def _response_count(parameters: Parameters, _: Surroundings) -> MockResponse:
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


def _users(parameters: Parameters, surroundings: Surroundings) -> MockResponse:
    """The users of a company, for who can sign with its key; the signature is compared in constant time."""
    company_id = require_company_id(one_value(parameters, "company_id"), "company_id")
    timestamp = read_timestamp(one_value(parameters, "timestamp"))
    signature = one_value(parameters, "signature")
    if problem := refusal(surroundings.users_key, timestamp, company_id, signature, surroundings.now):
        parameter = problem.partition(":")[0]
        return refuse(401, problem, parameter, **{"www-authenticate": "Signature"})
    return answer({"users": users_of(company_id, timestamp)})


def _health(parameters: Parameters, _: Surroundings) -> MockResponse:
    return answer({"status": "ok"})


def _openapi(parameters: Parameters, _: Surroundings) -> MockResponse:
    return MockResponse(200, JSON_HEADERS, openapi_document())


ROUTES: dict[str, Callable[[Parameters, Surroundings], MockResponse]] = {
    "/response_count": _response_count,
    "/users": _users,
    "/health": _health,
    "/openapi.json": _openapi,
}
