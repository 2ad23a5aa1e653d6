"""Ranges of time as people write them, and what is said about those that name no instant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.cli.ranges import BEGINNING, END, read_range, read_time
from kizami.core.errors import InvalidInput

NOW = datetime(2025, 12, 2, 10, 23, 7, 500_000, tzinfo=UTC)
NOON = datetime(2025, 12, 2, 12, 0, tzinfo=UTC)


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
    assert read_time(text, NOW, "--from") == NOON


def test_an_instant_can_be_told_from_now() -> None:
    assert read_time("now", NOW, "--to") == NOW
    assert read_time("-2h", NOW, "--from") == NOW - timedelta(hours=2)
    assert read_time("-90s", NOW, "--from") == NOW - timedelta(seconds=90)


@pytest.mark.parametrize("text", ["2025-12-02T12:00:00", "2025-12-02 12:00", "20251202T120000"])
def test_a_time_without_a_zone_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"--from: .* has no time zone; add Z or an offset such as \+09:00"):
        read_time(text, NOW, "--from")


def test_a_day_is_refused_with_a_hint() -> None:
    with pytest.raises(InvalidInput, match=r"--to: '2025-12-02' is a whole day; write its time and zone too"):
        read_time("2025-12-02", NOW, "--to")


@pytest.mark.parametrize("text", ["", "yesterday", "-2", "-2y", "- 2h", "2025-13-01T00:00:00Z", "12:00Z", "2h"])
def test_whatever_else_is_refused_by_its_option(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^--from: "):
        read_time(text, NOW, "--from")


def test_the_last_hour_ends_now() -> None:
    found = read_range(None, None, "1h", "10m", NOW)
    assert (found.start, found.end, found.now) == (NOW - timedelta(hours=1), NOW, NOW)
    assert read_range(None, None, "90", "10m", NOW).start == NOW - timedelta(seconds=90)


def test_without_options_a_range_is_the_default_one() -> None:
    assert read_range(None, None, None, "10m", NOW).start == NOW - timedelta(minutes=10)
    everything = read_range(None, None, None, None, NOW)
    assert (everything.start, everything.end) == (BEGINNING, END)


def test_a_range_without_an_end_reaches_to_now_or_is_open() -> None:
    assert read_range("-2h", None, None, "10m", NOW).end == NOW
    assert read_range("-2h", None, None, None, NOW).end == END
    assert read_range(None, "-2h", None, None, NOW).start == BEGINNING


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
        (None, None, "1 hour", "--last: '1 hour' is not a duration like 30s, 10m, 2h or 7d"),
        (None, None, "999999999w", "--last: reaches back before year 0001"),
        ("-999999999w", None, None, "--from: reaches back before year 0001"),
    ],
)
def test_a_range_that_cannot_be_is_refused_by_its_option(
    since: str | None, until: str | None, last: str | None, words: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_range(since, until, last, "10m", NOW)
    assert str(refusal.value) == words


@given(st.text())
def test_no_text_makes_anything_but_an_instant_or_one_line_of_refusal(text: str) -> None:
    words = ""
    try:
        assert read_time(text, NOW, "--from").utcoffset() == timedelta(0)
    except InvalidInput as refusal:
        words = str(refusal)
    assert len(words.splitlines()) <= 1
