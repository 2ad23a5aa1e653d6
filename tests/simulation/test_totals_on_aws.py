"""Hours of a thousand targets that are closed: the reconciler makes the totals of all of them within half an hour.

bench/at_scale/totals.py does the same with a hundred thousand.
"""

from __future__ import annotations

from pathlib import Path

from aws_here.closed_hours import ClosedHours
from kizami.aws.history.totalling import RUNS_FOR_ALL, hours_a_run


def test_the_hour_of_1000_targets_is_totalled_within_half_an_hour(tmp_path: Path) -> None:
    closed = ClosedHours(1000, tmp_path, interval=60)
    made = [closed.run() for _ in range(RUNS_FOR_ALL + 1)]
    most = hours_a_run(1000)
    assert made == [most, most, most, most, 1000 - 4 * most, 0, 0]
    assert set(closed.totals.values()) == {1}
    assert all(closed.in_time)


def test_what_a_reconciler_that_was_down_has_left_is_made_up_for(tmp_path: Path) -> None:
    closed = ClosedHours(150, tmp_path, interval=60, hours=4)
    runs = 0
    while closed.run():
        runs += 1
    assert set(closed.totals.values()) == {4}
    assert runs == -(-150 * 4 // hours_a_run(150))
