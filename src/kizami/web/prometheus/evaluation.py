"""A query's value at many moments at once: a number each, or a vector of series with a value each (pure)."""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kizami.core.errors import InvalidInput
from kizami.web.prometheus.expressions import (
    NAME_LABEL,
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
from kizami.web.prometheus.samples import Labels, Samples, Values, labels_of


@dataclass(frozen=True, slots=True)
class Series:
    """One series: its labels and its value at each moment (None: it has none)."""

    labels: Labels
    values: Values


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number at each moment."""

    values: list[float]


Vector = list[Series]
Result = Scalar | Vector


def evaluate(expression: Expression, samples: Samples, times_ms: Sequence[int]) -> Result:
    """The value of the expression at each of the times, which ascend."""
    samples.budget.work(len(times_ms))
    if isinstance(expression, Number):
        return Scalar([expression.value] * len(times_ms))
    if isinstance(expression, Time):
        return Scalar([time_ms / 1000 for time_ms in times_ms])
    if isinstance(expression, Selector):
        return _select(expression, samples, times_ms)
    if isinstance(expression, OverTime):
        return _over_time(expression, samples, times_ms)
    if isinstance(expression, Aggregation):
        return _aggregate(expression, samples, times_ms)
    if isinstance(expression, AsVector):
        argument = _scalar(evaluate(expression.argument, samples, times_ms), "vector()")
        return [Series({}, list(argument.values))]
    return _calculate(expression, samples, times_ms)


def _select(selector: Selector, samples: Samples, times_ms: Sequence[int]) -> Vector:
    if selector.range_ms is not None:
        raise InvalidInput("query", "a range like [5m] can only stand inside a function such as avg_over_time")
    times = [time_ms - selector.offset_ms for time_ms in times_ms]
    return _kept(
        Series(labels_of(target), samples.at(target, times)) for target in samples.select(selector.matchers)
    )


def _over_time(call: OverTime, samples: Samples, times_ms: Sequence[int]) -> Vector:
    selector, parameter = call.selector, 0.0
    if call.parameter is not None:
        parameter = _scalar(evaluate(call.parameter, samples, times_ms), "a quantile").values[0]
    assert selector.range_ms is not None
    times = [time_ms - selector.offset_ms for time_ms in times_ms]
    if call.function == "absent":
        return _absent(selector, samples, times)
    return _kept(
        Series(
            # Only the last value is still the metric itself.
            labels_of(target) if call.function == "last" else _without_name(labels_of(target)),
            samples.over(target, times, selector.range_ms, call.function, parameter),
        )
        for target in samples.select(selector.matchers)
    )


def _absent(selector: Selector, samples: Samples, times_ms: Sequence[int]) -> Vector:
    present = [
        samples.over(target, times_ms, selector.range_ms or 0, "present", 0.0)
        for target in samples.select(selector.matchers)
    ]
    samples.budget.work(len(present) * len(times_ms))
    values: Values = [
        None if any(series[index] is not None for series in present) else 1.0 for index in range(len(times_ms))
    ]
    return _kept([Series(_equalities(selector.matchers), values)])


def _equalities(matchers: Sequence[Matcher]) -> dict[str, str]:
    return {
        matcher.label: matcher.value
        for matcher in matchers
        if matcher.kind is MatchKind.EQUAL and matcher.label != NAME_LABEL
    }


_AGGREGATIONS: dict[str, Callable[[list[float]], float]] = {
    "sum": math.fsum,
    "avg": statistics.fmean,
    "min": min,
    "max": max,
    "count": lambda values: float(len(values)),
}


def _aggregate(aggregation: Aggregation, samples: Samples, times_ms: Sequence[int]) -> Vector:
    groups: dict[tuple[tuple[str, str], ...], list[Values]] = {}
    vector = _vector(evaluate(aggregation.argument, samples, times_ms), aggregation.operation)
    samples.budget.work(len(vector) * len(times_ms))
    for series in vector:
        groups.setdefault(_group(series.labels, aggregation), []).append(series.values)
    combine = _AGGREGATIONS[aggregation.operation]
    result = []
    for labels, members in groups.items():
        at_moments = ([value for value in column if value is not None] for column in zip(*members, strict=True))
        result.append(Series(dict(labels), [combine(values) if values else None for values in at_moments]))
    return result


def _group(labels: Labels, aggregation: Aggregation) -> tuple[tuple[str, str], ...]:
    if aggregation.without:
        kept = (item for item in labels.items() if item[0] not in (*aggregation.labels, NAME_LABEL))
    else:
        kept = (item for item in labels.items() if item[0] in aggregation.labels)
    return tuple(sorted(kept))


def _calculate(expression: Arithmetic, samples: Samples, times_ms: Sequence[int]) -> Result:
    left, right = (evaluate(side, samples, times_ms) for side in (expression.left, expression.right))
    symbol = expression.operator
    samples.budget.work(
        10 * len(times_ms) * sum(1 if isinstance(side, Scalar) else len(side) for side in (left, right))
    )
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        return Scalar([calculate(symbol, *pair) for pair in zip(left.values, right.values, strict=True)])
    if isinstance(right, Scalar) and not isinstance(left, Scalar):
        return [_with_numbers(each, right, lambda own, other: calculate(symbol, own, other)) for each in left]
    if isinstance(left, Scalar) and not isinstance(right, Scalar):
        return [_with_numbers(each, left, lambda own, other: calculate(symbol, other, own)) for each in right]
    raise InvalidInput("query", "arithmetic between two vectors is not understood here; one must be a number")


def _with_numbers(series: Series, numbers: Scalar, combine: Callable[[float, float], float]) -> Series:
    pairs = zip(series.values, numbers.values, strict=True)
    values = [None if value is None else combine(value, number) for value, number in pairs]
    return Series(_without_name(series.labels), values)


_OPERATORS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": math.fmod,
    "^": math.pow,
}


def calculate(symbol: str, left: float, right: float) -> float:
    """Arithmetic as IEEE 754 has it: nothing is an error, a division by zero is infinite."""
    try:
        return _OPERATORS[symbol](left, right)
    except ZeroDivisionError:
        sign = math.copysign(1, left) * math.copysign(1, right)
        return math.nan if left == 0 or math.isnan(left) else sign * math.inf
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def _scalar(result: Result, place: str) -> Scalar:
    if not isinstance(result, Scalar):
        raise InvalidInput("query", f"{place} wants a number, not a vector")
    return result


def _vector(result: Result, place: str = "this") -> Vector:
    if isinstance(result, Scalar):
        raise InvalidInput("query", f"{place} wants a vector, not a number")
    return result


def _without_name(labels: Labels) -> dict[str, str]:
    return {name: value for name, value in labels.items() if name != NAME_LABEL}


def _kept(vector: Iterable[Series]) -> Vector:
    """Those that have a value at all."""
    return [series for series in vector if any(value is not None for value in series.values)]
