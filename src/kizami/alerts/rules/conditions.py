"""The conditions of `when`: one grammar, read here, judged elsewhere (pure).

condition = "fails" | "silent" | "late" | "dead" | "disk full" | "queue stuck" | "aggregation failed"
          | "coverage" [ "of" span ] "<" number "%"
          | [ "sum of" duration ] comparison
          | ( "zero" | "no change" ) "for" duration
comparison = ( "above" | "below" ) number
           | "differs by" number "%" "from the same time last week"
span = "1h" | "24h"; duration = like 30s, 10m, 2h, 7d; number = like 12, -3 or 0.5
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from kizami.backend.incidents import Kind
from kizami.core.errors import InvalidInput
from kizami.core.slots import parse_duration, shorten

STATES = {
    kind.value: kind
    for kind in (
        *(Kind.FAILS, Kind.SILENT, Kind.LATE, Kind.DEAD),
        *(Kind.DISK_FULL, Kind.QUEUE_STUCK, Kind.AGGREGATION_FAILED),
    )
}
WEEK_SECONDS = 7 * 86_400
LONGEST_SECONDS = 86_400  # of a sum, or of a time without change: a look reads it whole
EXAMPLES = '"fails", "dead", "coverage < 99%", "above 100", "zero for 10m" or "sum of 10m below 5"'

_SPACES = re.compile(r"\s+")
_NUMBER = r"-?\d{1,15}(?:\.\d{1,9})?"
_COVERAGE = re.compile(rf"coverage(?: of (1h|24h))? ?< ?({_NUMBER}) ?%", re.ASCII)
_LASTING = re.compile(r"(zero|no change) for (\S+)")
_SUM = re.compile(r"sum of (\S+) (.+)")
_COMPARISON = re.compile(rf"(above|below) ({_NUMBER})", re.ASCII)
_DIFFERENCE = re.compile(rf"differs by ({_NUMBER}) ?% from the same time last week", re.ASCII)


class NumberTest(Enum):
    """What a number is held against."""

    ABOVE = "above"
    BELOW = "below"
    ZERO = "zero"
    NO_CHANGE = "no change"
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True)
class AlertCondition:
    """One condition of `when`: its text in one spelling, and what it says.

    `seconds` is how much time it speaks of: a day or an hour of coverage, a sum's span, a time without change; 0
    is the single slot. `bound` is a number, or a percentage.
    """

    text: str
    kind: Kind
    comparison: NumberTest | None = None
    bound: Decimal = Decimal(0)
    seconds: int = 0

    @property
    def is_sum(self) -> bool:
        """Whether the sum of its time is compared, and not each slot of it."""
        return self.seconds > 0 and self.comparison in (NumberTest.ABOVE, NumberTest.BELOW, NumberTest.DIFFERS)


def parse_condition(value: object, place: str) -> AlertCondition:
    """The condition that a text states, else InvalidInput with examples."""
    if not isinstance(value, str):
        raise InvalidInput(place, f"{shorten(value)} is not a condition like {EXAMPLES}")
    text = _SPACES.sub(" ", value.strip())
    if text in STATES:
        return AlertCondition(text, STATES[text])
    found = _coverage(text, place) or _lasting(text, place) or _sum(text, place) or _compared(text, 0, place)
    if found is None:
        raise InvalidInput(place, f"{shorten(value)} is not a condition like {EXAMPLES}; see docs/alerts.md")
    return found


def _coverage(text: str, place: str) -> AlertCondition | None:
    match = _COVERAGE.fullmatch(text)
    if match is None:
        return None
    bound = Decimal(match[2])
    if not 0 < bound <= 100:
        raise InvalidInput(place, f"{shorten(text)}: a coverage is above 0% and at most 100%")
    span = match[1] or "24h"
    words = "coverage" if span == "24h" else f"coverage of {span}"
    return AlertCondition(f"{words} < {_plain(bound)}%", Kind.COVERAGE, None, bound, parse_duration(span))


def _lasting(text: str, place: str) -> AlertCondition | None:
    match = _LASTING.fullmatch(text)
    if match is None:
        return None
    seconds = _duration(match[2], place)
    return AlertCondition(text, Kind.NUMBER, NumberTest(match[1]), Decimal(0), seconds)


def _sum(text: str, place: str) -> AlertCondition | None:
    match = _SUM.fullmatch(text)
    if match is None:
        return None
    if _LASTING.fullmatch(match[2]):
        raise InvalidInput(place, f"{shorten(text)}: this looks at every slot; leave out sum of {match[1]}")
    return _compared(match[2], _duration(match[1], place), place, f"sum of {match[1]} ")


def _compared(text: str, seconds: int, place: str, words: str = "") -> AlertCondition | None:
    if match := _COMPARISON.fullmatch(text):
        bound = Decimal(match[2])
        return AlertCondition(
            f"{words}{match[1]} {_plain(bound)}", Kind.NUMBER, NumberTest(match[1]), bound, seconds
        )
    if match := _DIFFERENCE.fullmatch(text):
        bound = Decimal(match[1])
        if bound <= 0:
            raise InvalidInput(place, f"{shorten(text)}: must differ by more than 0%")
        spelled = f"{words}differs by {_plain(bound)}% from the same time last week"
        return AlertCondition(spelled, Kind.NUMBER, NumberTest.DIFFERS, bound, seconds)
    return None


def _duration(text: str, place: str) -> int:
    seconds = parse_duration(text, place)
    if not 0 < seconds <= LONGEST_SECONDS:
        raise InvalidInput(place, f"{shorten(text)} must be from 1s to 24h")
    return seconds


def _plain(number: Decimal) -> str:
    """Without an exponent or zeros at its end: one spelling for one bound."""
    text = f"{number:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"
