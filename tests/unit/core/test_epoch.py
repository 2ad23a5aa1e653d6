"""Instants as numbers since 1970, and their texts by the million."""

from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.backend.times.zones import zoned_text
from kizami.core.epoch import InstantTexts, from_seconds
from kizami.core.slots import format_second

_ZONES = ["UTC", "Asia/Tokyo", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe", "Africa/Monrovia"]
_SECONDS = st.integers(-3_000_000_000, 4_000_000_000)


@pytest.mark.parametrize("zone", _ZONES)
@given(st.lists(_SECONDS, max_size=20), st.integers(0, 4000))
def test_the_texts_of_many_seconds_are_those_of_each(zone: str, seconds: list[int], more: int) -> None:
    """Also where the zone's offset was no whole minute, as before 1900."""
    near = [second + part for second in seconds for part in (0, more, 1)]
    texts = InstantTexts(lambda instant: zoned_text(instant, ZoneInfo(zone)))
    assert texts.of(near) == [zoned_text(from_seconds(each), ZoneInfo(zone)).encode() for each in near]


@pytest.mark.parametrize("zone", _ZONES)
@given(st.lists(st.tuples(_SECONDS, st.integers(1, 4000), st.integers(0, 200)), max_size=4))
def test_the_texts_of_a_range_are_those_of_each(zone: str, ranges: list[tuple[int, int, int]]) -> None:
    texts = InstantTexts(lambda instant: zoned_text(instant, ZoneInfo(zone)))
    for start, step, count in ranges:
        seconds = range(start, start + count * step, step)
        assert texts.of(seconds) == [zoned_text(from_seconds(each), ZoneInfo(zone)).encode() for each in seconds]


def test_an_hour_in_which_the_clocks_change_is_written_as_they_show_it() -> None:
    """In Berlin 2025-10-26T01:00:00Z; on Lord Howe by half an hour, in the middle of one of UTC."""
    berlin = InstantTexts(lambda instant: zoned_text(instant, ZoneInfo("Europe/Berlin")))
    assert berlin.of(range(1761440398, 1761440402)) == [
        b"2025-10-26T02:59:58+02:00",
        b"2025-10-26T02:59:59+02:00",
        b"2025-10-26T02:00:00+01:00",
        b"2025-10-26T02:00:01+01:00",
    ]
    island = InstantTexts(lambda instant: zoned_text(instant, ZoneInfo("Australia/Lord_Howe")))
    assert island.of(range(1759591799, 1759591801)) == [b"2025-10-05T01:59:59+10:30", b"2025-10-05T02:30:00+11:00"]


def test_far_more_texts_than_are_kept_are_right() -> None:
    texts = InstantTexts()
    seconds = [*range(0, 10_000_000, 997)]
    assert texts.of(seconds) == [format_second(from_seconds(each).astimezone(UTC)).encode() for each in seconds]
    assert len(texts) < len(seconds)
