"""The proxy on the way to a target (pure)."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from kizami.core.access.auth import basic
from kizami.core.errors import InvalidInput
from kizami.core.requests.urls import require_base_url
from kizami.core.targets.references import SecretReference, parse_reference, read_reference

_FORM = "must be like http://proxy.example.com:3128"


class Proxy(NamedTuple):
    """An HTTP proxy, and who we are there."""

    host: str
    port: int
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"Proxy({self.host}:{self.port})"

    @property
    def authorization(self) -> str | None:
        """The value of `Proxy-Authorization`."""
        return basic(self.user, self.password) if self.user or self.password else None


def parse_proxy(value: object) -> str | SecretReference:
    """What the file says: a URL without a password, or a reference to one that may have it."""
    if isinstance(value, str) and read_reference(value):
        return parse_reference(value, "proxy")
    if not isinstance(value, str) or "@" in value:
        raise InvalidInput("proxy", f"{_FORM}; one with a password is kept elsewhere: env:PROXY_URL")
    read_proxy(value)
    return value


def read_proxy(url: str) -> Proxy:
    """The proxy that the URL names; no refusal quotes it."""
    credentials, at, place = url.removeprefix("http://").rpartition("@")
    parts = require_base_url(f"http://{place}", "proxy")
    if not url.startswith("http://") or parts.path not in ("", "/") or parts.query or not parts.port:
        raise InvalidInput("proxy", f"{_FORM}, http:// and the port included")
    user, _, password = credentials.partition(":") if at else ("", "", "")
    return Proxy(urlsplit(f"http://{place}").hostname or "", parts.port, unquote(user), unquote(password))
