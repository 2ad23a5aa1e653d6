"""How a target is told who asks: a bearer token, a user and password, or an OAuth2 client's token (pure)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kizami.core.errors import InvalidInput
from kizami.core.requests.urls import require_base_url
from kizami.core.targets.references import SecretReference, parse_reference, read_reference
from kizami.core.targets.unknown_names import shown_key, unknown_setting

_KINDS = '{ bearer = "env:TOKEN" }, { basic = ["user", "env:PASSWORD"] } or { oauth2 = { … } }'
_OAUTH2_KEYS = ("token_url", "client_id", "client_secret", "scope")
_NO_PASSWORDS = ("", "x", "X")  # what APIs ask for beside a key that stands in the user's place


@dataclass(frozen=True, slots=True)
class BearerAuth:
    """A token that is sent as it is kept."""

    token: SecretReference


@dataclass(frozen=True, slots=True)
class BasicAuth:
    """A user and a password; one of the two is a reference."""

    user: str | SecretReference
    password: str | SecretReference


@dataclass(frozen=True, slots=True)
class OAuth2Auth:
    """A client that gets a token for itself (RFC 6749, client credentials) and sends that."""

    token_url: str
    client_id: str | SecretReference
    client_secret: SecretReference
    scope: str = ""


Auth = BearerAuth | BasicAuth | OAuth2Auth


def parse_auth(value: object) -> Auth:
    """What the table says; no refusal quotes a value, which may be a secret."""
    for kind in value if isinstance(value, dict) else ():
        if kind not in _PARSERS:
            raise InvalidInput(f"auth.{shown_key(kind)}", unknown_setting(kind, _PARSERS))
    if not isinstance(value, dict) or len(value) != 1:
        raise InvalidInput("auth", f"must be one of {_KINDS}")
    ((kind, stated),) = value.items()
    return _PARSERS[kind](stated)


def _parse_bearer(value: object) -> Auth:
    return BearerAuth(parse_reference(value, "auth.bearer"))


def _parse_basic(value: object) -> Auth:
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(part, str) for part in value):
        raise InvalidInput("auth.basic", 'must be a list like ["user", "env:PASSWORD"]')
    user = _text_or_reference(value[0], "auth.basic")
    if isinstance(user, str) and ":" in user:
        raise InvalidInput("auth.basic", "must not have a : in the user's name")
    if isinstance(user, SecretReference) and value[1] in _NO_PASSWORDS:
        return BasicAuth(user, value[1])
    return BasicAuth(user, parse_reference(value[1], "auth.basic"))


def _parse_oauth2(value: object) -> Auth:
    place = "auth.oauth2"
    if not isinstance(value, dict):
        raise InvalidInput(place, "must be a table with token_url, client_id and client_secret")
    for name in value:
        if name not in _OAUTH2_KEYS:
            raise InvalidInput(f"{place}.{shown_key(name)}", unknown_setting(name, _OAUTH2_KEYS))
    for name in ("token_url", "client_id", "client_secret"):
        if name not in value:
            raise InvalidInput(f"{place}.{name}", "is required")
    require_base_url(value["token_url"], f"{place}.token_url")
    return OAuth2Auth(
        token_url=value["token_url"],
        client_id=_text_or_reference(value["client_id"], f"{place}.client_id"),
        client_secret=parse_reference(value["client_secret"], f"{place}.client_secret"),
        scope=_line(value.get("scope", ""), f"{place}.scope"),
    )


_PARSERS: dict[str, Callable[[object], Auth]] = {
    "bearer": _parse_bearer,
    "basic": _parse_basic,
    "oauth2": _parse_oauth2,
}


def _text_or_reference(value: object, place: str) -> str | SecretReference:
    if isinstance(value, str) and read_reference(value):
        return parse_reference(value, place)
    text = _line(value, place)
    if not text:
        raise InvalidInput(place, "must not be empty")
    return text


def _line(value: object, place: str) -> str:
    if not isinstance(value, str) or not value.isascii() or not (value.isprintable()):
        raise InvalidInput(place, "must be one line of ASCII text")
    return value


def auth_references(auth: Auth | None) -> dict[str, SecretReference]:
    """The references in it, by their place in the file."""
    return {place: value for place, value in _parts(auth).items() if isinstance(value, SecretReference)}


def _parts(auth: Auth | None) -> dict[str, str | SecretReference]:
    match auth:
        case BearerAuth(token):
            return {"auth.bearer": token}
        case BasicAuth(user, password):
            return {"auth.basic (user)": user, "auth.basic": password}
        case OAuth2Auth(_, client_id, client_secret):
            return {"auth.oauth2.client_id": client_id, "auth.oauth2.client_secret": client_secret}
    return {}


def auth_fields(auth: Auth | None) -> dict[str, Any] | None:
    """As the file writes it."""
    match auth:
        case BearerAuth(token):
            return {"bearer": str(token)}
        case BasicAuth(user, password):
            return {"basic": [str(user), str(password)]}
        case OAuth2Auth(token_url, client_id, client_secret, scope):
            client = {"token_url": token_url, "client_id": str(client_id), "client_secret": str(client_secret)}
            return {"oauth2": client | ({"scope": scope} if scope else {})}
    return None


LookUpSecret = Callable[[SecretReference], str]


def authorization(auth: BearerAuth | BasicAuth, look_up: LookUpSecret) -> str:
    """The value of the header `Authorization`."""
    if isinstance(auth, BearerAuth):
        return bearer(look_up(auth.token))
    return basic(plain(auth.user, look_up), plain(auth.password, look_up))


def plain(value: str | SecretReference, look_up: LookUpSecret) -> str:
    """A text as it is, and what a reference leads to."""
    return value if isinstance(value, str) else look_up(value)


def bearer(token: str) -> str:
    """The scheme and the token; who keeps both together need not change that."""
    return token if token[:7].lower() == "bearer " else f"Bearer {token}"


def basic(user: str, password: str) -> str:
    """The scheme, and the two in base64."""
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()
