"""Stretches of time begin where the clocks of a zone show it, summer time or not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from kizami.backend.figures.edges import edges_between, moved_back, parse_every, require_whole_slots, start_of
from kizami.backend.targets import KnownTarget
from kizami.core.errors import InvalidInput

BERLIN, NEW_YORK, HOWE = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York"), ZoneInfo("Australia/Lord_Howe")


def moment(text: str, zone: ZoneInfo) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)


def lengths(every: str, zone: ZoneInfo, start: str, end: str) -> list[float]:
    """The lengths of the stretches of a range that the zone's clock names, in hours."""
    edges = edges_between(parse_every(every), zone, moment(start, zone), moment(end, zone))
    return [(later - earlier) / timedelta(hours=1) for earlier, later in pairwise(edges)]


def shown(every: str, zone: ZoneInfo, start: str, end: str) -> list[str]:
    edges = edges_between(parse_every(every), zone, moment(start, zone), moment(end, zone))
    return [f"{edge.astimezone(zone):%d %H:%M}" for edge in edges]


@pytest.mark.parametrize(
    ("every", "zone", "start", "end", "hours"),
    [
        ("1d", BERLIN, "2025-03-29", "2025-04-01", [24, 23, 24]),
        ("1d", BERLIN, "2025-10-25", "2025-10-28", [24, 25, 24]),
        ("1h", BERLIN, "2025-03-30", "2025-03-31", [1] * 23),
        ("1h", BERLIN, "2025-10-26", "2025-10-27", [1] * 25),
        ("6h", BERLIN, "2025-10-26", "2025-10-27", [7, 6, 6, 6]),
        ("2h", NEW_YORK, "2025-03-09", "2025-03-09T06:00", [2, 1, 2]),
        ("1w", BERLIN, "2025-10-20", "2025-11-03", [7 * 24 + 1, 7 * 24]),
        ("1mo", BERLIN, "2025-02-01", "2025-04-01", [28 * 24, 31 * 24 - 1]),
        # Lord Howe's clock is set by half an hour.
        ("1h", HOWE, "2025-04-06", "2025-04-06T04:00", [1, 1, 0.5, 1, 1]),
        ("1h", HOWE, "2025-10-05", "2025-10-05T04:00", [1, 1, 0.5, 1]),
        # In Chile it is set at midnight: the day begins at one o'clock.
        ("1d", ZoneInfo("America/Santiago"), "2025-09-06", "2025-09-08", [24, 23]),
        # Newfoundland's was set back a minute after midnight: the new day had begun.
        ("1d", ZoneInfo("America/St_Johns"), "2010-11-06", "2010-11-08", [24, 25]),
        # Samoa had no 30 December 2011.
        ("1d", ZoneInfo("Pacific/Apia"), "2011-12-29", "2012-01-01", [24, 24]),
    ],
)
def test_stretches_are_as_long_as_the_clock_makes_them(
    every: str, zone: ZoneInfo, start: str, end: str, hours: list[float]
) -> None:
    assert lengths(every, zone, start, end) == hours


def test_zones_of_half_and_quarter_hours_have_their_own_hours() -> None:
    utc = datetime(2025, 12, 2, 10, 20, tzinfo=UTC)
    found = {
        name: edges_between(parse_every("1h"), ZoneInfo(name), utc, utc + timedelta(hours=1))[1].minute
        for name in ("UTC", "Asia/Kolkata", "Asia/Kathmandu")
    }
    assert found == {"UTC": 0, "Asia/Kolkata": 30, "Asia/Kathmandu": 15}


def test_a_range_that_begins_within_a_stretch_has_a_shorter_first_one() -> None:
    assert shown("1h", BERLIN, "2025-12-02T10:20", "2025-12-02T12:10") == [
        "02 10:20",
        "02 11:00",
        "02 12:00",
        "02 12:10",
    ]


@pytest.mark.parametrize(
    ("every", "zone", "instant", "start"),
    [
        ("1h", BERLIN, "2025-12-02T10:20:07", "2025-12-02T10:00"),
        ("1d", BERLIN, "2025-12-02T10:20:07", "2025-12-02"),
        ("1w", BERLIN, "2025-12-07T23:59:59", "2025-12-01"),
        ("1mo", BERLIN, "2025-12-31T10:00", "2025-12-01"),
        ("5m", BERLIN, "2025-12-02T10:24:59", "2025-12-02T10:20"),
    ],
)
def test_the_start_of_a_stretch(every: str, zone: ZoneInfo, instant: str, start: str) -> None:
    assert start_of(parse_every(every), zone, moment(instant, zone)) == moment(start, zone)


def test_a_week_before_is_the_same_time_on_the_clock() -> None:
    edges = edges_between(parse_every("1d"), BERLIN, moment("2025-10-26", BERLIN), moment("2025-10-28", BERLIN))
    before = moved_back(edges, 7 * 86_400, BERLIN)
    assert before == [moment(day, BERLIN) for day in ("2025-10-19", "2025-10-20", "2025-10-21")]
    assert moved_back(edges, 3600, BERLIN) == [edge - timedelta(hours=1) for edge in edges]


@pytest.mark.parametrize("text", ["7s", "0s", "25h", "2w", "1y", "", "hourly", "-1h", "61s"])
def test_what_divides_no_day_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"--every"):
        parse_every(text, "--every")


def test_stretches_hold_whole_slots() -> None:
    slow = KnownTarget("slow", 300, 0, datetime(2025, 12, 2, tzinfo=UTC))
    require_whole_slots(parse_every("1h"), slow)
    with pytest.raises(InvalidInput, match="every: 1m is no multiple of the interval of slow, 300 s"):
        require_whole_slots(parse_every("1m"), slow)


def test_too_many_stretches_are_refused_with_the_remedy() -> None:
    start = datetime(2000, 1, 1, tzinfo=UTC)
    with pytest.raises(InvalidInput, match=r"more than 100,000; ask for longer stretches or a shorter range"):
        edges_between(parse_every("1s"), UTC, start, start + timedelta(days=400))
