"""How the verbs speak: ages, shares, instants, numbers with their nouns, and JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from kizami.cli.terminal.printing import (
    age_text,
    completeness_text,
    instant_text,
    plural,
    print_json,
)
from kizami.core.coverage import Completeness


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (4.9, "4s"), (125, "2m 5s"), (12_000, "3h 20m"), (522_000, "6d 1h"), (3600, "1h"), (-3, "-3s")],
)
def test_an_age_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert age_text(seconds) == age_text(timedelta(seconds=seconds)) == text


def test_a_share_is_100_percent_only_if_it_is_whole() -> None:
    assert completeness_text(Completeness(720, 720)) == "720/720 (100%)"
    assert completeness_text(Completeness(719, 720)) == "719/720 (99.8%)"
    assert completeness_text(Completeness(999_999, 1_000_000)) == "999999/1000000 (99.9%)"
    assert completeness_text(Completeness(0, 720)) == "0/720 (0.0%)"


def test_instants_are_cut_to_the_second() -> None:
    assert instant_text(datetime(2025, 12, 2, 10, 23, 5, 999_999, tzinfo=UTC)) == "2025-12-02T10:23:05Z"
    assert instant_text(None) == "-"


def test_numbers_agree_with_their_noun() -> None:
    assert [plural(number, "slot") for number in (0, 1, 1234)] == ["0 slots", "1 slot", "1,234 slots"]


def test_json_is_one_line_for_a_program_and_keeps_its_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"metricName": "応答数"})
    output = capsys.readouterr().out
    assert output == '{"metricName": "応答数"}\n'
    assert json.loads(output) == {"metricName": "応答数"}
