"""An OAuth2 client's token: how it is asked for, what the answer says, and when to ask again (pure).

none, or too old ──▶ begin ──▶ accept ──▶ in use until it is nearly over, or the API refuses it ──▶ begin
                       ▲          │
                       └── later ◀┴─ fail: whoever needs it meanwhile gets the failure at once
"""

from __future__ import annotations

import json
from math import inf
from typing import NamedTuple
from urllib.parse import quote_plus, urlencode

from kizami.core.access.auth import LookUpSecret, OAuth2Auth, basic, plain
from kizami.core.errors import ApiError, ApiPayloadError, TokenRefused

MAX_TOKEN_ANSWER_BYTES = 64 * 1024
TOKEN_TIMEOUT_SECONDS = 10.0
YOUNG_SECONDS = 30.0  # a token that is refused though it is younger is not to blame: no other is asked for
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 5.0, 60.0  # before a failed request is made again
_MARGIN_SECONDS, _MARGIN_SHARE = 60.0, 0.2  # a token is renewed so long before its end, or in its last fifth
_REFUSALS = (400, 401, 403)
_WORDS = 120


class TokenQuestion(NamedTuple):
    """What is posted to a token endpoint."""

    headers: dict[str, str]
    body: bytes


class Token(NamedTuple):
    """A token, and how long it is good for (None: nobody said)."""

    value: str
    seconds: float | None

    def __repr__(self) -> str:
        return "Token(…)"


def ask_for_token(auth: OAuth2Auth, look_up: LookUpSecret, *, in_body: bool) -> TokenQuestion:
    """The request, the client's secret in the header (RFC 6749, 2.3.1) or, where that is refused, in the body."""
    client_id, client_secret = plain(auth.client_id, look_up), look_up(auth.client_secret)
    form = {"grant_type": "client_credentials"} | ({"scope": auth.scope} if auth.scope else {})
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    if in_body:
        form |= {"client_id": client_id, "client_secret": client_secret}
    else:
        headers["Authorization"] = basic(quote_plus(client_id), quote_plus(client_secret))
    return TokenQuestion(headers, urlencode(form).encode())


def read_token(auth: OAuth2Auth, status: int, body: bytes) -> Token:
    """The token that the endpoint gave, else the ApiError that says why there is none."""
    answer = _read_object(body)
    if status not in (200, 201):
        raise TokenRefused(status, auth.token_url, _reason(answer))
    value = answer.get("access_token")
    if not isinstance(value, str) or not value or not value.isascii() or not value.isprintable():
        raise ApiPayloadError(f"no token from {auth.token_url}: its answer has no access_token")
    return Token(value, _seconds(answer.get("expires_in")))


def _read_object(body: bytes) -> dict[str, object]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _reason(answer: dict[str, object]) -> str:
    """The endpoint's own words, in one short line."""
    words = [text for name in ("error", "error_description") if isinstance(text := answer.get(name), str)]
    line = " ".join(": ".join(words).split())
    return "".join(character for character in line if character.isprintable())[:_WORDS]


def _seconds(stated: object) -> float | None:
    """Some endpoints write the number as a string."""
    try:
        seconds = float(stated) if isinstance(stated, int | float | str) else 0.0
    except (ValueError, OverflowError):
        return None
    return seconds if 0 < seconds < inf else None


class KeptToken:
    """One client's token, its renewal and its failures; `now` is a monotonic time.

    Whoever uses it asks for a new one if `is_due`, between `begin` and `accept` or `fail`.
    """

    def __init__(self) -> None:
        self.failure: ApiError | None = None
        self.in_body = False  # how the endpoint wants the client's secret
        self.is_asked_for = False
        self._knows_way = False
        self._value: str | None = None
        self._got_at = 0.0
        self._renew_at = -inf
        self._over_at = -inf
        self._next_at = -inf
        self._wait_seconds = FIRST_WAIT_SECONDS

    def value(self, now: float) -> str | None:
        """The token, while it is good."""
        return self._value if now < self._over_at else None

    def is_due(self, now: float) -> bool:
        """Whether another one is to be asked for now."""
        return not self.is_asked_for and now >= self._renew_at and now >= self._next_at

    def begin(self) -> None:
        """It is asked for."""
        self.is_asked_for = True

    def accept(self, token: Token, now: float) -> str | None:
        """It is here; the one before is no longer used and given back."""
        before, self._value = self._value, token.value
        seconds = inf if token.seconds is None else token.seconds
        self._got_at, self._over_at = now, now + seconds
        self._renew_at = self._over_at - min(_MARGIN_SECONDS, seconds * _MARGIN_SHARE)
        self.failure, self._wait_seconds = None, FIRST_WAIT_SECONDS
        self.is_asked_for, self._knows_way = False, True
        return before

    def fail(self, failure: ApiError, now: float) -> bool:
        """It did not come; whether the endpoint is to be asked at once in the other way of naming the client."""
        self.is_asked_for = False
        if isinstance(failure, TokenRefused) and failure.status in _REFUSALS and not self._knows_way:
            self.in_body = not self.in_body
            if self.in_body:
                return True
        self.failure = failure
        self._next_at = now + self._wait_seconds
        self._wait_seconds = min(self._wait_seconds * 2, LONGEST_WAIT_SECONDS)
        return False

    def try_again(self) -> None:
        """What was wrong may be right now: the client's secret is another one."""
        self._next_at, self._wait_seconds = -inf, FIRST_WAIT_SECONDS

    def refuse(self, value: str, now: float) -> bool:
        """The API did not take `value`; whether another token is there, or is to be had."""
        if value != self._value:
            return True
        if now - self._got_at < YOUNG_SECONDS or now < self._next_at:
            return False
        self._over_at = self._renew_at = -inf
        return True
