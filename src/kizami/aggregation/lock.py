"""The company's lock: what a run may do with the lock it sees (pure).

A lock is held from `UpdateAt` by one run of one message. The message is its owner, so that a redelivery
after a crash re-enters at once; the run is who may release it, so that a run that was overtaken, by a
redelivery of its own message or after 120 minutes, cannot release its successor's lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from kizami.core.slots import floor_to_second, format_instant, parse_instant

EXPIRY = timedelta(minutes=120)


@dataclass(frozen=True, slots=True)
class Lock:
    """A held lock. One that we did not write may lack owner and run."""

    locked_at: datetime
    owner: str | None
    run: str | None


class LockDecision(Enum):
    """What a run does about the lock it has seen."""

    FREE = "free"
    OWN = "own"
    EXPIRED = "expired"
    HELD = "held"


def decide(seen: Lock | None, owner: str, now: datetime) -> LockDecision:
    """What the lock that was seen means for a message: go on, re-enter, report and take over, or end.

    An expired lock is reported also when it is the message's own: somebody's run took too long or died.
    """
    if seen is None:
        return LockDecision.FREE
    if seen.locked_at < now - EXPIRY:  # and not the sum, which a lock of the year 9999 would not survive
        return LockDecision.EXPIRED
    return LockDecision.OWN if seen.owner == owner else LockDecision.HELD


def lock_for(owner: str, run: str, now: datetime) -> Lock:
    """The lock that a run writes; `UpdateAt` is whole seconds, as every instant that is a key or is stored."""
    return Lock(floor_to_second(now), owner, run)


def write_lock(lock: Lock) -> dict[str, str]:
    """The lock as attributes of the company's item."""
    attributes = {"UpdateAt": format_instant(lock.locked_at), "LockOwner": lock.owner, "LockRun": lock.run}
    return {name: value for name, value in attributes.items() if value is not None}


def read_lock(attributes: dict[str, str]) -> Lock | None:
    """The lock that the item's attributes hold: by the seed, there is one where `UpdateAt` is."""
    if "UpdateAt" not in attributes:
        return None
    locked_at = parse_instant(attributes["UpdateAt"], "UpdateAt")
    return Lock(locked_at, attributes.get("LockOwner"), attributes.get("LockRun"))
