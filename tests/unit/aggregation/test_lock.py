"""What a run may do about the lock it sees, and how a lock is written into the company's item."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kizami.aggregation.lock import Lock, LockDecision, decide, lock_for, read_lock, write_lock
from kizami.core.errors import InvalidInput

NOW = datetime(2025, 12, 2, 3, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("age", "owner", "decision"),
    [
        (timedelta(minutes=1), "other", LockDecision.HELD),
        (timedelta(minutes=120), "other", LockDecision.HELD),
        (timedelta(minutes=120, microseconds=1), "other", LockDecision.EXPIRED),
        (timedelta(minutes=1), "mine", LockDecision.OWN),
        (timedelta(minutes=121), "mine", LockDecision.EXPIRED),
        (timedelta(minutes=1), None, LockDecision.HELD),
        (timedelta(minutes=-30), "other", LockDecision.HELD),
    ],
)
def test_what_a_lock_means_for_a_message(age: timedelta, owner: str | None, decision: LockDecision) -> None:
    assert decide(Lock(NOW - age, owner, "r0"), "mine", NOW) is decision


def test_no_lock_is_free() -> None:
    assert decide(None, "mine", NOW) is LockDecision.FREE


def test_a_lock_is_written_as_attributes_and_read_back() -> None:
    lock = lock_for("m1", "r1", NOW.replace(microsecond=999_999))
    assert write_lock(lock) == {"UpdateAt": "2025-12-02T03:00:00Z", "LockOwner": "m1", "LockRun": "r1"}
    assert read_lock(write_lock(lock)) == lock


def test_a_bare_lock_of_the_specification_is_read_and_written_back() -> None:
    assert read_lock({"UpdateAt": "2025-12-02T03:00:00Z"}) == Lock(NOW, None, None)
    assert write_lock(Lock(NOW, None, None)) == {"UpdateAt": "2025-12-02T03:00:00Z"}


def test_an_item_without_update_at_is_not_locked() -> None:
    assert read_lock({}) is None
    assert read_lock({"LockOwner": "m1", "LockRun": "r1"}) is None


def test_an_update_at_that_is_not_ours_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match=r"^UpdateAt: "):
        read_lock({"UpdateAt": "1764644400"})
