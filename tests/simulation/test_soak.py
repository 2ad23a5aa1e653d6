"""What `make soak` tells at its end: how each figure went, and its slope."""

from __future__ import annotations

import pytest
from bench.soak import Minute, draw, slope, sparkline


def test_a_slope_is_that_of_the_nearest_line() -> None:
    assert slope([5.0, 5.0, 5.0]) == 0
    assert slope([1.0, 3.0, 2.0, 4.0]) == pytest.approx(0.8)
    assert slope([7.0]) == 0


def test_a_bar_for_each_value() -> None:
    assert sparkline([0.0, 50.0, 100.0]) == "▁▅█"
    assert sparkline([3.0, 3.0]) == "▁▁"


def test_memory_descriptors_file_queue_and_lateness_are_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    draw([Minute(10, 0, 50.0 + n, 20, 1.5, 7, 0, None) for n in range(4)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["memory", "(MB)", "▁▃▆█", "50", "to", "53,", "+60.0", "an", "hour"]
    assert [line.split()[0] for line in lines] == ["memory", "descriptors", "file", "queue", "late"]
