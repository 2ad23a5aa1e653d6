"""Targets that want to know who asks, or are reached in a way of their own: tokens, certificates, proxies.

polled_api ─▶ which client (certificates, proxy), which headers ─▶ one exchange
    ─▶ 401, and other secrets are to be had? ─▶ once more, in the time that is left
"""

from __future__ import annotations

import os
import ssl
from functools import lru_cache
from tempfile import NamedTemporaryFile

from kizami.aws.client import machine
from kizami.aws.client.http_client import HttpClient, HttpFailure, HttpRequest, verifying_context
from kizami.aws.client.polled_api import exchange
from kizami.aws.client.secrets import renew, resolve, resolve_text
from kizami.core.access.auth import OAuth2Auth, authorization, bearer
from kizami.core.access.proxy import Proxy, read_proxy
from kizami.core.access.tls import Pem, Tls
from kizami.core.access.tokens import (
    MAX_TOKEN_ANSWER_BYTES,
    TOKEN_TIMEOUT_SECONDS,
    KeptToken,
    ask_for_token,
    read_token,
)
from kizami.core.collector import Request, Response
from kizami.core.errors import ApiError, ApiUnreachable, ConfigurationError, InvalidInput, TokenRefused
from kizami.core.redaction import KNOWN
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target

UNAUTHORIZED = 401


def fetch_as(http: HttpClient, request: Request, seconds: float, target: Target) -> Response:
    """The target's answer within the seconds, once more with other secrets if it refuses those that were kept."""
    deadline = machine.monotonic() + seconds
    client = _client_of(target) or http
    headers = authorize(target, client, deadline)
    response = exchange(client, request, deadline - machine.monotonic(), headers)
    if response.status == UNAUTHORIZED and has_other_secrets(target, headers, client):
        headers = authorize(target, client, deadline)
        response = exchange(client, request, deadline - machine.monotonic(), headers)
    return response


def authorize(target: Target, client: HttpClient, deadline: float) -> dict[str, str]:
    """The header that says who asks, where the target's auth wants one."""
    if target.auth is None:
        return {}
    if isinstance(target.auth, OAuth2Auth):
        return {"Authorization": bearer(_token_client(target.auth, client).token(deadline))}
    return {"Authorization": authorization(target.auth, resolve)}


def has_other_secrets(target: Target, sent: dict[str, str], client: HttpClient) -> bool:
    """Whether a secret is another one than was sent, or a token is to be had for the one that was."""
    asked = (reference for place, reference in target.references() if not place.startswith(("tls", "proxy")))
    renewed = [renew(reference) for reference in dict.fromkeys(asked)]
    if isinstance(target.auth, OAuth2Auth):
        return _token_client(target.auth, client).refuse(sent["Authorization"].partition(" ")[2]) or any(renewed)
    return any(renewed)


class _TokenClient:
    """An OAuth2 client of this function; its threads share one token."""

    def __init__(self, auth: OAuth2Auth, http: HttpClient) -> None:
        self._auth = auth
        self._http = http
        self._kept = KeptToken()
        self._lock = machine.lock()

    def token(self, deadline: float) -> str:
        """The token, asked for if there is none, else the ApiError that says why not."""
        if not self._lock.acquire(timeout=max(0.0, deadline - machine.monotonic())):
            raise ApiUnreachable(f"no token from {self._auth.token_url} in time")
        try:
            while self._kept.is_due(machine.monotonic()):
                self._ask(min(TOKEN_TIMEOUT_SECONDS, (deadline - machine.monotonic()) / 2))
            if (value := self._kept.value(machine.monotonic())) is not None:
                return value
            raise self._kept.failure or ApiUnreachable(f"no token from {self._auth.token_url}")
        finally:
            self._lock.release()

    def refuse(self, value: str) -> bool:
        """The API did not take the token; whether there is or may be another."""
        with self._lock:
            return self._kept.refuse(value, machine.monotonic())

    def _ask(self, seconds: float) -> None:
        self._kept.begin()
        question = ask_for_token(self._auth, resolve, in_body=self._kept.in_body)
        url, cap = self._auth.token_url, MAX_TOKEN_ANSWER_BYTES
        try:
            answer = self._http.exchange(HttpRequest("POST", url, question.headers, seconds, cap, question.body))
            token = read_token(self._auth, answer.status, answer.body)
        except HttpFailure as failure:
            words = failure.cause or failure
            self._kept.fail(ApiUnreachable(f"no token from {url}: {words}"), machine.monotonic())
        except ApiError as error:
            self._kept.fail(error, machine.monotonic())
            if isinstance(error, TokenRefused) and renew(self._auth.client_secret):
                self._kept.try_again()
        else:
            KNOWN.add(token.value)
            self._kept.accept(token, machine.monotonic())


@lru_cache(maxsize=256)
def _token_client(auth: OAuth2Auth, http: HttpClient) -> _TokenClient:
    return _TokenClient(auth, http)


def _client_of(target: Target) -> HttpClient | None:
    """The client for the target's certificates and proxy, made anew when one of them has changed; None without."""
    if target.tls is None and target.proxy is None:
        return None
    tls = target.tls or Tls()
    try:
        return _client(_text(tls.ca), _text(tls.cert), _text(tls.key), _proxy_of(target.proxy))
    except ssl.SSLError as error:
        problem = f"is not a certificate, or not its key, in PEM form ({error.reason})"
        raise ConfigurationError(f"{target.name}: tls", problem) from None


@lru_cache(maxsize=256)
def _client(ca: str | None, cert: str | None, key: str | None, proxy: Proxy | None) -> HttpClient:
    context = verifying_context(cadata=ca)
    if cert:
        _load_pair(context, f"{cert}\n{key or ''}")
    return HttpClient(lambda: context, proxy)


def _load_pair(context: ssl.SSLContext, pem: str) -> None:
    """OpenSSL takes a certificate and its key from a file only: one that nobody else may read, for that moment."""
    with NamedTemporaryFile("w") as file:  # mode 600
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)


def _text(pem: Pem | None) -> str | None:
    """What a file of the package or a secret holds."""
    if pem is None or isinstance(pem, SecretReference):
        return pem if pem is None else resolve_text(pem)
    return _packaged(pem)


@lru_cache(maxsize=64)
def _packaged(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not ASCII"
        raise ConfigurationError(os.path.basename(path), f"cannot be read: {reason}") from None


def _proxy_of(stated: str | SecretReference | None) -> Proxy | None:
    if stated is None:
        return None
    url = stated if isinstance(stated, str) else resolve(stated)
    KNOWN.add_proxies({"its_proxy": url})
    try:
        return read_proxy(url)
    except InvalidInput as error:
        raise ConfigurationError(str(stated), error.problem) from None
