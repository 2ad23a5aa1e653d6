"""Days and months of points, in zones that change their clocks at the most awkward moments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kizami.aggregation.points import PointDay, point_day, point_key, read_point_key, require_zone
from kizami.core.errors import ConfigurationError

# Zones that skip or repeat midnight, cross it, or leave a whole day out.
AWKWARD = (
    "Asia/Tokyo", "America/Sao_Paulo", "America/Havana", "America/Goose_Bay", "America/Toronto", "Asia/Beirut",
    "Africa/Cairo", "Pacific/Apia", "Europe/London", "Australia/Lord_Howe", "America/Scoresbysund",
)  # fmt: skip
zones = st.sampled_from(AWKWARD) | st.sampled_from(sorted(available_timezones()))
instants = st.integers(-1_735_689_600, 2_145_830_400).map(lambda second: datetime.fromtimestamp(second, UTC))


def day_at(text: str, zone: str) -> PointDay:
    return point_day(datetime.fromisoformat(text), ZoneInfo(zone))


def start_at(text: str, zone: str) -> str:
    return datetime.fromtimestamp(day_at(text, zone).start, UTC).isoformat()


def test_the_day_of_tokyo_begins_at_15_00_utc() -> None:
    assert start_at("2025-12-02T14:59:59Z", "Asia/Tokyo") == "2025-12-01T15:00:00+00:00"
    assert start_at("2025-12-02T15:00:00Z", "Asia/Tokyo") == "2025-12-02T15:00:00+00:00"


def test_the_month_is_the_zones_month() -> None:
    assert day_at("2025-12-31T14:59:59Z", "Asia/Tokyo").month == "202512"
    assert day_at("2025-12-31T15:00:00Z", "Asia/Tokyo").month == "202601"
    assert day_at("2025-12-31T15:00:00Z", "UTC").month == "202512"


def test_the_run_has_one_now_in_whole_seconds() -> None:
    assert day_at("2025-12-02T03:00:00.999999Z", "Asia/Tokyo").now == 1764644400


def test_a_day_with_a_clock_change_is_23_or_25_hours_long() -> None:
    zone = "Europe/Berlin"
    spring = day_at("2025-03-31T12:00:00Z", zone).start - day_at("2025-03-30T12:00:00Z", zone).start
    autumn = day_at("2025-10-27T12:00:00Z", zone).start - day_at("2025-10-26T12:00:00Z", zone).start
    assert (spring, autumn) == (23 * 3600, 25 * 3600)


def test_a_day_whose_midnight_is_skipped_begins_with_the_clock_change() -> None:
    # São Paulo went from 2018-11-03T23:59:59-03 to 2018-11-04T01:00:00-02.
    assert start_at("2018-11-04T03:00:00Z", "America/Sao_Paulo") == "2018-11-04T03:00:00+00:00"
    assert start_at("2018-11-04T02:59:59Z", "America/Sao_Paulo") == "2018-11-03T03:00:00+00:00"


def test_a_day_that_begins_within_a_skipped_hour_begins_with_the_clock_change() -> None:
    # Toronto went from 1919-03-30T23:29:59-05 to 1919-03-31T00:30:00-04.
    assert start_at("1919-03-31T04:30:00Z", "America/Toronto") == "1919-03-31T04:30:00+00:00"
    assert start_at("1919-03-31T04:45:00Z", "America/Toronto") == "1919-03-31T04:30:00+00:00"


def test_a_repeated_midnight_begins_the_day_once() -> None:
    # Havana repeats 00:00 to 00:59 on 2025-11-02.
    assert start_at("2025-11-02T04:30:00Z", "America/Havana") == "2025-11-02T04:00:00+00:00"
    assert start_at("2025-11-02T05:30:00Z", "America/Havana") == "2025-11-02T04:00:00+00:00"


def test_going_back_over_midnight_does_not_bring_the_day_before_back() -> None:
    # Goose Bay went from 2010-11-07T00:00:59-03 back to 2010-11-06T23:01:00-04.
    for text in ("2010-11-07T03:00:30Z", "2010-11-07T03:30:00Z", "2010-11-07T04:30:00Z"):
        assert start_at(text, "America/Goose_Bay") == "2010-11-07T03:00:00+00:00"


def test_a_day_that_a_zone_left_out_is_no_day() -> None:
    # Apia went from 2011-12-29T23:59:59-10 to 2011-12-31T00:00:00+14.
    assert start_at("2011-12-30T09:59:59Z", "Pacific/Apia") == "2011-12-29T10:00:00+00:00"
    assert start_at("2011-12-30T10:00:00Z", "Pacific/Apia") == "2011-12-30T10:00:00+00:00"


# **Feature: aggregation-batch, Property A3: days begin at or before their instants, in order**
@given(instants, zones, st.integers(1, 3 * 86_400))
@example(datetime(2010, 11, 7, 3, 0, 30, tzinfo=UTC), "America/Goose_Bay", 1800)
@example(datetime(1919, 3, 31, 4, 29, 59, tzinfo=UTC), "America/Toronto", 2)
def test_days_follow_each_other_without_overlap(now: datetime, zone: str, later_seconds: int) -> None:
    day, later = (point_day(at, ZoneInfo(zone)) for at in (now, now + timedelta(seconds=later_seconds)))
    assert day.start <= day.now
    if day.start == later.start:
        assert day.month == later.month
    else:
        assert day.now < later.start
        assert day.month <= later.month


# **Feature: aggregation-batch, Property A4: an ordinary day begins with the zone's midnight**
@given(instants, st.sampled_from(("UTC", "Etc/GMT+9", "Etc/GMT-14")))
def test_where_clocks_do_not_change_the_day_begins_at_midnight(now: datetime, zone: str) -> None:
    start = datetime.fromtimestamp(point_day(now, ZoneInfo(zone)).start, ZoneInfo(zone))
    assert (start.hour, start.minute, start.second) == (0, 0, 0)


@pytest.mark.parametrize("user_number", ["u1", "u#1", "#", "株式会社#202401"])
def test_a_point_key_is_taken_apart_again(user_number: str) -> None:
    assert read_point_key(point_key(user_number, "202512")) == (user_number, "202512")


def test_the_point_key_is_user_number_and_month() -> None:
    assert point_key("u1", "202512") == "u1#202512"


@pytest.mark.parametrize("name", ["", "Asia", "../etc/passwd", "/etc/localtime", "x" * 300, "\x00"])
def test_a_time_zone_that_is_none_is_a_configuration_error(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^AGGREGATION_TZ: .* is not a time zone like Asia/Tokyo"):
        require_zone(name, "AGGREGATION_TZ")


def test_a_time_zone_that_is_like_it_is_suggested() -> None:
    with pytest.raises(ConfigurationError, match=r"^AGGREGATION_TZ: 'Asia/Tokio' .*; did you mean Asia/Tokyo\?$"):
        require_zone("Asia/Tokio", "AGGREGATION_TZ")
