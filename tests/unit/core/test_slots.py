"""Slot time, time windows and how an instant is written: the edges of the calendar, the clock and the wire."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from kizami.core.errors import InvalidInput
from kizami.core.slots import (
    INTERVALS,
    Window,
    floor_to_minute,
    floor_to_second,
    floor_to_slot,
    format_instant,
    format_second,
    parse_duration,
    parse_instant,
    parse_iso8601,
    require_interval,
    require_slot_window,
    shift,
    shorten,
    slots_between,
    to_utc,
)
from samples.timestamps import slot_time

FIRST = datetime(1, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
KOLKATA = ZoneInfo("Asia/Kolkata")  # +05:30
HUGE = pytest.param(10**5000, id="5001-digits")  # longer than Python is willing to print
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")  # summer time of half an hour


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


class TestSlotTime:
    @pytest.mark.parametrize(
        ("instant", "slot"),
        [
            ("2025-12-02T10:23:07Z", "2025-12-02T10:23:05Z"),
            ("2025-12-02T10:23:13Z", "2025-12-02T10:23:10Z"),
            ("2025-12-02T10:23:59Z", "2025-12-02T10:23:55Z"),
            ("2025-12-02T10:23:04Z", "2025-12-02T10:23:00Z"),
        ],
    )
    def test_requirement_4_1_seconds_are_cut_down_to_a_multiple_of_five(self, instant: str, slot: str) -> None:
        assert slot_time(parse_instant(instant)) == slot

    @pytest.mark.parametrize("second", range(0, 60, 5))
    def test_requirement_4_2_an_instant_on_the_boundary_stays(self, second: int) -> None:
        instant = utc(2025, 12, 2, 10, 23, second)
        assert floor_to_slot(instant) == instant

    def test_requirement_4_3_a_slot_time_is_written_in_iso_8601_to_the_second(self) -> None:
        assert slot_time(utc(2025, 12, 2, 10, 23, 5)) == "2025-12-02T10:23:05Z"

    @pytest.mark.parametrize("microsecond", [1, 999, 1_000, 500_000, 999_000, 999_999])
    def test_fractions_of_a_second_are_cut_off_and_never_rounded_up(self, microsecond: int) -> None:
        assert floor_to_slot(utc(2025, 12, 2, 10, 23, 5, microsecond)) == utc(2025, 12, 2, 10, 23, 5)
        assert floor_to_slot(utc(2025, 12, 2, 10, 23, 4, microsecond)) == utc(2025, 12, 2, 10, 23, 0)

    @pytest.mark.parametrize(
        ("last_moment", "slot"),
        [
            (utc(2025, 12, 2, 10, 23, 59, 999_999), "2025-12-02T10:23:55Z"),
            (utc(2025, 12, 2, 10, 59, 59, 999_999), "2025-12-02T10:59:55Z"),
            (utc(2025, 12, 2, 23, 59, 59, 999_999), "2025-12-02T23:59:55Z"),
            (utc(2025, 12, 31, 23, 59, 59, 999_999), "2025-12-31T23:59:55Z"),
            (utc(2024, 2, 28, 23, 59, 59, 999_999), "2024-02-28T23:59:55Z"),
            (utc(2024, 2, 29, 23, 59, 59, 999_999), "2024-02-29T23:59:55Z"),
        ],
        ids=["minute", "hour", "day", "year", "before-leap-day", "leap-day"],
    )
    def test_the_last_moment_and_the_next_fall_into_neighbouring_slots(
        self, last_moment: datetime, slot: str
    ) -> None:
        next_moment = last_moment + timedelta(microseconds=1)
        assert slot_time(last_moment) == slot
        assert floor_to_slot(next_moment) == next_moment

    def test_the_calendar_reaches_from_year_1_to_year_9999(self) -> None:
        assert slot_time(FIRST) == "0001-01-01T00:00:00Z"
        assert slot_time(LAST) == "9999-12-31T23:59:55Z"

    @pytest.mark.parametrize("interval", INTERVALS)
    def test_every_interval_has_its_slots_on_its_own_multiples(self, interval: int) -> None:
        slot = floor_to_slot(utc(2025, 12, 2, 23, 59, 59, 999_999), interval)
        assert slot == utc(2025, 12, 3) - timedelta(seconds=interval)

    @pytest.mark.parametrize(
        ("interval", "slot"),
        [
            (120, "2025-12-02T10:22:00Z"),
            (300, "2025-12-02T10:20:00Z"),
            (480, "2025-12-02T10:16:00Z"),  # which divides the day and not the hour
            (3600, "2025-12-02T10:00:00Z"),
            (28_800, "2025-12-02T08:00:00Z"),
            (86_400, "2025-12-02T00:00:00Z"),
        ],
    )
    def test_slots_above_a_minute_are_counted_from_midnight_utc(self, interval: int, slot: str) -> None:
        assert slot_time(parse_instant("2025-12-02T10:23:47Z"), interval) == slot
        assert slot_time(parse_instant("2025-12-02T10:23:47Z").astimezone(KOLKATA), interval) == slot

    def test_a_minute_is_the_slot_of_sixty_seconds(self) -> None:
        assert floor_to_minute(utc(2025, 12, 2, 10, 23, 59, 1)) == utc(2025, 12, 2, 10, 23)


class TestZones:
    @pytest.mark.parametrize(
        "zone",
        [KOLKATA, LORD_HOWE, BERLIN, ZoneInfo("UTC"), timezone(timedelta(hours=-12)), timezone(timedelta(0, 7))],
        ids=str,
    )
    def test_an_aware_datetime_of_any_zone_gives_the_utc_slot(self, zone: tzinfo) -> None:
        instant = utc(2025, 12, 2, 10, 23, 7)
        assert slot_time(instant.astimezone(zone)) == "2025-12-02T10:23:05Z"
        assert floor_to_slot(instant.astimezone(zone)).tzinfo is UTC

    def test_an_offset_with_seconds_shifts_the_boundary(self) -> None:
        local_mean_time = timezone(timedelta(hours=9, minutes=18, seconds=59))
        assert slot_time(datetime(1880, 1, 1, 9, 19, 0, tzinfo=local_mean_time)) == "1880-01-01T00:00:00Z"

    def test_the_hour_that_occurs_twice_has_two_slots(self) -> None:
        twice = datetime(2025, 10, 26, 2, 30, 7, tzinfo=BERLIN)
        assert slot_time(twice) == "2025-10-26T00:30:05Z"
        assert slot_time(twice.replace(fold=1)) == "2025-10-26T01:30:05Z"

    def test_the_half_hour_that_occurs_twice_has_two_slots(self) -> None:
        twice = datetime(2025, 4, 6, 1, 45, tzinfo=LORD_HOWE)
        assert slot_time(twice) == "2025-04-05T14:45:00Z"
        assert slot_time(twice.replace(fold=1)) == "2025-04-05T15:15:00Z"

    def test_time_is_moved_by_elapsed_seconds_where_the_wall_clock_jumps(self) -> None:
        after_the_jump = datetime(2025, 3, 30, 3, 0, tzinfo=BERLIN)
        assert shift(after_the_jump, -3600) == utc(2025, 3, 30, 0, 0)

    def test_an_instant_cut_to_the_second_is_in_utc_whatever_its_zone(self) -> None:
        tokyo = datetime(2025, 12, 2, 19, 23, 7, 999_999, tzinfo=timezone(timedelta(hours=9)))
        assert floor_to_second(tokyo) == utc(2025, 12, 2, 10, 23, 7)
        assert format_second(tokyo) == "2025-12-02T10:23:07Z"

    @pytest.mark.parametrize(
        "use",
        [to_utc, floor_to_slot, floor_to_second, format_instant, format_second, lambda t: shift(t, 5)],
    )
    def test_a_naive_datetime_names_no_instant_and_is_refused(self, use: Callable[[datetime], object]) -> None:
        with pytest.raises(InvalidInput, match=r"^timestamp: 2025-12-02T10:23:07 has no time zone"):
            use(datetime(2025, 12, 2, 10, 23, 7))  # noqa: DTZ001

    def test_a_zone_that_knows_no_offset_is_as_good_as_none(self) -> None:
        class Unknown(tzinfo):
            def utcoffset(self, moment: datetime | None) -> timedelta | None:
                return None

        with pytest.raises(InvalidInput, match="has no time zone"):
            to_utc(datetime(2025, 12, 2, tzinfo=Unknown()))  # type: ignore[abstract]

    @pytest.mark.parametrize(
        "beyond",
        [
            datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
            datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=-12))),
        ],
    )
    def test_an_instant_outside_the_calendar_in_utc_is_refused(self, beyond: datetime) -> None:
        with pytest.raises(InvalidInput, match="outside years 0001 to 9999"):
            floor_to_slot(beyond)


class TestShift:
    @pytest.mark.parametrize(("instant", "seconds"), [(FIRST, -1), (LAST, 1), (FIRST, 1e300), (FIRST, -1e12)])
    def test_leaving_the_calendar_is_refused(self, instant: datetime, seconds: float) -> None:
        with pytest.raises(InvalidInput, match="outside years 0001 to 9999"):
            shift(instant, seconds)

    def test_both_ends_of_the_calendar_can_be_reached(self) -> None:
        assert shift(utc(1, 1, 1, 0, 0, 5), -5) == FIRST
        assert shift(utc(9999, 12, 31, 23, 59, 50), 5) == utc(9999, 12, 31, 23, 59, 55)


class TestIntervals:
    def test_the_intervals_are_the_divisors_of_a_minute_and_the_minutes_that_divide_a_day(self) -> None:
        assert INTERVALS[:13] == (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60, 120)
        assert {300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400} <= set(INTERVALS)
        divisors = [seconds for seconds in range(1, 86_401) if 86_400 % seconds == 0]
        assert list(INTERVALS) == [each for each in divisors if 60 % each == 0 or each % 60 == 0]

    @pytest.mark.parametrize("seconds", INTERVALS)
    def test_each_of_them_is_taken(self, seconds: int) -> None:
        assert require_interval(seconds) == seconds

    @pytest.mark.parametrize("seconds", [0, -5, 7, 8, 61, 80, 90, 420, 172_800, True, 5.0, "5", None, HUGE])
    def test_anything_else_is_refused_with_the_choices(self, seconds: Any) -> None:
        with pytest.raises(InvalidInput, match=r"^interval: .* use one of 1, 2, 3, 4, 5, 6, 10"):
            require_interval(seconds)


class TestWindow:
    def test_a_window_must_run_forward(self) -> None:
        with pytest.raises(InvalidInput, match=r"^from: must be before to$"):
            Window(utc(2025, 1, 1), utc(2025, 1, 1))
        with pytest.raises(InvalidInput, match=r"^from: must be before to$"):
            Window(utc(2025, 1, 2), utc(2025, 1, 1))

    @pytest.mark.parametrize(
        ("start", "end"),
        [
            (datetime(2025, 1, 1), utc(2025, 1, 2)),  # noqa: DTZ001
            (utc(2025, 1, 1), datetime(2025, 1, 2)),  # noqa: DTZ001
            (datetime(2025, 1, 1), datetime(2025, 1, 2)),  # noqa: DTZ001
        ],
        ids=["start", "end", "both"],
    )
    def test_naive_datetimes_are_refused(self, start: datetime, end: datetime) -> None:
        with pytest.raises(InvalidInput, match="has no time zone"):
            Window(start, end)

    def test_windows_of_the_same_instants_are_equal_whatever_their_zones(self) -> None:
        window = Window(utc(2025, 12, 2, 10, 23, 0), utc(2025, 12, 2, 10, 23, 5))
        same = Window(window.start.astimezone(KOLKATA), window.end.astimezone(BERLIN))
        assert (same, hash(same)) == (window, hash(window))

    def test_a_window_may_span_the_hour_that_occurs_twice(self) -> None:
        start = datetime(2025, 10, 26, 2, 30, tzinfo=BERLIN)
        assert Window(start, start.replace(fold=1)).seconds == 3600

    def test_a_slot_of_the_hour_that_occurs_twice_has_its_window(self) -> None:
        window = Window.of_slot(datetime(2025, 10, 26, 2, 59, 55, tzinfo=BERLIN), 5)
        assert window == Window(utc(2025, 10, 26, 0, 59, 55), utc(2025, 10, 26, 1, 0))

    def test_a_slot_has_the_window_of_its_interval(self) -> None:
        assert Window.of_slot(utc(2025, 1, 1), 30) == Window(utc(2025, 1, 1), utc(2025, 1, 1, 0, 0, 30))

    @pytest.mark.parametrize("slot", [utc(2025, 1, 1, 0, 0, 3), utc(2025, 1, 1, 0, 0, 5, 1)])
    def test_a_slot_off_the_boundary_is_refused(self, slot: datetime) -> None:
        with pytest.raises(InvalidInput, match=r"^from: .* is not on a 5-second boundary"):
            Window.of_slot(slot, 5)

    def test_the_last_slot_of_the_calendar_has_no_end_and_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="outside years"):
            Window.of_slot(floor_to_slot(LAST), 5)

    @pytest.mark.parametrize("seconds", [1, 4, 6, 10, 60])
    def test_a_window_that_is_not_one_slot_is_refused(self, seconds: int) -> None:
        start = utc(2025, 1, 1)
        with pytest.raises(InvalidInput, match=f"^to: must be 5 seconds after from, not {seconds}$"):
            require_slot_window(Window(start, shift(start, seconds)), 5)


class TestSlotsBetween:
    def test_the_end_is_left_out_and_a_start_between_slots_is_rounded_up(self) -> None:
        slots = slots_between(utc(2025, 1, 1, 0, 0, 1), utc(2025, 1, 1, 0, 0, 15), 5)
        assert list(slots) == [utc(2025, 1, 1, 0, 0, 5), utc(2025, 1, 1, 0, 0, 10)]

    def test_a_slot_that_begins_before_the_end_counts(self) -> None:
        slots = slots_between(utc(2025, 1, 1), utc(2025, 1, 1, 0, 0, 5, 1), 5)
        assert list(slots) == [utc(2025, 1, 1), utc(2025, 1, 1, 0, 0, 5)]

    @pytest.mark.parametrize("end", [utc(2025, 1, 1), utc(2024, 1, 1), utc(2025, 1, 1, 0, 0, 0)])
    def test_nothing_lies_between_a_start_and_an_earlier_end(self, end: datetime) -> None:
        assert list(slots_between(utc(2025, 1, 1), end, 5)) == []

    def test_the_last_slots_of_the_calendar_are_reached(self) -> None:
        assert list(slots_between(utc(9999, 12, 31, 23, 59, 50), LAST, 5)) == [
            utc(9999, 12, 31, 23, 59, 50),
            utc(9999, 12, 31, 23, 59, 55),
        ]

    def test_a_day_has_17280_slots_of_five_seconds_also_when_the_wall_clock_jumps(self) -> None:
        start = datetime(2025, 3, 30, tzinfo=BERLIN)
        end = datetime(2025, 3, 31, tzinfo=BERLIN)
        assert len(list(slots_between(start, end, 5))) == 23 * 720
        assert len(list(slots_between(utc(2025, 3, 30), utc(2025, 3, 31), 5))) == 17_280


class TestInstantOnTheWire:
    @pytest.mark.parametrize(
        "text",
        ["2025-12-02T10:23:05Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2024-02-29T00:00:00Z"],
    )
    def test_reading_and_writing_are_inverse(self, text: str) -> None:
        instant = parse_instant(text)
        assert instant.tzinfo is UTC
        assert format_instant(instant) == text

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "2025-12-02",
            "2025-12-02T10:23Z",
            "2025-12-02T10:23:05",
            "2025-12-02T10:23:05z",
            "2025-12-02t10:23:05Z",
            "2025-12-02 10:23:05Z",
            "2025-12-02T10:23:05.000Z",
            "2025-12-02T10:23:05,5Z",
            "2025-12-02T10:23:05+00:00",
            "2025-12-02T19:23:05+09:00",
            "20251202T102305Z",
            "2025-336T10:23:05Z",
            "2025-W49-2T10:23:05Z",
            " 2025-12-02T10:23:05Z",
            "2025-12-02T10:23:05Z ",
            "2025-12-02T10:23:05Z\n",
            "2025-12-02T10:23:05Z\x00",
            "+2025-12-02T10:23:05Z",
            "-025-12-02T10:23:05Z",
            "12025-12-02T10:23:05Z",
            "２０２５-12-02T10:23:05Z",  # full-width digits
            "٢٠٢٥-12-02T10:23:05Z",  # Arabic-Indic digits
            "2025−12−02T10:23:05Z",  # minus signs
            "2025-12-02T24:00:00Z",
        ],
    )
    def test_any_other_form_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidInput, match=r"^from: .* is not a timestamp like 2025-12-02T10:23:05Z$"):
            parse_instant(text, "from")

    @pytest.mark.parametrize("value", [None, 1_764_670_985, 1.5, True, b"2025-12-02T10:23:05Z", ["x"], {}])
    def test_what_is_no_text_is_refused(self, value: object) -> None:
        with pytest.raises(InvalidInput, match=r"^to: .* is not a timestamp"):
            parse_instant(value, "to")

    @pytest.mark.parametrize(
        "text",
        [
            "0000-01-01T00:00:00Z",
            "2025-00-01T00:00:00Z",
            "2025-13-01T00:00:00Z",
            "2025-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2025-04-31T00:00:00Z",
            "2025-01-00T00:00:00Z",
            "2025-01-01T25:00:00Z",
            "2025-01-01T00:60:00Z",
            "2025-01-01T00:00:61Z",
        ],
    )
    def test_a_time_that_does_not_exist_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidInput, match="is not a real time"):
            parse_instant(text)

    @pytest.mark.parametrize("text", ["2016-12-31T23:59:60Z", "2015-06-30T23:59:60Z"])
    def test_leap_seconds_are_refused_even_where_there_was_one(self, text: str) -> None:
        with pytest.raises(InvalidInput, match=r"is not a real time: second must be in 0..59"):
            parse_instant(text)

    def test_a_fraction_of_a_second_has_no_place_on_the_wire(self) -> None:
        with pytest.raises(InvalidInput, match="has a fraction of a second"):
            format_instant(utc(2025, 12, 2, 10, 23, 5, 1))

    def test_the_mock_api_alone_reads_iso_8601_at_large(self) -> None:
        assert parse_iso8601("2025-12-02T19:23:05.5+09:00") == utc(2025, 12, 2, 10, 23, 5, 500_000)


class TestDurations:
    @pytest.mark.parametrize(
        ("value", "seconds"),
        [(90, 90), (0, 0), ("0s", 0), ("90s", 90), ("10m", 600), ("2h", 7200), ("7d", 604_800), ("1w", 604_800)],
    )
    def test_whole_numbers_with_a_unit_or_plain_seconds(self, value: object, seconds: int) -> None:
        assert parse_duration(value) == seconds

    @pytest.mark.parametrize(
        "value",
        [
            *("", "5", "s", "-5s", "+5s", "5 s", "5S", "1.5h", "1h30m", "５s", "5s\n", "9999999999s"),
            *(-1, 1.5, True, None, [], 10**9, HUGE),
        ],
    )
    def test_anything_else_is_refused(self, value: object) -> None:
        with pytest.raises(InvalidInput, match=r"^since: .* 10m, 2h or 7d \(units: s, m, h, d, w\)$"):
            parse_duration(value, "since")


class TestShorten:
    def test_a_short_value_is_shown_as_it_is_written(self) -> None:
        assert shorten("a\nb") == r"'a\nb'"
        assert shorten(5) == "5"

    def test_dates_and_times_are_shown_as_a_toml_file_writes_them(self) -> None:
        assert shorten(utc(2025, 12, 2, 10, 23)) == "2025-12-02T10:23:00+00:00"
        assert shorten(utc(2025, 12, 2).date()) == "2025-12-02"

    def test_a_long_value_is_cut(self) -> None:
        assert shorten("x" * 1_000_000) == "'" + "x" * 58 + "…"
        assert len(shorten([0] * 1000)) == 60
        assert shorten("x" * 58) == "'" + "x" * 58 + "'"

    def test_what_python_cannot_show_is_described(self) -> None:
        nested: list[object] = []
        for _ in range(100_000):
            nested = [nested]
        assert shorten(10**5000) == "<int too large to show>"
        assert shorten(nested) == "<list too large to show>"
