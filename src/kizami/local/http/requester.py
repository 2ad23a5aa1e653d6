"""Requests with their targets' secrets: read again when they change, and once more for whoever is refused.

start ──▶ is a token needed? ──▶ fetcher ──▶ 401? ──▶ wait
             │      ▲                          │
             ▼      └── with others ◀── read files again, have the token renewed
          it waits for its client's token, which is fetched by the same fetcher: nobody else waits

Files are read by `read_accesses` and `look_at_files`, which one thread calls; a request that is refused waits for
that thread, and no other does. The rest of the methods are called on the loop's thread.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
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
from kizami.local.http.target_access import AccessReader, KnownFiles, TargetAccess, TokenClient, sent_secrets
from kizami.local.http.tls_files import CertificateFiles, expired

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
    look: int = 0  # the look at the files that it waits for

    @property
    def deadline(self) -> float:
        return self.started + self.access.profile.timeout_seconds


class Requester:
    """The requests in flight and their secrets.

    `want_look` has another thread call `look_at_files` soon; without one, files are looked at when that is needed.
    """

    def __init__(self, fetcher: Fetcher, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._fetcher = fetcher
        self._monotonic = monotonic
        self._secrets = SecretValues()
        self._certificates = CertificateFiles()
        self._reader = AccessReader(self._secrets, self._certificates)
        self.want_look: Callable[[], None] | None = None
        self._accesses: dict[SecretReference, list[TargetAccess]] = {}
        self._files: deque[SecretReference] = deque()
        self._doubted: deque[SecretReference] = deque()  # those of requests that were refused
        self._rotated: set[SecretReference] = set()  # what has changed since the start
        self._refused: list[tuple[_Attempt, Finished]] = []  # they wait for a look at their files
        self._wanted = self._looked = 0
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
        known = KnownFiles()
        return [self._reader.read(target, known) for target in targets]

    def note_read(self, accesses: Sequence[TargetAccess]) -> None:
        """These will be used, so that no other certificates are looked at; expired ones are told."""
        self._certificates.keep({access.target.tls for access in accesses if access.target.tls})
        _tell_of_expired(accesses)

    def look_at_files(self) -> bool:
        """Called about once a second, and when `want_look` was: read what has changed; whether anything has.

        `take_changed` has it used.
        """
        look = self._wanted
        doubted = {self._doubted.popleft() for _ in range(len(self._doubted))}
        some = list(islice(self._files, LOOKS_A_TURN))
        self._files.rotate(-len(some))
        found = self._secrets.changed(some) | self._secrets.reread(doubted)
        self._certificates.refresh()
        self._looked, before = look, self._looked
        return bool(found) or look != before

    def use_accesses(self, accesses: Iterable[TargetAccess]) -> None:
        """From now on the files of these are looked at, and of no others.

        Their secrets are those of now: a file may have been read again since they were made.
        """
        found: dict[SecretReference, list[TargetAccess]] = {}
        for access in accesses:
            for reference in access.files:
                found.setdefault(reference, []).append(access)
        self._accesses, self._files = found, deque(found)
        for reference in found.keys() & self._rotated:
            for access in found[reference]:
                access.secrets = sent_secrets(access.target, self._secrets)

    def take_changed(self) -> set[Target]:
        """Use what was read from now on; the targets whose secrets have changed since last time."""
        self._use_news()
        changed, self._changed = self._changed, set()
        return changed

    @property
    def in_flight(self) -> int:
        """How many requests have no outcome yet."""
        waiting = sum(map(len, self._waiting.values())) + len(self._over) + len(self._refused)
        return self._fetcher.in_flight + waiting

    def start(self, url: str, access: TargetAccess, tag: object, body: bytes | None = None) -> None:
        """Send a request; `wait` will give `tag` back with its outcome."""
        if access.is_steady:
            self._fetcher.start(url, access.profile, tag, body)
        else:
            self._send(_Attempt(url, access, tag, body, self._monotonic()))

    def wait(self, seconds: float) -> list[Finished]:
        """Wait for something to happen, at most `seconds`; what has finished since."""
        if not (self._own or self._waiting or self._over or self._refused):
            return self._fetcher.wait(seconds)
        for finished in self._fetcher.wait(self._pause_seconds(seconds)):
            self._settle(finished)
        if self._refused:
            self._settle_refused(self._monotonic())
        if self._waiting:
            self._expire(self._monotonic())
        over, self._over = self._over, []
        return over

    def _pause_seconds(self, seconds: float) -> float:
        if self._over:
            return 0.0
        deadlines = [attempt.deadline for attempts in self._waiting.values() for attempt in attempts]
        deadlines += [attempt.deadline for attempt, _ in self._refused]
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
                if self._may_be_sent_again(attempt, finished.outcome):
                    self._doubt(attempt, finished)
                else:
                    self._over.append(Finished(attempt.tag, finished.outcome))
            case TokenClient() as client:
                self._own -= 1
                self._take_token(client, finished.outcome)
            case _:
                self._over.append(finished)

    def _may_be_sent_again(self, attempt: _Attempt, outcome: Response | ApiError) -> bool:
        """Whether it was refused, and there is time for a second request."""
        if attempt.is_second or not isinstance(outcome, Response) or outcome.status != _UNAUTHORIZED:
            return False
        return self._monotonic() < attempt.deadline

    def _doubt(self, attempt: _Attempt, finished: Finished) -> None:
        """Have its files read again, unless that was done a moment ago."""
        if doubted := [reference for reference in attempt.access.files if not self._secrets.is_fresh(reference)]:
            self._doubted.extend(doubted)
            self._wanted += 1
            (self.want_look or self.look_at_files)()
        attempt.look = self._wanted if doubted else 0
        self._refused.append((attempt, finished))

    def _settle_refused(self, now: float) -> None:
        """Send those again whose files were looked at and whose secrets are others now; the rest stay refused."""
        looked = self._looked
        self._use_news()
        refused, self._refused = self._refused, []
        for attempt, finished in refused:
            if attempt.look > looked and now < attempt.deadline:
                self._refused.append((attempt, finished))
            elif now < attempt.deadline and self._has_others(attempt, now):
                attempt.is_second = attempt.has_waited = True
                self._send(attempt)
            else:
                self._over.append(Finished(attempt.tag, finished.outcome))

    def _has_others(self, attempt: _Attempt, now: float) -> bool:
        client = attempt.access.client
        if client and attempt.token and client.token.refuse(attempt.token, now):
            return True
        return attempt.access.secrets != attempt.secrets

    def _use_news(self) -> None:
        while self._secrets.news:
            self._use_changed(self._secrets.news.popleft())

    def _use_changed(self, reference: SecretReference) -> None:
        self._rotated.add(reference)
        if reference not in self._accesses:  # of another configuration, or a proxy's: that waits for a reload
            return
        logger.info("a secret was read again", extra={"event": "secret.changed", "secret": str(reference)})
        for access in self._accesses[reference]:
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
    first: dict[Tls, TargetAccess] = {}
    for access in accesses:
        if access.target.tls:
            first.setdefault(access.target.tls, access)
    for tls, access in first.items():
        for setting, problem in expired(tls, access.profile.tls or TlsFiles()).items():
            details = {
                "event": "certificate.expired",
                "setting": f"{access.target.name}: {setting}",
                "reason": problem,
            }
            logger.warning("a certificate has expired", extra=details)
