"""A request to who is told of incidents: the URL that a rule or the heartbeat names, and whether it was taken."""

from __future__ import annotations

from kizami.alerts.rules.settings import require_web_url
from kizami.aws.client.http_client import HttpClient, HttpFailure, HttpRequest
from kizami.aws.client.secrets import resolve
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


def require_taken(request: HttpRequest, what: str) -> None:
    """Send it, on a connection of its own; ApiError without the URL unless it is answered with success."""
    http = HttpClient()
    try:
        answer = http.exchange(request)
    except HttpFailure as failure:
        raise ApiUnreachable(f"{what}: {failure}") from None
    finally:
        http.close()
    if not 200 <= answer.status < 300:
        raise ApiStatusError(answer.status)
