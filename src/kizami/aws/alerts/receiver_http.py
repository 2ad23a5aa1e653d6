"""A request to who is told of incidents: the URL that a rule or the heartbeat names, and whether it was taken."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import unquote, urlsplit, urlunsplit

from kizami.alerts.rules.settings import require_web_url
from kizami.aws.client.http_client import HttpClient, HttpFailure, HttpRequest
from kizami.aws.client.secrets import resolve
from kizami.core.access.auth import basic
from kizami.core.errors import ApiStatusError, ApiUnreachable, ConfigurationError, InvalidInput
from kizami.core.targets.references import SecretReference

MAX_ANSWER_BYTES = 64 * 1024


def web_url(to: str | SecretReference, place: str, hint: str = "") -> str:
    """The URL itself, looked up if it is a secret; `hint` goes on where ConfigurationError says what is wrong."""
    url = resolve(to) if isinstance(to, SecretReference) else to
    try:
        require_web_url(url, place)
    except InvalidInput as error:
        raise ConfigurationError(place, f"{error.problem}{hint}") from None
    return url


def _with_credentials(request: HttpRequest) -> HttpRequest:
    """The user and password of the URL as a header, which is how they are sent."""
    parts = urlsplit(request.url)
    credentials, at, place = parts.netloc.rpartition("@")
    if not at:
        return request
    user, _, password = credentials.partition(":")
    headers = {**request.headers, "Authorization": basic(unquote(user), unquote(password))}
    return replace(request, url=urlunsplit(parts._replace(netloc=place)), headers=headers)


def require_taken(request: HttpRequest, what: str) -> None:
    """Send it, on a connection of its own; ApiError without the URL unless it is answered with success."""
    http, request = HttpClient(), _with_credentials(request)
    try:
        answer = http.exchange(request)
    except HttpFailure as failure:
        raise ApiUnreachable(f"{what}: {failure}") from None
    finally:
        http.close()
    if not 200 <= answer.status < 300:
        raise ApiStatusError(answer.status)
