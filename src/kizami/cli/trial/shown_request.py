"""What is shown of a request: where it went and with which headers, secrets as ••••."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kizami.core.answers.excerpts import HIDDEN_MARK, hidden
from kizami.core.collector import Request
from kizami.core.requests.headers import is_secret_header
from kizami.core.requests.query import add_query, encode
from kizami.core.targets.references import SecretReference
from kizami.local.http.traced_request import HeaderPair

_SCHEME = re.compile(r"(?i)(bearer|basic|digest|token|negotiate|bot) ")


def shown_url(request: Request) -> str:
    """The URL; the secrets among its parameters are not in it before it leaves."""
    secrets = "&".join(f"{encode(name)}={HIDDEN_MARK}" for name, _ in request.secret_query)
    return add_query(hidden(request.url), secrets)


def shown_headers(request: Request, headers: Iterable[HeaderPair]) -> list[HeaderPair]:
    """Headers that were sent or received; also a secret that is too short to be looked for is hidden."""
    secret = {name.lower() for name, value in request.headers.items() if isinstance(value, SecretReference)}
    return [(hidden(name), _shown_value(name, value, secret)) for name, value in headers]


def _shown_value(name: str, value: str, secret: set[str]) -> str:
    if name.lower() not in secret and not is_secret_header(name):
        return hidden(value)
    scheme = _SCHEME.match(value)
    return f"{scheme[0] if scheme else ''}{HIDDEN_MARK}"
