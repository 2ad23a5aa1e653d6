"""What comparisons with a slot time leave to be read: a range of seconds, as narrow as can be told (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from kizami.core.epoch import to_seconds
from kizami.core.errors import InvalidInput
from kizami.core.slots import parse_instant, shorten

# All slots that there can be: years 0001 to 9999.
FIRST, PAST_LAST = -62_135_596_800, 253_402_300_800

_WHOLE = "0001-01-01T00:00:00Z"
_BEGINNING = re.compile(r"\d{4}(-\d\d(-\d\d(T\d\d(:\d\d(:\d\dZ?)?)?)?)?)?", re.ASCII)
_REMEDY = "slots are written 2025-12-02T10:23:05Z; compare with that, a beginning of it, or ago('1d')"


class Comparison(Enum):
    """How a column is compared with a value."""

    EQUAL = "="
    GREATER = ">"
    AT_LEAST = ">="
    LESS = "<"
    AT_MOST = "<="


def slot_range(comparisons: Iterable[tuple[Comparison, object]]) -> tuple[int, int]:
    """The slots, from and up to, that may satisfy all of them: SQLite itself looks at each of these again.

    Times are compared as text, so that a beginning such as 2025-12-02 stands for its first moment. What is no
    such time, as datetime('now') writes it or a number, would compare wrongly without a word: InvalidInput.
    """
    start, end = FIRST, PAST_LAST
    for comparison, value in comparisons:
        if value is None:  # nothing compares with NULL
            return FIRST, FIRST
        second = _second(value)
        if comparison in (Comparison.EQUAL, Comparison.GREATER, Comparison.AT_LEAST):
            start = max(start, second)
        if comparison in (Comparison.EQUAL, Comparison.AT_MOST):
            end = min(end, second + 1)
        elif comparison is Comparison.LESS:
            end = min(end, second)
    return start, end


def _second(value: object) -> int:
    if not isinstance(value, str) or not _BEGINNING.fullmatch(value):
        raise InvalidInput("slot", f"{shorten(value)} is none; {_REMEDY}")
    try:
        return to_seconds(parse_instant(value + _WHOLE[len(value) :], "slot"))
    except InvalidInput:
        raise InvalidInput("slot", f"{shorten(value)} is none; {_REMEDY}") from None
