"""Requests with their targets' secrets: read again when they change, and once more for whoever is refused.

start ──▶ is a token needed? ──▶ fetcher ──▶ 401? ──▶ wait
             │      ▲                          │
             ▼      └── with others ◀── read files again, have the token renewed
          it waits for its client's token, which is fetched by the same fetcher: nobody else waits
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Self

from kizami.core.access.auth import bearer
from kizami.core.access.tls import Tls
from kizami.core.access.tokens import ask_for_token, read_token
from kizami.core.collector import Response
from kizami.core.errors import ApiError, ApiUnreachable
from kizami.core.redaction import KNOWN
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target
from kizami.local.http.fetcher import Fetcher, Finished
from kizami.local.http.handle import NO_SECRETS, SentSecrets, TlsFiles
from kizami.local.http.secrets import LOOKS_A_TURN, SecretValues
from kizami.local.http.target_access import AccessReader, TargetAccess, TokenClient, sent_secrets
from kizami.local.http.tls_files import expired

_UNAUTHORIZED = 401

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Attempt:
    """A request whose secrets may change, from `start` until its outcome."""

    url: str
    access: TargetAccess
    tag: object
    body: bytes | None
    started: float
    secrets: SentSecrets = NO_SECRETS
    token: str | None = None
    has_waited: bool = False
    is_second: bool = False

    @property
    def deadline(self) -> float:
        return self.started + self.access.profile.timeout_seconds


class Requester:
    """The requests in flight and their secrets; as the fetcher's, its methods are called on one thread."""

    def __init__(self, fetcher: Fetcher, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._fetcher = fetcher
        self._monotonic = monotonic
        self._secrets = SecretValues()
        self._reader = AccessReader(self._secrets)
        self._accesses: dict[SecretReference, list[TargetAccess]] = {}
        self._files: deque[SecretReference] = deque()
        self._changed: set[Target] = set()
        self._own = 0  # requests at the fetcher whose tag is ours
        self._waiting: dict[TokenClient, list[_Attempt]] = {}
        self._over: list[Finished] = []
        self.max_connections = fetcher.max_connections

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._fetcher.close()

    def close(self) -> None:
        """Let go of every connection; requests in flight are dropped."""
        self._fetcher.close()

    def read_accesses(self, targets: Iterable[Target]) -> list[TargetAccess]:
        """How each of the targets is asked, else ConfigurationError that names the target and the setting."""
        checked: dict[Tls, TlsFiles] = {}
        return [self._reader.read(target, checked) for target in targets]

    def use_accesses(self, accesses: Iterable[TargetAccess]) -> None:
        """From now on the files of these are looked at, and of no others; expired certificates are told."""
        self._accesses = {}
        accesses = list(accesses)
        _tell_of_expired(accesses)
        for access in accesses:
            for reference in access.files:
                self._accesses.setdefault(reference, []).append(access)
        self._files = deque(self._accesses)

    def look_at_files(self) -> set[Target]:
        """Called about once a second: what has changed is used from now on; whose secrets have since last time."""
        some = list(islice(self._files, LOOKS_A_TURN))
        self._files.rotate(-len(some))
        for reference in self._secrets.changed(some):
            self._use_changed(reference)
        changed, self._changed = self._changed, set()
        return changed

    @property
    def in_flight(self) -> int:
        """How many requests have no outcome yet."""
        waiting = sum(map(len, self._waiting.values())) + len(self._over)
        return self._fetcher.in_flight + waiting

    def start(self, url: str, access: TargetAccess, tag: object, body: bytes | None = None) -> None:
        """Send a request; `wait` will give `tag` back with its outcome."""
        if access.is_steady:
            self._fetcher.start(url, access.profile, tag, body)
        else:
            self._send(_Attempt(url, access, tag, body, self._monotonic()))

    def wait(self, seconds: float) -> list[Finished]:
        """Wait for something to happen, at most `seconds`; what has finished since."""
        if not (self._own or self._waiting or self._over):
            return self._fetcher.wait(seconds)
        for finished in self._fetcher.wait(self._pause_seconds(seconds)):
            self._settle(finished)
        if self._waiting:
            self._expire(self._monotonic())
        over, self._over = self._over, []
        return over

    def _pause_seconds(self, seconds: float) -> float:
        if self._over:
            return 0.0
        deadlines = [attempt.deadline for attempts in self._waiting.values() for attempt in attempts]
        return max(0.0, min([seconds, *(deadline - self._monotonic() for deadline in deadlines)]))

    def _send(self, attempt: _Attempt) -> None:
        access, now = attempt.access, self._monotonic()
        secrets = attempt.secrets = access.secrets
        if client := access.client:
            if client.token.is_due(now):
                self._ask_for_token(client)
            attempt.token = client.token.value(now)
            if attempt.token is None:
                self._wait_for_token(attempt, client)
                return
            secrets = SentSecrets((*secrets.headers, f"Authorization: {bearer(attempt.token)}"), secrets.query)
        self._own += 1
        spent = now - attempt.started if attempt.has_waited else 0.0
        self._fetcher.start(attempt.url, access.profile, attempt, attempt.body, secrets, spent)

    def _wait_for_token(self, attempt: _Attempt, client: TokenClient) -> None:
        attempt.has_waited = True
        if client.token.is_asked_for:
            self._waiting.setdefault(client, []).append(attempt)
        else:
            failure = client.token.failure or ApiUnreachable(f"no token from {client.auth.token_url}")
            self._over.append(Finished(attempt.tag, failure))

    def _ask_for_token(self, client: TokenClient) -> None:
        client.token.begin()
        question = ask_for_token(client.auth, self._secrets.value, in_body=client.token.in_body)
        lines = tuple(f"{name}: {value}" for name, value in question.headers.items())
        self._own += 1
        self._fetcher.start(client.auth.token_url, client.profile, client, question.body, SentSecrets(lines))

    def _settle(self, finished: Finished) -> None:
        match finished.tag:
            case _Attempt() as attempt:
                self._own -= 1
                if not self._is_sent_again(attempt, finished.outcome):
                    self._over.append(Finished(attempt.tag, finished.outcome))
            case TokenClient() as client:
                self._own -= 1
                self._take_token(client, finished.outcome)
            case _:
                self._over.append(finished)

    def _is_sent_again(self, attempt: _Attempt, outcome: Response | ApiError) -> bool:
        """Whether it was refused, and others than its secrets are to be had in its time."""
        if attempt.is_second or not isinstance(outcome, Response) or outcome.status != _UNAUTHORIZED:
            return False
        now = self._monotonic()
        if now >= attempt.deadline or not self._has_others(attempt, now):
            return False
        attempt.is_second = attempt.has_waited = True
        self._send(attempt)
        return True

    def _has_others(self, attempt: _Attempt, now: float) -> bool:
        access = attempt.access
        for reference in access.files:
            if self._secrets.reread(reference):
                self._use_changed(reference)
        if access.client and attempt.token and access.client.token.refuse(attempt.token, now):
            return True
        return access.secrets != attempt.secrets

    def _use_changed(self, reference: SecretReference) -> None:
        logger.info("a secret was read again", extra={"event": "secret.changed", "secret": str(reference)})
        for access in self._accesses.get(reference, ()):
            access.secrets = sent_secrets(access.target, self._secrets)
            self._changed.add(access.target)
            if access.client:
                access.client.token.try_again()

    def _take_token(self, client: TokenClient, outcome: Response | ApiError) -> None:
        now = self._monotonic()
        try:
            if isinstance(outcome, ApiError):
                raise ApiUnreachable(f"no token from {client.auth.token_url}: {outcome}")
            token = read_token(client.auth, outcome.status, outcome.body)
        except ApiError as error:
            if client.token.fail(error, now):
                self._ask_for_token(client)
                return
        else:
            KNOWN.add(token.value)
            if client.before:  # replaced twice: no request has it any more
                KNOWN.forget(client.before)
            client.before = client.token.accept(token, now)
        for attempt in self._waiting.pop(client, []):
            self._send(attempt)

    def _expire(self, now: float) -> None:
        """Those whose time is over before there was a token."""
        for client, attempts in list(self._waiting.items()):
            late = [attempt for attempt in attempts if attempt.deadline <= now]
            self._waiting[client] = [attempt for attempt in attempts if attempt.deadline > now]
            for attempt in late:
                seconds = f"{attempt.access.profile.timeout_seconds:g} s"
                error = ApiUnreachable(f"no token from {client.auth.token_url} within {seconds}")
                self._over.append(Finished(attempt.tag, error))
            if not self._waiting[client]:
                del self._waiting[client]


def _tell_of_expired(accesses: Iterable[TargetAccess]) -> None:
    """One line for a file, however many targets have it; whether it still serves is for their servers to judge."""
    first: dict[TlsFiles, str] = {}
    for access in accesses:
        if access.profile.tls:
            first.setdefault(access.profile.tls, access.target.name)
    for files, name in first.items():
        for setting, problem in expired(files).items():
            details = {"event": "certificate.expired", "setting": f"{name}: {setting}", "reason": problem}
            logger.warning("a certificate has expired", extra=details)
