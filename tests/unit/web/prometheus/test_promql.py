"""The query language: what is understood, what is refused by name, and that no pattern can take for ever."""

from __future__ import annotations

import contextlib
import json
import math
import re
import statistics
import time
import warnings
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.backend.targets import KnownTarget
from kizami.core.errors import InvalidInput
from kizami.web.prometheus.budget import Budget
from kizami.web.prometheus.evaluation import evaluate
from kizami.web.prometheus.expressions import (
    Aggregation,
    Binary,
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
from kizami.web.prometheus.operators import calculate
from kizami.web.prometheus.patterns import compile_pattern
from kizami.web.prometheus.routes import read_time, sample_text, written
from kizami.web.prometheus.samples import Samples
from kizami.web.prometheus.syntax import parse_matchers, parse_query
from kizami.web.prometheus.tokens import parse_promql_duration
from kizami.web.prometheus.vectors import Scalar
from kizami.web.prometheus.windows import Extremes, quantile, variance


def named(name: str) -> Matcher:
    return Matcher("__name__", MatchKind.EQUAL, name)


def test_selectors() -> None:
    assert parse_query("calls") == Selector((named("calls"),))
    assert parse_query("ns:calls_total{}") == Selector((named("ns:calls_total"),))
    assert parse_query('{__name__="calls"}') == Selector((named("calls"),))
    assert parse_query('{"注文/数"}') == Selector((named("注文/数"),))
    assert parse_query("calls{job='kizami', a!=\"b\",}") == Selector(
        (named("calls"), Matcher("job", MatchKind.EQUAL, "kizami"), Matcher("a", MatchKind.NOT_EQUAL, "b"))
    )
    assert parse_query("calls[5m] offset 1h") == Selector((named("calls"),), 300_000, 3_600_000)
    assert parse_query("calls offset -5s") == Selector((named("calls"),), None, -5000)
    assert parse_query(r'{a="say \"hi\"\n"}') == Selector((Matcher("a", MatchKind.EQUAL, 'say "hi"\n'),))
    assert parse_query(r"{a=`raw\n`}") == Selector((Matcher("a", MatchKind.EQUAL, r"raw\n"),))


def test_functions_and_aggregations() -> None:
    minutes = Selector((named("calls"),), 300_000)
    assert parse_query("avg_over_time(calls[5m])") == OverTime("avg", minutes)
    assert parse_query("quantile_over_time(0.99, calls[5m])") == OverTime("quantile", minutes, Number(0.99))
    assert parse_query("sum(calls)") == Aggregation("sum", Selector((named("calls"),)))
    by = Aggregation("sum", Selector((named("calls"),)), ("job", "x"))
    assert parse_query("sum by (job, x) (calls)") == parse_query("sum(calls) by (job, x)") == by
    assert parse_query("max without () (calls)") == Aggregation("max", Selector((named("calls"),)), (), True)
    # The words are names where a name stands.
    assert parse_query("sum") == Selector((named("sum"),))


def test_arithmetic_has_its_precedence() -> None:
    assert parse_query("1+1") == Binary("+", Number(1), Number(1))
    assert parse_query("1 + 2 * 3") == Binary("+", Number(1), Binary("*", Number(2), Number(3)))
    assert parse_query("(1 + 2) * 3") == Binary("*", Binary("+", Number(1), Number(2)), Number(3))
    assert parse_query("2 ^ 3 ^ 2") == Binary("^", Number(2), Binary("^", Number(3), Number(2)))
    assert parse_query("-2 ^ 2") == Binary("*", Number(-1), Binary("^", Number(2), Number(2)))
    assert parse_query("2 ^ -1") == Binary("^", Number(2), Binary("*", Number(-1), Number(1)))
    assert parse_query("8 - 4 - 2") == Binary("-", Binary("-", Number(8), Number(4)), Number(2))
    assert parse_query("time() / 60") == Binary("/", Time(), Number(60))
    assert parse_query("0x1F") == Number(31)
    assert parse_query("1e3") == Number(1000)
    inf = parse_query("Inf")
    assert isinstance(inf, Number)
    assert math.isinf(inf.value)


def test_comparisons_and_sets_bind_less_than_arithmetic() -> None:
    one, two, three = Number(1), Number(2), Number(3)
    assert parse_query("1 + 2 > bool 3") == Binary(">", Binary("+", one, two), three, returns_bool=True)
    a, b, c = (Selector((named(name),)) for name in "abc")
    assert parse_query("a or b and c") == Binary("or", a, Binary("and", b, c))
    assert parse_query("a == 1 unless b") == Binary("unless", Binary("==", a, one), b)


def test_which_series_meet_is_said_between_the_two() -> None:
    a, b = (Selector((named(name),)) for name in "ab")
    assert parse_query("a / on (x, y) b") == Binary("/", a, b, Matching(("x", "y"), on=True))
    assert parse_query("a ^ ignoring () b") == Binary("^", a, b, Matching(()))
    grouped = Matching(("x",), True, Side.RIGHT, ("y",))
    assert parse_query("a > bool on (x) group_right (y) b") == Binary(">", a, b, grouped, returns_bool=True)


def test_ranks_rates_and_subqueries() -> None:
    calls = Selector((named("calls"),))
    assert parse_query("topk by (job) (3, calls)") == Aggregation("topk", calls, ("job",), parameter=Number(3))
    assert parse_query("rate(calls[5m])") == OverTime("rate", Selector((named("calls"),), 300_000))
    steps = Subquery(calls, 3_600_000, 300_000, 60_000)
    assert parse_query("max_over_time(calls[1h:5m] offset 1m)") == OverTime("max", steps)
    minutes = Subquery(Binary("+", calls, Number(1)), 3_600_000, 60_000)
    assert parse_query("avg_over_time((calls + 1)[1h:])") == OverTime("avg", minutes)


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=40), st.data())
def test_the_extremes_of_every_run_are_known(values: list[int], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(values) - 1))
    last = data.draw(st.integers(first + 1, len(values)))
    numbers = [float(value) for value in values]
    assert Extremes(min, numbers).between(first, last) == min(values[first:last])
    assert Extremes(max, numbers).between(first, last) == max(values[first:last])


