"""The state of a target on AWS: well, slow or held, and what follows for the slots of a delivery (pure).

    well ── no answer, or one after LIVE_SECONDS ──▶ slow ── two answers below QUICK_SECONDS in a row ──▶ well
      └──────────── MOST_FAILURES in a row, or MOST_LASTING lasting ones ──▶ held ── any answer ──▶ slow or well

A well target is asked by live deliveries. A slow one is asked on the retry lane only, so that no live delivery
waits for it. A held one is asked by probes: after 15, 30 and 60 seconds, then more slowly, at least every five
minutes. From a minute on probes fall on multiples of their pause, so that the held members of a bundle share one
message. What a host that hangs costs is the time that probes wait for it: of those every five minutes two of three
end after LIVE_SECONDS.

Failures are noted on the retry lane, where a target has its full timeout, so an API with single failures causes
no writes. A target without backfill mostly has no time for a second try, so its live failures are noted, too.

The slots of a held target are kept: they are not asked for, and its state says since when. After the first answer
the reconciler asks for those in `TargetState.recovery` that ticks show as held or missing, moves the beginning of
that range on with `note_recovered`, and forgets the state once `is_over` says so.

Functions that note something return the new state, or None if there is nothing to write. A state is written on the
condition that its version is still the one that was read; of two deliveries that race for a probe one reserves it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from functools import lru_cache
from hashlib import sha256
from math import ceil

from kizami.core.blocking import Trouble, Turn, explain, is_recent, tells_of_target
from kizami.core.epoch import from_seconds
from kizami.core.errors import ApiError, ApiStatusError, ApiUnreachable
from kizami.core.messages import BACKFILL, LIVE, PROBE
from kizami.core.slots import shift
from kizami.core.targets.target import DEFAULT_TIMEOUT_SECONDS, Target

LIVE_SECONDS = 1.5  # after which a live delivery ends; an answer that takes longer makes its target slow
QUICK_SECONDS = 1.2
QUICK_ANSWERS = 2  # in a row, after which a slow target is well
MOST_FAILURES = 3  # in a row: not reachable, no answer in time, status 5xx
MOST_LASTING = 2  # in a row: failures that waiting does not heal
PROBE_SECONDS = (15, 30, 60, 120, 240, 300)  # pauses before the first probe, the second one, and so on
LIVE_ONLY_SECONDS = 60  # the longest pause within the first hour where a slot cannot be asked for later
PATIENT_SECONDS = 900  # how often a probe has the full timeout of its target once the pauses are the longest
STALE_SECONDS = 60  # for which a delivery may still go by a state that it read before the answer

_SHARED_FROM = 60  # seconds: longer pauses end at multiples of themselves
_SPARE_SECONDS = 5  # between the end of a probe and the next one
_OTHERS_TURN_SECONDS = 360  # for which a due probe is left to live deliveries
_HOUR = 3600


class Admission(Enum):
    """What a delivery does with a slot of a target."""

    ASK = "ask"
    SLOW = "slow"  # a live delivery sends it to the retry lane
    HOLD = "hold"  # it is kept, and not asked for
    PROBE = "probe"  # a probe is due: reserve it, then send the slot of `probe_slot` as a probe


@dataclass(frozen=True, slots=True)
class TargetState:
    """What is known of a target that is not well, or was not a while ago; most targets have no state.

    `kept_from` is the first slot that was kept and is not asked for yet, `kept_in` the bundle whose message was
    about it (unknown once some were asked for). `fingerprint` tells a target that was changed since it was held.
    """

    trouble: Trouble | None = None  # failures in a row; it is held if that says when it is probed
    lasting: int = 0  # of these failures, the lasting ones in a row at the end
    slow: bool = False
    quick: int = 0  # quick answers in a row, while it is slow
    kept_from: datetime | None = None
    kept_in: str = ""
    answered_at: datetime | None = None  # when it answered again
    fingerprint: str = ""
    version: int = 0  # of the item that was read; 0 if there was none

    @property
    def is_held(self) -> bool:
        """Return True if only probes ask it."""
        return self.trouble is not None and self.trouble.is_blocked

    @property
    def recovery(self) -> tuple[datetime, datetime] | None:
        """The range of slots in which some were kept and may be asked for now.

        It reaches a little beyond the answer: deliveries that read the state before may have kept slots since.
        """
        if self.is_held or self.kept_from is None or self.answered_at is None:
            return None
        end = shift(self.answered_at, STALE_SECONDS)
        return (self.kept_from, end) if self.kept_from < end else None


def starts_slow(target: Target) -> bool:
    """Return True if a target of which nothing is known is slow: it may take longer than its interval.

    The default timeout says nothing about a target, though it is longer than the default interval.
    """
    return target.timeout_seconds > max(target.interval_seconds, DEFAULT_TIMEOUT_SECONDS)


def admit(state: TargetState | None, target: Target, slot: datetime, lane: str, now: datetime) -> Admission:
    """Return what a delivery on a lane does with a slot of a target."""
    if state is None or not state.is_held:
        is_slow = starts_slow(target) if state is None else state.slow
        return Admission.SLOW if is_slow and lane == LIVE else Admission.ASK
    if lane == PROBE:  # reserved by the delivery that sent it
        return Admission.ASK
    return Admission.PROBE if _may_probe(state, target, slot, now) else Admission.HOLD


def keep_slot(state: TargetState, slot: datetime, bundle: str) -> TargetState:
    """Return the state with a slot that is kept, too; the same state if it says so already."""
    if state.kept_from is not None and state.kept_from <= slot:
        return state
    return replace(state, kept_from=slot, kept_in=bundle)


def note_answer(
    state: TargetState | None, target: Target, seconds: float, lane: str, now: datetime
) -> TargetState | None:
    """Return the state after an answer that took so many seconds; None if there is nothing to write."""
    if state is None and lane == LIVE:
        return None
    before = state or TargetState(slow=starts_slow(target))
    slow, quick = before.slow, before.quick
    if lane == BACKFILL:
        pass  # an old slot may take longer
    elif slow:
        quick = quick + 1 if seconds < QUICK_SECONDS else 0
        if quick >= QUICK_ANSWERS:
            slow, quick = False, 0
    elif lane != LIVE:
        slow = seconds > LIVE_SECONDS
    answered_at = now if before.is_held else before.answered_at
    after = replace(before, trouble=None, lasting=0, slow=slow, quick=quick, answered_at=answered_at)
    return None if after == before else after


def note_failure(
    state: TargetState | None,
    target: Target,
    error: ApiError,
    slot: datetime,
    lane: str,
    seconds: float,
    now: datetime,
) -> TargetState | None:
    """Return the state after a request that failed within so many seconds; None if there is nothing to write."""
    if lane == LIVE and target.backfill:
        return None
    before = state or TargetState(slow=starts_slow(target))
    if before.is_held:
        return _after_probe(before, target, error, now) if lane == PROBE else None
    slow = before.slow or isinstance(error, ApiUnreachable) or seconds > LIVE_SECONDS
    after = replace(before, slow=slow, quick=0)
    if _counts(before, target, error, slot, now):
        after = _after_failure(after, target, error, now)
    return None if after == before else after


def probe_slot(state: TargetState, target: Target, slot: datetime, bundle: str) -> datetime:
    """Return the slot that a due probe asks for: the delivery's own or, every other time, the first one kept.

    After lasting failures only: an API that has no answer yet gives one for the older slot, and one that is wrong
    about a single slot answers for the newest. The older slot is used only if the same bundle holds it.
    """
    trouble, kept = state.trouble, state.kept_from
    if trouble is None or not state.lasting or trouble.turn is Turn.NEWEST or not target.backfill:
        return slot
    return slot if kept is None or kept > slot or state.kept_in != bundle else kept


def reserve_probe(state: TargetState, target: Target, now: datetime) -> TargetState:
    """Return the state as if a probe had failed already; its delivery may crash before it is sent."""
    assert state.trouble is not None
    probes = state.trouble.probes + 1
    trouble = replace(state.trouble, asked_at=now, probes=probes)
    reserved = replace(trouble, next_probe=_next_probe(trouble, target, now))
    return replace(state, trouble=reserved, fingerprint=fingerprint(target))


def probe_target(state: TargetState | None, target: Target, now: datetime) -> Target:
    """Return the target as a probe asks it, which may be with a shorter timeout.

    One probe in PATIENT_SECONDS has the full timeout, at the same moment for all members of a bundle: an API may
    take longer than LIVE_SECONDS. All have it where the slots of a held target cannot be asked for later.
    """
    trouble = state.trouble if state else None
    if trouble is None or trouble.probes < len(PROBE_SECONDS) or not target.backfill:
        return target
    is_patient = now.timestamp() % PATIENT_SECONDS < PROBE_SECONDS[-1]
    if is_patient or target.timeout_seconds <= LIVE_SECONDS:
        return target
    return replace(target, timeout_seconds=LIVE_SECONDS)


def note_recovered(state: TargetState, until: datetime) -> TargetState:
    """Return the state after all kept slots before `until` were asked for."""
    if state.recovery is None or until <= state.recovery[0]:
        return state
    return replace(state, kept_from=until if until < state.recovery[1] else None, kept_in="")


def is_over(state: TargetState, target: Target | None, now: datetime) -> bool:
    """Return True if the state may be forgotten: the target is well, or is not configured any more."""
    if target is None:
        return True
    if state.is_held or state.slow or state.recovery is not None:
        return False
    if state.trouble is not None:  # failures that none followed
        return now >= shift(state.trouble.asked_at, _HOUR + 2 * target.interval_seconds)
    return not starts_slow(target)


@lru_cache(maxsize=1024)
def fingerprint(target: Target) -> str:
    """Return what tells a target from what it was before a deployment; references stand in it, never secrets.

    Its timing has no part in it: a bundle of a former plan may have another.
    """
    said = (target.url, target.path, target.method, target.body, sorted(target.headers.items(), key=str))
    rest = sorted(target.query.items(), key=str), target.auth, target.tls, target.proxy, target.answer
    return sha256(repr((said, rest, target.timeout_seconds, target.max_body_bytes)).encode()).hexdigest()[:16]


def _may_probe(state: TargetState, target: Target, slot: datetime, now: datetime) -> bool:
    """Return True if the delivery of a slot may reserve a probe; for a while only that of a recent slot."""
    trouble = state.trouble
    assert trouble is not None
    assert trouble.next_probe is not None
    age = (now - shift(slot, target.lag_seconds)).total_seconds()
    if not is_recent(age, target.interval_seconds):
        return now >= shift(trouble.next_probe, _OTHERS_TURN_SECONDS)
    is_changed = state.fingerprint != fingerprint(target)
    return trouble.is_due(now) or (is_changed and now >= shift(trouble.asked_at, PROBE_SECONDS[0]))


def _counts(state: TargetState, target: Target, error: ApiError, slot: datetime, now: datetime) -> bool:
    """Return True if a failure says something about the target, and not about its slot alone."""
    if isinstance(error, ApiUnreachable):
        return True
    age = (now - shift(slot, target.lag_seconds)).total_seconds()
    recent, in_doubt = is_recent(age, target.interval_seconds), state.trouble is not None
    if isinstance(error, ApiStatusError) and error.status >= 500:
        return recent or in_doubt
    return tells_of_target(error, recent=recent, in_doubt=in_doubt)


def _after_failure(state: TargetState, target: Target, error: ApiError, now: datetime) -> TargetState:
    before, why = state.trouble, explain(error, target)
    lasting = state.lasting + 1 if error.is_lasting else 0
    trouble = Trouble(before.since if before else now, why, now, before.failures + 1 if before else 1)
    if trouble.failures < MOST_FAILURES and lasting < MOST_LASTING:
        return replace(state, trouble=trouble, lasting=lasting)
    held = replace(trouble, next_probe=_later(_next_probe(trouble, target, now), error, now))
    return replace(state, trouble=held, lasting=lasting, answered_at=None, fingerprint=fingerprint(target))


def _after_probe(state: TargetState, target: Target, error: ApiError, now: datetime) -> TargetState | None:
    """Return the state after a probe failed that was counted when it was reserved: only what it adds to that."""
    assert state.trouble is not None
    assert state.trouble.next_probe is not None
    next_probe = _later(state.trouble.next_probe, error, now)
    trouble = replace(state.trouble, reason=explain(error, target), next_probe=next_probe)
    return None if trouble == state.trouble else replace(state, trouble=trouble)


def _later(probe: datetime, error: ApiError, now: datetime) -> datetime:
    """Return the time of a probe, not before the API allows one."""
    asked = error.retry_after_seconds if isinstance(error, ApiStatusError) else None
    return max(probe, shift(now, asked)) if asked else probe


def _next_probe(trouble: Trouble, target: Target, now: datetime) -> datetime:
    """Return when the probe after this one is due; no earlier than this one has ended."""
    pause = PROBE_SECONDS[min(trouble.probes, len(PROBE_SECONDS) - 1)]
    longest = PROBE_SECONDS[-1]
    if not target.backfill and (now - trouble.since).total_seconds() < _HOUR:
        pause, longest = min(pause, LIVE_ONLY_SECONDS), LIVE_ONLY_SECONDS
    least = max(PROBE_SECONDS[0], target.timeout_seconds + _SPARE_SECONDS)
    if pause < _SHARED_FROM:
        return shift(now, min(max(pause, least), longest))
    shared = from_seconds(ceil(shift(now, least).timestamp() / pause) * pause)
    return min(shared, shift(now, longest))
