"""Failures that do not heal by waiting: when a target is blocked and probed, what becomes of a slot (pure).

    answers ── a lasting failure ──▶ in doubt ── another one ──▶ blocked ── a probe fails ──▶ blocked, for longer
       ▲                                │                           │
       └───────── any answer ◀──────────┴───────────────────────────┘

While a target is blocked only probes ask it, one slot at a time: after a minute, then ever more slowly. All other
slots are kept, and asked for when it has answered. Probes take turns: a slot that has failed before finds out
whether the API had no answer *yet*, the newest one whether it was wrong about that slot alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from kizami.core.errors import (
    ApiError,
    ApiPayloadError,
    ApiStatusError,
    ApiUnreachable,
    CertificateRefused,
    TokenRefused,
)
from kizami.core.slots import shift
from kizami.core.targets.target import DEFAULT_PATH, Target

CONFIRMED = 2  # lasting failures in a row, of the target as of a slot: the first, and one retry
LEAST_PROBE_SECONDS = 60.0
LONGEST_PROBE_SECONDS = 600.0
RECENT_SECONDS = 120  # a slot is asked for within this time of its moment, or its turn came late
OTHERS_TURN_SECONDS = 360  # so long a due probe is left to those whose turn it is
SET_BACK_SECONDS = 60.0  # clocks that differ by less agree
SOON_SECONDS = 60  # the next slot of a shorter interval tells more than a retry


class Turn(Enum):
    """Which slot is the next probe."""

    FAILED_BEFORE = "failed before"
    NEWEST = "newest"


class Fate(Enum):
    """What becomes of a slot whose request has failed."""

    RETRIED = "retried"
    KEPT = "kept"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Trouble:
    """A target that fails lastingly: since when, why, and, once it is blocked, how it is probed."""

    since: datetime
    reason: str
    asked_at: datetime  # by the last request that told something
    failures: int = 1
    probes: int = 0
    next_probe: datetime | None = None  # None as long as it is only in doubt

    @property
    def is_blocked(self) -> bool:
        return self.next_probe is not None

    @property
    def turn(self) -> Turn:
        """Whose turn the next probe is."""
        return Turn.NEWEST if self.probes % 2 else Turn.FAILED_BEFORE

    def is_due(self, now: datetime) -> bool:
        """Whether it is to be probed; a clock that was set back must not make that wait for ever.

        `now` may be a moment before the request's end: it was read earlier, or by another machine.
        """
        return self.next_probe is not None and not shift(self.asked_at, -SET_BACK_SECONDS) <= now < self.next_probe

    @property
    def pace_seconds(self) -> float:
        """How long the wait for the next probe is."""
        return (self.next_probe - self.asked_at).total_seconds() if self.next_probe else 0.0


def is_recent(age_seconds: float, interval_seconds: int) -> bool:
    """Whether a slot that has been due for so long tells how its target does now."""
    return age_seconds < max(2 * interval_seconds, RECENT_SECONDS)


def tells_of_target(error: ApiError, *, recent: bool, in_doubt: bool) -> bool:
    """Whether a failure says something about the target, and not about its slot alone.

    An API may not know last week any more and answer for today: as long as nothing else is wrong with a target, an
    old slot's failure counts only if it is about the key.
    """
    return error.is_lasting and (error.refuses_key or recent or in_doubt)


def after_failure(trouble: Trouble | None, error: ApiError, reason: str, now: datetime) -> Trouble:
    """The trouble after a failure that tells of the target; what comes in after the block changes nothing."""
    if trouble is None:
        return Trouble(now, reason, now)
    if trouble.is_blocked:
        return trouble
    failed = replace(trouble, reason=reason, asked_at=now, failures=trouble.failures + 1)
    return failed if failed.failures < CONFIRMED else replace(failed, next_probe=_next_probe(0, error, now))


def after_probe(trouble: Trouble, error: ApiError, reason: str, now: datetime) -> Trouble:
    """The trouble after one more probe has failed, whatever of."""
    probes = trouble.probes + 1
    return replace(trouble, reason=reason, asked_at=now, probes=probes, next_probe=_next_probe(probes, error, now))


def _next_probe(failed: int, error: ApiError, now: datetime) -> datetime:
    asked = error.retry_after_seconds if isinstance(error, ApiStatusError) else None
    return shift(now, max(probe_seconds(failed), asked or 0.0))


def probe_seconds(failed: int) -> float:
    """The wait after so many probes that failed: 1, 2, 4, 8, 10, 10 … minutes."""
    return min(LEAST_PROBE_SECONDS * 2.0 ** min(failed, 10), LONGEST_PROBE_SECONDS)


def hurried(trouble: Trouble, now: datetime) -> Trouble:
    """To be probed at once: somebody has changed something, or asks for it."""
    return replace(trouble, next_probe=now)


def reserved(trouble: Trouble, now: datetime) -> Trouble:
    """As if this probe had failed already: whoever takes it may be gone before it can tell."""
    probes = trouble.probes + 1
    return replace(trouble, asked_at=now, probes=probes, next_probe=shift(now, probe_seconds(probes)))


def may_probe(trouble: Trouble, now: datetime, *, recent: bool) -> bool:
    """Return True if a slot may be the probe: it is its turn, or the others do not come."""
    if trouble.next_probe is None or not trouble.is_due(now):
        return False
    is_its_turn = recent == (trouble.turn is Turn.NEWEST)
    return is_its_turn or now < trouble.asked_at or now >= shift(trouble.next_probe, OTHERS_TURN_SECONDS)


def resumed(trouble: Trouble, now: datetime) -> Trouble:
    """After a restart, for which a new key may be the reason; but it may also be the tenth in a minute."""
    soonest = max(now, shift(trouble.asked_at, LEAST_PROBE_SECONDS)) if trouble.asked_at <= now else now
    return replace(trouble, next_probe=min(trouble.next_probe or soonest, soonest))


def slot_fate(error: ApiError, attempts: int, limit: int, *, blocked: bool) -> Fate:
    """What becomes of a slot after so many attempts: where the target answers others, it has one retry."""
    if blocked:
        return Fate.KEPT
    return Fate.DEAD if attempts >= (min(CONFIRMED, limit) if error.is_lasting else limit) else Fate.RETRIED


def retry_seconds(error: ApiError, wait_seconds: float, interval_seconds: int) -> float:
    """The wait before a slot's retry; after a lasting failure the next slot, which tells more, goes first."""
    return max(wait_seconds, 1.25 * min(interval_seconds, SOON_SECONDS)) if error.is_lasting else wait_seconds


