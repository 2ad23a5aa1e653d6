"""Which blocked target is probed when: one at a time, a host with pauses, and more of it when one answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import cast

import pytest

from kizami.core.blocking import LEAST_PROBE_SECONDS
from kizami.core.errors import ApiStatusError
from kizami.core.targets.target import Target
from kizami.local.engine.active_targets import ActiveTarget
from kizami.local.engine.failures.blocked_targets import HOST_SECONDS, BlockedTargets
from kizami.local.http.target_access import TargetAccess

NOW = datetime(2025, 12, 2, 10, tzinfo=UTC)
REFUSED = ApiStatusError(401)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def active(number: int, host: str = "host") -> ActiveTarget:
    return ActiveTarget(Target(name=f"t{number}"), number, 0, host, cast(TargetAccess, None))


@pytest.fixture
def targets() -> dict[int, ActiveTarget]:
    return {number: active(number) for number in range(4)}


@pytest.fixture
def blocked(targets: dict[int, ActiveTarget]) -> BlockedTargets:
    """All four of one host, since now."""
    blocked = BlockedTargets()
    for each in targets.values():
        for _ in range(2):
            blocked.failed(each, REFUSED, NOW, recent=True, probe=False)
    return blocked


def test_one_failure_is_a_doubt_and_two_are_a_block(targets: dict[int, ActiveTarget]) -> None:
    blocked = BlockedTargets()
    blocked.failed(targets[0], REFUSED, NOW, recent=True, probe=False)
    assert not blocked.holds(0)
    assert len(blocked) == 0
    blocked.failed(targets[0], REFUSED, NOW, recent=True, probe=False)
    assert blocked.holds(0)
    assert len(blocked) == 1


def test_the_targets_of_a_host_are_probed_one_after_the_other_and_each_once(
    blocked: BlockedTargets, targets: dict[int, ActiveTarget]
) -> None:
    assert blocked.next_probes(targets, after(LEAST_PROBE_SECONDS - 1)) == []
    probed = []
    for second in range(int(4 * HOST_SECONDS)):
        now = after(LEAST_PROBE_SECONDS + second)
        probed += [(second, row.metric_id) for row in blocked.next_probes(targets, now)]
    assert [number for _, number in probed] == [0, 1, 2, 3]
    assert all(later - earlier >= HOST_SECONDS for (earlier, _), (later, _) in pairwise(probed))


def test_a_probe_that_never_came_back_is_over_some_minutes_later(
    blocked: BlockedTargets, targets: dict[int, ActiveTarget]
) -> None:
    one = {0: targets[0]}
    assert len(blocked.next_probes(one, after(60))) == 1
    assert blocked.next_probes(one, after(400)) == []
    assert len(blocked.next_probes(one, after(60 + 361))) == 1


def test_one_that_is_gone_is_not_probed(blocked: BlockedTargets, targets: dict[int, ActiveTarget]) -> None:
    del targets[0], targets[1], targets[3]
    assert [row.metric_id for row in blocked.next_probes(targets, after(100))] == [2]


def test_one_that_answers_has_two_more_of_its_host_probed_at_once(
    blocked: BlockedTargets, targets: dict[int, ActiveTarget]
) -> None:
    (first,) = blocked.next_probes(targets, after(60))
    assert blocked.answered(targets[first.metric_id], targets) is not None
    assert not blocked.holds(first.metric_id)
    assert [row.metric_id for row in blocked.next_probes(targets, after(61))] == [1, 2]


def test_a_probe_that_fails_makes_the_wait_longer(
    blocked: BlockedTargets, targets: dict[int, ActiveTarget]
) -> None:
    one = {0: targets[0]}
    blocked.next_probes(one, after(60))
    blocked.failed(targets[0], REFUSED, after(60), recent=True, probe=True)
    assert blocked.next_probes(one, after(60 + 119)) == []
    assert len(blocked.next_probes(one, after(60 + 120))) == 1
