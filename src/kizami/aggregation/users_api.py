"""The question to the users API and its answer: a signed request, and the users it lists (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from kizami.aggregation.signing import MAX_TIMESTAMP, require_user_number
from kizami.core.collector import Request, Response, url_template
from kizami.core.errors import ApiPayloadError, ApiStatusError, InvalidInput
from kizami.core.messages import load_json

API_TIMEOUT_SECONDS = 30.0
MAX_BODY_BYTES = 16 * 1024 * 1024  # 100,000 users are about 6 MB


@dataclass(frozen=True, slots=True)
class User:
    """A user of the company, and when it was last detected (epoch seconds; None is never)."""

    user_number: str
    event_timestamp: int | None


@dataclass(frozen=True, slots=True)
class UsersRequest:
    """What is asked, as it may be logged: without the signature, which `signed_request` adds."""

    base_url: str
    company_id: str
    timestamp: int

    def to_log(self) -> Mapping[str, object]:
        """The request as a log line shows it."""
        url = url_template(self.base_url, "/users")
        return {"url": url, "company_id": self.company_id, "timestamp": self.timestamp}


def signed_request(asked: UsersRequest, signature: str, timeout_seconds: float) -> Request:
    """The GET; its URL holds the signature and must not be logged."""
    query = {"company_id": asked.company_id, "timestamp": asked.timestamp, "signature": signature}
    url = url_template(asked.base_url, "/users")
    separator = "&" if "?" in url else "?"
    return Request(url + separator + urlencode(query), {}, timeout_seconds, MAX_BODY_BYTES)


def read_users(response: Response) -> list[Any]:
    """The entries of the answer's `users`, not yet looked at one by one, else the ApiError that says why not."""
    if response.status != 200:
        raise ApiStatusError(response.status)
    try:
        answer = load_json(response.body)
    except ValueError as error:
        raise ApiPayloadError(f"the body is {error}") from None
    users = answer.get("users") if isinstance(answer, dict) else None
    if not isinstance(users, list):
        raise ApiPayloadError('the body is not a JSON object with a list "users"')
    return users


def read_user(entry: Any) -> User:
    """The user that an entry describes, else InvalidInput naming the field; unknown fields are passed over."""
    if not isinstance(entry, dict):
        raise InvalidInput("user", "is not a JSON object")
    if "event_timestamp" not in entry:
        raise InvalidInput("event_timestamp", "is missing")
    instant = entry["event_timestamp"]
    if instant is not None and (type(instant) is not int or not 0 <= instant <= MAX_TIMESTAMP):
        raise InvalidInput("event_timestamp", "is neither epoch seconds nor null")
    return User(require_user_number(entry.get("user_number")), instant)
