"""Exact numbers: whole units of so many decimal places, read from text and never by way of a float (pure)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

MAX_DECIMALS = 9
MAX_UNITS = 2**53 - 1  # the largest integer that every JSON reader keeps exactly
# With decimal places the number is shown by way of a float, which is sure to keep 15 digits as they are written.
MAX_DECIMAL_UNITS = 10**15 - 1

_NUMBER = re.compile(r"([+-]?\d{1,400})(?:\.(\d{0,400}))?(?:[eE]([+-]?\d{1,3}))?", re.ASCII)

Exact = tuple[int, int]  # units, and how many decimal places they have
Number = int | float
Total = int | Decimal  # of numbers, exact also where a float has too few digits for it


class FloatText(str):
    """A JSON number with a point or an exponent, as the text that it is."""

    __slots__ = ()


def read_exact(value: Any) -> Exact | None:
    """The number that a value of an answer is or, if it is text, writes; None if that is none."""
    if type(value) is int:
        return value, 0
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    fraction = (match[2] or "").rstrip("0")
    units, places = int(match[1] + fraction), len(fraction) - int(match[3] or 0)
    return (units, places) if places >= 0 else (units * 10**-places, 0)


def ten_to(places: int) -> int:
    """The units of one, with so many places."""
    return int(10**places)


def aligned(numbers: Sequence[Exact]) -> tuple[list[int], int]:
    """The units of all of them with as many places, and how many these are."""
    places = max((each[1] for each in numbers), default=0)
    return [units * ten_to(places - each) for units, each in numbers], places


def to_units(number: Exact, decimals: int) -> int:
    """The number in units of `decimals` places, what lies beyond rounded half to even."""
    units, places = number
    if places <= decimals:
        return units * ten_to(decimals - places)
    step = ten_to(places - decimals)
    whole, rest = divmod(units, step)
    return whole + (2 * rest > step or (2 * rest == step and whole % 2 == 1))


def places_needed(number: Exact) -> int:
    """How many decimal places it takes to keep the number as it is."""
    units, places = number
    while places > 0 and units % 10 == 0:
        units, places = units // 10, places - 1
    return places


def to_number(units: int, decimals: int) -> Number:
    """The number that so many units are. A float of at most 15 digits is written just as the exact number is."""
    if not decimals:
        return units
    whole, rest = divmod(units, ten_to(decimals))
    return units / ten_to(decimals) if rest else whole


def to_total(units: int, decimals: int) -> Total:
    """The exact number that so many units are, of which there may be more than a float has digits for."""
    whole, rest = divmod(units, ten_to(decimals))
    return Decimal(units).scaleb(-decimals) if rest else whole


def plain_text(number: Number | Decimal) -> str:
    """A number that is kept, in plain digits: a float would write small ones with an exponent."""
    return str(number) if isinstance(number, int) else exact_text(exact_of(number))


def exact_of(number: Number | Decimal) -> Exact:
    """The number as it is written: of a float that is kept, the decimal that it stands for."""
    exact = read_exact(FloatText(number))
    assert exact is not None
    return exact


def total_of(numbers: Sequence[Number]) -> Total:
    """Their exact sum."""
    units, places = aligned([exact_of(each) for each in numbers if not isinstance(each, int)])
    return sum(each for each in numbers if isinstance(each, int)) + to_total(sum(units), places)


def exact_text(number: Exact) -> str:
    """The number in plain digits, cut where it has too many to show."""
    units, places = number
    digits = str(abs(units)).rjust(places + 1, "0") if abs(units) < 10**40 else "…"
    text = f"{digits[:-places]}.{digits[-places:]}" if places and digits != "…" else digits
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return ("-" if units < 0 else "") + text


def largest_units(decimals: int) -> int:
    """The most units that are believed and stored, and 600 of them added up: they fit 64 bits."""
    return MAX_DECIMAL_UNITS if decimals else MAX_UNITS
