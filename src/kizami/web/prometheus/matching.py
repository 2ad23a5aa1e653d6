"""Operations between two vectors: whose value meets whose, by their labels (pure).

Series meet whose labels are the same, but for the name; `on (…)` looks at some labels only, `ignoring (…)` at all
others. One meets one, unless `group_left` or `group_right` says of which side many may meet the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kizami.core.errors import InvalidInput
from kizami.web.prometheus.expressions import NAME_LABEL, Binary, Side
from kizami.web.prometheus.operators import COMPARISONS, combine
from kizami.web.prometheus.vectors import LabelKey, Labels, Series, Values, Vector, kept, label_key


def meet(operation: Binary, left: Vector, right: Vector) -> Vector:
    """The vector that an operation makes of two; InvalidInput where it is not said which values meet."""
    if operation.operator in _SETS:
        return kept(_SETS[operation.operator](operation, left, right))
    return kept(_combined(operation, left, right))


def _combined(operation: Binary, left: Vector, right: Vector) -> Iterator[Series]:
    many_is_right = operation.matching.many is Side.RIGHT
    many, one = (right, left) if many_is_right else (left, right)
    partners = _by_key(operation, one)
    met: set[tuple[LabelKey, LabelKey]] = set()
    for series in many:
        key = _key(operation, series.labels)
        if (partner := partners.get(key)) is None:
            continue
        pair = (partner, series) if many_is_right else (series, partner)
        found = Series(_result_labels(operation, series, partner), _values(operation, *pair))
        identity = key if operation.matching.many is None else (), label_key(found.labels)
        if identity in met:
            raise InvalidInput("query", f"{operation.operator} meets several series on one side; {_REMEDY}")
        met.add(identity)
        yield found


_REMEDY = "narrow it down, or say on (…), ignoring (…), group_left or group_right"


def _by_key(operation: Binary, vector: Vector) -> dict[LabelKey, Series]:
    found: dict[LabelKey, Series] = {}
    for series in vector:
        if found.setdefault(_key(operation, series.labels), series) is not series:
            raise InvalidInput(
                "query", f"{operation.operator} meets several series with the same labels; {_REMEDY}"
            )
    return found


def _key(operation: Binary, labels: Labels) -> LabelKey:
    """What two series must have in common."""
    matching = operation.matching
    if matching.on:
        return label_key({name: labels.get(name, "") for name in matching.labels})
    return label_key({name: value for name, value in labels.items() if name not in (*matching.labels, NAME_LABEL)})


def _result_labels(operation: Binary, series: Series, partner: Series) -> dict[str, str]:
    matching, labels = operation.matching, dict(series.labels)
    if operation.operator not in COMPARISONS or operation.returns_bool:
        labels.pop(NAME_LABEL, None)
    if matching.many is not None:
        taken = {name: partner.labels.get(name, "") for name in matching.include}
        return {name: value for name, value in (labels | taken).items() if value}
    if matching.on:
        return {name: value for name, value in labels.items() if name in matching.labels}
    return {name: value for name, value in labels.items() if name not in matching.labels}


def _values(operation: Binary, left: Series, right: Series) -> Values:
    """A comparison keeps the left value."""
    return [
        None
        if one is None or other is None
        else combine(operation.operator, one, other, one, returns_bool=operation.returns_bool)
        for one, other in zip(left.values, right.values, strict=True)
    ]


def _present(operation: Binary, vector: Vector) -> dict[LabelKey, list[bool]]:
    """At which moments there is any series of those labels."""
    found: dict[LabelKey, list[bool]] = {}
    for series in vector:
        there = [value is not None for value in series.values]
        known = found.get(_key(operation, series.labels))
        found[_key(operation, series.labels)] = there if known is None else list(map(bool.__or__, known, there))
    return found


def _masked(series: Series, mask: list[bool] | None, *, keep: bool) -> Series:
    """With its values only where the mask says `keep`; no mask is one of nothing."""
    if mask is None:
        return series if not keep else Series(series.labels, [None] * len(series.values))
    pairs = zip(series.values, mask, strict=True)
    return Series(series.labels, [value if there == keep else None for value, there in pairs])


def _and(operation: Binary, left: Vector, right: Vector) -> Vector:
    present = _present(operation, right)
    return [_masked(series, present.get(_key(operation, series.labels)), keep=True) for series in left]


def _unless(operation: Binary, left: Vector, right: Vector) -> Vector:
    present = _present(operation, right)
    return [_masked(series, present.get(_key(operation, series.labels)), keep=False) for series in left]


def _or(operation: Binary, left: Vector, right: Vector) -> Vector:
    """All of the left, and what of the right has no counterpart there; the same labels are the same series."""
    joined = {label_key(series.labels): series for series in left}
    for series in _unless(operation, right, left):
        own = joined.get(label_key(series.labels))
        pairs = zip(own.values, series.values, strict=True) if own else ((None, each) for each in series.values)
        values = [first if first is not None else second for first, second in pairs]
        joined[label_key(series.labels)] = Series(series.labels, values)
    return list(joined.values())


_SETS: dict[str, Callable[[Binary, Vector, Vector], Vector]] = {"and": _and, "unless": _unless, "or": _or}
SETS = frozenset(_SETS)
