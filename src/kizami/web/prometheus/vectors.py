"""What a query's parts come to at many moments at once: a number each, or series with a value each (values)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kizami.web.prometheus.expressions import NAME_LABEL

Labels = Mapping[str, str]
Values = list[float | None]
LabelKey = tuple[tuple[str, str], ...]


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


def without_name(labels: Labels) -> dict[str, str]:
    """What is left of the labels when the values are no longer those of the metric itself."""
    return {name: value for name, value in labels.items() if name != NAME_LABEL}


def label_key(labels: Labels) -> LabelKey:
    """The labels as something to look up."""
    return tuple(sorted(labels.items()))


def kept(vector: Iterable[Series]) -> Vector:
    """Those that have a value at all."""
    return [series for series in vector if any(value is not None for value in series.values)]
