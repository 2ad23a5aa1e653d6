"""An OAuth2 token endpoint and an API that takes its tokens, in one server, for tests of who asks with them."""

from __future__ import annotations

import json
import threading
from base64 import b64decode
from urllib.parse import parse_qsl, unquote_plus

import fakes.fault_server as faults
from fakes.fault_server import Behaviour, Exchange, FaultServer


class TokenedApi:
    """Its behaviour serves `/token`, and answers every other path for whoever has a token that is not revoked."""

    def __init__(self, secret: str = "s3cret", expires_in: object = 3600, *, in_body: bool = False) -> None:
        self.secret = secret
        self.expires_in = expires_in
        self.in_body = in_body
        self.at_token: Behaviour | None = None  # what the endpoint does instead of giving a token
        self.given: list[str] = []
        self.good: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, exchange: Exchange) -> None:
        if exchange.request.target.startswith("/token"):
            (self.at_token or self._give)(exchange)
        elif exchange.request.headers.get("authorization", "").removeprefix("Bearer ") in self.good:
            faults.answer()(exchange)
        else:
            faults.raw(b'{"error": "who are you?"}', 401)(exchange)

    def server(self) -> FaultServer:
        return FaultServer(self)

    def revoke(self) -> None:
        """Take no token that was given so far."""
        self.good.clear()

    def _give(self, exchange: Exchange) -> None:
        form = dict(parse_qsl(exchange.request.body.decode()))
        if form.get("grant_type") != "client_credentials" or self._secret_of(exchange, form) != self.secret:
            faults.raw(b'{"error": "invalid_client", "error_description": "wrong secret"}', 401)(exchange)
            return
        with self._lock:
            token = f"token-{len(self.given)}-of-{form.get('scope', 'all')}"
            self.given.append(token)
            self.good.add(token)
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": self.expires_in}
        faults.raw(json.dumps(answer).encode())(exchange)

    def _secret_of(self, exchange: Exchange, form: dict[str, str]) -> str | None:
        if self.in_body:
            return form.get("client_secret")
        scheme, _, rest = exchange.request.headers.get("authorization", "").partition(" ")
        return unquote_plus(b64decode(rest).decode().partition(":")[2]) if scheme == "Basic" else None
