"""Everything that can go wrong on the way of the data, as one tree.

    KizamiError
    ├── ConfigurationError      a setting is missing or wrong: fail fast, exit code 3
    ├── InvalidInput            a timestamp, window or message that breaks its contract
    ├── ApiError                the polled API did not give a valid answer: retried by redelivery
    │   ├── ApiUnreachable      no connection, a broken one, or the total deadline passed
    │   ├── ApiStatusError      any status but 200 (carries `status` and `retry_after_seconds`)
    │   └── ApiPayloadError     200, but not the answer that was asked for
    ├── QueueError              the queue refused or could not be reached
    │   └── QueueUnreachable    it could not be reached
    └── StoreError              the store refused or could not be reached
        └── StoreUnreachable    it could not be reached

A duplicate write and a held lock are outcomes, not errors. Messages are one line, name the place and
never carry a header, a key or a signature: they end up in logs and dead letters. What somebody else's words
bring in of a secret that is known is hidden.
"""

from __future__ import annotations

from kizami.core.redaction import KNOWN


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
    """The polled API gave no valid answer."""


class ApiUnreachable(ApiError):
    """No answer: refused, reset, hung or too slow."""


class ApiStatusError(ApiError):
    """An answer whose status is not 200."""

    def __init__(self, status: int, retry_after_seconds: float | None = None) -> None:
        super().__init__(status, retry_after_seconds)
        self.status = status
        self.retry_after_seconds = retry_after_seconds

    def _words(self) -> str:
        return f"status {self.status}, expected 200"


class ApiPayloadError(ApiError):
    """Status 200 with a body that is not the answer to the question."""


class QueueError(KizamiError):
    """The queue refused the operation or could not be reached."""


class QueueUnreachable(QueueError):
    """No connection to the queue, or none in time."""


class StoreError(KizamiError):
    """The store refused the operation or could not be reached."""


class StoreUnreachable(StoreError):
    """No connection to the store, or none in time."""
