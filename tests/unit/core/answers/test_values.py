"""Value expressions: where they lead, and the one line that says what stands there instead."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kizami.core.answers.numbers import Exact, exact_text
from kizami.core.answers.values import MAX_STEPS, Expression, evaluate, look_up, parse_expression, parse_pointer
from kizami.core.errors import ApiPayloadError, InvalidInput
from kizami.core.messages import _EXACT, load_json


def value(text: str, document: Any, absent: str | None = None) -> str:
    """What the expression gives for the document, written in plain digits."""
    return exact_text(exact(text, json.dumps(document), absent))


def exact(text: str, body: str, absent: str | None = None) -> Exact:
    part = parse_pointer(absent) if absent is not None else None
    return evaluate(parse_expression(text), load_json(body, _EXACT), {}, part)


def refusal(text: str, document: Any, absent: str | None = None) -> str:
    with pytest.raises(ApiPayloadError) as refused:
        value(text, document, absent)
    return str(refused.value)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("17", "the whole body is 17"),
        ("null", "the whole body is null"),
        ('"x"', "the whole body is 'x'"),
        ("{}", "the answer is empty"),
        ("[]", "the answer is an array of 0"),
    ],
)
def test_a_body_without_names_is_told_of_as_it_is(body: str, words: str) -> None:
    assert refusal("count", json.loads(body)) == f"count is missing; {words}"


class TestPointers:
    @pytest.mark.parametrize(
        ("text", "steps"),
        [
            ("", ()),
            ("count", ("count",)),
            ("/count", ("count",)),
            ("/data/0/count", ("data", "0", "count")),
            ("/", ("",)),
            ("//", ("", "")),
            ("/a~1b", ("a/b",)),
            ("/m~0n", ("m~n",)),
            ("/~01", ("~1",)),
            ("/件数", ("件数",)),
            ("a b", ("a b",)),
        ],
    )
    def test_json_pointers_and_bare_names_are_read(self, text: str, steps: tuple[str, ...]) -> None:
        assert parse_pointer(text) == Expression(steps)
        assert parse_pointer(text).text == text

    @pytest.mark.parametrize("text", ["a/b", "a~b", "a~0b", "/a\n", "/a\u200b", None, 5, ["count"]])
    def test_what_is_no_pointer_is_refused(self, text: object) -> None:
        with pytest.raises(InvalidInput, match=r"^count: .* must be a name or a JSON pointer like /data/count$"):
            parse_pointer(text)

    @pytest.mark.parametrize("text", ["/~", "/a~", "/a~2", "/~~0"])
    def test_a_tilde_that_escapes_nothing_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidInput, match=r"^count: .* has a ~ that is neither ~0 nor ~1$"):
            parse_pointer(text)

    def test_a_pointer_without_end_is_refused(self) -> None:
        assert len(parse_pointer("/a" * MAX_STEPS).steps) == MAX_STEPS
        with pytest.raises(InvalidInput, match="has more than 64 steps"):
            parse_pointer("/a" * (MAX_STEPS + 1))

    DOCUMENT: Any = {"": 1, "a/b": 2, "m~n": 3, "~1": 4, "data": [{"count": 5}, 6], "01": 7, "-": 8, "*": 9}  # noqa: RUF012

    @pytest.mark.parametrize(
        ("steps", "count"),
        [
            (("",), 1),
            (("a/b",), 2),
            (("m~n",), 3),
            (("~1",), 4),
            (("data", "0", "count"), 5),
            (("data", "1"), 6),
            (("01",), 7),
            (("-",), 8),
            (("*",), 9),
        ],
    )
    def test_the_value_is_found_where_the_pointer_says(self, steps: tuple[str, ...], count: int) -> None:
        assert look_up(Expression(steps), self.DOCUMENT) == count
        assert evaluate(Expression(steps), self.DOCUMENT, {}) == (count, 0)

    @pytest.mark.parametrize(
        "step", ["2", "-", "-1", "01", "00", "+1", "1.0", "", " 1", "１", "1" * 5000, "count", "9" * 9]
    )
    def test_an_array_has_only_the_indices_that_json_pointer_writes(self, step: str) -> None:
        with pytest.raises(ApiPayloadError, match=r"^/data/.* is missing; /data is an array of 2$"):
            look_up(Expression(("data", step)), {"data": [{}, None]})

    @pytest.mark.parametrize(
        ("steps", "named"),
        [(("no",), "no"), (("", "x"), "//x"), (("n/o",), "/n~1o"), (("n~o", "x"), "/n~0o/x"), (("",), "/")],
    )
    def test_what_is_missing_is_named_by_its_pointer(self, steps: tuple[str, ...], named: str) -> None:
        with pytest.raises(ApiPayloadError) as refused:
            look_up(Expression(steps), {})
        assert str(refused.value) == f"{named} is missing; the answer is empty"

    def test_a_step_into_a_plain_value_leads_nowhere(self) -> None:
        assert refusal("/count/5", {"count": "x5"}) == "/count/5 is missing; /count is 'x5'"

    def test_the_whole_body_is_a_value(self) -> None:
        assert value("", 12) == "12"
        assert value("", "12") == "12"
        assert refusal("", {"a": 1}) == "the body is an object, not a number"


class TestFunctions:
    DATA: Any = {  # noqa: RUF012
        "data": [{"results": [{"n": 1}, {"n": "2"}]}, {"results": []}, {"results": [{"n": 4}]}],
        "empty": [],
        "object": {"eu": 1, "us": 2},
    }

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("sum(/data/*/results/*/n)", "7"),
            ("max(/data/*/results/*/n)", "4"),
            ("min(/data/*/results/*/n)", "1"),
            ("length(/data)", "3"),
            ("length(data)", "3"),
            ("length(/data/*/results)", "3"),
            ("sum(/data/0/results/*/n)", "3"),
            ("sum(/data/0/results/0/n)", "1"),
            ("sum(/empty/*)", "0"),
            ("sum(/empty/*/n)", "0"),
            ("length(/empty)", "0"),
        ],
    )
    def test_a_star_walks_an_array(self, text: str, expected: str) -> None:
        assert value(text, self.DATA) == expected

    def test_a_body_that_is_an_array_can_be_counted_and_added_up(self) -> None:
        assert value("length()", [5, 6]) == "2"
        assert value("sum(/*)", [5, 6]) == "11"

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("sum(/data/*/no)", "sum(/data/*/no): /data/0/no is missing; /data/0 has results"),
            ("sum(/object/*)", "sum(/object/*): /object is an object, and * walks an array"),
            ("sum(/data)", "sum(/data): /data is an array, not a number; sum(/data/*) adds what is in it"),
            ("length(/object)", "length(/object): /object is an object, not an array"),
            ("length(/data/*)", "length(/data/*): /data/0 is an object, not an array"),
            ("max(/empty/*)", "max(/empty/*) is missing: the arrays are empty"),
        ],
    )
    def test_what_does_not_fit_is_named_with_its_place(self, text: str, words: str) -> None:
        assert refusal(text, self.DATA) == words

    def test_one_element_without_the_key_is_no_silent_zero(self) -> None:
        assert refusal("sum(/*/n)", [{"n": 1}, {"m": 2}]) == "sum(/*/n): /1/n is missing; /0/n is 1"

    def test_fractions_are_added_exactly(self) -> None:
        assert exact_text(exact("sum(/*)", '[0.1, 0.2, "0.3", 1e-3]')) == "0.601"

    def test_an_unknown_function_is_refused_with_those_there_are(self) -> None:
        with pytest.raises(InvalidInput, match=r"'avg\(/a\)' calls none of sum, length, max, min$"):
            parse_expression("avg(/a)")
        assert value("/avg(a)", {"avg(a)": 3}) == "3"


class TestZeroIfMissing:
    @pytest.mark.parametrize("body", [{"results": [{}]}, {"results": [{"series": None}]}])
    def test_the_named_part_may_be_absent_or_null(self, body: Any) -> None:
        assert value("/results/0/series/0/values/0/1", body, "/results/0/series") == "0"
        assert value("sum(/results/*/series/*)", body, "/results/*/series") == "0"

    @pytest.mark.parametrize("body", [{}, {"results": []}, {"results": [{"series": []}]}])
    def test_any_other_part_may_not(self, body: Any) -> None:
        assert " is missing; " in refusal("/results/0/series/0/values", body, "/results/0/series")

    def test_the_largest_of_nothing_is_then_zero(self) -> None:
        assert value("max(/data/*/n)", {"data": []}, "/data/*/n") == "0"
        assert value("max(/data/*/n)", {"data": [{}, {"n": 5}, {"n": None}]}, "/data/*/n") == "5"


class TestNumbers:
    @pytest.mark.parametrize("text", ["12", '"12"', "12.0", "1.2e1", '"1.2E+1"', '"+12"', '"0012.00"', "120e-1"])
    def test_a_number_may_be_written_in_many_ways(self, text: str) -> None:
        assert exact_text(exact("n", f'{{"n": {text}}}')) == "12"

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("null", "null"),
            ("true", "true"),
            ('"N/A"', "'N/A'"),
            ('""', "''"),
            ('" 12"', "' 12'"),
            ('"１２"', "'１２'"),
            ('"0x10"', "'0x10'"),
            ('"NaN"', "'NaN'"),
            ('"1_000"', "'1_000'"),
            ("{}", "an object"),
            ("[3]", "an array"),
        ],
    )
    def test_anything_else_is_refused_in_the_words_of_json(self, text: str, shown: str) -> None:
        with pytest.raises(ApiPayloadError, match=r"^n is ") as refused:
            exact("n", f'{{"n": {text}}}')
        assert str(refused.value).startswith(f"n is {shown}, not a number")
