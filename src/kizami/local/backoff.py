"""When a failed request is tried again: exponential backoff with jitter, never before `Retry-After` (pure)."""

from __future__ import annotations

from kizami.errors import ApiError, ApiStatusError

FACTOR = 4.0
MAX_SECONDS = 300.0


def retry_delay_seconds(receives: int, error: ApiError, base_seconds: float, chance: float) -> float:
    """The wait after the failure of receive number `receives` (1, 2 …): 2, 8, 32, 128 s for a base of 2 s.

    `chance` from [0, 1) takes off up to half, so that what failed together does not come back together.
    """
    wait = min(base_seconds * FACTOR ** (receives - 1), MAX_SECONDS) * (1 - chance / 2)
    asked = error.retry_after_seconds if isinstance(error, ApiStatusError) else None
    return max(wait, asked or 0.0)