@pytest.mark.parametrize(
    "query",
    ["", "  ", "calls{", "calls{a}", "calls{a=}", 'calls{a=b}', "calls[5]", "calls[", "calls[0s]", "sum(", "sum()",
     "irate(calls[5m])", "avg_over_time(calls)", "avg_over_time(1)", "calls calls", "calls == ", "and b", "{}",
     "a and on b", "topk(calls)", "rate(calls[1h:5m])",
     '{a=~".*"}', "1 +", "*", "calls[5m][5m]", "é", "'text'", "calls offset 5", "a" * 5000,
     "(" * 100 + "1" + ")" * 100, "-" * 3900 + "1", "+" * 3900 + "1", "1" + "+1" * 1900, "2" + "^2" * 1900,
     "1" + "*1" * 1900, "sum(" * 900 + "calls" + ")" * 900, "{" + 'a!="b",' * 400 + "}",
     '{a=~"' + "(a|b)" * 9 + "c" * 1900 + '"}', '{a=~"' + "(ab|cd|)" * 6 + '"}',
     '{a=~"(x+)+"}', '{a=~"["}', '{a=~"a{2}"}'],
)  # fmt: skip
def test_whatever_is_not_understood_is_refused_with_its_place(query: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_query(query)
    assert caught.value.field == "query"
    assert "\n" not in str(caught.value)


@given(st.text(max_size=80))
def test_no_text_breaks_the_parser(text: str) -> None:
    with contextlib.suppress(InvalidInput):
        parse_query(text)


@given(st.text(alphabet="calls{}[]()=~!\"'`5m+-*/^,. bysumoffset\\|", max_size=60))
def test_nothing_like_a_query_breaks_the_parser(text: str) -> None:
    with contextlib.suppress(InvalidInput):
        parse_query(text)


def test_what_is_allowed_at_most_is_evaluated() -> None:
    """No query that is understood is too deep for the evaluation."""
    for query in ("1" + "+1" * 100, "-" * 29 + "1", "(" * 29 + "1" + ")" * 29, "1" + "^1" * 29, "0x" + "f" * 3000):
        result = evaluate(parse_query(query), Samples(NOTHING, Budget()), [0])
        assert isinstance(result, Scalar)


class NoTargets:
    """A backend that has nothing yet."""

    def targets(self) -> list[KnownTarget]:
        return []

    def newest_slots(self) -> dict[str, datetime]:
        return {}


NOTHING: Any = NoTargets()


def test_only_a_selector_selects_series() -> None:
    assert parse_matchers('{job="kizami"}') == (Matcher("job", MatchKind.EQUAL, "kizami"),)
    for text in ("1", "sum(calls)", "calls[5m]"):
        with pytest.raises(InvalidInput, match=r"match\[\]"):
            parse_matchers(text)


def test_durations_add_up() -> None:
    assert [parse_promql_duration(text) for text in ("500ms", "30s", "1h30m", "1d", "2w", "1y")] == [
        500, 30_000, 5_400_000, 86_400_000, 1_209_600_000, 31_536_000_000,
    ]  # fmt: skip


literals = st.text(alphabet="ab.|()[]^$*+?\\-_&~:", max_size=8)
patterns = st.recursive(
    st.sampled_from(["a", "b", "ab", ".", ".*", ".+", "[ab]", "[^a]", r"\.", ""]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: "(" + "|".join(parts) + ")"),
    ),
    max_leaves=8,
)


