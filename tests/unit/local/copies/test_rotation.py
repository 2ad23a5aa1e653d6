"""Dated backups: their names, when the next is due, which are too many."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kizami.local.copies.rotation import backup_name, dated, moment_of, next_due, superfluous

NOW = datetime(2026, 11, 17, 2, 30, tzinfo=UTC)
NAMES = [backup_name(NOW - timedelta(days=days)) for days in range(5)]


def test_a_name_tells_its_moment_in_utc() -> None:
    assert backup_name(NOW) == "kizami-20261117T023000Z.db"
    assert moment_of(backup_name(NOW)) == NOW
    assert backup_name(NOW.astimezone()) == backup_name(NOW)


@pytest.mark.parametrize(
    "name", ["kizami.db", "kizami-2026.db", "kizami-20261399T023000Z.db", "a/kizami-x.db", ""]
)
def test_what_has_another_name_is_none_of_ours(name: str) -> None:
    assert moment_of(name) is None
    assert dated([name]) == []
    assert superfluous([name, *NAMES], 5, NOW) == []


def test_the_newest_are_kept_and_the_oldest_go() -> None:
    assert superfluous(NAMES, 2, NOW) == sorted(NAMES)[:3]
    assert superfluous(NAMES, 9, NOW) == []


def test_the_next_is_due_so_long_after_the_newest() -> None:
    assert next_due(NAMES, 86_400, NOW) == NOW + timedelta(days=1)
    assert next_due([], 86_400, NOW) == NOW


def test_a_backup_from_the_future_is_not_waited_for() -> None:
    ahead = backup_name(NOW + timedelta(days=400))
    assert next_due([ahead], 3600, NOW) == NOW
    assert next_due([ahead, NAMES[1]], 3600, NOW) == NOW - timedelta(days=1) + timedelta(hours=1)


def test_backups_from_the_future_go_before_the_one_that_was_just_made() -> None:
    ahead = [backup_name(NOW + timedelta(days=days)) for days in (1, 2)]
    assert superfluous([*ahead, NAMES[0]], 1, NOW) == ahead
    assert superfluous([*ahead, *NAMES[:2]], 3, NOW) == ahead[:1]
