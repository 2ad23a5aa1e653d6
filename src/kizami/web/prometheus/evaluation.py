"""A query's value at many moments at once: a number each, or a vector of series with a value each (pure)."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Callable, Sequence

from kizami.backend.targets import KnownTarget
from kizami.core.errors import InvalidInput
from kizami.web.prometheus.expressions import (
    NAME_LABEL,
    RATES,
    Aggregation,
    AsVector,
    Binary,
    Expression,
    Matcher,
    MatchKind,
    Number,
    OverTime,
    Selector,
    Subquery,
    Time,
)
from kizami.web.prometheus.matching import SETS, meet
from kizami.web.prometheus.operators import COMPARISONS, combine
from kizami.web.prometheus.samples import Samples, labels_of
from kizami.web.prometheus.vectors import (
    LabelKey,
    Labels,
    Result,
    Scalar,
    Series,
    Values,
    Vector,
    kept,
    label_key,
    without_name,
)
from kizami.web.prometheus.windows import WEIGHTS, of_values

MAX_SUBQUERY_POINTS = 11_000


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
    if isinstance(expression, Subquery):
        raise InvalidInput("query", _ONLY_INSIDE)
    return _operate(expression, samples, times_ms)


_ONLY_INSIDE = "a range like [5m] or [1h:5m] can only stand inside a function such as avg_over_time"


def _select(selector: Selector, samples: Samples, times_ms: Sequence[int]) -> Vector:
    if selector.range_ms is not None:
        raise InvalidInput("query", _ONLY_INSIDE)
    times = [time_ms - selector.offset_ms for time_ms in times_ms]
    return kept(
        Series(labels_of(target), samples.at(target, times)) for target in samples.select(selector.matchers)
    )


def _over_time(call: OverTime, samples: Samples, times_ms: Sequence[int]) -> Vector:
    selector, parameter = call.selector, 0.0
    if call.parameter is not None:
        parameter = _scalar(evaluate(call.parameter, samples, times_ms), "a quantile").values[0]
    times = [time_ms - selector.offset_ms for time_ms in times_ms]
    if isinstance(selector, Subquery):
        return _over_subquery(call, selector, samples, times, parameter)
    if call.function == "absent":
        return _absent(selector, samples, times)
    return kept(
        Series(
            _labels_over(call.function, labels_of(target)),
            _values_over(call.function, selector, samples, target, times, parameter),
        )
        for target in samples.select(selector.matchers)
    )


def _labels_over(function: str, labels: Labels) -> Labels:
    """Only the last value is still the metric itself."""
    return labels if function == "last" else without_name(labels)


def _values_over(
    function: str,
    selector: Selector,
    samples: Samples,
    target: KnownTarget,
    times_ms: Sequence[int],
    parameter: float,
) -> Values:
    assert selector.range_ms is not None
    if function not in RATES:
        return samples.over(target, times_ms, selector.range_ms, function, parameter)
    # Each count is that of its own window: what came in a range is their sum, and no growth of a counter.
    seconds = selector.range_ms / 1000 if function == "rate" else 1
    sums = samples.over(target, times_ms, selector.range_ms, "sum")
    return [None if value is None else value / seconds for value in sums]


def _over_subquery(
    call: OverTime, query: Subquery, samples: Samples, times_ms: Sequence[int], parameter: float
) -> Vector:
    """The function over the values that the argument has at every multiple of the step in the range."""
    first = (times_ms[0] - query.range_ms) // query.step_ms + 1
    grid = [number * query.step_ms for number in range(first, times_ms[-1] // query.step_ms + 1)]
    if len(grid) > MAX_SUBQUERY_POINTS:
        raise InvalidInput("query", f"a subquery of more than {MAX_SUBQUERY_POINTS:,} points; use a longer step")
    vector = _vector(evaluate(query.argument, samples, grid), "a subquery") if grid else []
    each = 1 + WEIGHTS.get(call.function, 1) * (query.range_ms // query.step_ms)
    samples.budget.work(len(vector) * len(times_ms) * each)
    if call.function == "absent":
        found = [_windowed("present", series.values, grid, query, times_ms, 0.0) for series in vector]
        return kept([Series({}, _lacking(found, len(times_ms)))])
    return kept(
        Series(
            _labels_over(call.function, series.labels),
            _windowed(call.function, series.values, grid, query, times_ms, parameter),
        )
        for series in vector
    )


def _windowed(
    function: str,
    values: Values,
    grid: Sequence[int],
    query: Subquery,
    times_ms: Sequence[int],
    parameter: float,
) -> Values:
    there = [(moment, value) for moment, value in zip(grid, values, strict=True) if value is not None]
    moments, found = [moment for moment, _ in there], [value for _, value in there]
    bounds = ((bisect_right(moments, each - query.range_ms), bisect_right(moments, each)) for each in times_ms)
    return [of_values(function, found[first:last], parameter) for first, last in bounds]


def _absent(selector: Selector, samples: Samples, times_ms: Sequence[int]) -> Vector:
    present = [
        samples.over(target, times_ms, selector.range_ms or 0, "present")
        for target in samples.select(selector.matchers)
    ]
    samples.budget.work(len(present) * len(times_ms))
    return kept([Series(_equalities(selector.matchers), _lacking(present, len(times_ms)))])


def _lacking(present: Sequence[Values], moments: int) -> Values:
    """1 where none of them has a value."""
    return [None if any(series[place] is not None for series in present) else 1.0 for place in range(moments)]


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
    vector = _vector(evaluate(aggregation.argument, samples, times_ms), aggregation.operation)
    samples.budget.work(len(vector) * len(times_ms))
    groups: dict[LabelKey, list[Series]] = {}
    for series in vector:
        groups.setdefault(_group(series.labels, aggregation), []).append(series)
    if aggregation.parameter is not None:
        limits = _scalar(evaluate(aggregation.parameter, samples, times_ms), aggregation.operation)
        samples.budget.work(10 * len(vector) * len(times_ms))
        return _ranked(aggregation.operation == "topk", limits, list(groups.values()))
    combined = _AGGREGATIONS[aggregation.operation]
    result = []
    for labels, members in groups.items():
        columns = zip(*(series.values for series in members), strict=True)
        at_moments = ([value for value in column if value is not None] for column in columns)
        result.append(Series(dict(labels), [combined(values) if values else None for values in at_moments]))
    return result


def _ranked(is_top: bool, limits: Scalar, groups: Sequence[Sequence[Series]]) -> Vector:
    """Of each group at each moment the series with the largest (or smallest) values; first the one of the last."""
    result: Vector = []
    for members in groups:
        chosen: list[Values] = [[None] * len(limits.values) for _ in members]
        for moment, limit in enumerate(limits.values):
            values = {place: each.values[moment] for place, each in enumerate(members)}
            for place in _first_places(values, 0 if math.isnan(limit) else limit, is_top):
                chosen[place][moment] = values[place]
        result += [Series(each.labels, own) for each, own in zip(members, chosen, strict=True)]
    there = kept(result)
    return sorted(there, key=lambda each: _rank(each.values[-1], is_top)) if len(limits.values) == 1 else there


def _first_places(values: dict[int, float | None], limit: float, is_top: bool) -> list[int]:
    there = [place for place, value in values.items() if value is not None]
    ordered = sorted(there, key=lambda place: _rank(values[place], is_top))
    return ordered[: max(0, int(min(limit, len(ordered))))]


def _rank(value: float | None, is_top: bool) -> tuple[bool, float]:
    """What is not a number comes last."""
    if value is None or math.isnan(value):
        return True, 0.0
    return False, -value if is_top else value


def _group(labels: Labels, aggregation: Aggregation) -> LabelKey:
    if aggregation.without:
        own = {name: value for name, value in labels.items() if name not in (*aggregation.labels, NAME_LABEL)}
    else:
        own = {name: value for name, value in labels.items() if name in aggregation.labels}
    return label_key(own)


def _operate(expression: Binary, samples: Samples, times_ms: Sequence[int]) -> Result:
    left, right = (evaluate(side, samples, times_ms) for side in (expression.left, expression.right))
    sizes = (1 if isinstance(side, Scalar) else len(side) for side in (left, right))
    samples.budget.work(10 * len(times_ms) * sum(sizes))
    if isinstance(left, Scalar) or isinstance(right, Scalar):
        return _with_numbers(expression, left, right)
    return meet(expression, left, right)


def _with_numbers(expression: Binary, left: Result, right: Result) -> Result:
    if expression.operator in SETS:
        raise InvalidInput("query", f"{expression.operator} stands between two vectors, not a number")
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        if expression.operator in COMPARISONS and not expression.returns_bool:
            raise InvalidInput("query", f"between two numbers it is {expression.operator} bool")
        return Scalar([_calculated(expression, *pair) for pair in zip(left.values, right.values, strict=True)])
    if isinstance(right, Scalar):
        assert not isinstance(left, Scalar)
        return kept(_with_number(expression, each, right, is_left=True) for each in left)
    assert isinstance(left, Scalar)
    return kept(_with_number(expression, each, left, is_left=False) for each in right)


def _calculated(expression: Binary, left: float, right: float) -> float:
    value = combine(expression.operator, left, right, left, returns_bool=expression.returns_bool)
    assert value is not None
    return value


def _with_number(expression: Binary, series: Series, numbers: Scalar, *, is_left: bool) -> Series:
    """Each value with the number of its moment; a comparison keeps the values for which it holds."""
    keeps_name = expression.operator in COMPARISONS and not expression.returns_bool
    values: Values = []
    for value, number in zip(series.values, numbers.values, strict=True):
        if value is None:
            values.append(None)
        else:
            pair = (value, number) if is_left else (number, value)
            values.append(combine(expression.operator, *pair, value, returns_bool=expression.returns_bool))
    return Series(series.labels if keeps_name else without_name(series.labels), values)


def _scalar(result: Result, place: str) -> Scalar:
    if not isinstance(result, Scalar):
        raise InvalidInput("query", f"{place} wants a number, not a vector")
    return result


def _vector(result: Result, place: str = "this") -> Vector:
    if isinstance(result, Scalar):
        raise InvalidInput("query", f"{place} wants a vector, not a number")
    return result
