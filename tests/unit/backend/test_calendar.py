"""The calendar's days are those of the reader's zone, also where clocks are set."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from kizami.backend.calendar import CellLength, calendar_edges
from kizami.core.slots import Window


@pytest.mark.parametrize(("zone", "hours"), [("UTC", {24}), ("Asia/Tokyo", {24}), ("Europe/Berlin", {23, 24, 25})])
def test_a_year_has_all_its_days_one_after_the_other(zone: str, hours: set[int]) -> None:
    start, end = (datetime(year, 1, 1, tzinfo=ZoneInfo(zone)).astimezone(UTC) for year in (2025, 2026))
    edges = calendar_edges(Window(start, end), CellLength.DAY, ZoneInfo(zone))
    assert (edges[0], edges[-1], len(edges)) == (start, end, 366)
    assert {(late - early) // timedelta(hours=1) for early, late in pairwise(edges)} == hours
    assert all(edge.astimezone(ZoneInfo(zone)).hour == 0 for edge in edges)


def test_a_range_may_begin_and_end_within_a_cell() -> None:
    start = datetime(2025, 12, 2, 10, 20, tzinfo=UTC)
    edges = calendar_edges(Window(start, start + timedelta(hours=2)), CellLength.HOUR, UTC)
    assert [f"{edge:%H:%M}" for edge in edges] == ["10:20", "11:00", "12:00", "12:20"]
