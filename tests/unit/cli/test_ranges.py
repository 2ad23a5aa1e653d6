"""Ranges of time as people write them, and what is said about those that name no instant."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kizami.backend.times.asked import Moment, RangeNames
from kizami.cli.ranges import BEGINNING, END, read_range, widened
from kizami.core.errors import InvalidInput

NOW = datetime(2025, 12, 2, 10, 23, 7, 500_000, tzinfo=UTC)
ASKED = Moment(NOW, None, RangeNames("--from", "--to", "--last", "--tz"))


def test_the_last_hour_ends_now() -> None:
    found = read_range(None, None, "1h", "10m", ASKED)
    assert (found.start, found.end, found.now) == (NOW - timedelta(hours=1), NOW, NOW)
    assert read_range(None, None, "90", "10m", ASKED).start == NOW - timedelta(seconds=90)


def test_without_options_a_range_is_the_default_one() -> None:
    assert read_range(None, None, None, "10m", ASKED).start == NOW - timedelta(minutes=10)
    everything = read_range(None, None, None, None, ASKED)
    assert (everything.start, everything.end) == (BEGINNING, END)


def test_a_range_without_an_end_reaches_to_now_or_is_open() -> None:
    assert read_range("-2h", None, None, "10m", ASKED).end == NOW
    assert read_range("-2h", None, None, None, ASKED).end == END
    assert read_range(None, "-2h", None, None, ASKED).start == BEGINNING


@pytest.mark.parametrize(
    ("since", "until", "last", "words"),
    [
        ("-1h", None, "2h", "--last: goes without --from and --to"),
        (None, "now", "2h", "--last: goes without --from and --to"),
        (None, "now", None, "--to: needs --from"),
        ("-1h", "-2h", None, "--from: 2025-12-02T09:23:07Z is not before 2025-12-02T08:23:07Z"),
        ("now", "now", None, "--from: 2025-12-02T10:23:07Z is not before 2025-12-02T10:23:07Z"),
        (
            "2025-12-02T12:00:00Z",
            "2025-12-02T13:00:00Z",
            None,
            "--from: nothing is due yet from 2025-12-02T12:00:00Z on; it is 2025-12-02T10:23:07Z",
        ),
        (
            "now",
            "2025-12-02T13:00:00Z",
            None,
            "--from: nothing is due yet from 2025-12-02T10:23:07Z on; it is 2025-12-02T10:23:07Z",
        ),
        (None, None, "0s", "--last: must be longer than nothing"),
        (
            None,
            None,
            "1 fortnight",
            "--last: '1 fortnight' is not a duration like 30s, 5min, 1h30m or 7d (units: s, min, h, d, w, y)",
        ),
        (None, None, "999999999w", "--last: reaches back before year 0001"),
        ("-999999999w", None, None, "--from: reaches back before year 0001"),
    ],
)
def test_a_range_that_cannot_be_is_refused_by_its_option(
    since: str | None, until: str | None, last: str | None, words: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_range(since, until, last, "10m", ASKED)
    assert str(refusal.value) == words


@pytest.mark.parametrize(
    ("interval", "lag", "back"), [(5, 5, 600), (60, 60, 780), (3600, 3600, 13 * 3600), (5, 2_678_400, 2_678_460)]
)
def test_the_default_reaches_back_to_some_slots_that_are_due(interval: int, lag: int, back: int) -> None:
    wanted = replace(read_range(None, None, None, "10m", ASKED), is_default=True)
    assert NOW - widened(wanted, interval, lag).start == timedelta(seconds=back)
    named = read_range(None, None, "10m", "10m", ASKED)
    assert widened(named, interval, lag) == named
