"""What is said of each stretch: exact sums, means, extremes, and how complete it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from kizami.backend.figures.gathering import gather
from kizami.backend.figures.summary import Figure, summarize
from kizami.backend.targets import KnownTarget
from kizami.backend.values import Bucket
from kizami.core.coverage import Completeness

T0 = datetime(2025, 12, 2, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
EDGES = [T0 + number * MINUTE for number in range(4)]
CALLS = KnownTarget("calls", 5, 5, T0)


def test_each_stretch_has_its_figures_and_says_what_it_lacks() -> None:
    pieces = [Bucket(T0, 11, 0, 10, 50), Bucket(T0 + MINUTE, 6, 1, 2, 9), Bucket(T0 + 1.5 * MINUTE, 6, 0, 4, 12)]
    first, second, last = summarize(CALLS, EDGES, gather(EDGES, pieces), T0 + timedelta(hours=1))
    assert first == Figure(T0, T0 + MINUTE, Completeness(11, 12), 50, 0, 10)
    assert (second.total, second.mean, second.lowest, second.highest) == (21, Decimal("1.75"), 0, 4)
    assert (last.total, last.mean, last.lowest, str(last.completeness)) == (None, None, None, "0/12")


def test_what_is_not_due_is_not_lacking_and_what_is_early_counts() -> None:
    now = T0 + timedelta(seconds=40)
    (figure, *later) = summarize(CALLS, EDGES, gather(EDGES, [Bucket(T0, 7, 1, 1, 7)]), now)
    assert figure.completeness == Completeness(7, 7)
    assert [each.completeness.expected for each in later] == [0, 0]


def test_sums_have_every_decimal_place_that_a_float_would_lose() -> None:
    pieces = [Bucket(T0, 1, 0, 0, Decimal("9007199254740993.01")), Bucket(T0, 1, 0, 0, Decimal("0.02"))]
    figure = summarize(CALLS, EDGES, gather(EDGES, pieces), T0)[0]
    assert figure.total == Decimal("9007199254740993.03")
