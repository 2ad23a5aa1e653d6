"""The language: a query's text becomes an expression (pure).

Understood: selectors with all four kinds of matchers, `[range]`, `[range:step]`, `offset`, the `*_over_time`
functions, `rate` and `increase`, `sum`, `avg`, `min`, `max`, `count`, `topk` and `bottomk` with `by` or `without`,
arithmetic, comparisons and set operations with `on`, `ignoring`, `group_left` and `group_right`, `time()` and
`vector()`.
"""

from __future__ import annotations

from kizami.core.errors import InvalidInput
from kizami.core.slots import shorten
from kizami.web.prometheus.expressions import (
    AGGREGATIONS,
    NAME_LABEL,
    OVER_TIME,
    RATES,
    Aggregation,
    AsVector,
    Binary,
    Expression,
    Matcher,
    Matching,
    MatchKind,
    Number,
    OverTime,
    Selector,
    Side,
    Subquery,
    Time,
)
from kizami.web.prometheus.tokens import Tokens, number_of, unquoted

MAX_QUERY_CHARACTERS = 4_000
MAX_DEPTH = 30
MAX_OPERATIONS = 100
MAX_MATCHERS = 10
DEFAULT_STEP_MS = 60_000  # of a subquery that names none, as in Prometheus

_COMPARISONS = ("==", "!=", "<", ">", "<=", ">=")
_SETS = ("and", "or", "unless")
# From those that bind least to those that bind most; a sign and ^ bind more than all of them.
_LEVELS = (("or",), ("and", "unless"), _COMPARISONS, ("+", "-"), ("*", "/", "%"))
# What reckons with how a counter grows from sample to sample.
_OF_COUNTERS = ("irate", "delta", "idelta", "deriv", "resets", "changes", "predict_linear", "holt_winters")


def parse_query(text: str) -> Expression:
    """The expression that the query writes, else InvalidInput with the place in it."""
    if len(text) > MAX_QUERY_CHARACTERS:
        raise InvalidInput("query", f"is longer than {MAX_QUERY_CHARACTERS:,} characters")
    parser = _Parser(Tokens(text))
    expression = parser.expression()
    parser.expect_end()
    return expression


def parse_matchers(text: str) -> tuple[Matcher, ...]:
    """The conditions of a bare selector, as `match[]` has them."""
    expression = parse_query(text)
    if not isinstance(expression, Selector) or expression.range_ms is not None:
        raise InvalidInput("match[]", f"{shorten(text)} is not a series selector")
    return expression.matchers


