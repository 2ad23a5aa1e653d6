"""The grammar of `when`: one spelling for one condition, one clear line for what is none."""

from __future__ import annotations

from decimal import Decimal

import pytest

from kizami.alerts.rules.conditions import NumberTest, parse_condition
from kizami.backend.incidents import Kind
from kizami.core.errors import InvalidInput


@pytest.mark.parametrize(
    "text", ["fails", "silent", "late", "dead", "disk full", "queue stuck", "aggregation failed"]
)
def test_a_state_is_its_own_kind(text: str) -> None:
    condition = parse_condition(f"  {text} ", "when")
    assert (condition.text, condition.kind) == (text, Kind(text))


@pytest.mark.parametrize(
    ("text", "spelled", "bound", "seconds"),
    [
        ("coverage < 99%", "coverage < 99%", "99", 86_400),
        ("coverage<99.50 %", "coverage < 99.5%", "99.5", 86_400),
        ("coverage of 1h < 95%", "coverage of 1h < 95%", "95", 3600),
    ],
)
def test_coverage_has_a_bound_and_a_span(text: str, spelled: str, bound: str, seconds: int) -> None:
    condition = parse_condition(text, "when")
    assert (condition.text, condition.kind) == (spelled, Kind.COVERAGE)
    assert (condition.bound, condition.seconds) == (Decimal(bound), seconds)


@pytest.mark.parametrize(
    ("text", "comparison", "bound", "seconds", "is_sum"),
    [
        ("above 100", NumberTest.ABOVE, "100", 0, False),
        ("below -2.50", NumberTest.BELOW, "-2.5", 0, False),
        ("zero for 10m", NumberTest.ZERO, "0", 600, False),
        ("no change for 1h", NumberTest.NO_CHANGE, "0", 3600, False),
        ("differs by 50% from the same time last week", NumberTest.DIFFERS, "50", 0, False),
        ("sum of 10m above 1000", NumberTest.ABOVE, "1000", 600, True),
        ("sum of 1h differs by 20% from the same time last week", NumberTest.DIFFERS, "20", 3600, True),
    ],
)
def test_numbers_are_compared_on_the_slot_or_on_a_sum(
    text: str, comparison: NumberTest, bound: str, seconds: int, is_sum: bool
) -> None:
    condition = parse_condition(text, "when")
    assert (condition.kind, condition.comparison) == (Kind.NUMBER, comparison)
    assert (condition.bound, condition.seconds, condition.is_sum) == (Decimal(bound), seconds, is_sum)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("failing", "is not a condition like"),
        ("", "is not a condition like"),
        (5, "is not a condition like"),
        ("above", "is not a condition like"),
        ("above 1e5", "is not a condition like"),
        ("coverage < 0%", "above 0%"),
        ("coverage < 101%", "at most 100%"),
        ("zero for 10 minutes", "is not a condition like"),
        ("zero for ages", "is not a duration"),
        ("zero for 2d", "from 1s to 24h"),
        ("sum of 10m zero for 1h", "leave out sum of 10m"),
        ("sum of 0s above 1", "from 1s to 24h"),
        ("differs by 0% from the same time last week", "more than 0%"),
    ],
)
def test_what_is_no_condition_is_refused_in_one_line(value: object, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as caught:
        parse_condition(value, "when")
    assert caught.value.field == "when"
    assert "\n" not in str(caught.value)


def test_one_condition_has_one_spelling() -> None:
    spellings = {parse_condition(text, "when") for text in ("above 5.0", "above  5", "above 5.00")}
    assert len(spellings) == 1