@given(patterns, st.text(alphabet="ab.c", max_size=8))
def test_a_pattern_matches_what_a_regular_expression_would(pattern: str, text: str) -> None:
    assert compile_pattern(pattern).matches(text) == python_matches(pattern, text)


@given(literals, st.text(alphabet="ab.", max_size=5))
def test_a_pattern_is_understood_alike_or_refused(pattern: str, text: str) -> None:
    try:
        compiled = compile_pattern(pattern)
    except InvalidInput:
        return
    assert compiled.matches(text) == python_matches(pattern, text)


def python_matches(pattern: str, text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # that a class may mean something else one day
        return re.fullmatch(pattern, text, re.DOTALL) is not None


@pytest.mark.parametrize(
    ("pattern", "those"),
    [("[[ab]", "[ab"), ("[a[]", "a["), ("[a&&b]", "a&b"), ("[a||b]", "a|b"), ("[a~~b]", "a~b"), ("[--/]", "-./"),
     ("[]a]", "]a"), (r"[\]a]", "]a"), (r"[a\-c]", "a-c"), ("[a-]", "a-"), ("[a^]", "a^"), (r"[\d.]", "0.")],
)  # fmt: skip
def test_a_class_is_the_characters_in_it(pattern: str, those: str) -> None:
    compiled = compile_pattern(pattern)
    assert [each for each in "[]ab&|~-./^0c" if compiled.matches(each)] == [
        each for each in "[]ab&|~-./^0c" if each in those
    ]


@pytest.mark.parametrize("pattern", ["[[:alpha:]]", "[b-a]", r"[\d-z]", r"[a-\w]", "[a", "[", "[]", "[^]", "[a-"])
def test_what_is_no_class_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidInput, match="not a class of characters"):
        compile_pattern(pattern)


@pytest.mark.parametrize("pattern", ["(a|a)" * 30 + "b", ".*" * 400 + "b", "(.*a|.*b)" * 9, "a|" * 900 + "b"])
def test_no_pattern_takes_for_ever(pattern: str) -> None:
    began = time.monotonic()
    with contextlib.suppress(InvalidInput):
        compile_pattern(pattern).matches("a" * 128)
    assert time.monotonic() - began < 60  # the bad ones would take longer than the universe is old


@pytest.mark.parametrize(
    ("operator", "left", "right", "value"),
    [("+", 1, 2, 3), ("-", 1, 2, -1), ("*", 3, 4, 12), ("/", 1, 4, 0.25), ("%", 7, 3, 1), ("^", 2, 10, 1024),
     ("/", 1, 0, math.inf), ("/", -1, 0, -math.inf), ("^", 10, 400, math.inf)],
)  # fmt: skip
def test_arithmetic_is_that_of_floating_point(operator: str, left: float, right: float, value: float) -> None:
    assert calculate(operator, left, right) == value


@pytest.mark.parametrize(("operator", "left", "right"), [("/", 0, 0), ("%", 1, 0), ("^", -8, 1 / 3)])
def test_what_has_no_value_is_not_a_number(operator: str, left: float, right: float) -> None:
    assert math.isnan(calculate(operator, left, right))


@given(st.lists(st.integers(0, 2**53 - 1).map(float), min_size=1, max_size=50))
def test_the_variance_is_that_of_the_fractions(values: list[float]) -> None:
    assert math.isclose(variance(values), statistics.pvariance(values), rel_tol=1e-9, abs_tol=1e-3)


@pytest.mark.parametrize(
    "data",
    [
        {"resultType": "matrix", "result": [{"metric": {"a": "注文"}, "values": [[1.5, "2"]]}, {"metric": {}}]},
        {"resultType": "scalar", "result": [4, "2"]},
        {"resultType": "vector", "result": []},
        {"version": "2"},
        ["a", "b"],
    ],
)
def test_an_answer_is_written_as_json(data: object) -> None:
    assert json.loads(written(data)) == {"status": "success", "data": data}


def test_quantiles_lie_between_the_nearest_ranks() -> None:
    assert quantile(0.5, [1.0, 2.0, 3.0, 4.0]) == 2.5
    assert quantile(0, [3.0, 1.0]) == 1.0
    assert quantile(1, [3.0, 1.0]) == 3.0
    assert quantile(-1, [1.0]) == -math.inf
    assert quantile(2, [1.0]) == math.inf


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5.0, "5"),
        (0.5, "0.5"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
        (2.0**53, "9007199254740992"),
    ],
)
def test_values_are_written_as_prometheus_does(value: float, text: str) -> None:
    assert sample_text(value) == text


def test_times_are_seconds_or_iso_8601() -> None:
    assert read_time("1764669785.25", "time") == 1_764_669_785_250
    assert read_time("2025-12-02T10:03:05Z", "time") == 1_764_669_785_000
    for text in ("nan", "-1", "1e20", "now", ""):
        with pytest.raises(InvalidInput):
            read_time(text, "time")
