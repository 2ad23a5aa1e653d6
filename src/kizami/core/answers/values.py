"""Value expressions: where a number stands in an answer, and the exact number that stands there (pure).

name  /a/0/b  ""          the number itself: by its name, by a JSON pointer (RFC 6901), as the whole body
sum(p) max(p) min(p)      of all numbers at p, where each `*` walks an array
length(p)                 how many elements the arrays at p have
header:Name               the number in a header of the answer

`require`, `refuse` and `zero_if_missing` name one place: a name, a pointer or a header.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kizami.core.answers.nearest import Path, json_words, nearest, path_text, quoted, step_into
from kizami.core.answers.numbers import Exact, aligned, exact_text, read_exact
from kizami.core.errors import ApiPayloadError, InvalidInput
from kizami.core.slots import shorten

MAX_STEPS = 64

_POINTER = re.compile(r"(/.*)?|(?!\w+\()[^/~]+", re.DOTALL)
_LIKE_A_HEADER = re.compile(r"\s*headers?\s*:", re.IGNORECASE)
_CALL = re.compile(r"(\w+)\((.*)\)", re.DOTALL)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Expression:
    """Where a value stands. Two are equal that lead to the same place, however they are written."""

    steps: Path = ()
    function: str = ""  # none, header, or one of FUNCTIONS
    text: str = field(default="", compare=False)  # as kizami.toml writes it

    def __post_init__(self) -> None:
        if not self.text:
            object.__setattr__(self, "text", _canonical_text(self.steps, self.function))

    def __str__(self) -> str:
        return quoted(self.text) or "the body"

    @property
    def header(self) -> str | None:
        """The header that it reads, in small letters."""
        return self.steps[0] if self.function == "header" else None

    def has_part(self, part: Expression) -> bool:
        """Whether `part` is on the way to it."""
        if "header" in (self.function, part.function):
            return self == part
        return self.steps[: len(part.steps)] == part.steps


def _canonical_text(steps: Path, function: str) -> str:
    if function == "header":
        return f"header:{steps[0]}"
    is_name = len(steps) == 1 and steps[0].isidentifier()
    pointer = steps[0] if is_name else path_text(steps)
    return f"{function}({pointer})" if function else pointer


def parse_expression(text: object, place: str = "count") -> Expression:
    """The expression that `text` writes, else InvalidInput naming the place."""
    call = _CALL.fullmatch(text) if isinstance(text, str) else None
    if call is None:
        return parse_place(text, place)
    if call[1] not in FUNCTIONS:
        raise InvalidInput(place, f"{shorten(text)} calls none of {', '.join(FUNCTIONS)}")
    return Expression(parse_pointer(call[2], place).steps, call[1], call[0])


def parse_place(text: object, place: str) -> Expression:
    """The expression of a single place, which is a pointer or a header."""
    if isinstance(text, str) and text.startswith("header:"):
        return _parse_header(text, place)
    return parse_pointer(text, place)


def parse_fixed_place(text: object, place: str) -> Expression:
    """A single place without `*`, which walks an array only in a function and would match nothing here."""
    expression = parse_place(text, place)
    if expression.header is None and "*" in expression.steps:
        raise InvalidInput(place, f"{shorten(text)} has a *, which walks an array only in {', '.join(FUNCTIONS)}")
    return expression


def _parse_header(text: str, place: str) -> Expression:
    name = text.removeprefix("header:")
    if not _HEADER.fullmatch(name):
        raise InvalidInput(place, f"{shorten(text)} must name a header, like header:X-Total-Count")
    return Expression((name.lower(),), "header", text)


def parse_pointer(text: object, place: str = "count") -> Expression:
    """The expression of a JSON pointer (RFC 6901); a bare name such as `count` means `/count`."""
    if not isinstance(text, str) or not _POINTER.fullmatch(text) or not text.isprintable():
        raise InvalidInput(place, f"{shorten(text)} must be a name or a JSON pointer like /data/count")
    if _LIKE_A_HEADER.match(text):
        raise InvalidInput(
            place,
            f"{shorten(text)} must be header:Name for a header, or {shorten('/' + text)} for a key of that name",
        )
    steps = text.removeprefix("/").split("/") if text else []
    if len(steps) > MAX_STEPS:
        raise InvalidInput(place, f"has more than {MAX_STEPS} steps")
    if any(re.search(r"~(?![01])", step) for step in steps):
        raise InvalidInput(place, f"{shorten(text)} has a ~ that is neither ~0 nor ~1")
    return Expression(tuple(step.replace("~1", "/").replace("~0", "~") for step in steps), "", text)


def look_up(expression: Expression, document: Any) -> Any:
    """What stands at a pointer; ApiPayloadError if there is nothing, with what is there instead."""
    value = document
    try:
        for step in expression.steps:
            value = value[step] if type(value) is dict else step_into(value, step)
    except KeyError:
        raise _missing(str(expression), document, expression.steps) from None
    return value


def _missing(place: str, document: Any, path: Path) -> ApiPayloadError:
    remedy = 'count = "" reads the whole body' if read_exact(document) is not None else ""
    return ApiPayloadError(f"{place} is missing{nearest(document, path)}", remedy)


def find(expression: Expression, document: Any) -> Any:
    """What stands at a pointer, None if there is nothing."""
    value = document
    try:
        for step in expression.steps:
            value = step_into(value, step)
    except KeyError:
        return None
    return value


def evaluate(
    expression: Expression, document: Any, headers: Mapping[str, str], absent: Expression | None = None
) -> Exact:
    """The exact number that the expression stands for; where the part `absent` is missing or null, it is 0.

    ApiPayloadError names the expression as it is written, and what stands in the place of a number.
    """
    if expression.header is not None:
        return _read_header(expression, headers, may_lack=expression == absent)
    may_lack = absent is not None and expression.has_part(absent)
    matches = list(matches_of(expression, document, absent))
    if not matches and (may_lack or expression.function in ("sum", "length")):
        return 0, 0
    if not matches:
        problem = f"{expression} is missing: the arrays are empty"
        raise ApiPayloadError(problem, "zero_if_missing names the part that may be absent")
    if not expression.function:
        return _number(expression, *matches[0])
    return FUNCTIONS[expression.function](expression, matches)


def _read_header(expression: Expression, headers: Mapping[str, str], *, may_lack: bool) -> Exact:
    text = header_text(expression, headers)
    if text is None and may_lack:
        return 0, 0
    if text is None:
        raise ApiPayloadError(f"{expression} is missing")
    number = read_exact(text)
    if number is None:
        raise ApiPayloadError(f"{expression} is {header_words(expression, text)}, not a number")
    return number


def header_text(expression: Expression, headers: Mapping[str, str]) -> str | None:
    """The text of the header; of one that is repeated, all texts with commas between them (RFC 9110)."""
    text = headers.get(expression.steps[0])
    return None if text is None else text.strip()


def header_words(expression: Expression, text: str) -> str:
    """What an error says of a header: any text may be a secret, or a link that has one in it."""
    number = None if reads_secret(expression) else read_exact(text)
    if number is not None:
        return exact_text(number)
    return f"a text of {len(text):,} characters" if text else "empty"


def reads_secret(expression: Expression) -> bool:
    """Whether it reads a header that has a secret."""
    from kizami.core.requests.headers import is_secret_header  # only an error needs it

    return expression.header is not None and is_secret_header(expression.header)


Match = tuple[Path, Any]


def matches_of(expression: Expression, document: Any, absent: Expression | None = None) -> Iterator[Match]:
    """All that stands where the expression leads, each with its path; nothing where `absent` is missing."""
    may_lack = absent is not None and expression.has_part(absent)
    return _Walk(expression, document, len(absent.steps) if absent and may_lack else None).matches(document, ())


@dataclass(frozen=True, slots=True)
class _Walk:
    """One walk through an answer: everything that stands where the expression leads."""

    expression: Expression
    document: Any
    absent_depth: int | None

    def matches(self, value: Any, path: Path) -> Iterator[Match]:
        """What stands there from `path` on, each with its own path."""
        if len(path) == self.absent_depth and value is None:
            return
        if len(path) == len(self.expression.steps):
            yield path, value
            return
        for key, inner in self._next(value, path, self.expression.steps[len(path)]):
            yield from self.matches(inner, (*path, key))

    def _next(self, value: Any, path: Path, step: str) -> Iterator[tuple[str, Any]]:
        if step == "*" and self.expression.function:  # in a pointer alone it is a name, as RFC 6901 has it
            yield from ((str(index), each) for index, each in enumerate(self._array(value, path)))
            return
        try:
            yield step, step_into(value, step)
        except KeyError:
            if len(path) + 1 != self.absent_depth:
                path = (*path, step)
                raise _missing(_place(self.expression, path), self.document, path) from None

    def _array(self, value: Any, path: Path) -> list[Any]:
        if isinstance(value, list):
            return value
        raise ApiPayloadError(f"{_place(self.expression, path)} is {json_words(value)}, and * walks an array")


def _place(expression: Expression, path: Path) -> str:
    """What an error is about: the expression alone if that is the place, else what it found on its way."""
    if not expression.function and path == expression.steps:
        return str(expression)
    return f"{expression}: {quoted(path_text(path)) or 'the body'}"


def _number(expression: Expression, path: Path, value: Any) -> Exact:
    number = read_exact(value)
    if number is not None:
        return number
    hint = (
        f"; sum({path_text(path)}/*) adds what is in it" if expression.function and isinstance(value, list) else ""
    )
    raise ApiPayloadError(f"{_place(expression, path)} is {json_words(value)}, not a number{hint}")


def _numbers(expression: Expression, matches: Sequence[Match]) -> tuple[list[int], int]:
    return aligned([_number(expression, path, value) for path, value in matches])


def _of_all(pick: Callable[[list[int]], int]) -> Callable[[Expression, Sequence[Match]], Exact]:
    def read(expression: Expression, matches: Sequence[Match]) -> Exact:
        units, places = _numbers(expression, matches)
        return pick(units), places

    return read


def _length(expression: Expression, matches: Sequence[Match]) -> Exact:
    for path, value in matches:
        if not isinstance(value, list):
            raise ApiPayloadError(f"{_place(expression, path)} is {json_words(value)}, not an array")
    return sum(len(value) for _, value in matches), 0


FUNCTIONS: dict[str, Callable[[Expression, Sequence[Match]], Exact]] = {
    "sum": _of_all(sum),
    "length": _length,
    "max": _of_all(max),
    "min": _of_all(min),
}
