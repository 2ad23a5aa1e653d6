"""What an answer must be, and the value that it gives: an Answer, its checks and its reader (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kizami.core.answers.nearest import json_words, said
from kizami.core.answers.numbers import (
    MAX_DECIMALS,
    Exact,
    FloatText,
    Number,
    aligned,
    exact_text,
    largest_units,
    places_needed,
    read_exact,
    to_units,
)
from kizami.core.answers.values import (
    Expression,
    evaluate,
    find,
    header_text,
    header_words,
    look_up,
    parse_expression,
    parse_fixed_place,
    reads_secret,
)
from kizami.core.errors import ApiPayloadError, InvalidInput
from kizami.core.slots import shorten

Literal = bool | int | str

COUNT = Expression(("count",))

MAX_VALUES = 100  # so many are written together on AWS

_FORMATS = ("json", "text")
_NOT_REFUSED = "see what the API reports there; if such an answer is good, take {} out of refuse"
_NOT_REQUIRED = "compare the answer with require, and url, query and body with what the API wants"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is believed of an answer: which statuses, what it must say, where its value stands, within what bounds.

    `echo` says whether the answer must repeat the window as `from` and `to` (True), is not looked at for them
    (False), or is checked where it has both and let pass where it has neither (None). A value is a whole number
    of units, which have `decimals` places. Several `values` have names, and `count` is then the first of them.
    """

    count: Expression = COUNT
    echo: bool | None = None
    status: tuple[int, ...] = (200,)
    require: tuple[tuple[Expression, Literal], ...] = ()
    format: str = "json"
    minimum: Number = field(default=0, compare=False)
    maximum: Number | None = field(default=None, compare=False)  # None: as much as can be kept
    zero_if_missing: Expression | None = None
    refuse: tuple[Expression, ...] = ()
    decimals: int = 0
    values: tuple[tuple[str, Expression], ...] = ()
    integers_only: bool = False  # the original target's: a count that is text or a fraction is refused
    lowest: int = field(init=False, repr=False)  # the bounds in units
    highest: int = field(init=False, repr=False)
    wanted_headers: frozenset[str] = field(init=False, repr=False, compare=False)
    needs_body: bool = field(init=False, repr=False, compare=False)  # whether anything of the body is looked at
    is_pointer: bool = field(init=False, repr=False, compare=False)  # whether the value stands there as it is

    def __post_init__(self) -> None:
        if self.values:
            object.__setattr__(self, "count", self.values[0][1])
        _require_decimals(self.decimals)
        _require_statuses(self.status)
        _require_parts(self)
        _require_format(self)
        self._derive()

    def _derive(self) -> None:
        lowest, highest = _bounds(self)
        places = [*self.expressions, *(each for each, _ in self.require), *self.refuse]
        headers = frozenset(each.header for each in places if each.header)
        all_headers = all(each.header for each in places)
        derived = {
            "lowest": lowest,
            "highest": highest,
            "wanted_headers": headers,
            "needs_body": bool(self.echo or not all_headers),
            "is_pointer": not self.count.function and self.zero_if_missing is None,
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """Where its values stand."""
        return tuple(each for _, each in self.values) or (self.count,)

    @property
    def may_be_empty(self) -> bool:
        """Whether a 204 without a body means 0."""
        return self.needs_body and not self.echo

    def read_empty(self, headers: Mapping[str, str]) -> tuple[int, ...]:
        """What an answer without a body says: 0 in place of all that would stand there, if the bounds allow it."""
        self.check_headers(headers)
        return tuple(
            self.believed(each, evaluate(each, None, headers, self.zero_if_missing) if each.header else (0, 0))
            for each in self.expressions
        )

    def read(self, document: Any, headers: Mapping[str, str]) -> int:
        """The value in units, else the ApiPayloadError that says why there is none."""
        expression = self.count
        if self.is_pointer:
            value = look_up(expression, document)
            if type(value) is int and not self.decimals and self.lowest <= value <= self.highest:
                return value
            if self.integers_only:
                raise ApiPayloadError(f"{expression}: {json_words(value)} is not an integer from 0 to 2^53-1")
        return self.believed(expression, evaluate(expression, document, headers, self.zero_if_missing))

    def read_others(self, document: Any, headers: Mapping[str, str]) -> tuple[int, ...]:
        """The values after the first."""
        others = self.expressions[1:]
        return tuple(
            self.believed(each, evaluate(each, document, headers, self.zero_if_missing)) for each in others
        )

    def believed(self, expression: Expression, number: Exact) -> int:
        """The number in units; beyond the bounds, or a fraction where whole numbers are kept, ApiPayloadError."""
        if not self.decimals and (places := places_needed(number)):
            remedy = f"decimals = {min(places, MAX_DECIMALS)} keeps its decimal places"
            raise ApiPayloadError(f"{expression} is {exact_text(number)}, not a whole number", remedy)
        units = to_units(number, self.decimals)
        if self.lowest <= units <= self.highest:
            return units
        bound, name = (self.lowest, "below min") if units < self.lowest else (self.highest, "above max")
        value = exact_text((bound, self.decimals))
        problem = f"{expression} is {exact_text(number)}, which is {name} = {value}"
        raise ApiPayloadError(problem, f"another {name.split()[1]}, if such a value is to be believed")

    def check(self, document: Any, headers: Mapping[str, str]) -> None:
        """ApiPayloadError unless the answer says everything that it must, and nothing that it must not."""
        self.check_headers(headers)
        for expression in self.refuse:
            if expression.header is None and (found := find(expression, document)):
                raise _refused(expression, said(found))
        for expression, wanted in self.require:
            if expression.header is None:
                found = _look_up_required(expression, document, wanted)
                if not _is_same(found, wanted):
                    raise _required(expression, said(found), said(wanted))

    def check_headers(self, headers: Mapping[str, str]) -> None:
        """The same of its headers, which an answer without a body has too."""
        for expression in self.refuse:
            if expression.header and (text := header_text(expression, headers)) and not _is_nothing(text):
                raise _refused(expression, header_words(expression, text))
        for expression, wanted in self.require:
            if not expression.header:
                continue
            text = header_text(expression, headers)
            words = "another text" if reads_secret(expression) else said(wanted)
            if text is None:
                raise ApiPayloadError(f"require: {expression} is missing, where {words} must stand", _NOT_REQUIRED)
            if not _is_written(text, wanted):
                raise _required(expression, header_words(expression, text), words)


def _look_up_required(expression: Expression, document: Any, wanted: Literal) -> Any:
    try:
        return look_up(expression, document)
    except ApiPayloadError as error:
        problem, _, there = error.problem.partition("; ")
        problem = f"require: {problem}, where {said(wanted)} must stand" + (f"; {there}" if there else "")
        raise ApiPayloadError(problem, _NOT_REQUIRED) from None


def _refused(expression: Expression, words: str) -> ApiPayloadError:
    problem = f"refuse: {expression} is {words}, where nothing must stand"
    return ApiPayloadError(problem, _NOT_REFUSED.format(expression))


def _required(expression: Expression, words: str, wanted: str) -> ApiPayloadError:
    return ApiPayloadError(f"require: {expression} is {words}, where {wanted} must stand", _NOT_REQUIRED)


def _is_nothing(text: str) -> bool:
    """Whether a header says what false, null or 0 say in JSON."""
    number = read_exact(text)
    return text.lower() in ("false", "null") or (number is not None and not number[0])


def _is_written(text: str, wanted: Literal) -> bool:
    """Whether a header, which is always a text, says what is wanted."""
    if isinstance(wanted, bool):
        return text.lower() == str(wanted).lower()
    return text == wanted if type(wanted) is str else _is_same(FloatText(text), wanted)


def _is_same(found: Any, wanted: Literal) -> bool:
    if isinstance(wanted, bool) or isinstance(found, bool):
        return found is wanted
    if type(wanted) is str or type(found) is str:
        return type(found) is type(wanted) and found == wanted
    number, other = read_exact(found), read_exact(wanted)
    return number is not None and other is not None and len({*aligned([number, other])[0]}) == 1


def _require_decimals(decimals: object) -> None:
    if type(decimals) is not int or not 0 <= decimals <= MAX_DECIMALS:
        raise InvalidInput("decimals", f"{shorten(decimals)} is not a whole number from 0 to {MAX_DECIMALS}")


def _require_statuses(statuses: tuple[int, ...]) -> None:
    for status in statuses:
        if type(status) is not int or not 200 <= status <= 599 or 300 <= status <= 399:
            raise InvalidInput("status", f"{shorten(status)} is not from 200 to 299 or 400 to 599")
    if not statuses or len({*statuses}) != len(statuses):
        raise InvalidInput("status", "must be a list like [200, 204], each status once")


def _require_parts(answer: Answer) -> None:
    part = answer.zero_if_missing
    if part is not None and not any(each.has_part(part) for each in answer.expressions):
        raise InvalidInput("zero_if_missing", f"{part} is no part of {answer.count}")


def _require_format(answer: Answer) -> None:
    if answer.format not in _FORMATS:
        raise InvalidInput("format", f'{shorten(answer.format)} must be "json" or "text"')
    if answer.format == "json":
        return
    if any(each.function != "header" and each != Expression() for each in answer.expressions):
        raise InvalidInput("count", 'must be left out or "" with format = "text": the body is the number')
    places = {"require": [each for each, _ in answer.require], "refuse": answer.refuse}
    places["zero_if_missing"] = [answer.zero_if_missing] if answer.zero_if_missing else []
    for name, expressions in places.items():
        if not all(each.header for each in expressions):
            raise InvalidInput(
                name, 'must be left out with format = "text" unless it names a header: the body is the number'
            )
    if answer.echo:
        raise InvalidInput("echo", 'must not be true with format = "text": the body is the number')


def _bounds(answer: Answer) -> tuple[int, int]:
    most = largest_units(answer.decimals)
    lowest = _bound(answer.minimum, answer.decimals, "min")
    highest = most if answer.maximum is None else _bound(answer.maximum, answer.decimals, "max")
    if lowest > highest:
        raise InvalidInput("min", "must not be above max")
    return lowest, highest


def _bound(value: Number, decimals: int, place: str) -> int:
    number = read_exact(FloatText(value))
    if number is None:
        raise InvalidInput(place, f"{shorten(value)} is not a number")
    if places_needed(number) > decimals:
        raise InvalidInput(place, f"{exact_text(number)} has more decimal places than decimals = {decimals} keeps")
    units, most = to_units(number, decimals), largest_units(decimals)
    if abs(units) > most:
        bound = exact_text((most, decimals))
        raise InvalidInput(place, f"must be from -{bound} to {bound}, as decimals = {decimals} can keep")
    return units


def parse_statuses(value: object) -> tuple[int, ...]:
    """The statuses of a good answer, as the file lists them."""
    if not isinstance(value, list):
        raise InvalidInput("status", "must be a list like [200, 204]")
    return tuple(value)


def parse_require(value: object) -> tuple[tuple[Expression, Literal], ...]:
    """Pointers and headers with what must stand there, as the file writes them."""
    if not isinstance(value, dict):
        raise InvalidInput("require", 'must be a table like { "/has_more" = false }')
    return tuple((parse_fixed_place(text, "require"), _literal(wanted)) for text, wanted in value.items())


def parse_refuse(value: object) -> tuple[Expression, ...]:
    """Pointers and headers where nothing must stand, as the file lists them."""
    if not isinstance(value, list):
        raise InvalidInput("refuse", 'must be a list like ["/error"]')
    return tuple(parse_fixed_place(text, "refuse") for text in value)


def _literal(value: object) -> Literal:
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and read_exact(FloatText(value)) is not None:
        return FloatText(value)
    raise InvalidInput("require", f"{shorten(value)} must be true, false, a number or a string")


def json_literal(wanted: Literal) -> Literal | float:
    """What is required, as JSON or TOML may write it."""
    return float(wanted) if isinstance(wanted, FloatText) else wanted


def parse_values(value: object) -> tuple[tuple[str, Expression], ...]:
    """The names of several values, each with where it stands, as the file writes them."""
    if not isinstance(value, dict) or not value:
        raise InvalidInput("values", 'must be a table like { requests = "/a", errors = "/b" }')
    if len(value) > MAX_VALUES:
        raise InvalidInput("values", f"has more than {MAX_VALUES} values")
    return tuple((name, parse_expression(text, "values")) for name, text in value.items())


def parse_number(setting: str, value: object) -> Number:
    """A number of the file."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(setting, f"{shorten(value)} is not a number")
    return value


ORIGINAL_ANSWER = Answer(echo=True, integers_only=True)
