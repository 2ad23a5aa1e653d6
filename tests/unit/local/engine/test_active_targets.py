"""What the loop knows of each target: its place within the interval, and how much may wait for its host."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kizami.core.targets.target import Target
from kizami.local.engine.active_targets import (
    LEAST_WAITING,
    ActiveTarget,
    offset_ms,
    over_after_seconds,
    waiting_limits,
)
from kizami.local.engine.options import Options
from kizami.local.http.target_access import TargetAccess
from kizami.local.store.metrics import ID_SPACE


def active(number: int = 1, host: str = "host", **settings: Any) -> ActiveTarget:
    given = {"interval_seconds": 10, "lag_seconds": 10} | settings
    return ActiveTarget(Target(name=f"t{number}", **given), number, 0, host, cast(TargetAccess, None))


@pytest.mark.parametrize(
    ("settings", "offset"),
    [({}, 5000), ({"lag_seconds": 0}, 0), ({"backfill": False}, 0), ({"lag_seconds": 20}, 5000)],
)
def test_only_a_window_that_has_ended_and_can_be_asked_for_later_is_spread(
    settings: dict[str, Any], offset: int
) -> None:
    assert offset_ms(active(**settings).target, ID_SPACE // 2) == offset


def test_a_host_may_have_as_much_waiting_as_its_attempts_take() -> None:
    options = Options(receive_limit=5, retry_seconds=2.0)
    quick, slow = (
        active(1, interval_seconds=1, lag_seconds=1),
        active(2, "slow", interval_seconds=3600, lag_seconds=3600),
    )
    assert waiting_limits([quick, slow], options) == {"host": 300, "slow": LEAST_WAITING}
    patient = active(1, interval_seconds=1, lag_seconds=1, timeout_seconds=100.0)
    assert waiting_limits([patient], options) == {"host": round((170 + 500) * 1.25 + 0.49)}
    assert waiting_limits([quick, active(3, interval_seconds=1, lag_seconds=1)], options) == {"host": 600}


def test_a_slot_that_can_only_be_asked_for_live_is_over_with_the_interval_after_it() -> None:
    assert over_after_seconds([active(1), active(2, backfill=False)]) == {2: 20}