def explain(error: ApiError, target: Target) -> str:
    """The failure, and what helps."""
    return f"{problem(error)}; {remedy(error, target)}"


def reason(error: ApiError, target: Target) -> str:
    """What a log line or a dead letter says of it: with what helps, where waiting does not."""
    return explain(error, target) if error.is_lasting else str(error)


def problem(error: ApiError) -> str:
    """The failure alone."""
    return error.problem if isinstance(error, CertificateRefused) else str(error)


def remedy(error: ApiError, target: Target) -> str:
    """What helps against a failure of the target."""
    if isinstance(error, CertificateRefused):
        return error.remedy
    if isinstance(error, TokenRefused):
        return "check token_url, client_id, scope and the secret of the target's auth"
    if isinstance(error, ApiUnreachable):
        return error.remedy or f"is {target.url} right and its server up? Is timeout long enough?"
    if isinstance(error, ApiPayloadError):
        if target.answer.format == "text" and not error.remedy:
            return 'with format = "text" the body must be the number alone; of JSON, leave format out'
        return error.remedy or f"compare the answer with the target's {_value_settings(target)}"
    if isinstance(error, ApiStatusError) and error.rate_limit:
        return "it is asked again by itself; if that happens often, set requests for its host in [[hosts]]"
    if isinstance(error, ApiStatusError) and error.refuses_key:
        return f"the key is refused: check {_secrets_of(target)}"
    if isinstance(error, ApiStatusError) and 300 <= error.status < 400:
        return "redirects are not followed: set url to where it leads"
    added = f" (which adds {DEFAULT_PATH} unless it says otherwise)" if _asks_by_default(error, target) else ""
    return f"check the target's url and path{added}, its query and body, or ask those who run the API"


def _asks_by_default(error: ApiError, target: Target) -> bool:
    """Whether a path was asked for that nobody wrote, and is not there."""
    is_absent = isinstance(error, ApiStatusError) and error.status in (404, 405)
    return is_absent and target.path == DEFAULT_PATH and not target.is_mock


def _value_settings(target: Target) -> str:
    answer = target.answer
    checks = [name for name in ("require", "refuse", "zero_if_missing") if getattr(answer, name)]
    return ", ".join(["values" if answer.values else "count", *checks])


def _secrets_of(target: Target) -> str:
    used = [f"{setting} ({reference})" for setting, reference in target.references()]
    return ", ".join(used) or "the target's headers, query and auth, and the secrets they refer to"
