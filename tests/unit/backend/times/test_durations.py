"""Durations as people write them."""

from __future__ import annotations

import pytest

from kizami.backend.times.durations import read_duration
from kizami.core.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("5min", 300),
        ("1h30m", 5400),
        ("1h 30min", 5400),
        ("2 hours", 7200),
        ("1d12h", 129_600),
        ("1w", 604_800),
        ("2 weeks 1 day", 1_296_000),
        ("10y", 315_360_000),
        ("1 year 2 weeks", 32_745_600),
        ("0s", 0),
    ],
)
def test_durations_are_understood(text: str, seconds: int) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "h", "1x", "30m1h", "1h1h", "1.5h", "-1h", "1h30", "1 fortnight", "9mo", "٣s", "1hh", "9" * 10 + "s"],
)
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(
        InvalidInput,
        match=r"--last: .* is not a duration .* \(units: s, min, h, d, w, y\)$",
    ):
        read_duration(text, "--last")
