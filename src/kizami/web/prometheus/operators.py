"""Arithmetic and comparisons of two numbers, as IEEE 754 has them (pure)."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": math.fmod,
    "^": math.pow,
}


def calculate(symbol: str, left: float, right: float) -> float:
    """Arithmetic in which nothing is an error: a division by zero is infinite."""
    try:
        return _ARITHMETIC[symbol](left, right)
    except ZeroDivisionError:
        sign = math.copysign(1, left) * math.copysign(1, right)
        return math.nan if left == 0 or math.isnan(left) else sign * math.inf
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def combine(symbol: str, left: float, right: float, own: float, *, returns_bool: bool) -> float | None:
    """The value of an operation; of a comparison `own` where it holds and None where not, or 1 and 0."""
    if symbol not in COMPARISONS:
        return calculate(symbol, left, right)
    holds = COMPARISONS[symbol](left, right)
    if returns_bool:
        return float(holds)
    return own if holds else None
