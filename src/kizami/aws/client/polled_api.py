"""The call of a polled API: a planned request becomes one exchange, its secrets looked up at the last moment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from kizami import __version__
from kizami.aws.client import machine
from kizami.aws.client.http_client import HttpAnswer, HttpClient, HttpFailure, HttpRequest
from kizami.core.collector import TOO_LARGE, Request, Response
from kizami.core.errors import ApiPayloadError, ApiUnreachable
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target

NOBODY: Mapping[str, str] = MappingProxyType({})
HEADERS = {"Accept": "application/json", "User-Agent": f"kizami/{__version__}"}


@lru_cache(maxsize=1)
def api_client() -> HttpClient:
    """The client of the API, with its connections kept from one invocation to the next."""
    return HttpClient()


def fetch(http: HttpClient, request: Request, seconds_left: float, target: Target | None = None) -> Response:
    """The API's answer within the request's deadline and the time left, else ApiUnreachable."""
    seconds = min(request.timeout_seconds, seconds_left)
    if target is None or not (target.tls or target.proxy or next(target.references(), None)):
        return exchange(http, request, seconds)
    from kizami.aws.client.target_access import fetch_as  # the seeds' one target never needs it

    return fetch_as(http, request, seconds, target)


def exchange(http: HttpClient, request: Request, seconds: float, who: Mapping[str, str] = NOBODY) -> Response:
    """The answer to one request, sent with the headers that say who asks."""
    try:
        answer = http.exchange(written(request, seconds, who))
    except HttpFailure as failure:
        raise unreachable(failure) from None
    return read(answer, request)


def written(request: Request, seconds: float, who: Mapping[str, str] = NOBODY) -> HttpRequest:
    """The request as it is sent, with its secrets in it."""
    headers = {**HEADERS, **plain_headers(request.headers), **who}
    url, cap = _with_secrets(request), request.max_body_bytes
    return HttpRequest(request.method, url, headers, seconds, cap, request.body, gzip=True)


def unreachable(failure: HttpFailure) -> ApiUnreachable:
    """No answer, as the core names it."""
    return failure.cause or ApiUnreachable(str(failure))


def read(answer: HttpAnswer, request: Request) -> Response:
    """What came back, as far as a decision needs it."""
    if answer.status < 300 and answer.problem:
        raise ApiPayloadError(f"the body is {answer.problem}", TOO_LARGE if "larger" in answer.problem else "")
    wanted = {
        name: ", ".join(map(str.strip, found))
        for name in request.wanted_headers
        if (found := answer.headers.get_all(name))
    }
    retry_after, content_type = answer.headers.get("retry-after"), answer.headers.get("content-type", "")
    limit = None
    if answer.status in (403, 429):
        from kizami.core.answers.rate_limits import read_rate_limit  # only an answer that refuses needs it

        limit = read_rate_limit(answer.status, answer.headers.items(), machine.now())
    return Response(answer.status, answer.body, retry_after, wanted, content_type, limit)


def _with_secrets(request: Request) -> str:
    """The URL as it is sent, and shown nowhere."""
    if not request.secret_query:
        return request.url
    from kizami.core.requests.query import add_query, encode_query  # likewise only a target that has them needs it

    found = ((name, _resolve(reference)) for name, reference in request.secret_query)
    return add_query(request.url, encode_query(found))


def plain_headers(headers: Mapping[str, str | SecretReference]) -> dict[str, str]:
    """Where references become secrets, right before they are sent."""
    return {name: value if isinstance(value, str) else _resolve(value) for name, value in headers.items()}


def _resolve(reference: SecretReference) -> str:
    from kizami.aws.client.secrets import resolve  # the seeds' one target never needs it

    return resolve(reference)


def without_query(url: str) -> str:
    """A URL as a log may show it."""
    return url.partition("?")[0]
