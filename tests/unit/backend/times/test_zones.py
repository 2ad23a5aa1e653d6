"""Zones by name, and instants written in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from kizami.backend.times.zones import offset_at, read_zone, shown, zoned_text
from kizami.core.errors import InvalidInput

INSTANT = datetime(2025, 12, 2, 10, 23, 5, 999_999, tzinfo=UTC)


def test_a_zone_has_a_name_or_an_offset() -> None:
    assert read_zone("Asia/Tokyo") == ZoneInfo("Asia/Tokyo")
    assert read_zone("UTC") is UTC
    assert read_zone("-03:30") == timezone(timedelta(hours=-3.5))


@pytest.mark.parametrize(
    "name", ["", "Asia", "../etc/passwd", "/etc/localtime", "+25:00", "JST9", "\0", "x" * 999]
)
def test_anything_else_is_refused_with_examples(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"^--tz: .* is not a time zone like Asia/Tokyo, Europe/Berlin or UTC$"):
        read_zone(name, "--tz")


@pytest.mark.parametrize("name", ["Tokyo", "asia/tokyo", "Asia/Tokio"])
def test_a_zone_that_is_like_it_is_suggested(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"^--tz: .* is not a time zone; did you mean Asia/Tokyo\?$"):
        read_zone(name, "--tz")
    with pytest.raises(InvalidInput, match=r"did you mean Europe/Berlin\?$"):
        read_zone("berlin")


def test_an_instant_has_its_offset_and_in_utc_its_z() -> None:
    assert zoned_text(INSTANT, UTC) == "2025-12-02T10:23:05Z"
    assert zoned_text(INSTANT, ZoneInfo("Asia/Tokyo")) == "2025-12-02T19:23:05+09:00"
    assert zoned_text(INSTANT, ZoneInfo("Asia/Kathmandu")) == "2025-12-02T16:08:05+05:45"


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "Pacific/Kiritimati", "Etc/GMT+12", "+23:59", "-23:59"])
@pytest.mark.parametrize("instant", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
def test_at_the_ends_of_time_a_zone_has_a_text_a_clock_and_an_offset(name: str, instant: datetime) -> None:
    zone = read_zone(name)
    assert datetime.fromisoformat(zoned_text(instant, zone)) == instant.replace(microsecond=0)
    assert abs(shown(instant, zone) - instant.replace(tzinfo=None)) < timedelta(days=1)
    assert abs(offset_at(instant, zone)) < timedelta(days=1)
