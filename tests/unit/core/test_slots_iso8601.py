"""ISO 8601 at large, as only the mock API reads it: what names which instant, and why the rest is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kizami.core.errors import InvalidInput
from kizami.core.slots import parse_iso8601

NOON = datetime(2025, 12, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "2025-12-02T12:00:00Z",
        "2025-12-02T12:00Z",
        "2025-12-02T12Z",
        "2025-12-02T12:00:00.0Z",
        "2025-12-02T12:00:00,000000000Z",
        "2025-12-02T21:00:00+09:00",
        "2025-12-02T21:00:00+09",
        "2025-12-02T02:30:00-09:30",
        "2025-12-01T12:01:00-23:59",
        "2025-12-02T12:00:00+00:00",
        "2025-12-02T12:00:00-00:00",
        "2025-W49-2T12:00:00Z",
        "2025-336T12:00:00Z",
        "20251202T120000Z",
        "20251202T1200Z",
        "20251202T12Z",
        "20251202T210000+0900",
        "20251202T21+09",
        "2025W492T120000Z",
        "2025336T120000Z",
    ],
)
def test_every_way_to_write_an_instant_names_the_same_one(text: str) -> None:
    assert parse_iso8601(text) == NOON
    assert parse_iso8601(text).tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "hour", "minute", "second", "microsecond"),
    [
        ("2025-12-02T10.5Z", 10, 30, 0, 0),
        ("2025-12-02T10:23,5Z", 10, 23, 30, 0),
        ("2025-12-02T10:23:05.25Z", 10, 23, 5, 250_000),
        ("20251202T1023,0001Z", 10, 23, 0, 6_000),
        ("2025-12-02T10:23:05.9999999999999Z", 10, 23, 5, 999_999),
        ("2025-12-02T10:59.99999999999Z", 10, 59, 59, 999_999),
    ],
)
def test_a_fraction_belongs_to_the_lowest_unit_and_is_cut_to_the_microsecond(
    text: str, hour: int, minute: int, second: int, microsecond: int
) -> None:
    assert parse_iso8601(text) == datetime(2025, 12, 2, hour, minute, second, microsecond, UTC)


def test_the_thirteenth_decimal_of_an_hour_still_counts() -> None:
    """One microsecond is 0.000 000 000 277 7… hours: digits that look too small can complete it."""
    assert parse_iso8601("2025-12-02T10.0000000002778Z").microsecond == 1
    assert parse_iso8601("2025-12-02T10.00000000027777Z").microsecond == 0


def test_a_fraction_of_thousands_of_digits_is_read_and_not_an_error() -> None:
    assert parse_iso8601(f"2025-12-02T10:23:05.{'3' * 10_000}Z").microsecond == 333_333


@pytest.mark.parametrize("text", ["2025-12-02T24:00:00Z", "2025-12-02T24Z", "20251202T2400Z", "2025-12-02T24,00Z"])
def test_hour_24_is_the_start_of_the_next_day(text: str) -> None:
    assert parse_iso8601(text) == datetime(2025, 12, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
        ("0001-01-01T00:00:00-23:59", datetime(1, 1, 1, 23, 59, tzinfo=UTC)),
        ("0001-W01-1T00Z", datetime(1, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59:59.999999Z", datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)),
        ("9999-W52-5T00Z", datetime(9999, 12, 31, tzinfo=UTC)),
        ("9999-365T00Z", datetime(9999, 12, 31, tzinfo=UTC)),
        # Written, the day ends in year 10000; the instant is in 9999.
        ("9999-12-31T24:00:00+01:00", datetime(9999, 12, 31, 23, tzinfo=UTC)),
        ("2024-02-29T00Z", datetime(2024, 2, 29, tzinfo=UTC)),
        ("2024-366T00Z", datetime(2024, 12, 31, tzinfo=UTC)),
        ("2020-W53-7T00Z", datetime(2021, 1, 3, tzinfo=UTC)),
        ("2025-W01-1T00Z", datetime(2024, 12, 30, tzinfo=UTC)),
    ],
)
def test_the_edges_of_days_and_years(text: str, instant: datetime) -> None:
    assert parse_iso8601(text) == instant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2025-12-02",
        "2025-12-02T10:23:05",  # no offset: no instant
        "2025-12-02 10:23:05Z",
        "2025-12-02t10:23:05z",
        "2025-12-02T10:23:05 09:00",  # an un-encoded + of a query
        "2025-12-02T10:23:05+0900",  # extended and basic mixed
        "20251202T102305+09:00",
        "2025-12-02T102305Z",
        "20251202T10:23:05Z",
        "2025-1202T10Z",
        "2025-W492T10Z",
        "2025-12-02T10:23:05.Z",
        "2025-12-02T10:2Z",
        "2025-12-2T10:23Z",
        "25-12-02T10:23Z",
        "+002025-12-02T10:23Z",
        "2025-12-02T10:23:05Z ",
        "2025-12-02T10:23:05Z\n",
        "２０２５-12-02T10:23:05Z",
        "2025-12-02T10:23:05+9:00",
        "2025-12-02T10:23:05+09:00:00",
        "1733134985",
    ],
)
def test_what_is_not_an_iso8601_date_time_with_an_offset_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^to: .* is not an ISO 8601 date-time with an offset") as refused:
        parse_iso8601(text, "to")
    assert refused.value.field == "to"


@pytest.mark.parametrize(
    "text",
    [
        "2025-02-29T00Z",
        "2025-13-01T00Z",
        "2025-00-01T00Z",
        "2025-12-00T00Z",
        "2025-W53-1T00Z",
        "2025-W00-1T00Z",
        "2025-W01-0T00Z",
        "2025-W01-8T00Z",
        "9999-W52-6T00Z",  # the first day of year 10000
        "0000-12-31T00Z",
        "0000-W01-1T00Z",
        "0000-001T00Z",
        "2025-12-02T25:00:00Z",
        "2025-12-02T10:60:00Z",
        "2016-12-31T23:59:60Z",  # a leap second that there was
    ],
)
def test_a_time_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^to: '{text}' is not a real time: .+"):
        parse_iso8601(text, "to")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2025-366T00Z", "day 366 is not in year 2025"),
        ("9999-366T00Z", "day 366 is not in year 9999"),
        ("0001-000T00Z", "day 000 is not in year 0001"),
        ("2025-12-02T24:00:01Z", "hour 24 is only valid as 24:00:00"),
        ("2025-12-02T24:00:00.00000000000001Z", "hour 24 is only valid as 24:00:00"),
        ("2025-12-02T24,5Z", "hour 24 is only valid as 24:00:00"),
        ("2025-12-02T10:23:05+24:00", "+24:00 is not an offset"),
        ("2025-12-02T10:23:05-09:60", "-09:60 is not an offset"),
    ],
)
def test_a_refusal_gives_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_iso8601(text)
    assert refused.value.problem == f"'{text}' is not a real time: {reason}"


@pytest.mark.parametrize(
    "text",
    ["0001-01-01T00:00:00+00:01", "9999-12-31T24:00:00Z", "9999-12-31T23:59:59-00:01", "9999-12-31T23-01"],
)
def test_an_instant_outside_years_0001_to_9999_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^to: .* is outside years 0001 to 9999 in UTC$"):
        parse_iso8601(text, "to")


def test_an_error_quotes_no_more_than_the_beginning_of_a_long_text() -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_iso8601("9" * 100_000)
    assert len(str(refused.value)) < 200
