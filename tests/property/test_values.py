"""Value expressions over any answer: how they are written, where they lead, and that nothing is rounded."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kizami.core.answers.answer import Answer
from kizami.core.answers.nearest import step_into
from kizami.core.answers.numbers import MAX_DECIMAL_UNITS, MAX_DECIMALS, FloatText, read_exact, to_number, to_units
from kizami.core.answers.values import FUNCTIONS, Expression, evaluate, look_up, parse_expression
from kizami.core.errors import ApiPayloadError, InvalidInput
from kizami.core.messages import read_answer
from kizami.core.slots import Window, parse_instant

WINDOW = Window(parse_instant("2025-12-02T10:23:00Z"), parse_instant("2025-12-02T10:23:05Z"))

keys = st.text(max_size=6) | st.sampled_from(
    ["", "*", "~", "/", "~1", "0", "01", "a b", "sum(x)", "件数", "\U0001f600"]
)
printable_keys = keys.filter(str.isprintable)
numbers = st.integers(-(10**20), 10**20) | st.decimals(-(10**6), 10**6, places=4).map(
    lambda n: FloatText(f"{n:f}")
)
documents = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


# **Feature: data-collection-scheduler, Property 21: An expression that is written reads back as the same one**
@given(
    steps=st.lists(printable_keys, max_size=6).map(tuple),
    function=st.sampled_from(["", *FUNCTIONS]),
)
@settings(max_examples=300)
def test_property_21_expression_round_trip(steps: tuple[str, ...], function: str) -> None:
    expression = Expression(steps, function)
    read = parse_expression(expression.text)
    assert read == expression
    assert read.text == expression.text


def leaves(value: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """Every value of the document with its path."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [(path, value)]
    for key, each in inner:
        found += leaves(each, (*path, str(key)))
    return found


# **Feature: data-collection-scheduler, Property 22: A pointer leads to every value of an answer**
@given(document=documents)
@settings(max_examples=200)
def test_property_22_every_value_is_found(document: Any) -> None:
    for path, value in leaves(document):
        assert look_up(Expression(path), document) is value


def naive(document: Any, steps: tuple[str, ...]) -> list[Fraction]:
    """The numbers at the steps, by the plainest walk; KeyError or TypeError where there is none."""
    if not steps:
        if isinstance(document, bool) or not isinstance(document, int | str):
            raise TypeError
        return [Fraction(Decimal(str(document)))]
    if steps[0] != "*":
        return naive(step_into(document, steps[0]), steps[1:])
    if not isinstance(document, list):
        raise TypeError
    return [number for each in document for number in naive(each, steps[1:])]


@st.composite
def walked(draw: st.DrawFn) -> tuple[Any, tuple[str, ...]]:
    """A document that has numbers where the steps lead, some of them arrays in arrays."""
    steps = tuple(draw(st.lists(st.just("*") | keys.filter(lambda key: key != "*"), max_size=4)))
    inner: st.SearchStrategy[Any] = numbers
    for step in reversed(steps):
        inner = st.lists(inner, max_size=3) if step == "*" else st.fixed_dictionaries({step: inner})
    return draw(inner), steps


# **Feature: data-collection-scheduler, Property 23: Sum, length, max and min are those of the plainest walk**
@given(both=walked())
@settings(max_examples=300)
def test_property_23_functions_equal_a_naive_walk(both: tuple[Any, tuple[str, ...]]) -> None:
    document, steps = both
    found = naive(document, steps)
    assert value_of(Expression(steps, "sum"), document) == sum(found)
    if steps and steps[-1] == "*":
        assert value_of(Expression(steps[:-1], "length"), document) == len(found)
    if found:
        assert value_of(Expression(steps, "max"), document) == max(found)
        assert value_of(Expression(steps, "min"), document) == min(found)


def value_of(expression: Expression, document: Any) -> Fraction:
    units, places = evaluate(expression, document, {})
    return Fraction(units, 10**places)


# **Feature: data-collection-scheduler, Property 24: No answer makes an expression raise anything else**
@given(
    document=documents,
    text=st.text(max_size=10) | keys,
    function=st.sampled_from(["", *FUNCTIONS]),
    data=st.data(),
)
@settings(max_examples=300)
def test_property_24_any_answer_any_expression(
    document: Any, text: str, function: str, data: st.DataObject
) -> None:
    paths = [path for path, _ in leaves(document)]
    steps = data.draw(st.sampled_from(paths) | st.lists(keys | st.just("*"), max_size=4).map(tuple))
    body = json.dumps(document)
    for expression in (Expression(steps, function), _parsed(text)):
        line = _read_or_refuse(body, Answer(count=expression, echo=False, decimals=4))
        assert len(line.splitlines()) <= 1
        assert len(line) < 500


def _read_or_refuse(body: str, answer: Answer) -> str:
    try:
        assert 0 <= read_answer(body, answer, WINDOW).count <= MAX_DECIMAL_UNITS
    except ApiPayloadError as error:
        return str(error)
    return ""


def _parsed(text: str) -> Expression:
    try:
        return parse_expression(text)
    except InvalidInput:
        return Expression()


# **Feature: data-collection-scheduler, Property 25: What is kept in units is shown as the number that it is**
@given(units=st.integers(-MAX_DECIMAL_UNITS, MAX_DECIMAL_UNITS), decimals=st.integers(0, MAX_DECIMALS))
@settings(max_examples=500)
def test_property_25_units_round_trip(units: int, decimals: int) -> None:
    number = to_number(units, decimals)
    assert Decimal(repr(number)) == Decimal(units).scaleb(-decimals)
    exact = read_exact(FloatText(repr(number)))
    assert exact is not None
    assert to_units(exact, decimals) == units
    assert json.loads(json.dumps(number), parse_float=Decimal) == Decimal(units).scaleb(-decimals)


# **Feature: data-collection-scheduler, Property 26: Rounding is that of decimal arithmetic, half to even**
@given(text=st.decimals(-(10**9), 10**9, places=12).map(str), decimals=st.integers(0, MAX_DECIMALS))
@settings(max_examples=300)
def test_property_26_rounding(text: str, decimals: int) -> None:
    exact = read_exact(text)
    assert exact is not None
    assert to_units(exact, decimals) == int(round(Decimal(text), decimals).scaleb(decimals))
