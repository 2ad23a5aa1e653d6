"""What a query can say: selectors, functions over time, aggregations, operations between two (values)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from kizami.web.prometheus.patterns import Pattern, compile_pattern

OVER_TIME = ("avg", "min", "max", "sum", "count", "last", "present", "stddev", "stdvar", "quantile", "absent")
RATES = ("rate", "increase")
AGGREGATIONS = ("sum", "avg", "min", "max", "count", "topk", "bottomk")
NAME_LABEL = "__name__"


class MatchKind(Enum):
    """How a label is compared."""

    EQUAL = "="
    NOT_EQUAL = "!="
    LIKE = "=~"
    UNLIKE = "!~"


@dataclass(frozen=True)
class Matcher:
    """One condition on a label; a label that is not there counts as empty."""

    label: str
    kind: MatchKind
    value: str

    def __post_init__(self) -> None:
        if self.kind in (MatchKind.LIKE, MatchKind.UNLIKE):
            _ = self._pattern  # a mistake in it is told when it is read

    @property
    def cost(self) -> int:
        """What one comparison costs, in values looked at."""
        return self._pattern.cost if self.kind in (MatchKind.LIKE, MatchKind.UNLIKE) else 1

    def accepts(self, text: str) -> bool:
        """Whether the label's value meets the condition."""
        if self.kind is MatchKind.EQUAL:
            return text == self.value
        if self.kind is MatchKind.NOT_EQUAL:
            return text != self.value
        return self._pattern.matches(text) == (self.kind is MatchKind.LIKE)

    @cached_property
    def _pattern(self) -> Pattern:
        return compile_pattern(self.value)


@dataclass(frozen=True, slots=True)
class Number:
    """A number."""

    value: float


@dataclass(frozen=True, slots=True)
class Time:
    """`time()`: the moment of evaluation, in seconds."""


@dataclass(frozen=True, slots=True)
class Selector:
    """The series whose labels meet all conditions; with a range, their samples of that long."""

    matchers: tuple[Matcher, ...]
    range_ms: int | None = None
    offset_ms: int = 0


@dataclass(frozen=True, slots=True)
class Subquery:
    """The values of an expression at every multiple of the step in a range, as if they were samples."""

    argument: Expression
    range_ms: int
    step_ms: int
    offset_ms: int = 0


@dataclass(frozen=True, slots=True)
class OverTime:
    """A function over the samples of a range; `parameter` is the quantile's."""

    function: str
    selector: Selector | Subquery
    parameter: Expression | None = None


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Several series become one for each group of labels, or the `parameter` of each with the largest values."""

    operation: str
    argument: Expression
    labels: tuple[str, ...] = ()
    without: bool = False
    parameter: Expression | None = None


class Side(Enum):
    """A side of an operation."""

    LEFT = "group_left"
    RIGHT = "group_right"


@dataclass(frozen=True, slots=True)
class Matching:
    """Which series of two vectors meet: those that agree in these labels (`on`), or in all others."""

    labels: tuple[str, ...] = ()
    on: bool = False
    many: Side | None = None
    include: tuple[str, ...] = ()  # labels that the many take from the one


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic, a comparison or a set operation of two numbers or vectors."""

    operator: str
    left: Expression
    right: Expression
    matching: Matching = Matching()
    returns_bool: bool = False


@dataclass(frozen=True, slots=True)
class AsVector:
    """`vector(1)`: a number as a vector with no labels."""

    argument: Expression


Expression = Number | Time | Selector | Subquery | OverTime | Aggregation | Binary | AsVector