class _Parser:
    """Recursive descent over the tokens, by rising precedence."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._depth = self._operations = self._matchers_read = 0

    def expression(self, level: int = 0) -> Expression:
        if level == len(_LEVELS):
            return self._signed()
        left = self.expression(level + 1)
        while self._tokens.is_next(*_LEVELS[level]):
            left = self._operation(left, level + 1)
        return left

    def expect_end(self) -> None:
        if self._tokens.kind:
            raise self._tokens.fault("is not expected")

    def _operation(self, left: Expression, level: int) -> Expression:
        self._count_operation()
        operator = self._tokens.take()
        returns_bool = operator in _COMPARISONS and self._tokens.is_next("bool")
        if returns_bool:
            self._tokens.take()
        matching = self._matching(operator)
        return Binary(operator, left, self.expression(level), matching, returns_bool)

    def _count_operation(self) -> None:
        self._operations += 1
        if self._operations > MAX_OPERATIONS:
            raise InvalidInput("query", f"has more than {MAX_OPERATIONS} operations")

    def _matching(self, operator: str) -> Matching:
        if not self._tokens.is_next("on", "ignoring"):
            return Matching()
        on = self._tokens.take() == "on"
        labels = self._labels()
        if operator in _SETS or not self._tokens.is_next(*(side.value for side in Side)):
            return Matching(labels, on)
        many = Side(self._tokens.take())
        return Matching(labels, on, many, self._labels() if self._tokens.is_next("(") else ())

    def _signed(self) -> Expression:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidInput("query", f"is nested more than {MAX_DEPTH} deep")
        try:
            return self._with_sign()
        finally:
            self._depth -= 1

    def _with_sign(self) -> Expression:
        if self._tokens.is_next("-"):
            self._tokens.take()
            return Binary("*", Number(-1.0), self._signed())
        if self._tokens.is_next("+"):
            self._tokens.take()
            return self._signed()
        return self._power()

    def _power(self) -> Expression:
        base = self._ranged()
        if not self._tokens.is_next("^"):
            return base
        self._count_operation()
        self._tokens.take()
        matching = self._matching("^")
        return Binary("^", base, self._signed(), matching)

    def _ranged(self) -> Expression:
        """A primary expression, with what may follow it in brackets."""
        found = self._primary()
        while self._tokens.is_next("["):
            found = self._with_range(found)
        return found

    def _with_range(self, argument: Expression) -> Expression:
        range_ms, step_ms, is_subquery = self._tokens.take_range()
        if is_subquery and not (isinstance(argument, Selector) and argument.range_ms is not None):
            return Subquery(argument, range_ms, step_ms or DEFAULT_STEP_MS, self._offset())
        if (
            is_subquery
            or not isinstance(argument, Selector)
            or argument.range_ms is not None
            or argument.offset_ms
        ):
            raise InvalidInput(
                "query", "a range like [5m] stands after a selector, one like [1h:5m] after a vector"
            )
        return Selector(argument.matchers, range_ms, self._offset())

    def _primary(self) -> Expression:
        if self._tokens.kind == "number":
            return Number(number_of(self._tokens.take()))
        if self._tokens.is_next("("):
            self._tokens.take()
            inner = self.expression()
            self._tokens.expect(")")
            return inner
        if self._tokens.is_next("{") or self._tokens.kind == "name":
            return self._named()
        raise self._tokens.fault("is not expected")

    def _named(self) -> Expression:
        if self._tokens.is_next("{"):
            return self._selector(None)
        name = self._tokens.take()
        if self._tokens.is_next("(", "by", "without") and name in AGGREGATIONS:
            return self._aggregation(name)
        if self._tokens.is_next("("):
            return self._call(name)
        return self._selector(name)

    def _call(self, name: str) -> Expression:
        self._tokens.expect("(")
        if name == "time":
            self._tokens.expect(")")
            return Time()
        if name == "vector":
            argument = self.expression()
            self._tokens.expect(")")
            return AsVector(argument)
        return self._over_time(name, _function(name))

    def _over_time(self, name: str, function: str) -> Expression:
        parameter = None
        if function == "quantile":
            parameter = self.expression()
            self._tokens.expect(",")
        argument = self.expression()
        self._tokens.expect(")")
        if isinstance(argument, Selector) and argument.range_ms is not None:
            return OverTime(function, argument, parameter)
        if isinstance(argument, Subquery) and function not in RATES:
            return OverTime(function, argument, parameter)
        raise InvalidInput("query", f"{name} wants a selector with a range, like {name}(metric[5m])")

    def _aggregation(self, operation: str) -> Expression:
        grouping = self._grouping()
        self._tokens.expect("(")
        parameter = None
        if operation in ("topk", "bottomk"):
            parameter = self.expression()
            self._tokens.expect(",")
        argument = self.expression()
        self._tokens.expect(")")
        labels, without = grouping or self._grouping() or ((), False)
        return Aggregation(operation, argument, labels, without, parameter)

    def _grouping(self) -> tuple[tuple[str, ...], bool] | None:
        if not self._tokens.is_next("by", "without"):
            return None
        without = self._tokens.take() == "without"
        return self._labels(), without

    def _labels(self) -> tuple[str, ...]:
        self._tokens.expect("(")
        labels = []
        while self._tokens.kind == "name":
            labels.append(self._tokens.take())
            if not self._tokens.is_next(","):
                break
            self._tokens.take()
        self._tokens.expect(")")
        return tuple(labels)

    def _selector(self, name: str | None) -> Selector:
        matchers = [] if name is None else [Matcher(NAME_LABEL, MatchKind.EQUAL, name)]
        if self._tokens.is_next("{"):
            matchers += self._matchers()
        if all(matcher.accepts("") for matcher in matchers):
            raise InvalidInput("query", "a selector needs a condition that is not met by everything")
        return Selector(tuple(matchers), None, self._offset())

    def _matchers(self) -> list[Matcher]:
        self._tokens.expect("{")
        matchers = []
        while self._tokens.kind in ("name", "string"):
            matchers.append(self._matcher())
            if not self._tokens.is_next(","):
                break
            self._tokens.take()
        self._tokens.expect("}")
        return matchers

    def _matcher(self) -> Matcher:
        self._matchers_read += 1
        if self._matchers_read > MAX_MATCHERS:
            raise InvalidInput("query", f"has more than {MAX_MATCHERS} conditions on labels")
        is_quoted = self._tokens.kind == "string"
        label = unquoted(self._tokens.take()) if is_quoted else self._tokens.take()
        if is_quoted and self._tokens.is_next(",", "}"):
            return Matcher(NAME_LABEL, MatchKind.EQUAL, label)  # {"any name"}
        if not self._tokens.is_next("=", "!=", "=~", "!~"):
            raise self._tokens.fault("should be one of = != =~ !~")
        kind = MatchKind(self._tokens.take())
        if self._tokens.kind != "string":
            raise self._tokens.fault("should be a quoted text")
        return Matcher(label, kind, unquoted(self._tokens.take()))

    def _offset(self) -> int:
        if not self._tokens.is_next("offset"):
            return 0
        self._tokens.take()
        sign = -1 if self._tokens.is_next("-") else 1
        if sign < 0:
            self._tokens.take()
        return sign * self._tokens.take_duration()


def _function(name: str) -> str:
    """The function of that name over the samples of a range, else InvalidInput with what there is."""
    function = name.removesuffix("_over_time")
    if name in RATES or (function != name and function in OVER_TIME):
        return function
    if name in _OF_COUNTERS:
        words = "is for counters, and a count here is that of its own window; use rate, increase or sum_over_time"
        raise InvalidInput("query", f"{name} {words}")
    known = ", ".join([*(f"{each}_over_time" for each in OVER_TIME), *RATES])
    raise InvalidInput("query", f"{shorten(name)} is not a function here; known: {known}")
