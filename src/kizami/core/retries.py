"""When a slot is tried again after a failure on AWS, and when it is given up (pure).

Pauses grow from 10 seconds to three minutes and are half random, so that slots that failed together do not come
back together. An API that asks for a longer pause gets it, over several messages if SQS cannot wait so long.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

from kizami.core.blocking import retry_seconds
from kizami.core.errors import ApiError, ApiStatusError, InvalidInput, KizamiError

FIRST_SECONDS, FACTOR, LONGEST_SECONDS = 10, 4, 180
LONGEST_DELAY_SECONDS = 900  # of a message of SQS; a longer pause takes several
# Attempts after lasting failures: the live one, one that puts its target in doubt, and one after which the target
# is held or is known to answer for other slots.
LASTING_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Retry:
    """When and as which attempt a slot is asked for again; without a delay it is given up."""

    attempts: int  # that were made
    delay_seconds: int | None
    not_before: int = 0  # seconds since 1970, where the delay alone is not enough

    @property
    def is_dead(self) -> bool:
        """Return True if the slot is given up."""
        return self.delay_seconds is None


def retry_wait(attempts: int, chance: float) -> float:
    """Return the pause in seconds after so many attempts: up to 10, 40, 160, 180, 180 …"""
    return min(FIRST_SECONDS * float(FACTOR) ** min(attempts - 1, 9), LONGEST_SECONDS) * (1 - chance / 2)


def plan_retry(
    error: Exception, attempts: int, limit: int, interval_seconds: int, chance: float, now: datetime
) -> Retry:
    """Return what follows from a failure after so many attempts."""
    is_lasting = isinstance(error, ApiError) and error.is_lasting
    if is_hopeless(error) or attempts >= (min(LASTING_ATTEMPTS, limit) if is_lasting else limit):
        return Retry(attempts, None)
    wait = retry_wait(attempts, chance)
    if isinstance(error, ApiStatusError):
        wait = max(wait, error.retry_after_seconds or 0.0)
    if isinstance(error, ApiError):
        wait = retry_seconds(error, wait, interval_seconds)
    not_before = math.ceil(now.timestamp() + wait) if wait > LONGEST_DELAY_SECONDS else 0
    return Retry(attempts, min(round(wait), LONGEST_DELAY_SECONDS), not_before)


def is_hopeless(error: Exception) -> bool:
    """Return True if no other attempt can end otherwise: the message is not about a slot of a target."""
    return isinstance(error, InvalidInput)


def reason_of(error: Exception) -> str:
    """Say why a request failed; of an error that is not ours only the kind, because its text may hold a secret."""
    return str(error) if isinstance(error, KizamiError) else f"{type(error).__name__}, which is a fault of kizami"
