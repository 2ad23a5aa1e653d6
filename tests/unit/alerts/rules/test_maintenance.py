"""Maintenance windows: once or every week, on the clock of a zone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kizami.alerts.rules.maintenance import in_maintenance, parse_maintenance
from kizami.core.errors import ConfigurationError


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2025, 12, day, hour, minute, tzinfo=UTC)  # the 7th is a Sunday


def covers(entry: dict[str, Any], now: datetime, name: str = "chat/a") -> bool:
    return in_maintenance([parse_maintenance(entry, "maintenance[0]")], name, now)


def test_a_window_has_a_beginning_and_an_end() -> None:
    once = {"from": "2025-12-02T10:00:00+09:00", "to": "2025-12-02T02:00:00Z"}
    assert [covers(once, at(2, hour)) for hour in (0, 1, 2)] == [False, True, False]


def test_a_window_of_toml_s_own_times_is_taken() -> None:
    assert covers({"from": at(2, 1), "to": at(2, 2)}, at(2, 1, 30))


def test_a_window_is_about_the_targets_that_it_names() -> None:
    once = {"from": at(2, 1), "to": at(2, 2), "targets": ["chat/*"]}
    assert covers(once, at(2, 1))
    assert not covers(once, at(2, 1), "orders")
    assert not covers(once, at(2, 1), ""), "the backend itself is none of its targets"


def test_a_week_has_its_hours_on_the_clock_of_its_zone() -> None:
    weekly = {"weekly": "Sun 02:00-04:00", "time_zone": "Asia/Tokyo"}
    assert [covers(weekly, at(6, hour)) for hour in (16, 17, 18, 19)] == [False, True, True, False]
    assert not covers(weekly, at(7, 17))


def test_hours_over_midnight_end_on_the_next_day() -> None:
    weekly = {"weekly": "Sun, Mon 23:30-00:30"}
    inside = [at(7, 23, 30), at(8, 0, 29), at(8, 23, 45), at(9, 0)]
    outside = [at(7, 0), at(8, 0, 30), at(9, 0, 30), at(9, 23, 45)]
    assert all(covers(weekly, moment) for moment in inside)
    assert not any(covers(weekly, moment) for moment in outside)


@pytest.mark.parametrize(
    ("entry", "place", "words"),
    [
        ({}, "from", "needs from and to, or weekly"),
        ({"from": "2025-12-02T10:00:00Z"}, "to", "is required beside from"),
        ({"from": "2025-12-02T10:00:00", "to": "2025-12-02T11:00:00Z"}, "from", "with an offset"),
        ({"from": at(2, 1).replace(tzinfo=None), "to": at(3, 1)}, "from", "with an offset"),
        ({"from": at(2, 2), "to": at(2, 1)}, "to", "after from"),
        ({"weekly": "Sun 02:00-04:00", "to": at(2, 1)}, "from", "or weekly"),
        ({"weekly": "Sonntag 2-4"}, "weekly", "is not like"),
        ({"weekly": "Sun 02:00-24:00"}, "weekly", "a time that there is not"),
        ({"weekly": "Sun 02:00-04:00", "time_zone": "Tokio"}, "time_zone", "is not a time zone"),
        ({"weekly": "Sun 02:00-04:00", "targets": "chat"}, "targets", "must be a list"),
        ({"weekly": "Sun 02:00-04:00", "target": ["chat"]}, "target", "is not a setting"),
    ],
)
def test_a_window_that_cannot_be_is_refused_with_its_place(entry: dict[str, Any], place: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        parse_maintenance(entry, "kizami.toml: maintenance[0]")
    assert place in caught.value.place
