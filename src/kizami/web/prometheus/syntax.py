"""The language: a query's text becomes an expression (pure).

Understood: selectors with all four kinds of matchers, `[range]`, `offset`, the `*_over_time` functions,
`sum`, `avg`, `min`, `max`, `count` with `by` or `without`, arithmetic with numbers, `time()` and `vector()`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from kizami.core.errors import InvalidInput
from kizami.core.slots import shorten
from kizami.web.prometheus.expressions import (
    AGGREGATIONS,
    NAME_LABEL,
    OVER_TIME,
    Aggregation,
    Arithmetic,
    AsVector,
    Expression,
    Matcher,
    MatchKind,
    Number,
    OverTime,
    Selector,
    Time,
)

MAX_QUERY_CHARACTERS = 4_000
MAX_DEPTH = 30
MAX_OPERATIONS = 100
MAX_MATCHERS = 10

_UNIT_MS = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
    "y": 31_536_000_000,
}
_DURATION = r"(?:\d+(?:ms|[smhdwy]))+"
_TOKEN = re.compile(
    rf"""\s*(?:
      (?P<duration>{_DURATION})(?![\w:])
    | (?P<number>0x[0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|(?i:inf|nan)(?![\w:]))
    | (?P<name>[a-zA-Z_:][\w:]*)
    | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)
    | (?P<operator>=~|!~|!=|==|>=|<=|[-+*/%^(){{}}\[\],=<>])
    )""",
    re.VERBOSE | re.ASCII,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}


def parse_query(text: str) -> Expression:
    """The expression that the query writes, else InvalidInput with the place in it."""
    if len(text) > MAX_QUERY_CHARACTERS:
        raise InvalidInput("query", f"is longer than {MAX_QUERY_CHARACTERS:,} characters")
    parser = _Parser(text)
    expression = parser.expression()
    parser.expect_end()
    return expression


def parse_matchers(text: str) -> tuple[Matcher, ...]:
    """The conditions of a bare selector, as `match[]` has them."""
    expression = parse_query(text)
    if not isinstance(expression, Selector) or expression.range_ms is not None:
        raise InvalidInput("match[]", f"{shorten(text)} is not a series selector")
    return expression.matchers


def parse_promql_duration(text: str, field: str = "query") -> int:
    """Milliseconds of `5m` or `1h30m`."""
    if not re.fullmatch(_DURATION, text, re.ASCII) or len(text) > 30:
        raise InvalidInput(field, f"{shorten(text)} is not a duration like 30s, 5m or 1h30m")
    return sum(int(number) * _UNIT_MS[unit] for number, unit in re.findall(r"(\d+)(ms|[smhdwy])", text))


class _Parser:
    """Recursive descent over the tokens, by rising precedence: + -, then * / %, then a sign, then ^."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = self._operations = self._matchers_read = 0
        self._kind, self._token = "", ""
        self._advance()

    def expression(self) -> Expression:
        left = self._term()
        while self._token in ("+", "-") and self._kind == "operator":
            left = self._operation(left, self._term)
        if self._token in ("==", "!=", "<", ">", "<=", ">=", "and", "or", "unless"):
            raise self._fault("comparisons and set operations are not understood here")
        return left

    def expect_end(self) -> None:
        if self._kind:
            raise self._fault("is not expected")

    def _term(self) -> Expression:
        left = self._signed()
        while self._token in ("*", "/", "%") and self._kind == "operator":
            left = self._operation(left, self._signed)
        return left

    def _operation(self, left: Expression, read_right: Callable[[], Expression]) -> Expression:
        self._operations += 1
        if self._operations > MAX_OPERATIONS:
            raise InvalidInput("query", f"has more than {MAX_OPERATIONS} operations")
        return Arithmetic(self._take(), left, read_right())

    def _signed(self) -> Expression:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidInput("query", f"is nested more than {MAX_DEPTH} deep")
        try:
            return self._with_sign()
        finally:
            self._depth -= 1

    def _with_sign(self) -> Expression:
        if self._token == "-" and self._kind == "operator":
            self._take()
            return Arithmetic("*", Number(-1.0), self._signed())
        if self._token == "+" and self._kind == "operator":
            self._take()
            return self._signed()
        return self._power()

    def _power(self) -> Expression:
        base = self._primary()
        if self._token == "^" and self._kind == "operator":
            return self._operation(base, self._signed)
        return base

    def _primary(self) -> Expression:
        if self._kind == "number":
            return Number(_number(self._take()))
        if self._token == "(":
            self._take()
            inner = self.expression()
            self._expect(")")
            return inner
        if self._token == "{" or self._kind == "name":
            return self._named()
        raise self._fault("is not expected")

    def _named(self) -> Expression:
        if self._token == "{":
            return self._selector(None)
        name = self._take()
        if self._token in ("(", "by", "without") and name in AGGREGATIONS:
            return self._aggregation(name)
        if self._token == "(":
            return self._call(name)
        return self._selector(name)

    def _call(self, name: str) -> Expression:
        self._expect("(")
        if name == "time":
            self._expect(")")
            return Time()
        if name == "vector":
            argument = self.expression()
            self._expect(")")
            return AsVector(argument)
        function = name.removesuffix("_over_time")
        if function == name or function not in OVER_TIME:
            known = ", ".join(f"{each}_over_time" for each in OVER_TIME)
            raise InvalidInput("query", f"{shorten(name)} is not a function here; known: {known}")
        parameter = None
        if function == "quantile":
            parameter = self.expression()
            self._expect(",")
        argument = self.expression()
        self._expect(")")
        if not isinstance(argument, Selector) or argument.range_ms is None:
            raise InvalidInput("query", f"{name} wants a selector with a range, like {name}(metric[5m])")
        return OverTime(function, argument, parameter)

    def _aggregation(self, operation: str) -> Expression:
        grouping = self._grouping()
        self._expect("(")
        argument = self.expression()
        self._expect(")")
        labels, without = grouping or self._grouping() or ((), False)
        return Aggregation(operation, argument, labels, without)

    def _grouping(self) -> tuple[tuple[str, ...], bool] | None:
        if self._token not in ("by", "without"):
            return None
        without = self._take() == "without"
        self._expect("(")
        labels = []
        while self._kind == "name":
            labels.append(self._take())
            if self._token != ",":
                break
            self._take()
        self._expect(")")
        return tuple(labels), without

    def _selector(self, name: str | None) -> Selector:
        matchers = [] if name is None else [Matcher(NAME_LABEL, MatchKind.EQUAL, name)]
        if self._token == "{":
            matchers += self._matchers()
        if all(matcher.accepts("") for matcher in matchers):
            raise InvalidInput("query", "a selector needs a condition that is not met by everything")
        range_ms = self._range()
        return Selector(tuple(matchers), range_ms, self._offset())

    def _matchers(self) -> list[Matcher]:
        self._expect("{")
        matchers = []
        while self._kind in ("name", "string"):
            matchers.append(self._matcher())
            if self._token != ",":
                break
            self._take()
        self._expect("}")
        return matchers

    def _matcher(self) -> Matcher:
        self._matchers_read += 1
        if self._matchers_read > MAX_MATCHERS:
            raise InvalidInput("query", f"has more than {MAX_MATCHERS} conditions on labels")
        is_quoted = self._kind == "string"
        label = _unquote(self._take()) if is_quoted else self._take()
        if is_quoted and self._token in (",", "}"):
            return Matcher(NAME_LABEL, MatchKind.EQUAL, label)  # {"any name"}
        if self._token not in ("=", "!=", "=~", "!~"):
            raise self._fault("should be one of = != =~ !~")
        kind = MatchKind(self._take())
        if self._kind != "string":
            raise self._fault("should be a quoted text")
        return Matcher(label, kind, _unquote(self._take()))

    def _range(self) -> int | None:
        if self._token != "[":
            return None
        self._take()
        if self._kind != "duration":
            raise self._fault("should be a duration like 5m")
        range_ms = parse_promql_duration(self._take())
        self._expect("]")
        if not range_ms:
            raise InvalidInput("query", "a range must be longer than nothing")
        return range_ms

    def _offset(self) -> int:
        if self._token != "offset":
            return 0
        self._take()
        sign = -1 if self._token == "-" else 1
        if sign < 0:
            self._take()
        if self._kind != "duration":
            raise self._fault("should be a duration like 5m")
        return sign * parse_promql_duration(self._take())

    def _expect(self, token: str) -> None:
        if self._token != token or self._kind == "string":
            raise self._fault(f"should be {token}")
        self._take()

    def _take(self) -> str:
        token = self._token
        self._advance()
        return token

    def _advance(self) -> None:
        match = _TOKEN.match(self._text, self._position)
        if match is not None and match.lastgroup is not None:
            self._kind, self._token = match.lastgroup, match[match.lastgroup]
            self._position = match.end()
        elif self._text[self._position :].strip():
            raise InvalidInput("query", f"{shorten(self._text[self._position :].strip(), 30)} is not understood")
        else:
            self._kind, self._token = "", ""

    def _fault(self, problem: str) -> InvalidInput:
        found = shorten(self._token, 30) if self._kind else "the end"
        return InvalidInput("query", f"{found} before character {self._position + 1} {problem}")


def _number(text: str) -> float:
    try:
        return float(int(text, 16)) if text.startswith("0x") else float(text)
    except OverflowError:
        return math.inf


def _unquote(text: str) -> str:
    if text.startswith("`"):
        return text[1:-1]
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), text[1:-1])
