"""Hosts that hang or fail delay no live tick of others, and cost less than a tenth of the bill, on simulated time.

`make bench-at-scale` has more cases, up to 100,000 targets.
"""

from __future__ import annotations

from functools import cache

import pytest
from bench.at_scale.deliveries import FAIL, HANG, TroubleCase, TroubleResult, TroubleRun

TARGETS = 1000
MOST_OF_THE_BILL = 0.1


@cache
def healthy() -> TroubleResult:
    return TroubleRun(TroubleCase(TARGETS)).run()


@pytest.mark.parametrize(("ill", "illness"), [(8, HANG), (100, HANG), (100, FAIL)])
def test_ill_hosts_delay_no_live_tick_and_cost_little(ill: int, illness: str) -> None:
    found = TroubleRun(TroubleCase(TARGETS, ill, illness)).run()
    assert found.later_than(healthy()) <= 0
    assert found.dollars < (1 + MOST_OF_THE_BILL) * healthy().dollars
    assert (found.held, found.retry_backlog) == (ill, 0)


def test_healthy_hosts_are_neither_late_nor_held() -> None:
    assert healthy().lateness(0)[-1] == 0
    assert (healthy().held, healthy().peaks[1]) == (0, 0)


def test_the_simulation_notices_live_deliveries_without_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.at_scale.deliveries.LIVE_SECONDS", 10.0)
    assert TroubleRun(TroubleCase(TARGETS, 100)).run().later_than(healthy()) > 1


def test_the_simulation_notices_probes_that_wait_for_the_whole_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.at_scale.deliveries.probe_target", lambda state, target, now: target)
    found = TroubleRun(TroubleCase(TARGETS, 100)).run()
    assert found.dollars > (1 + MOST_OF_THE_BILL) * healthy().dollars
