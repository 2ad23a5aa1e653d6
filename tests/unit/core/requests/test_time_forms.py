"""How a request writes a time: every form, whatever the language of the process."""

from __future__ import annotations

import locale
from datetime import UTC, datetime

import pytest

from kizami.core.requests.time_forms import DIRECTIVES, is_form, unknown_directive, write_instant

INSTANT = datetime(2025, 12, 2, 10, 23, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("form", "written"),
    [
        ("", "2025-12-02T10:23:05Z"),
        ("unix", "1764670985"),
        ("unix_ms", "1764670985000"),
        ("unix_ns", "1764670985000000000"),
        ("iso_ms", "2025-12-02T10:23:05.000Z"),
        ("%Y%m%d00", "2025120200"),
        ("%Y-%m-%dT%H:%M:%S.%f", "2025-12-02T10:23:05.000000"),
        ("%a, %d %b %Y %H:%M:%S %Z", "Tue, 02 Dec 2025 10:23:05 UTC"),
        ("%A %B %y %j", "Tuesday December 25 336"),
        ("%I:%M %p %z", "10:23 AM +0000"),
        ("%G-W%V-%u", "2025-W49-2"),
        ("%s", "1764670985"),
        ("100%%", "100%"),
        ("%Y年%m月", "2025年12月"),
    ],
)
def test_an_instant_is_written_in_any_form(form: str, written: str) -> None:
    assert write_instant(INSTANT, form) == written
    assert form == "" or (is_form(form) and unknown_directive(form) is None)


@pytest.mark.parametrize(
    ("instant", "form", "written"),
    [
        (datetime(1, 2, 3, tzinfo=UTC), "%Y %y %G", "0001 01 0001"),
        (datetime(2025, 1, 1, 0, 5, tzinfo=UTC), "%I%p", "12AM"),
        (datetime(2025, 1, 1, 12, 5, tzinfo=UTC), "%I%p", "12PM"),
        (datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), "unix", "-1"),
        (datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), "unix_ns", "253402300799000000000"),
        (datetime(2024, 12, 30, tzinfo=UTC), "%G-W%V-%u", "2025-W01-1"),
    ],
)
def test_at_the_ends_of_day_year_and_calendar(instant: datetime, form: str, written: str) -> None:
    assert write_instant(instant, form) == written


def test_every_directive_agrees_with_strftime_in_the_c_locale() -> None:
    assert locale.setlocale(locale.LC_TIME) == "C"
    instant = datetime(2025, 7, 6, 15, 4, 3, tzinfo=UTC)
    for letter in DIRECTIVES.keys() - {"s", "z"}:
        assert write_instant(instant, f"%{letter}") == instant.strftime(f"%{letter}")


@pytest.mark.parametrize("form", ["%c", "%x", "%X", "%Q", "%-d", "%", "%Y%", "%é", "%U%Y"])
def test_what_means_nothing_or_something_else_elsewhere_is_found(form: str) -> None:
    assert is_form(form)
    assert unknown_directive(form) is not None


@pytest.mark.parametrize("form", ["unixms", "UNIX", "iso", "ms", " unix", ""])
def test_a_word_that_is_no_form_is_none(form: str) -> None:
    assert not is_form(form)
