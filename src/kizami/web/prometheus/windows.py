"""Functions over the samples of a range: of their values, or of the figures that the backend keeps (pure)."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import accumulate
from operator import mul

from kizami.backend.values import Bucket
from kizami.web.prometheus.vectors import Values

# How much dearer than a sum of numbers.
WEIGHTS = {"quantile": 5, "stddev": 10, "stdvar": 10}

_OF_VALUES: dict[str, Callable[[list[float]], float]] = {
    "sum": math.fsum,
    "count": lambda values: float(len(values)),
    "avg": statistics.fmean,
    "min": min,
    "max": max,
    "last": lambda values: values[-1],
    "present": lambda values: 1.0,
    "stddev": lambda values: math.sqrt(variance(values)),
    "stdvar": lambda values: variance(values),
}


def of_values(function: str, values: list[float], parameter: float) -> float | None:
    """The function over these values, None over none."""
    if not values:
        return None
    if function == "quantile":
        return quantile(parameter, values)
    return _OF_VALUES[function](values)


def of_figures(
    function: str, edges: Sequence[int], figures: Sequence[Bucket], spans: Sequence[tuple[int, int]]
) -> Values:
    """The function over each span from one edge to another, of the figures between each two edges."""
    places = [(bisect_left(edges, start), bisect_left(edges, end)) for start, end in spans]
    counts = list(accumulate((each.stored for each in figures), initial=0))
    stored = [counts[last] - counts[first] for first, last in places]
    values = _OF_FIGURES[function](figures, places, stored)
    return [value if number else None for value, number in zip(values, stored, strict=True)]


Places = Sequence[tuple[int, int]]


def _sums(figures: Sequence[Bucket], places: Places, stored: Sequence[int]) -> Iterator[float]:
    """Added up exactly, and made floats at the end: 0.1 and 0.2 are 0.3."""
    totals: list[Decimal | int] = list(accumulate((each.total for each in figures), initial=0))
    return (float(totals[last] - totals[first]) for first, last in places)


def _means(figures: Sequence[Bucket], places: Places, stored: Sequence[int]) -> Iterator[float]:
    sums = _sums(figures, places, stored)
    return (total / (number or 1) for total, number in zip(sums, stored, strict=True))


def _lowest(figures: Sequence[Bucket], places: Places, stored: Sequence[int]) -> Iterator[float]:
    extremes = Extremes(min, [float(each.lowest) if each.stored else math.inf for each in figures])
    return (extremes.between(*place) for place in places)


def _highest(figures: Sequence[Bucket], places: Places, stored: Sequence[int]) -> Iterator[float]:
    extremes = Extremes(max, [float(each.highest) if each.stored else -math.inf for each in figures])
    return (extremes.between(*place) for place in places)


_OF_FIGURES: dict[str, Callable[[Sequence[Bucket], Places, Sequence[int]], Iterable[float]]] = {
    "sum": _sums,
    "avg": _means,
    "min": _lowest,
    "max": _highest,
    "count": lambda figures, places, stored: map(float, stored),
    "present": lambda figures, places, stored: [1.0] * len(stored),
}
FROM_FIGURES = frozenset(_OF_FIGURES)


class Extremes:
    """The lowest or highest of any run of values, at the cost of two: those of runs of 1, 2, 4, 8 … are kept."""

    def __init__(self, choose: Callable[[float, float], float], values: list[float]) -> None:
        self._choose = choose
        self._runs = [values]
        length = 1
        while 2 * length <= len(values):
            shorter = self._runs[-1]
            self._runs.append(list(map(choose, shorter, shorter[length:])))
            length *= 2

    def between(self, first: int, last: int) -> float:
        """Of the values from `first` up to before `last`; of none, not a number."""
        if first == last:
            return math.nan
        level = (last - first).bit_length() - 1
        return self._choose(self._runs[level][first], self._runs[level][last - (1 << level)])


def variance(values: list[float]) -> float:
    """The mean square of the distance from the mean; in floats, for `statistics` reckons with fractions."""
    mean = statistics.fmean(values)
    distances = [value - mean for value in values]
    square_of_rounding = (math.fsum(distances) / len(values)) ** 2
    return max(0.0, math.fsum(map(mul, distances, distances)) / len(values) - square_of_rounding)


def quantile(share: float, values: list[float]) -> float:
    """As Prometheus has it: between the two nearest ranks in proportion."""
    if math.isnan(share):
        return math.nan
    if share < 0 or share > 1:
        return -math.inf if share < 0 else math.inf
    ordered = sorted(values)
    rank = share * (len(ordered) - 1)
    low = math.floor(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)
