"""Everything that can go wrong on the way of the data, as one tree.

    KizamiError
    ├── ConfigurationError      a setting is missing or wrong: fail fast, exit code 3
    ├── InvalidInput            a timestamp, window or message that breaks its contract
    ├── ApiError                the polled API did not give a valid answer: retried, or probed slowly (blocking)
    │   ├── ApiUnreachable      no connection, a broken one, or the total deadline passed
    │   │   └── CertificateRefused   a certificate stood in the way (carries the `remedy`)
    │   ├── ApiStatusError      a status that is not expected (carries `status` and `retry_after_seconds`)
    │   │   └── TokenRefused    not of the API: its token endpoint gave no token
    │   └── ApiPayloadError     not the answer that was asked for
    ├── QueueError              the queue refused or could not be reached
    │   └── QueueUnreachable    it could not be reached
    └── StoreError              the store refused or could not be reached
        └── StoreUnreachable    it could not be reached

A duplicate write and a held lock are outcomes, not errors. Messages are one line, name the place and
never carry a header, a key or a signature: they end up in logs and dead letters. What somebody else's words
bring in of a secret that is known is hidden.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kizami.core.redaction import KNOWN

if TYPE_CHECKING:
    from kizami.core.answers.rate_limits import RateLimit

# Of the statuses that blame the request: it took too long, met another one, came too early or too often.
_HEALED_BY_WAITING = frozenset({408, 409, 421, 423, 425, 429})


class KizamiError(Exception):
    """The root: whatever kizami raises on purpose."""

    def __str__(self) -> str:
        return KNOWN.hide(self._words())

    def _words(self) -> str:
        return super().__str__()


class ConfigurationError(KizamiError):
    """A setting is missing or wrong; `place` says where it stands (a variable, or a line of the file)."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(place, problem)  # the arguments themselves, so that a copy or a pickle can be made
        self.place = place
        self.problem = problem

    def _words(self) -> str:
        return f"{self.place}: {self.problem}"


class InvalidInput(KizamiError):
    """A value breaks its contract; `field` names it."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(field, problem)
        self.field = field
        self.problem = problem

    def _words(self) -> str:
        return f"{self.field}: {self.problem}"


class ApiError(KizamiError):
    """The polled API gave no valid answer.

    `is_lasting`: asked again, it would say the same until somebody mends something. `refuses_key`: it is about who
    asks, so whichever slot is asked for.
    """

    is_lasting = False
    refuses_key = False


class ApiUnreachable(ApiError):
    """No answer: refused, reset, hung or too slow; `remedy` says what may help."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def _words(self) -> str:
        return self.problem


class CertificateRefused(ApiUnreachable):
    """A certificate is not believed, by us or by the other side."""

    def _words(self) -> str:
        return f"{self.problem}; {self.remedy}"


class ApiStatusError(ApiError):
    """An answer whose status is not an expected one; with a `rate_limit` it is about no key, and waiting helps."""

    def __init__(
        self,
        status: int,
        retry_after_seconds: float | None = None,
        expected: tuple[int, ...] = (200,),
        rate_limit: RateLimit | None = None,
    ) -> None:
        super().__init__(status, retry_after_seconds, expected, rate_limit)
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        self.rate_limit = rate_limit
        self.is_lasting = rate_limit is None and 200 <= status < 500 and status not in _HEALED_BY_WAITING
        self.refuses_key = rate_limit is None and status in (401, 403, 407)
        self.expected = expected

    def _words(self) -> str:
        words = f"status {self.status}, expected {' or '.join(map(str, self.expected))}"
        return f"{words}: {self.rate_limit}" if self.rate_limit else words


class TokenRefused(ApiStatusError):
    """The token endpoint's status is not 200; `reason` is what it says of that."""

    def __init__(self, status: int, token_url: str, reason: str = "") -> None:
        super().__init__(status)
        self.args = (status, token_url, reason)
        self.token_url = token_url
        self.reason = reason

    def _words(self) -> str:
        told = f" ({self.reason})" if self.reason else ""
        return f"no token from {self.token_url}: status {self.status}{told}, expected 200"


class ApiPayloadError(ApiError):
    """An expected status with a body that is not the answer to the question; `remedy` says what may help."""

    is_lasting = True

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def _words(self) -> str:
        return self.problem


class QueueError(KizamiError):
    """The queue refused the operation or could not be reached."""


class QueueUnreachable(QueueError):
    """No connection to the queue, or none in time."""


class StoreError(KizamiError):
    """The store refused the operation or could not be reached."""


class StoreUnreachable(StoreError):
    """No connection to the store, or none in time."""
