"""The call of a polled API: a planned request becomes one GET, its secrets looked up at the last moment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from kizami import __version__
from kizami.aws.client.http_client import HttpClient, HttpFailure, HttpRequest
from kizami.core.collector import Request, Response
from kizami.core.errors import ApiPayloadError, ApiUnreachable
from kizami.core.targets.target import SecretReference

HEADERS = {"Accept": "application/json", "User-Agent": f"kizami/{__version__}"}


@lru_cache(maxsize=1)
def api_client() -> HttpClient:
    """The client of the API, with its connections kept from one invocation to the next."""
    return HttpClient()


def fetch(http: HttpClient, request: Request, seconds_left: float) -> Response:
    """The API's answer within the request's deadline and the time left, else ApiUnreachable."""
    seconds = min(request.timeout_seconds, seconds_left)
    headers = {**HEADERS, **plain_headers(request.headers)}
    try:
        answer = http.exchange(HttpRequest("GET", request.url, headers, seconds, request.max_body_bytes))
    except HttpFailure as failure:
        raise ApiUnreachable(f"GET {without_query(request.url)}: {failure}") from None
    if answer.status == 200 and answer.problem:
        raise ApiPayloadError(f"the body is {answer.problem}")
    return Response(answer.status, answer.body, answer.headers.get("retry-after"))


def plain_headers(headers: Mapping[str, str | SecretReference]) -> dict[str, str]:
    """Where references become secrets, right before they are sent."""
    return {name: value if isinstance(value, str) else _resolve(value) for name, value in headers.items()}


def _resolve(reference: SecretReference) -> str:
    from kizami.aws.client.secrets import resolve  # the seeds' one target never needs it

    return resolve(reference)


def without_query(url: str) -> str:
    """A URL as a log may show it."""
    return url.partition("?")[0]
