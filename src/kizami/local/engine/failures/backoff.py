"""When a failed request is tried again: exponential backoff with jitter, never before `Retry-After` (pure)."""

from __future__ import annotations

from kizami.core.errors import ApiError, ApiStatusError

FACTOR = 4.0
MAX_SECONDS = 300.0


def longest_delay_seconds(attempts: int, base_seconds: float) -> float:
    """The wait after the failure of attempt number `attempts` (1, 2 …): 2, 8, 32, 128 s for a base of 2 s."""
    return min(base_seconds * FACTOR ** (attempts - 1), MAX_SECONDS)


def retry_delay_seconds(attempts: int, error: ApiError, base_seconds: float, chance: float) -> float:
    """How long to wait after the failure of attempt number `attempts`.

    `chance` from [0, 1) takes off up to half, so that what failed together does not come back together.
    """
    wait = longest_delay_seconds(attempts, base_seconds) * (1 - chance / 2)
    asked = error.retry_after_seconds if isinstance(error, ApiStatusError) else None
    return max(wait, asked or 0.0)
