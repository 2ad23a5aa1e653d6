"""Times and ranges as people ask for them, and what is said about those that name no instant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.backend.times.asked import Moment, read_bounds, read_last, read_time
from kizami.core.errors import InvalidInput

NOW = datetime(2025, 12, 2, 20, 23, 7, 500_000, tzinfo=UTC)  # a Tuesday; in Tokyo it is Wednesday, 05:23
TOKYO = Moment(NOW, ZoneInfo("Asia/Tokyo"))
ANYWHERE = Moment(NOW)


def utc(month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> datetime:
    return datetime(2025, month, day, hour, minute, second, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "2025-12-02T12:00:00Z",
        "2025-12-02T12:00Z",
        "2025-12-02T21:00:00+09:00",
        "2025-12-02 12:00:00Z",
        "20251202T120000Z",
        "2025-12-02T12:00:00.000Z",
    ],
)
def test_an_instant_is_any_iso_8601_date_time_with_an_offset(text: str) -> None:
    assert read_time(text, ANYWHERE, "from") == read_time(text, TOKYO, "from") == utc(12, 2, 12)


def test_an_instant_can_be_told_from_now() -> None:
    assert read_time("now", ANYWHERE, "to") == NOW
    assert read_time("-2h", ANYWHERE, "from") == NOW - timedelta(hours=2)
    assert read_time("-1h30m", TOKYO, "from") == NOW - timedelta(minutes=90)


@pytest.mark.parametrize(
    ("text", "anywhere", "tokyo"),
    [
        ("today", utc(12, 2), utc(12, 2, 15)),
        ("yesterday", utc(12, 1), utc(12, 1, 15)),
        ("yesterday 09:30", utc(12, 1, 9, 30), utc(12, 2, 0, 30)),
        ("today 9:30:15", utc(12, 2, 9, 30, 15), utc(12, 3, 0, 30, 15)),
        ("monday", utc(12, 1), utc(11, 30, 15)),
        ("tuesday", utc(12, 2), utc(12, 1, 15)),
        ("sunday 12:00", utc(11, 30, 12), utc(11, 30, 3)),
    ],
)
def test_days_are_those_of_the_zone_asked_for(text: str, anywhere: datetime, tokyo: datetime) -> None:
    assert (read_time(text, ANYWHERE, "from"), read_time(text, TOKYO, "from")) == (anywhere, tokyo)


@pytest.mark.parametrize("text", ["2025-12-03", "2025-12-03T00:00", "2025-12-03 00:00:00", "20251203T000000"])
def test_a_time_without_an_offset_is_one_of_the_zone_asked_for(text: str) -> None:
    assert read_time(text, TOKYO, "from") == utc(12, 2, 15)


@pytest.mark.parametrize("text", ["2025-12-02T12:00:00", "2025-12-02 12:00", "20251202T120000"])
def test_where_no_zone_was_asked_for_it_is_refused_with_the_remedy(text: str) -> None:
    words = r"from: .* has no time zone; add Z or an offset such as \+09:00, or say tz"
    with pytest.raises(InvalidInput, match=words):
        read_time(text, ANYWHERE, "from")


def test_a_day_alone_is_refused_with_the_remedy_where_no_zone_was_asked_for() -> None:
    words = r"to: '2025-12-02' is a whole day; write its time and zone too, .*, or say tz"
    with pytest.raises(InvalidInput, match=words):
        read_time("2025-12-02", ANYWHERE, "to")


@pytest.mark.parametrize(
    "text",
    ["", "-2mo", "- 2h", "2025-13-01T00:00:00Z", "12:00Z", "2h", "today 25:00", "someday", "Today 9", "today9:00"],
)
@pytest.mark.parametrize("asked", [ANYWHERE, TOKYO])
def test_whatever_else_is_refused_by_its_name(text: str, asked: Moment) -> None:
    with pytest.raises(InvalidInput, match=r"^from: "):
        read_time(text, asked, "from")


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("1h30m", NOW - timedelta(minutes=90), NOW),
        ("5min", NOW - timedelta(minutes=5), NOW),
        ("90", NOW - timedelta(seconds=90), NOW),
        ("today", utc(12, 2, 15), NOW),
        ("yesterday", utc(12, 1, 15), utc(12, 2, 15)),
        ("monday", utc(11, 30, 15), NOW),
    ],
)
def test_the_last_so_long_or_the_last_day(text: str, start: datetime, end: datetime) -> None:
    assert read_last(text, TOKYO) == (start, end)


def test_a_day_that_begins_at_one_o_clock_begins_there() -> None:
    santiago = Moment(datetime(2025, 9, 7, 12, tzinfo=UTC), ZoneInfo("America/Santiago"))
    assert read_time("today", santiago, "from") == datetime(2025, 9, 7, 4, tzinfo=UTC)


def test_what_is_not_said_of_a_range_is_left_open() -> None:
    assert read_bounds(None, None, None, ANYWHERE) == (None, None)
    assert read_bounds("yesterday", "today", None, ANYWHERE) == (utc(12, 1), utc(12, 2))
    assert read_bounds("-1h", None, None, ANYWHERE) == (NOW - timedelta(hours=1), None)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        (("-1h", None, "1h"), "last: goes without from and to"),
        (("now", "-1h", None), "from: 2025-12-03T05:23:07+09:00 is not before 2025-12-03T04:23:07+09:00"),
        ((None, None, "0s"), "last: must be longer than nothing"),
        (("0001-01-01T00:00", None, None), "from: '0001-01-01T00:00' is outside years 0001 to 9999 in UTC"),
    ],
)
def test_a_range_that_cannot_be_is_refused_by_name(bounds: tuple[str | None, ...], words: str) -> None:
    since, until, last = bounds
    with pytest.raises(InvalidInput) as refusal:
        read_bounds(since, until, last, TOKYO)
    assert str(refusal.value) == words


@given(st.text())
def test_no_text_makes_anything_but_an_instant_or_one_line_of_refusal(text: str) -> None:
    for asked in (ANYWHERE, TOKYO):
        words = ""
        try:
            assert read_time(text, asked, "from").utcoffset() == timedelta(0)
        except InvalidInput as refusal:
            words = str(refusal)
        assert len(words.splitlines()) <= 1
